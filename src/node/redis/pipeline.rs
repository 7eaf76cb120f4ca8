//! Bytes of one connection: requests of all rounds are sent together, replies come back in order.
//!
//! This is not the client library's connection, for two reasons:
//! - The library passes each call through a channel, a task and a channel back, packs each request once per
//!   master, and wakes the asker at every answer. Here a call is a copy into the send buffer and an entry in
//!   a queue.
//! - The library owns the task that writes. Here the crate can end it: a connection that is given up must not
//!   write another byte.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker, ready};

use redis::{Cmd, PushKind, Value};
use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::resp;
use super::socket::Stream;
use crate::node::sync::{AtomicUsize, Mutex};
use crate::node::{Answer, ChannelForm, Inbox, Listener, ReplyTo};
use crate::protocol::fault::Fault;

/// Most bytes of calls without an answer, far above a process's usual traffic to one server.
const MOST: usize = 16 << 20;

/// Initial size of the buffers, to which they shrink after a burst.
const BUFFER: usize = 16 << 10;
/// Number of calls without an answer from which a connection counts as busy.
const BUSY: usize = 4;
/// Number of answers from which one half is handed out before the other.
const MANY: usize = 24;

/// Entrance for calls.
pub(super) struct Pipe {
    queue: Mutex<CallQueue>,
    /// Bytes of calls without an answer. It changes only while the queue is locked.
    waiting: AtomicUsize,
}

struct CallQueue {
    /// Bytes to be sent.
    bytes: Vec<u8>,
    /// Calls without an answer, in the order in which they were sent.
    calls: VecDeque<PendingCall>,
    /// Time at which bytes were received last.
    last_received: Option<Instant>,
    /// Waker of the task that sends, while the task sleeps.
    driver: Option<Waker>,
    /// Answer to every call since the end.
    closed: Option<Fault>,
}

struct PendingCall {
    bytes: usize,
    reply: ReplyTo,
}

impl Pipe {
    /// Opens a pipe over a stream. The returned driver moves its bytes, and ends when the stream does.
    pub(super) fn open(stream: Box<dyn Stream>, listener: Listener) -> (Arc<Self>, Driver) {
        let pipe = Arc::new(Self {
            queue: Mutex::new(CallQueue {
                bytes: Vec::with_capacity(BUFFER),
                calls: VecDeque::new(),
                last_received: None,
                driver: None,
                closed: None,
            }),
            waiting: AtomicUsize::new(0),
        });
        let driver = Driver {
            stream,
            pipe: Arc::clone(&pipe),
            listener,
            outgoing: Vec::with_capacity(BUFFER),
            sent: 0,
            flushed: true,
            incoming: vec![0; BUFFER],
            received: 0,
            search: resp::Search::new(),
            answers: Vec::new(),
            answered: Vec::new(),
            notices: Notices::Pushed,
            has_answered: false,
            has_yielded: false,
        };
        (pipe, driver)
    }

    /// Whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.queue.lock().closed.is_some()
    }

    /// Sends a packed command that is answered by one reply. A call that has returned has its place behind everything that
    /// was sent before.
    pub(super) fn send(&self, packed: &[u8], reply: ReplyTo) {
        let mut queue = self.queue.lock();
        let waiting = self.waiting() + packed.len();
        let is_full = waiting > MOST && !queue.calls.is_empty();
        let full = || is_full.then(|| Fault::NotSent("too much waits for its answers".into()));
        if let Some(fault) = queue.closed.clone().or_else(full) {
            drop(queue);
            reply.give(Err(fault));
            return;
        }
        queue.bytes.extend_from_slice(packed);
        queue.calls.push_back(PendingCall {
            bytes: packed.len(),
            reply,
        });
        self.waiting.store(waiting, Ordering::Relaxed);
        let driver = queue.driver.take();
        drop(queue);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Sends a command and waits for its reply.
    pub(super) fn ask(&self, command: &Cmd) -> impl Future<Output = Answer> + use<> {
        let (inbox, reply) = Inbox::single();
        self.send(&command.get_packed_command(), reply);
        inbox.answer()
    }

    /// Bytes of calls without an answer.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Time at which bytes were received last.
    pub(super) fn last_received(&self) -> Option<Instant> {
        self.queue.lock().last_received
    }

    /// Fails all calls; no more are sent or answered. The first reason counts.
    fn close(&self, reason: &str) {
        let reason: Arc<str> = reason.into();
        let calls = {
            let mut queue = self.queue.lock();
            queue
                .closed
                .get_or_insert_with(|| Fault::NotSent(Arc::clone(&reason)));
            queue.bytes = Vec::new();
            self.waiting.store(0, Ordering::Relaxed);
            std::mem::take(&mut queue.calls)
        };
        for call in calls {
            call.reply.give(Err(Fault::Unknown(Arc::clone(&reason))));
        }
    }
}

