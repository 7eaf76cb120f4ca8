//! One master in memory, and everything that can be done to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep};

use super::change::{Change, Watch};
use super::connection::{Ask, Pipe};
use super::lua::LuaHost;
use super::network::{Cut, Line};
use super::observer::{Call, Fate};
use super::store::{Bytes, Store};
use crate::error::NodeError;
use crate::node::{Identity, Listener, Marker, Peer};
use crate::protocol::calls;
use crate::protocol::keys::{CHARTER, MARKER, MASTERS};

/// The servers' wall clock when a master is made, in ms since 1970.
const EPOCH_MS: u64 = 1_700_000_000_000;

/// For how long a master has been up when it is made.
pub(super) const LONG_AGO: Duration = Duration::from_secs(365 * 24 * 3600);

/// What a restart finds of what was written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Everything.
    Data,
    /// Nothing.
    Nothing,
}

/// Is told of every script call to the masters of a cluster.
pub trait Observer: Send + Sync {
    /// A call is being sent; what is to become of it?
    fn sent(&self, _call: &Call) -> Fate {
        Fate::Delivered
    }

    /// A call was executed.
    fn executed(&self, _master: &Master, _call: &Call, _reply: &Result<Vec<String>, String>) {}
}

/// A master in memory. Clones are the same master.
#[derive(Clone)]
pub struct Master {
    inner: Arc<Inner>,
    /// What lies between it and the client that connects through this handle.
    line: Arc<Line>,
    /// Whether that client wants its memory marked.
    strict: bool,
}

/// A connection that a master has accepted.
pub(super) struct Accepted {
    pub(super) pipe: Arc<Pipe>,
    pub(super) peer: Peer,
    /// How often the master had broken its connections before.
    pub(super) resets: u64,
}

struct Inner {
    place: usize,
    label: Arc<str>,
    born: Instant,
    lua: LuaHost,
    state: Mutex<State>,
    observer: Mutex<Option<Arc<dyn Observer>>>,
    /// Told whenever the state changes what connections may do.
    changed: Change,
}

#[derive(Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a switch that a test may throw by itself"
)]
struct State {
    up: bool,
    /// Counts starts; part of the identity.
    runs: u64,
    /// By its own clock when it was last started again, in ms; `None` for long ago.
    started: Option<u64>,
    /// How far its clock is ahead of the others', in ms.
    ahead: i64,
    /// Counts the times that all connections were broken.
    resets: u64,
    store: Store,
    scripts: BTreeSet<&'static str>,
    executed: BTreeMap<&'static str, u64>,
    next_client: i64,
    weather: Weather,
    error: Option<String>,
    lost_replies: usize,
    reset_at_next: bool,
    notices_lost: bool,
    client_kill_denied: bool,
    keep_abandoned: bool,
    abandoned: Vec<(i64, VecDeque<Ask>)>,
    pipes: Vec<Weak<Pipe>>,
}

/// What the network and the process scheduler do to a master at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weather {
    frozen: bool,
    requests_held: bool,
    replies_held: bool,
    pub(super) request_delay: Duration,
    pub(super) reply_delay: Duration,
    /// Where it differs from that of replies.
    notice_delay: Option<Duration>,
}

impl Weather {
    pub(super) fn requests_pass(self) -> bool {
        !self.frozen && !self.requests_held
    }

    pub(super) fn replies_pass(self) -> bool {
        !self.frozen && !self.replies_held
    }

    pub(super) fn notice_delay(self) -> Duration {
        self.notice_delay.unwrap_or(self.reply_delay)
    }
}

/// The faults.
impl Master {
    /// Stops the process: connections stay open, nothing is executed or answered until [`thaw`](Self::thaw).
    pub fn freeze(&self) {
        self.change(|state| state.weather.frozen = true);
    }

    /// Ends a [`freeze`](Self::freeze); what arrived meanwhile is executed.
    pub fn thaw(&self) {
        self.change(|state| state.weather.frozen = false);
    }

