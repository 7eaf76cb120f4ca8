//! The bytes of one connection: requests of all rounds go out together, replies come back in order.
//!
//! Not the client library's connection, for two reasons. That one carries each call through a channel, a task
//! and a channel back, packs each request once a master, and wakes the asker at every answer; here a call is a
//! copy into the bytes to be sent and an entry in a queue. And the task that writes is ours to end: a connection
//! that is given up must not write another byte.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use redis::{Cmd, PushKind, Value};
use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::resp;
use super::socket::Stream;
use crate::node::sync::{AtomicUsize, Mutex, MutexGuard};
use crate::node::{Answer, Inbox, Listener, ReplyTo};
use crate::protocol::fault::Fault;

/// Bytes of calls that may be without an answer at once, far above what a process has in flight to one
/// server.
const MOST: usize = 16 << 20;

/// What the buffers begin with, and go back to after a burst.
const BUFFER: usize = 16 << 10;

/// Where calls go in.
#[derive(Debug)]
pub(super) struct Pipe {
    queue: Mutex<CallQueue>,
    /// Bytes of calls without an answer; changed with the queue locked.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct CallQueue {
    /// To be sent.
    bytes: Vec<u8>,
    /// Calls without an answer, in the order in which they were sent.
    calls: VecDeque<PendingCall>,
    /// When anything was received last.
    heard: Option<Instant>,
    /// The task that sends, while it sleeps.
    driver: Option<Waker>,
    closed: bool,
}

#[derive(Debug)]
struct PendingCall {
    /// Replies that are still to come: one, or one for each channel.
    replies: usize,
    bytes: usize,
    reply: ReplyTo,
}

