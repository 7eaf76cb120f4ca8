//! A connection to a master in memory: requests one way, replies and notices the other, in order.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::master::Master;
use super::observer::Fate;
use super::store::Bytes;
use crate::node::{self, By, Listener, ReplyTo};
use crate::protocol::command::{Request, Script};
use crate::protocol::fault::Fault;

/// What a client asks for.
pub(super) enum Ask {
    Script {
        script: &'static Script,
        by: By,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
    },
    Load(&'static Script),
    Listen {
        pipe: Arc<Pipe>,
        channels: Vec<String>,
        on: bool,
    },
}

impl Ask {
    fn script(request: &Request, by: By) -> Self {
        // `EVALSHA sha numkeys key… arg…`, taken apart.
        let mut words = request.words().into_iter().skip(2);
        let count = words
            .next()
            .and_then(|count| String::from_utf8(count).ok()?.parse().ok())
            .unwrap_or(0);
        let keys = words.by_ref().take(count).collect();
        Self::Script {
            script: request.script,
            by,
            keys,
            args: words.collect(),
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Script { keys, args, .. } => keys.iter().chain(args).map(Vec::len).sum(),
            Self::Load(_) | Self::Listen { .. } => 0,
        }
    }

    fn is_release(&self) -> bool {
        matches!(self, Self::Script { script, .. } if script.name == "release")
    }

    pub(super) fn by_sha(&self) -> bool {
        matches!(self, Self::Script { by: By::Sha, .. })
    }
}

/// A request on its way.
struct Envelope {
    ask: Ask,
    sent: Instant,
    /// Decided when it is next in line.
    fate: Option<Fate>,
    reply: ReplyTo,
}

impl Envelope {
    /// When it gets there, if requests take so long.
    fn arrives(&self, delay: Duration) -> Instant {
        let more = match self.fate {
            Some(Fate::RequestDelayed(more)) => more,
            _ => Duration::ZERO,
        };
        self.sent + delay + more
    }

    /// How much longer its reply takes than others.
    fn reply_delay(&self) -> Duration {
        match self.fate {
            Some(Fate::ReplyDelayed(more)) => more,
            _ => Duration::ZERO,
        }
    }
}

/// What is on its way, and what the client listens to.
pub(super) struct Pipe {
    listener: Listener,
    /// `None` once the connection has ended.
    requests: Mutex<Option<VecDeque<Envelope>>>,
    channels: Mutex<BTreeSet<String>>,
    notices: Mutex<VecDeque<(Instant, String)>>,
    /// Bytes of calls whose answer is still to come.
    waiting: AtomicUsize,
    /// When an answer or a notice came last.
    heard: Mutex<Option<Instant>>,
    moved: Notify,
}

impl Pipe {
    pub(super) fn new(listener: Listener) -> Self {
        Self {
            listener,
            requests: Mutex::new(Some(VecDeque::new())),
            channels: Mutex::default(),
            notices: Mutex::default(),
            waiting: AtomicUsize::new(0),
            heard: Mutex::default(),
            moved: Notify::new(),
        }
    }

    pub(super) fn listen(&self, channels: &[String], on: bool) {
        let mut listening = lock(&self.channels);
        for channel in channels {
            if on {
                listening.insert(channel.clone());
            } else {
                listening.remove(channel);
            }
        }
    }

    /// What it listens to; nothing once the connection has ended.
    pub(super) fn channels(&self) -> Vec<String> {
        if lock(&self.requests).is_none() {
            return Vec::new();
        }
        lock(&self.channels).iter().cloned().collect()
    }

    pub(super) fn publish(&self, channel: &str) {
        if lock(&self.channels).contains(channel) {
            lock(&self.notices).push_back((Instant::now(), channel.to_owned()));
            self.moved.notify_one();
        }
    }

    /// When the next request gets to the master, if requests take so long.
    fn next_request(&self, master: &Master, client: i64, delay: Duration) -> Option<Instant> {
        let mut requests = lock(&self.requests);
        let next = requests.as_mut()?.front_mut()?;
        if next.fate.is_none() {
            next.fate = Some(master.fate(client, &next.ask));
        }
        Some(next.arrives(delay))
    }

    /// When the next notice was published.
    fn next_notice(&self) -> Option<Instant> {
        lock(&self.notices).front().map(|(published, _)| *published)
    }

    /// Whether the connection is to break instead of delivering its next request.
    fn breaks_before_next(&self) -> bool {
        let requests = lock(&self.requests);
        let next = requests.as_ref().and_then(VecDeque::front);
        next.is_some_and(|envelope| envelope.fate == Some(Fate::ResetBefore))
    }

    fn take_request(&self) -> Option<Envelope> {
        lock(&self.requests).as_mut()?.pop_front()
    }

    /// No answer to it is to be expected any more.
    fn is_over(&self, ask: &Ask) {
        self.waiting.fetch_sub(ask.size(), Ordering::Relaxed);
    }

    fn note_heard(&self) {
        *lock(&self.heard) = Some(Instant::now());
    }

    fn send(&self, ask: Ask, reply: ReplyTo) {
        self.waiting.fetch_add(ask.size(), Ordering::Relaxed);
        if let Some(requests) = &mut *lock(&self.requests) {
            requests.push_back(Envelope {
                ask,
                sent: Instant::now(),
                fate: None,
                reply,
            });
        }
        self.moved.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The client's end.
#[derive(Clone)]
pub(super) struct Wire(pub(super) Arc<Pipe>);

impl Wire {
    fn listen(&self, channels: &[String], on: bool, reply: ReplyTo) {
        let ask = Ask::Listen {
            pipe: Arc::clone(&self.0),
            channels: channels.to_vec(),
            on,
        };
        self.0.send(ask, reply);
    }
}

impl node::Wire for Wire {
    fn call(&self, request: &Request, by: By, reply: ReplyTo) {
        self.0.send(Ask::script(request, by), reply);
    }

    fn load(&self, script: &'static Script, reply: ReplyTo) {
        self.0.send(Ask::Load(script), reply);
    }

    fn subscribe(&self, channels: &[String], reply: ReplyTo) {
        self.listen(channels, true, reply);
    }

    fn unsubscribe(&self, channels: &[String], reply: ReplyTo) {
        self.listen(channels, false, reply);
    }

    fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    fn heard(&self) -> Option<Instant> {
        *lock(&self.0.heard)
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

/// Moves requests, replies and notices until the connection ends, by the master or by dropping this.
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
        changed.look();
        if !master.is_connected(resets) {
            return;
        }
        let weather = master.weather();
        let now = Instant::now();
        let mut due = Due { now, next: None };
        while weather.requests_pass()
            && let Some(arrives) = pipe.next_request(&master, client, weather.request_delay)
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
            let next = lock(&pipe.notices).pop_front();
            if let Some((_, channel)) = next {
                pipe.note_heard();
                (pipe.listener)(&channel);
            }
        }
        tokio::select! {
            biased;
            () = pipe.moved.notified() => {}
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
        let requests = lock(&self.pipe.requests).take();
        // Whoever waits for an answer learns now that the connection has ended.
        let asks = requests.map(|requests| requests.into_iter().map(|envelope| envelope.ask).collect());
        if let Some(asks) = asks {
            self.master.abandon(self.client, asks);
        }
    }
}