    /// Makes every request take `to_server` and every reply `to_client`, in order.
    pub fn set_delay(&self, to_server: Duration, to_client: Duration) {
        self.change(|state| {
            state.weather.request_delay = to_server;
            state.weather.reply_delay = to_client;
        });
    }

    /// Makes release notices take this long instead of what replies take; `None` to undo it.
    pub fn set_notice_delay(&self, delay: Option<Duration>) {
        self.change(|state| state.weather.notice_delay = delay);
    }

    /// Loses every release notice from now on, or delivers them again.
    pub fn lose_notices(&self, lose: bool) {
        self.change(|state| state.notices_lost = lose);
    }

    /// Holds requests back on their way, or lets them go on.
    pub fn hold_requests(&self, hold: bool) {
        self.change(|state| state.weather.requests_held = hold);
    }

    /// Holds replies back on their way, or lets them go on.
    pub fn hold_replies(&self, hold: bool) {
        self.change(|state| state.weather.replies_held = hold);
    }

    /// Executes the next `requests` requests without ever answering them.
    pub fn lose_replies(&self, requests: usize) {
        self.change(|state| state.lost_replies = requests);
    }

    /// Answers every request with this error (such as `BUSY …`), without executing it.
    pub fn answer_with(&self, error: Option<&str>) {
        self.change(|state| state.error = error.map(str::to_owned));
    }

    /// Refuses commands that need memory, as a master at its `maxmemory` does.
    pub fn out_of_memory(&self, oom: bool) {
        self.change(|state| state.store.oom = oom);
    }

    /// Forgets the scripts, as `SCRIPT FLUSH` does.
    pub fn flush_scripts(&self) {
        self.change(|state| state.scripts.clear());
    }

    /// Forgets one script, such as `"acquire"`.
    pub fn forget_script(&self, name: &str) {
        self.change(|state| state.scripts.retain(|known| *known != name));
    }

    /// Kills the process: every connection ends, and no new one can be made until [`restart`](Self::restart).
    pub fn crash(&self) {
        self.change(|state| {
            state.up = false;
            state.resets += 1;
        });
    }

    /// Starts the process again, under a new identity.
    pub fn restart(&self, keep: Keep) {
        self.change(|state| {
            if keep == Keep::Nothing {
                state.store = Store::default();
            }
            state.scripts.clear();
            state.abandoned.clear();
            state.runs += 1;
            state.started = Some(self.clock_ms(state));
            state.resets += 1;
            state.up = true;
        });
    }

    /// Breaks every connection. What was on its way is lost, or [kept](Self::keep_abandoned).
    pub fn reset_connections(&self) {
        self.change(|state| state.resets += 1);
    }

    /// Executes the next request and breaks every connection before it is answered.
    pub fn reset_at_next_request(&self) {
        self.change(|state| state.reset_at_next = true);
    }

    /// Sets its clock forward. Keys expire by its clock, and its uptime is counted by it.
    pub fn set_clock_forward(&self, by: Duration) {
        self.change(|state| state.ahead += milliseconds(by));
    }

    /// Sets its clock back.
    pub fn set_clock_back(&self, by: Duration) {
        self.change(|state| state.ahead -= milliseconds(by));
    }

    /// Removes a key, as a server does that evicts; whether it was there.
    pub fn evict(&self, key: &str) -> bool {
        self.command(&["DEL", key]).is_ok_and(|gone| gone == ["1"])
    }

    /// Forgets every key while it goes on running, as `FLUSHALL` does.
    pub fn flush_all(&self) {
        let _ = self.command(&["FLUSHALL"]);
    }

    /// Keeps what was on its way over a connection when it broke or the client gave it up, to be
    /// executed at [`deliver_abandoned`](Self::deliver_abandoned): so a socket that nobody reads any
    /// more may still act.
    pub fn keep_abandoned(&self, keep: bool) {
        self.change(|state| state.keep_abandoned = keep);
    }

