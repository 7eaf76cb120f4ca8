//! Transport between a client and a master in memory while they are connected.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use redis::Value;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::conditions::Conditions;
use super::connection::{Ask, Envelope, MemoryPipe, MemoryWire};
use super::master::{AcceptedConnection, Master};
use super::observer::Fate;
use crate::error::NodeError;
use crate::node::{Connection, Endpoint, Listener, Peer};
use crate::protocol::fault::Fault;
use crate::time::until::sleep_until_if;

impl Endpoint for Master {
    fn label(&self) -> Arc<str> {
        self.name()
    }

    fn connect<'a>(
        &'a self,
        predecessor: Option<&'a Peer>,
        channel: &'a str,
        listener: Listener,
    ) -> BoxFuture<'a, Result<Connection, NodeError>> {
        let connecting = async move {
            let AcceptedConnection {
                pipe,
                client_id,
                peer,
                resets,
            } = self.accept(predecessor, channel).await?;
            // The driver is made before its task, so that it reports the end of the connection even if the
            // task never ran.
            let driver = ConnectionDriver {
                master: self.clone(),
                pipe: Arc::clone(&pipe),
                listener,
                client: client_id,
                replies: VecDeque::new(),
                unanswered: Vec::new(),
            };
            Ok(Connection {
                wire: Box::new(MemoryWire(pipe)),
                driver: AbortOnDropHandle::new(tokio::spawn(drive(driver, resets))),
                peer,
            })
        };
        connecting.boxed()
    }
}

/// Moves requests, replies and notices until the connection ends, by the master or because the task is
/// dropped.
async fn drive(mut driver: ConnectionDriver, resets: u64) {
    let mut changed = driver.master.watch();
    loop {
        changed.look();
        if !driver.master.is_connected(resets) {
            return;
        }
        let conditions = driver.master.conditions();
        let mut due = Due {
            now: Instant::now(),
            next: None,
        };
        if driver.execute(conditions, &mut due).is_break() {
            return;
        }
        driver.answer(conditions, &mut due);
        driver.notify(conditions, &mut due);
        tokio::select! {
            biased;
            () = driver.pipe.moved() => {}
            () = changed.changed() => {}
            () = sleep_until_if(due.next) => {}
        }
    }
}

/// One connection. However it ends, it hands back the requests that were not executed, and takes in no more.
struct ConnectionDriver {
    master: Master,
    pipe: Arc<MemoryPipe>,
    /// Not in the pipe: a client that is dropped would keep itself alive by its connection, which it owns.
    listener: Listener,
    client: i64,
    /// Replies, with the time at which each request was executed.
    replies: VecDeque<(Instant, Envelope, Result<Value, Fault>)>,
    /// Requests without a reply. Their callers wait for as long as the connection exists.
    unanswered: Vec<Envelope>,
}

impl ConnectionDriver {
    /// Runs the requests that have arrived. Breaks when the connection does.
    fn execute(&mut self, conditions: Conditions, due: &mut Due) -> ControlFlow<()> {
        let fate = |ask: &Ask| self.master.fate(self.client, ask);
        while conditions.requests_pass()
            && let Some(arrives) = self.pipe.next_request(fate, conditions.request_delay)
            && due.is_due(arrives)
        {
            if self.pipe.breaks_before_next() {
                self.master.reset_connections();
                return ControlFlow::Break(());
            }
            let Some(envelope) = self.pipe.take_request() else {
                break;
            };
            let reply = self.master.execute(self.client, &envelope.ask);
            if envelope.fate == Some(Fate::ResetAfter) {
                self.master.reset_connections();
                return ControlFlow::Break(());
            }
            match reply {
                Some(reply) if envelope.fate != Some(Fate::ReplyLost) => {
                    let reply = reply.map_err(|line| fault(&line));
                    self.replies.push_back((due.now, envelope, reply));
                }
                // A connection cannot go on after it has lost an answer that is awaited until its end. Other
                // answers may be late until then, which has the effect of a loss.
                _ if envelope.ask.awaits_end() => return ControlFlow::Break(()),
                _ => {
                    self.pipe.is_over(&envelope.ask);
                    self.unanswered.push(envelope);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn answer(&mut self, conditions: Conditions, due: &mut Due) {
        while conditions.replies_pass()
            && let Some((executed, envelope, _)) = self.replies.front()
            && due.is_due(*executed + conditions.reply_delay + envelope.reply_delay())
            && let Some((_, envelope, reply)) = self.replies.pop_front()
        {
            self.pipe.is_over(&envelope.ask);
            self.pipe.note_received();
            envelope.reply.give(reply);
        }
    }

    fn notify(&self, conditions: Conditions, due: &mut Due) {
        while conditions.replies_pass()
            && let Some(published) = self.pipe.next_notice()
            && due.is_due(published + conditions.notice_delay())
        {
            self.pipe.deliver_notice(&self.listener);
        }
    }
}

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        if let Some(asks) = self.pipe.close() {
            self.master.disconnect(self.client, asks);
        }
    }
}

/// Time now, and time of the next work.
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

/// Reads a server's error line, such as `OOM command not allowed …`.
fn fault(line: &str) -> Fault {
    let (code, detail) = line.split_once(' ').unwrap_or((line, ""));
    Fault::from_server(code, detail)
}

#[cfg(test)]
mod tests;
