//! Calls to a server, and the messages of channels that come back.
//!
//! Over RESP3 both share one connection. Over RESP2 a connection that has subscribed takes nothing else, so the
//! messages have one of their own. The order of the two is then kept here: a call that was made behind a subscription is
//! sent once the server has confirmed that, so that nobody stands in a queue there who could not be called.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::pipeline::{MOST, Pipe};
use crate::node::{Answer, By, Late, ReplyTo, Wire};
use crate::protocol::command::{Request, Script};
use crate::protocol::fault::Fault;

/// Over one connection or two.
#[derive(Debug)]
pub(super) struct ServerWire {
    calls: Arc<Pipe>,
    /// Where the first one takes no subscriptions.
    notices: Option<Arc<Notices>>,
    /// Ends with the connection.
    _refresh: Option<AbortOnDropHandle<()>>,
}

/// A connection for subscriptions, and what waits for them.
#[derive(Debug)]
struct Notices {
    pipe: Arc<Pipe>,
    calls: Arc<Pipe>,
    held: Mutex<Held>,
}

/// Calls that wait for subscriptions to be confirmed.
#[derive(Debug, Default)]
struct Held {
    unconfirmed: usize,
    /// From the first subscription until all that was held has been sent.
    holds: bool,
    sends: bool,
    calls: VecDeque<(Vec<u8>, ReplyTo)>,
    bytes: usize,
}

/// The way back of the answer to a subscription.
#[derive(Debug)]
struct Confirmation {
    notices: Arc<Notices>,
    reply: Mutex<Option<ReplyTo>>,
}

impl ServerWire {
    /// `refresh` keeps the first one logged in.
    pub(super) fn new(
        calls: Arc<Pipe>,
        notices: Option<Arc<Pipe>>,
        refresh: Option<AbortOnDropHandle<()>>,
    ) -> Self {
        let with_calls = |pipe| {
            let calls = Arc::clone(&calls);
            let held = Mutex::default();
            Arc::new(Notices { pipe, calls, held })
        };
        let notices = notices.map(with_calls);
        Self {
            calls,
            notices,
            _refresh: refresh,
        }
    }

    fn send(&self, packed: &[u8], reply: ReplyTo) {
        match &self.notices {
            Some(notices) => notices.send_behind(packed, reply),
            None => self.calls.send(packed, 1, reply),
        }
    }

    fn listen(&self, verb: &str, channels: &[String], reply: ReplyTo) {
        let mut command = redis::cmd(verb);
        command.arg(channels);
        let packed = command.get_packed_command();
        match &self.notices {
            Some(notices) => notices.listen(&packed, channels.len(), reply),
            None => self.calls.send(&packed, channels.len(), reply),
        }
    }
}

impl Notices {
    /// Holds back what is called from now on, until this is answered.
    fn listen(self: &Arc<Self>, packed: &[u8], replies: usize, reply: ReplyTo) {
        let mut held = self.held();
        held.unconfirmed += 1;
        held.holds = true;
        drop(held);
        let confirmation = Arc::new(Confirmation {
            notices: Arc::clone(self),
            reply: Mutex::new(Some(reply)),
        });
        self.pipe.send(packed, replies, ReplyTo::left_to(confirmation, 0));
    }

    /// Sends a call behind the subscriptions that were asked for before.
    fn send_behind(&self, packed: &[u8], reply: ReplyTo) {
        let mut held = self.held();
        if !held.holds {
            drop(held);
            return self.calls.send(packed, 1, reply);
        }
        if held.bytes + packed.len() > MOST {
            drop(held);
            return reply.give(Err(Fault::NotSent("too much waits for its answers".into())));
        }
        held.bytes += packed.len();
        held.calls.push_back((packed.to_vec(), reply));
    }

    /// A subscription was answered: what waited for it alone is sent, in order.
    fn confirmed(&self) {
        let mut held = self.held();
        held.unconfirmed -= 1;
        if held.unconfirmed > 0 || held.sends {
            return;
        }
        held.sends = true;
        drop(held);
        loop {
            // A call that cannot be sent is answered at once, by code that may call again: not with a lock.
            let next = self.held().next();
            let Some((packed, reply)) = next else { return };
            self.calls.send(&packed, 1, reply);
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn next(&mut self) -> Option<(Vec<u8>, ReplyTo)> {
        if self.unconfirmed == 0
            && let Some((packed, reply)) = self.calls.pop_front()
        {
            self.bytes -= packed.len();
            return Some((packed, reply));
        }
        self.sends = false;
        self.holds = self.unconfirmed > 0;
        None
    }
}

impl Late for Confirmation {
    fn answered(self: Arc<Self>, _: usize, answer: Answer) {
        let reply = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(reply) = reply {
            reply.give(answer);
        }
        self.notices.confirmed();
    }
}

impl Wire for ServerWire {
    fn call(&self, request: &Request, by: By, reply: ReplyTo) {
        match by {
            By::Sha => self.send(request.packed(), reply),
            By::Source => self.send(&request.with_source(), reply),
        }
    }

    fn load(&self, script: &'static Script, reply: ReplyTo) {
        self.send(&script.load().get_packed_command(), reply);
    }

    fn subscribe(&self, channels: &[String], reply: ReplyTo) {
        self.listen("SUBSCRIBE", channels, reply);
    }

    fn unsubscribe(&self, channels: &[String], reply: ReplyTo) {
        self.listen("UNSUBSCRIBE", channels, reply);
    }

    fn waiting(&self) -> usize {
        let held = self.notices.as_ref().map_or(0, |notices| notices.held().bytes);
        self.calls.waiting() + held
    }

    fn heard(&self) -> Option<Instant> {
        self.calls.heard()
    }
}

#[cfg(test)]
#[path = "wire/tests.rs"]
mod tests;