    /// Executes what was [kept](Self::keep_abandoned); how many requests that were.
    pub fn deliver_abandoned(&self) -> usize {
        let abandoned = std::mem::take(&mut self.state().abandoned);
        let mut executed = 0;
        for (client, requests) in abandoned {
            for request in &requests {
                self.execute(client, request);
            }
            executed += requests.len();
        }
        executed
    }

    /// Denies `CLIENT KILL`, as an ACL may.
    pub fn deny_client_kill(&self, deny: bool) {
        self.change(|state| state.client_kill_denied = deny);
    }
}

/// What a test looks at.
impl Master {
    /// Runs one command at once, whatever the faults, such as `["PTTL", "a"]`; its reply as a flat
    /// list of texts.
    ///
    /// # Errors
    ///
    /// The server's error line.
    pub fn command(&self, words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let mut state = self.state();
        let now = self.clock_ms(&state);
        state.store.call(now, &words).map(texts)
    }

    /// Runs one Lua script at once, whatever the faults, as `EVAL` does; its reply as a flat list of
    /// texts.
    ///
    /// # Errors
    ///
    /// The server's error line.
    pub fn eval(&self, script: &str, keys: &[&str], args: &[&str]) -> Result<Vec<String>, String> {
        let bytes = |words: &[&str]| {
            words
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect::<Vec<_>>()
        };
        let mut state = self.state();
        let now = self.clock_ms(&state);
        self.inner
            .lua
            .eval(&mut state.store, now, script, &bytes(keys), &bytes(args))
            .map(texts)
    }

    /// The names of all keys but those that belong to the set of masters: the charter, and their number.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.command(&["KEYS", "*"]).unwrap_or_default();
        keys.retain(|key| key != CHARTER && key != MASTERS);
        keys
    }

    /// The names of all keys but the largest fencing tokens, which are meant to outlast the locks.
    pub fn locks(&self) -> Vec<String> {
        self.keys()
            .into_iter()
            .filter(|key| !key.starts_with("redisson_lock_token:"))
            .collect()
    }

    /// The owner fields and hold counts under a lock's name, in turn.
    pub fn fields(&self, name: &str) -> Vec<String> {
        self.command(&["HGETALL", name]).unwrap_or_default()
    }

    /// Time left to a key; `None` when it is absent or has no expiry.
    pub fn time_left(&self, key: &str) -> Option<Duration> {
        let left = self.command(&["PTTL", key]).ok()?.first()?.parse().ok()?;
        Some(Duration::from_millis(left))
    }

    /// The channels that any client listens to, as `PUBSUB CHANNELS` shows them.
    pub fn channels(&self) -> Vec<String> {
        let mut state = self.state();
        state
            .receivers()
            .into_keys()
            .map(|channel| String::from_utf8_lossy(&channel).into_owned())
            .collect()
    }

    /// How many times each of the crate's scripts was executed.
    pub fn executed(&self) -> BTreeMap<&'static str, u64> {
        self.state().executed.clone()
    }
}

/// What a connection sees.
impl Master {
    pub(super) fn new(place: usize) -> Self {
        let state = State {
            up: true,
            next_client: 1,
            ..State::default()
        };
        let lua = LuaHost::new().unwrap_or_else(|error| panic!("Lua cannot be started: {error}"));
        Self {
            inner: Arc::new(Inner {
                place,
                label: format!("memory-{place}").into(),
                born: Instant::now(),
                lua,
                state: Mutex::new(state),
                observer: Mutex::new(None),
                changed: Change::default(),
            }),
            line: Arc::default(),
            strict: false,
        }
    }

    /// The same master, seen by a client at the other end of this line.
    pub(super) fn seen_over(&self, line: Arc<Line>, strict: bool) -> Self {
        line.watch(&self.inner.changed);
        Self {
            line,
            strict,
            ..self.clone()
        }
    }

    pub(super) fn observe(&self, observer: &Arc<dyn Observer>) {
        *lock(&self.inner.observer) = Some(Arc::clone(observer));
    }