impl Pipe {
    /// Over a stream, with what moves its bytes, which ends when the stream does.
    pub(super) fn open(stream: Box<dyn Stream>, listener: Listener) -> (Arc<Self>, Driver) {
        let pipe = Arc::new(Self {
            queue: Mutex::new(CallQueue {
                bytes: Vec::with_capacity(BUFFER),
                calls: VecDeque::new(),
                heard: None,
                driver: None,
                closed: false,
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
            answers: Vec::new(),
            answered: Vec::new(),
            notices: Notices::Pushed,
        };
        (pipe, driver)
    }

    /// Sends a packed command that is answered by so many replies. When this returns it has its place
    /// behind everything that was sent before.
    pub(super) fn send(&self, packed: &[u8], replies: usize, reply: ReplyTo) {
        let mut queue = self.queue();
        let waiting = self.waiting() + packed.len();
        if queue.closed || (waiting > MOST && !queue.calls.is_empty()) {
            let reason = if queue.closed {
                "connection closed"
            } else {
                "too much waits for its answers"
            };
            drop(queue);
            reply.give(Err(Fault::NotSent(reason.into())));
            return;
        }
        queue.bytes.extend_from_slice(packed);
        queue.calls.push_back(PendingCall {
            replies,
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
        self.send(&command.get_packed_command(), 1, reply);
        inbox.answer()
    }

    /// Bytes of calls without an answer.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// When anything was received last.
    pub(super) fn heard(&self) -> Option<Instant> {
        self.queue().heard
    }

    /// Nothing more is sent or answered.
    fn close(&self, reason: &str) {
        let calls = {
            let mut queue = self.queue();
            queue.closed = true;
            queue.bytes = Vec::new();
            self.waiting.store(0, Ordering::Relaxed);
            std::mem::take(&mut queue.calls)
        };
        for call in calls {
            call.reply.give(Err(Fault::Unknown(reason.into())));
        }
    }

    fn queue(&self) -> MutexGuard<'_, CallQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallQueue {
    /// The call that an answer belongs to, once that is complete.
    fn complete(&mut self, answer: Answer, done: &mut usize) -> Option<(ReplyTo, Answer)> {
        let call = self.calls.front_mut()?;
        // A command on many channels is refused as a whole.
        if call.replies > 1 && answer.is_ok() {
            call.replies -= 1;
            return None;
        }
        let call = self.calls.pop_front()?;
        *done += call.bytes;
        Some((call.reply, answer))
    }
}

/// How the messages of channels come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notices {
    /// As RESP3 has them, told apart from answers.
    Pushed,
    /// As RESP2 has them, told apart by what they begin with: on a connection on which nothing else is asked.
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
    /// Taken from the bytes; kept from turn to turn for their memory, as are the next.
    answers: Vec<Answer>,
    answered: Vec<(ReplyTo, Answer)>,
    notices: Notices,
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let written = this.write(cx);
        let Err(reason) = written.and_then(|()| match this.read(cx) {
            Poll::Ready(reason) => Err(reason),
            Poll::Pending => Ok(()),
        }) else {
            return Poll::Pending;
        };
        this.pipe.close(&reason);
        Poll::Ready(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.pipe.close("connection closed");
    }
}

impl Driver {
    /// For a connection over RESP2 on which channels are subscribed to, and nothing else is asked.
    pub(super) fn for_notices(mut self) -> Self {
        self.notices = Notices::InArrays;
        self
    }

    /// Writes what there is, as far as the stream takes it.
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
        // What encrypts keeps bytes back until it is told.
        if !self.flushed
            && let Poll::Ready(flushed) = Pin::new(&mut *self.stream).poll_flush(cx)
        {
            self.flushed = true;
            return flushed.map_err(|error| error.to_string());
        }
        Ok(())
    }

    /// Whether there is anything to write. If not, the next call wakes this task.
    fn load(&mut self, cx: &Context<'_>) -> bool {
        if self.sent < self.outgoing.len() {
            return true;
        }
        self.outgoing.clear();
        self.outgoing.shrink_to(BUFFER);
        self.sent = 0;
        let mut queue = self.pipe.queue();
        std::mem::swap(&mut queue.bytes, &mut self.outgoing);
        // It may have moved to another task, from that which set the connection up.
        let wakes = |driver: &Waker| driver.will_wake(cx.waker());
        if self.outgoing.is_empty() && !queue.driver.as_ref().is_some_and(wakes) {
            queue.driver = Some(cx.waker().clone());
        }
        !self.outgoing.is_empty()
    }

    /// Reads, and hands out what has come, until there is no more or the connection ends; then why.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        loop {
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
            if let Err(reason) = self.hand_out() {
                return Poll::Ready(reason);
            }
        }
    }

    /// Answers the calls whose replies have come; then, if the rest cannot be used, why.
    fn hand_out(&mut self) -> Result<(), String> {
        let taken = self.take_answers();
        let expected = self.find_calls();
        for (reply, answer) in self.answered.drain(..) {
            reply.give(answer);
        }
        taken.and(expected)
    }

    /// Takes what is whole out of the bytes.
    fn take_answers(&mut self) -> Result<(), String> {
        let mut taken = 0;
        while let Some((value, length)) = resp::first(&self.incoming[taken..self.received])? {
            taken += length;
            match value {
                Value::Push {
                    kind: PushKind::Message,
                    data,
                } => self.notice(&data),
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
        let mut queue = self.pipe.queue();
        queue.heard = Some(Instant::now());
        let mut done = 0;
        for answer in self.answers.drain(..) {
            if queue.calls.is_empty() {
                return Err(format!("an answer to nothing: {answer:?}"));
            }
            self.answered.extend(queue.complete(answer, &mut done));
        }
        self.pipe
            .waiting
            .store(self.pipe.waiting() - done, Ordering::Relaxed);
        Ok(())
    }

    fn notice(&self, data: &[Value]) {
        if let [Value::BulkString(channel), Value::BulkString(message)] = data {
            (self.listener)(
                &String::from_utf8_lossy(channel),
                &String::from_utf8_lossy(message),
            );
        }
    }
}

/// What `message` stands in front of, as opposed to what confirms a subscription.
fn is_message(data: &[Value]) -> bool {
    matches!(data, [Value::BulkString(kind), _, _] if kind == b"message")
}

#[cfg(test)]
#[path = "pipeline/tests.rs"]
mod tests;
