//! A connection to a master in memory: requests one way, replies the other, each in order.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

use super::master::Master;
use super::store::Bytes;
use crate::node::{By, Fault};
use crate::script::{Request, Script};

/// A request on its way.
pub(super) struct Envelope {
    pub(super) script: &'static Script,
    pub(super) by: By,
    pub(super) keys: Vec<Bytes>,
    pub(super) args: Vec<Bytes>,
    sent: Instant,
    reply: oneshot::Sender<Result<Value, Fault>>,
}

/// What is on its way to the master.
#[derive(Default)]
pub(super) struct Pipe {
    requests: Mutex<Option<VecDeque<Envelope>>>,
    arrived: Notify,
}

/// The client's end.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Pipe>);

impl Wire {
    pub(super) fn new(pipe: Arc<Pipe>) -> Self {
        *pipe.requests() = Some(VecDeque::new());
        Self(pipe)
    }

    /// Sends at the first poll.
    pub(crate) async fn call(self, request: &Request, by: By) -> Result<Value, Fault> {
        let (reply, answer) = oneshot::channel();
        let (keys, args) = keys_and_args(request);
        let envelope = Envelope {
            script: request.script,
            by,
            keys,
            args,
            sent: Instant::now(),
            reply,
        };
        if let Some(requests) = &mut *self.0.requests() {
            requests.push_back(envelope);
        }
        self.0.arrived.notify_one();
        answer
            .await
            .unwrap_or_else(|_| Err(Fault::Unknown("connection closed".into())))
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl Pipe {
    fn requests(&self) -> MutexGuard<'_, Option<VecDeque<Envelope>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `EVALSHA sha numkeys key… arg…`, taken apart.
fn keys_and_args(request: &Request) -> (Vec<Bytes>, Vec<Bytes>) {
    let mut words = request.command.args_iter().skip(2).map(|word| match word {
        redis::Arg::Simple(bytes) => bytes.to_vec(),
        _ => Bytes::new(),
    });
    let count = words
        .next()
        .and_then(|count| String::from_utf8(count).ok()?.parse().ok())
        .unwrap_or(0);
    let keys = words.by_ref().take(count).collect();
    (keys, words.collect())
}

/// Moves requests and replies until the connection ends, by the master or by dropping this.
pub(super) async fn drive(master: Master, pipe: Arc<Pipe>, client: i64, resets: u64) {
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
        changed.borrow_and_update();
        if !master.is_connected(resets) {
            return;
        }
        let weather = master.weather();
        let now = Instant::now();
        let mut due: Option<Instant> = None;
        while weather.requests_pass()
            && let Some(sent) = front(&pipe)
        {
            let at = sent + weather.request_delay;
            if at > now {
                due = Some(at);
                break;
            }
            let Some(envelope) = pipe.requests().as_mut().and_then(VecDeque::pop_front) else {
                break;
            };
            match master.execute(&envelope) {
                Some(reply) => {
                    replies.push_back((now, envelope, reply.map_err(|line| Fault::from_line(&line))));
                }
                None => unanswered.push(envelope),
            }
        }
        unanswered.retain(|envelope| !envelope.reply.is_closed());
        while weather.replies_pass()
            && let Some((executed, ..)) = replies.front()
        {
            let at = *executed + weather.reply_delay;
            if at > now {
                due = Some(due.map_or(at, |other| other.min(at)));
                break;
            }
            if let Some((_, envelope, reply)) = replies.pop_front() {
                let _ = envelope.reply.send(reply);
            }
        }
        tokio::select! {
            () = pipe.arrived.notified() => {}
            _ = changed.changed() => {}
            () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
        }
    }
}

fn front(pipe: &Pipe) -> Option<Instant> {
    pipe.requests().as_ref()?.front().map(|envelope| envelope.sent)
}

struct Abandoned {
    master: Master,
    pipe: Arc<Pipe>,
    client: i64,
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(requests) = self.pipe.requests().take() {
            self.master.abandon(self.client, requests);
        }
    }
}