    fn observer(&self) -> Option<Arc<dyn Observer>> {
        lock(&self.inner.observer).clone()
    }

    /// What is to become of a request that is being sent.
    pub(super) fn fate(&self, client: i64, ask: &Ask) -> Fate {
        let observer = self.observer();
        let fate = observer.and_then(|observer| Some(observer.sent(&self.call(client, ask)?)));
        fate.unwrap_or_default()
    }

    fn call(&self, client: i64, ask: &Ask) -> Option<Call> {
        let texts = |words: &[Bytes]| {
            let text = |word: &Bytes| String::from_utf8_lossy(word).into_owned();
            words.iter().map(text).collect()
        };
        match ask {
            Ask::Script {
                script, keys, args, ..
            } => Some(Call {
                master: self.inner.place,
                connection: client,
                script: script.name,
                keys: texts(keys),
                args: texts(args),
            }),
            Ask::Load(_) | Ask::Listen { .. } => None,
        }
    }

    pub(super) async fn accept(
        &self,
        predecessor: Option<&Peer>,
        listener: Listener,
    ) -> Result<Accepted, NodeError> {
        let mut changed = self.watch();
        loop {
            changed.look();
            let weather = self.weather();
            if !self.state().up {
                return Err(NodeError::Unavailable("connection refused".into()));
            }
            if weather.requests_pass() && weather.replies_pass() {
                sleep(weather.request_delay + weather.reply_delay).await;
                break;
            }
            changed.changed().await;
        }
        let mut state = self.state();
        if !state.up {
            return Err(NodeError::Unavailable("connection refused".into()));
        }
        let identity = Identity {
            run_id: format!("{}-{}", self.inner.label, state.runs),
            replication_id: String::new(),
        };
        if let Some(old) = predecessor.filter(|old| old.identity == identity)
            && !state.client_kill_denied
        {
            state.abandoned.retain(|(client, _)| *client != old.client_id);
        }
        state.scripts.extend(calls::ALL.map(|script| script.name));
        let client_id = state.next_client;
        state.next_client += 1;
        let resets = state.resets;
        let clock_ms = self.clock_ms(&state);
        let uptime = |started| Duration::from_millis(clock_ms.saturating_sub(started));
        let mut memory = state.started.map_or(LONG_AGO, uptime);
        let mut marker = None;
        if self.strict {
            let (found, age) = mark(&mut state.store, clock_ms, &identity.run_id);
            memory = memory.min(age);
            marker = Some(found);
        }
        let pipe = Arc::new(Pipe::new(listener));
        state.pipes.push(Arc::downgrade(&pipe));
        drop(state);
        let peer = Peer {
            identity,
            client_id,
            memory: Some(memory),
            clock_us: clock_ms * 1000,
            marker,
        };
        Ok(Accepted { pipe, peer, resets })
    }

    pub(super) fn name(&self) -> Arc<str> {
        Arc::clone(&self.inner.label)
    }

    pub(super) fn watch(&self) -> Watch {
        self.inner.changed.watch()
    }

    pub(super) fn weather(&self) -> Weather {
        let mut weather = self.state().weather;
        let Cut {
            to_master,
            to_client,
            distance,
        } = self.line.now();
        weather.request_delay += distance;
        weather.requests_held |= to_master;
        weather.replies_held |= to_client;
        weather
    }

    /// Whether a connection made after so many resets still stands.
    pub(super) fn is_connected(&self, resets: u64) -> bool {
        self.state().resets == resets
    }

    /// Runs one request; `None` when its reply is to be lost.
    pub(super) fn execute(&self, client: i64, ask: &Ask) -> Option<Result<Value, String>> {
        let (reply, answered) = self.run(ask);
        if let Some(observer) = self.observer()
            && let Some(call) = self.call(client, ask)
        {
            observer.executed(self, &call, &reply.clone().map(texts));
        }
        answered.then_some(reply)
    }