/// Form in which messages of channels arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notices {
    /// Pushed: RESP3 separates them from answers.
    Pushed,
    /// In arrays: under RESP2 they differ from answers by their first word. Such a connection is used for
    /// nothing else.
    InArrays,
}

/// Moves the bytes.
pub(super) struct Driver {
    stream: Box<dyn Stream>,
    pipe: Arc<Pipe>,
    listener: Listener,
    outgoing: Vec<u8>,
    /// Bytes of `outgoing` that have been written.
    sent: usize,
    flushed: bool,
    incoming: Vec<u8>,
    /// Bytes of `incoming` that are filled.
    received: usize,
    /// Search for the end of the reply that `incoming` begins with.
    search: resp::Search,
    /// Answers taken from the bytes. Both vectors stay from poll to poll, for their memory.
    answers: Vec<Answer>,
    /// Answers with their calls, to be handed out.
    answered: Vec<(ReplyTo, Answer)>,
    notices: Notices,
    /// Whether the server has answered a call.
    has_answered: bool,
    /// Whether the driver has let other tasks add their calls to the pending bytes.
    has_yielded: bool,
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let written = if this.yields() {
            cx.waker().wake_by_ref();
            Ok(())
        } else {
            this.write(cx)
        };
        // A server that has ended the connection may have said before why.
        let reason = match (this.read(cx), written) {
            (Poll::Ready(reason), _) | (Poll::Pending, Err(reason)) => reason,
            (Poll::Pending, Ok(())) => return Poll::Pending,
        };
        this.end(&reason);
        Poll::Ready(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.end("connection closed");
    }
}

impl Driver {
    /// From now on the RESP2 connection only subscribes to channels: an array is a message, and no reply.
    pub(super) fn takes_notices_in_arrays(&mut self) {
        self.notices = Notices::InArrays;
    }

    /// Hands out the answers that are left, and closes the pipe.
    fn end(&mut self, reason: &str) {
        self.hand_out(self.answered.len());
        self.pipe.close(reason);
    }

    /// Whether the driver is to let other tasks run before it writes. The runtime runs the task that was woken last first,
    /// so on a busy connection a driver would write call by call, and each write is a system call. After half of the answers
    /// the others have run.
    fn yields(&mut self) -> bool {
        let queue = self.pipe.queue.lock();
        let is_busy = queue.calls.len() >= BUSY && !queue.bytes.is_empty();
        drop(queue);
        let may_yield = self.sent == self.outgoing.len() && self.answered.is_empty();
        self.has_yielded = is_busy && may_yield && !self.has_yielded;
        self.has_yielded
    }

