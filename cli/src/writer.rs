//! Text for stderr, which a thread writes. A write waits where nobody reads, as behind a pager, and the lock, its program and
//! signals must not wait with it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Number of texts that are kept for a reader. Further ones are dropped.
const MOST: usize = 256;
/// Longest wait for texts to be written before other output. Once nobody reads, it is waited no more.
const SETTLES_WITHIN: Duration = Duration::from_millis(100);
/// Longest wait for a reader at the end of this process.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// The writer of this process.
static STDERR: Writer = Writer::new();

/// Has a text written to stderr, behind those before it. Waits for nothing.
pub(crate) fn write(text: String) {
    STDERR.put(text, io::stderr);
}

/// Whether all is written so far.
pub(crate) fn is_idle() -> bool {
    STDERR.queue().is_idle()
}

/// Gives texts their place before other output: a program's, stdout, a question, or a shell's after a stop.
pub(crate) fn settle() {
    STDERR.settle();
}

/// Waits until all is written, but not long, before the end of this process.
pub(crate) fn finish() {
    STDERR.wait(ENDS_WITHIN);
}

#[derive(Debug)]
struct Writer {
    queue: Mutex<Queue>,
    /// The queue has changed.
    changed: Condvar,
}

#[derive(Debug)]
struct Queue {
    texts: VecDeque<String>,
    /// Number of texts that were dropped since the last one of the queue.
    dropped: usize,
    is_begun: bool,
    is_writing: bool,
    /// Whether it was waited in vain since the last time at which all was written.
    is_unread: bool,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.texts.is_empty() && self.dropped == 0 && !self.is_writing
    }

    fn push(&mut self, text: String) {
        if self.texts.len() >= MOST {
            self.dropped += 1;
        } else {
            let told = self.told_of_dropped();
            self.texts.extend(told);
            self.texts.push_back(text);
        }
    }

    fn pop(&mut self) -> Option<String> {
        self.texts.pop_front().or_else(|| self.told_of_dropped())
    }

    /// Line about the texts that were dropped, if any were. It tells of them once.
    fn told_of_dropped(&mut self) -> Option<String> {
        let dropped = std::mem::take(&mut self.dropped);
        let lines = if dropped == 1 { "line was" } else { "lines were" };
        (dropped > 0).then(|| format!("multilock: {dropped} {lines} left out, because nobody read stderr\n"))
    }
}

impl Writer {
    const fn new() -> Self {
        Self {
            queue: Mutex::new(Queue {
                texts: VecDeque::new(),
                dropped: 0,
                is_begun: false,
                is_writing: false,
                is_unread: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a text. The first one starts the thread.
    fn put<W: Write + 'static>(&'static self, text: String, to: fn() -> W) {
        let mut queue = self.queue();
        queue.push(text);
        if !queue.is_begun {
            let thread = thread::Builder::new().name("stderr".to_owned());
            queue.is_begun = thread.spawn(move || self.serve(to())).is_ok();
        }
        if queue.is_begun {
            self.changed.notify_all();
        } else {
            // The text may tell why there are no threads.
            while let Some(text) = queue.pop() {
                let _ = to().write_all(text.as_bytes());
            }
        }
    }

    /// Writes all that comes. A closed stderr is no reason to fail.
    fn serve(&self, mut to: impl Write) -> ! {
        let mut queue = self.queue();
        loop {
            if let Some(text) = queue.pop() {
                queue.is_writing = true;
                drop(queue);
                let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
                queue = self.queue();
                queue.is_writing = false;
            } else {
                queue.is_unread = false;
                self.changed.notify_all();
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Waits a moment until all is written, unless it was waited in vain before.
    fn settle(&self) {
        if !self.queue().is_unread && !self.wait(SETTLES_WITHIN) {
            self.queue().is_unread = true;
        }
    }

    /// Waits until all is written. Returns false if that takes longer.
    fn wait(&self, time: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.queue(), time, |queue| !queue.is_idle());
        let (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.is_idle()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;
    use std::sync::OnceLock;

    use super::*;

    static PIPE: OnceLock<UnixStream> = OnceLock::new();

    fn pipe() -> &'static UnixStream {
        PIPE.get().expect("a pipe")
    }

    #[test]
    fn what_nobody_reads_is_kept_up_to_a_bound_and_what_is_dropped_is_counted() {
        static WRITER: Writer = Writer::new();
        let (unread, mut full) = UnixStream::pair().expect("a pair");
        full.set_nonblocking(true).expect("a socket");
        while full.write(b"x").is_ok() {}
        full.set_nonblocking(false).expect("a socket");
        PIPE.set(full).expect("the first one");
        WRITER.put("first\n".to_owned(), pipe);
        while !WRITER.queue().is_writing {
            thread::yield_now();
        }
        for number in 0..MOST + 2 {
            WRITER.put(format!("{number}\n"), pipe);
            WRITER.settle();
        }
        assert!(!WRITER.wait(Duration::ZERO), "nobody reads");
        let mut lines = BufReader::new(unread).lines();
        let mut next = || lines.next().expect("a line").expect("text");
        assert_eq!(next().trim_start_matches('x'), "first");
        for number in 0..MOST {
            assert_eq!(next(), number.to_string());
        }
        assert_eq!(
            next(),
            "multilock: 2 lines were left out, because nobody read stderr"
        );
        WRITER.put("last\n".to_owned(), pipe);
        assert_eq!(next(), "last");
        assert!(WRITER.wait(ENDS_WITHIN * 60));
    }
}