    /// The reply, and whether it is to be sent.
    fn run(&self, ask: &Ask) -> (Result<Value, String>, bool) {
        let mut state = self.state();
        let now = self.clock_ms(&state);
        let (script, keys, args) = match ask {
            Ask::Script {
                script, keys, args, ..
            } => (*script, keys, args),
            Ask::Load(script) => {
                state.scripts.insert(script.name);
                return (Ok(Value::Okay), true);
            }
            // A server that cannot write, or is loading, lets its clients listen all the same.
            Ask::Listen { pipe, channels, on } => {
                pipe.listen(channels, *on);
                return (Ok(Value::Okay), true);
            }
        };
        if let Some(error) = &state.error {
            return (Err(error.clone()), true);
        }
        if ask.by_sha() && !state.scripts.contains(script.name) {
            return (Err("NOSCRIPT No matching script. Please use EVAL.".into()), true);
        }
        state.scripts.insert(script.name);
        *state.executed.entry(script.name).or_default() += 1;
        state.store.receivers = state.receivers();
        let reply = self
            .inner
            .lua
            .eval(&mut state.store, now, script.source, keys, args);
        let published = std::mem::take(&mut state.store.outbox);
        if !state.notices_lost {
            for pipe in state.pipes.iter().filter_map(Weak::upgrade) {
                for (channel, _) in &published {
                    pipe.publish(&String::from_utf8_lossy(channel));
                }
            }
        }
        if std::mem::take(&mut state.reset_at_next) {
            state.resets += 1;
            return (reply, false);
        }
        if state.lost_replies > 0 {
            state.lost_replies -= 1;
            return (reply, false);
        }
        (reply, true)
    }

    /// Takes in what a client left behind on a connection that it gave up.
    pub(super) fn abandon(&self, client: i64, requests: VecDeque<Ask>) {
        let mut state = self.state();
        if state.up && state.keep_abandoned && !requests.is_empty() {
            state.abandoned.push((client, requests));
        }
    }

    /// Its wall clock, in microseconds since 1970.
    pub(super) fn wall_us(&self) -> u64 {
        self.clock_ms(&self.state()) * 1000
    }

    /// What its clock shows, in ms since 1970.
    fn clock_ms(&self, state: &State) -> u64 {
        let age = u64::try_from(self.inner.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        EPOCH_MS.saturating_add(age).saturating_add_signed(state.ahead)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.inner.changed.tell();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }
}

impl State {
    /// How many connections listen to each channel.
    fn receivers(&mut self) -> BTreeMap<Bytes, usize> {
        self.pipes.retain(|pipe| pipe.strong_count() > 0);
        let mut receivers = BTreeMap::new();
        for pipe in self.pipes.iter().filter_map(Weak::upgrade) {
            for channel in pipe.channels() {
                *receivers.entry(channel.into_bytes()).or_default() += 1;
            }
        }
        receivers
    }
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Master").field(&self.inner.label).finish()
    }
}

/// The mark on a store, made now where this run has none, and its age.
fn mark(store: &mut Store, now: u64, run_id: &str) -> (Marker, Duration) {
    let clock_us = now * 1000;
    let mut call = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        store.call(now, &words).map(texts).unwrap_or_default()
    };
    let found = call(&["GET", MARKER]);
    if let Some(found) = found
        .first()
        .and_then(|text| Marker::found(text, run_id, clock_us))
    {
        return found;
    }
    let marker = Marker::new(run_id, clock_us);
    call(&["SET", MARKER, marker.as_str()]);
    (marker, Duration::ZERO)
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn texts(value: Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.into_iter().flat_map(texts).collect(),
        Value::BulkString(bytes) => vec![String::from_utf8_lossy(&bytes).into_owned()],
        Value::SimpleString(text) => vec![text],
        Value::Int(number) => vec![number.to_string()],
        Value::Okay => vec!["OK".into()],
        _ => Vec::new(),
    }
}