    /// Writes the pending bytes, as far as the stream takes them.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        while self.load(cx) {
            let stream = Pin::new(&mut *self.stream);
            match stream.poll_write(cx, &self.outgoing[self.sent..]) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err("connection closed by the server".into()),
                Poll::Ready(Ok(count)) => self.sent += count,
                Poll::Ready(Err(error)) => return Err(error.to_string()),
            }
            self.flushed = false;
        }
        // A stream that encrypts holds bytes back until it is flushed.
        if !self.flushed
            && let Poll::Ready(flushed) = Pin::new(&mut *self.stream).poll_flush(cx)
        {
            self.flushed = true;
            return flushed.map_err(|error| error.to_string());
        }
        Ok(())
    }

    /// Whether there are bytes to write. If not, the next call wakes this task.
    fn load(&mut self, cx: &Context<'_>) -> bool {
        if self.sent < self.outgoing.len() {
            return true;
        }
        self.outgoing.clear();
        self.outgoing.shrink_to(BUFFER);
        self.sent = 0;
        let mut queue = self.pipe.queue.lock();
        std::mem::swap(&mut queue.bytes, &mut self.outgoing);
        // The driver may have moved to another task since the set-up.
        let wakes = |driver: &Waker| driver.will_wake(cx.waker());
        if self.outgoing.is_empty() && !queue.driver.as_ref().is_some_and(wakes) {
            queue.driver = Some(cx.waker().clone());
        }
        !self.outgoing.is_empty()
    }

    /// Reads and hands out replies, until no more bytes are there. Returns the reason once the connection
    /// ends.
    ///
    /// If there are many, half of them come first. The driver writes the next calls of their askers before it hands out
    /// the others, so that the server runs these calls while the other askers run. Otherwise client and server would
    /// take turns, one idle while the other is busy.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        loop {
            let answers = self.answered.len();
            if answers >= MANY {
                self.hand_out(answers / 2);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.hand_out(answers);
            if self.received == self.incoming.len() {
                self.incoming.resize(2 * self.received, 0);
            }
            let mut buffer = ReadBuf::new(&mut self.incoming[self.received..]);
            if let Err(error) = ready!(Pin::new(&mut *self.stream).poll_read(cx, &mut buffer)) {
                return Poll::Ready(error.to_string());
            }
            let count = buffer.filled().len();
            if count == 0 {
                return Poll::Ready("connection closed by the server".into());
            }
            self.received += count;
            let taken = self.take_answers();
            if let Err(reason) = taken.and(self.find_calls()) {
                return Poll::Ready(reason);
            }
        }
    }

    /// Gives their replies to this number of calls.
    fn hand_out(&mut self, count: usize) {
        for (reply, answer) in self.answered.drain(..count) {
            reply.give(answer);
        }
    }

    /// Takes complete replies out of the bytes.
    fn take_answers(&mut self) -> Result<(), String> {
        let mut taken = 0;
        while let Some((value, length)) = resp::first(&self.incoming[taken..self.received], &mut self.search)?
        {
            taken += length;
            match value {
                Value::Push { kind, data } => match kind {
                    PushKind::Message | PushKind::PMessage => self.notice(&data),
                    // No other push answers a call.
                    PushKind::Subscribe
                    | PushKind::Unsubscribe
                    | PushKind::PSubscribe
                    | PushKind::PUnsubscribe => self.answers.push(Ok(Value::Push { kind, data })),
                    _ => {}
                },
                Value::Array(data) if self.notices == Notices::InArrays && is_message(&data) => {
                    self.notice(&data[1..]);
                }
                value => self.answers.push(Fault::check(value)),
            }
        }
        self.incoming.copy_within(taken..self.received, 0);
        self.received -= taken;
        if self.received == 0 && self.incoming.len() > BUFFER {
            self.incoming.truncate(BUFFER);
            self.incoming.shrink_to_fit();
        }
        Ok(())
    }

    fn find_calls(&mut self) -> Result<(), String> {
        let mut queue = self.pipe.queue.lock();
        queue.last_received = Some(Instant::now());
        let mut done = 0;
        for answer in self.answers.drain(..) {
            let Some(call) = queue.calls.pop_front() else {
                if let Err(fault) = answer
                    && !self.has_answered
                {
                    // A server that refuses the connection says so. After a call an error may repeat a login.
                    queue.closed = Some(fault);
                }
                return Err("an answer to nothing".into());
            };
            self.has_answered = true;
            done += call.bytes;
            self.answered.push((call.reply, answer));
        }
        self.pipe
            .waiting
            .store(self.pipe.waiting() - done, Ordering::Relaxed);
        Ok(())
    }

    /// Hands a message on: a channel and the message; or a pattern, the channel and the message.
    fn notice(&self, data: &[Value]) {
        let (form, channel, message) = match data {
            [Value::BulkString(channel), Value::BulkString(message)] => {
                (ChannelForm::Exact, channel, message)
            }
            [Value::BulkString(pattern), _, Value::BulkString(message)] => {
                (ChannelForm::Pattern, pattern, message)
            }
            _ => return,
        };
        let text = String::from_utf8_lossy;
        (self.listener)(form, &text(channel), &text(message));
    }
}

/// Whether an array is a message, as opposed to the confirmation of a subscription.
fn is_message(data: &[Value]) -> bool {
    match data {
        [Value::BulkString(kind), _, _] => kind == b"message",
        [Value::BulkString(kind), _, _, _] => kind == b"pmessage",
        _ => false,
    }
}

#[cfg(test)]
#[path = "pipeline/tests.rs"]
mod tests;
