//! What goes on between a client and a master in memory while they are connected.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use redis::Value;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::connection::{Envelope, Pipe, Wire};
use super::master::{Accepted, Master};
use super::observer::Fate;
use crate::error::NodeError;
use crate::node::{Connection, Listener, Node, Peer};
use crate::protocol::fault::Fault;

impl Node for Master {
    fn label(&self) -> Arc<str> {
        self.name()
    }

    fn connect<'a>(
        &'a self,
        predecessor: Option<&'a Peer>,
        listener: Listener,
    ) -> BoxFuture<'a, Result<Connection, NodeError>> {
        let connecting = async move {
            let Accepted { pipe, peer, resets } = self.accept(predecessor, listener).await?;
            let driver = tokio::spawn(drive(self.clone(), Arc::clone(&pipe), peer.client_id, resets));
            Ok(Connection {
                wire: Box::new(Wire(pipe)),
                driver: AbortOnDropHandle::new(driver),
                peer,
            })
        };
        connecting.boxed()
    }
}

/// Moves requests, replies and notices until the connection ends, by the master or by dropping this.
async fn drive(master: Master, pipe: Arc<Pipe>, client: i64, resets: u64) {
    let mut changed = master.watch();
    let mut replies: VecDeque<(Instant, Envelope, Result<Value, Fault>)> = VecDeque::new();
    // Whose reply was lost waits for as long as the connection stands.
    let mut unanswered: Vec<Envelope> = Vec::new();
    // However this ends: what has not been executed is left behind, and nothing more comes in.
    let _abandoned = Abandoned {
        master: master.clone(),
        pipe: Arc::clone(&pipe),
        client,
    };
    loop {
        changed.look();
        if !master.is_connected(resets) {
            return;
        }
        let weather = master.weather();
        let now = Instant::now();
        let mut due = Due { now, next: None };
        while weather.requests_pass()
            && let Some(arrives) = pipe.next_request(|ask| master.fate(client, ask), weather.request_delay)
            && due.is_due(arrives)
        {
            if pipe.breaks_before_next() {
                master.reset_connections();
                return;
            }
            let Some(envelope) = pipe.take_request() else {
                break;
            };
            let reply = master.execute(client, &envelope.ask);
            if envelope.fate == Some(Fate::ResetAfter) {
                master.reset_connections();
                return;
            }
            match reply {
                Some(reply) if envelope.fate != Some(Fate::ReplyLost) => {
                    replies.push_back((now, envelope, reply.map_err(|line| Fault::from_line(&line))));
                }
                // No stream goes on behind an answer that it has lost. Other answers may be as good as lost
                // while it stands, by being late; one to a release is waited for until it ends.
                _ if envelope.ask.is_release() => return,
                _ => {
                    pipe.is_over(&envelope.ask);
                    unanswered.push(envelope);
                }
            }
        }
        while weather.replies_pass()
            && let Some((executed, envelope, _)) = replies.front()
            && due.is_due(*executed + weather.reply_delay + envelope.reply_delay())
            && let Some((_, envelope, reply)) = replies.pop_front()
        {
            pipe.is_over(&envelope.ask);
            pipe.note_heard();
            envelope.reply.give(reply);
        }
        while weather.replies_pass()
            && let Some(published) = pipe.next_notice()
            && due.is_due(published + weather.notice_delay())
        {
            pipe.deliver_notice();
        }
        tokio::select! {
            biased;
            () = pipe.moved() => {}
            () = changed.changed() => {}
            () = sleep_until(due.next.unwrap_or(now)), if due.next.is_some() => {}
        }
    }
}

/// What can be done now, and when there is more to do.
struct Due {
    now: Instant,
    next: Option<Instant>,
}

impl Due {
    fn is_due(&mut self, at: Instant) -> bool {
        if at > self.now {
            self.next = Some(self.next.map_or(at, |other| other.min(at)));
        }
        at <= self.now
    }
}

struct Abandoned {
    master: Master,
    pipe: Arc<Pipe>,
    client: i64,
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(asks) = self.pipe.close() {
            self.master.abandon(self.client, asks);
        }
    }
}
