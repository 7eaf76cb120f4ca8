//! One master in memory, with its faults and its inspection.

mod clock;
mod faults;
mod inspection;
mod state;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use redis::Value;
use tokio::time::{Instant, sleep};

use self::state::MasterState;
use super::change::{Change, Watch};
use super::conditions::Conditions;
use super::connection::{Ask, MemoryPipe};
use super::lua;
use super::network::{Cut, NetworkLine};
use super::observer::{Call, Fate};
use super::record::record_text;
use super::store::Bytes;
use crate::admin::capabilities::Capabilities;
use crate::error::NodeError;
use crate::events::Word;
use crate::node::{ChannelForm, Identity, Peer};
use crate::protocol::calls;
use crate::protocol::keys::SET;
use crate::protocol::record::Record;
use crate::values::master_set::MasterSet;

/// Wall clock of the servers when a master is made, in microseconds since 1970.
const EPOCH_US: u64 = 1_700_000_000_000_000;

/// Time for which a new master has been in its set.
const LONG_AGO_MS: u64 = 365 * 24 * 3600 * 1000;

/// Number of masters that were made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Data that a restart finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All data.
    Data,
    /// Data of the last [`save`](Master::save), as after the load of a snapshot; none without one.
    Saved,
    /// No data.
    Nothing,
}

/// Observes every script call to the masters of a cluster.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
/// use multilock::sim::{Call, Fate, Observer};
/// use std::sync::Arc;
///
/// /// Loses the masters' answers to releases.
/// struct Deaf;
///
/// impl Observer for Deaf {
///     fn sent(&self, call: &Call) -> Fate {
///         if call.script == "release" { Fate::ReplyLost } else { Fate::Delivered }
///     }
/// }
///
/// let guard = masters.red_lock("a").lock().await?;
/// let observer: Arc<dyn Observer> = Arc::new(Deaf);
/// cluster.observe(&observer);
/// assert!(guard.unlock().await.is_err(), "nobody has confirmed it");
/// # Ok(()) }
/// ```
pub trait Observer: Send + Sync {
    /// Decides the fate of a call that is being sent.
    fn sent(&self, _call: &Call) -> Fate {
        Fate::Delivered
    }

    /// Sees a call that has arrived and is executed next.
    fn executing(&self, _master: &Master, _call: &Call) {}

    /// Sees a call that was executed.
    fn executed(&self, _master: &Master, _call: &Call, _reply: &Result<Vec<String>, String>) {}
}

/// A master in memory. Clones are the same master.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
/// use std::time::Duration;
///
/// let master = cluster.master(2);
/// master.freeze();
/// masters.red_lock("a").try_lock().await?.unlock().await?;
/// master.thaw();
/// master.set_delay(Duration::from_millis(20), Duration::from_millis(20));
/// masters.multi_lock("a").try_lock().await?.leak();
/// assert!(master.time_left("a").is_some());
/// assert!(master.evict("a"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Master {
    inner: Arc<Inner>,
    /// Network between the master and the client that connects through this handle.
    line: Arc<NetworkLine>,
    /// Set that this client lists.
    set: MasterSet,
}

/// A connection that a master has accepted.
pub(super) struct AcceptedConnection {
    pub(super) pipe: Arc<MemoryPipe>,
    pub(super) client_id: i64,
    pub(super) peer: Peer,
    /// Number of times that the master had broken its connections before.
    pub(super) resets: u64,
}

struct Inner {
    node: usize,
    label: Arc<str>,
    born: Instant,
    state: Mutex<MasterState>,
    observer: Mutex<Option<Arc<dyn Observer>>>,
    /// Notified when a change of the state matters to connections.
    changed: Change,
}

/// The side that connections use.
impl Master {
    pub(super) fn new(node: usize) -> Self {
        let state = MasterState {
            up: true,
            next_client: 1,
            number: MADE.fetch_add(1, Ordering::Relaxed),
            ..MasterState::default()
        };
        Self {
            inner: Arc::new(Inner {
                node,
                label: format!("memory-{node}").into(),
                born: Instant::now(),
                state: Mutex::new(state),
                observer: Mutex::new(None),
                changed: Change::default(),
            }),
            line: Arc::default(),
            set: MasterSet {
                masters: 1,
                for_tests: None,
            },
        }
    }

    /// Returns the same master, for a client at the other end of this line.
    pub(super) fn seen_over(&self, line: Arc<NetworkLine>, set: MasterSet) -> Self {
        line.watch(&self.inner.changed);
        Self {
            line,
            set,
            ..self.clone()
        }
    }

    pub(super) fn observe(&self, observer: &Arc<dyn Observer>) {
        *self.inner.observer.lock() = Some(Arc::clone(observer));
    }

    fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.inner.observer.lock().clone()
    }

    /// Decides the fate of a request that is being sent.
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
                master: self.inner.node,
                connection: client,
                script: script.op.word(),
                keys: texts(keys),
                args: texts(args),
            }),
            Ask::Load(_) | Ask::Listen { .. } => None,
        }
    }

    pub(super) async fn accept(
        &self,
        predecessor: Option<&Peer>,
        channel: &str,
    ) -> Result<AcceptedConnection, NodeError> {
        let mut changed = self.watch();
        let asked = loop {
            changed.look();
            let conditions = self.conditions();
            if !self.state().up {
                return Err(NodeError::Unavailable("connection refused".into()));
            }
            if conditions.requests_pass() && conditions.replies_pass() {
                // The master is looked at when the request arrives, so the delay of the reply comes first.
                sleep(conditions.reply_delay).await;
                let asked = Instant::now();
                sleep(conditions.request_delay).await;
                break asked;
            }
            changed.changed().await;
        };
        let mut state = self.state();
        if !state.up {
            return Err(NodeError::Unavailable("connection refused".into()));
        }
        if let Some(reason) = state.unfit.clone() {
            return Err(reason.into());
        }
        let identity = Identity {
            run_id: format!("{:08}-{}", state.number, state.runs),
            replication_id: String::new(),
            promoted_from: String::new(),
            is_of_a_process: true,
        };
        let kill_fence = !state.client_kill_denied;
        if let Some(old) = predecessor.filter(|old| kill_fence && old.identity.is_same_run(&identity)) {
            state
                .abandoned
                .retain(|(client, _)| !old.client_ids.contains(client));
        }
        state
            .scripts
            .extend(calls::ALL.map(|script| (script.source, script.op.word())));
        let client_id = state.next_client;
        state.next_client += 1;
        let resets = state.resets;
        let clock_ms = self.clock_ms(&state);
        self.found(&mut state, &identity);
        let stored = state.store.call(clock_ms, &words(&["GET", SET]));
        let stored = stored.map(texts).unwrap_or_default();
        let record = stored.first().and_then(|text| Record::parse(text));
        let pipe = Arc::new(MemoryPipe::new());
        state.pipes.insert(client_id, Arc::downgrade(&pipe));
        let calls_denied = state.subscribe_denied;
        if !calls_denied {
            state.listen(client_id, ChannelForm::Exact, channel, true);
        }
        drop(state);
        let peer = Peer {
            identity,
            client_ids: vec![client_id],
            asked,
            record,
            clock_us: clock_ms * 1000,
            version: "in memory".into(),
            capabilities: Capabilities {
                kill_fence,
                ..Capabilities::ALL
            },
            calls_denied,
        };
        Ok(AcceptedConnection {
            pipe,
            client_id,
            peer,
            resets,
        })
    }

    /// Puts a new master into a set of long standing, for its first client.
    fn found(&self, state: &mut MasterState, identity: &Identity) {
        if std::mem::replace(&mut state.is_found, true) {
            return;
        }
        let (clock_ms, run) = (self.clock_ms(state), identity.run().unwrap_or_default());
        let since_us = clock_ms.saturating_sub(LONG_AGO_MS) * 1000;
        let record = record_text(self.set, &run, since_us);
        let _ = state.store.call(clock_ms, &words(&["SET", SET, &record, "NX"]));
    }

    pub(super) fn name(&self) -> Arc<str> {
        Arc::clone(&self.inner.label)
    }

    pub(super) fn watch(&self) -> Watch {
        self.inner.changed.watch()
    }

    pub(super) fn conditions(&self) -> Conditions {
        let mut conditions = self.state().conditions;
        let Cut {
            to_master,
            to_client,
            distance,
        } = self.line.now();
        conditions.request_delay += distance;
        conditions.requests_held |= to_master;
        conditions.replies_held |= to_client;
        conditions
    }

    /// Whether a connection made after this number of resets still exists.
    pub(super) fn is_connected(&self, resets: u64) -> bool {
        self.state().resets == resets
    }

    /// Runs one request. Returns `None` if its reply is lost.
    pub(super) fn execute(&self, client: i64, ask: &Ask) -> Option<Result<Value, String>> {
        let observed = self.observer().zip(self.call(client, ask));
        if let Some((observer, call)) = &observed {
            observer.executing(self, call);
        }
        let (reply, answered) = self.run(client, ask);
        if let Some((observer, call)) = &observed {
            observer.executed(self, call, &reply.clone().map(texts));
        }
        answered.then_some(reply)
    }

    /// Returns the reply, and whether it is sent.
    fn run(&self, client: i64, ask: &Ask) -> (Result<Value, String>, bool) {
        let mut state = self.state();
        let now = self.clock_ms(&state);
        let (script, keys, args) = match ask {
            Ask::Script {
                script, keys, args, ..
            } => (*script, keys, args),
            Ask::Load(script) => {
                state.scripts.insert(script.source, script.op.word());
                return (Ok(Value::Okay), true);
            }
            Ask::Listen { on: true, .. } if state.subscribe_denied => {
                let error = "NOPERM User app has no permissions to run the 'subscribe' command";
                return (Err(error.into()), true);
            }
            // Even a server that cannot write, or is loading, lets its clients subscribe.
            Ask::Listen { form, channel, on } => {
                state.listen(client, *form, channel, *on);
                return (Ok(Value::Okay), true);
            }
        };
        if let Some(error) = &state.error {
            return (Err(error.clone()), true);
        }
        if ask.by_sha() && !state.scripts.contains_key(script.source) {
            return (Err("NOSCRIPT No matching script. Please use EVAL.".into()), true);
        }
        state.scripts.insert(script.source, script.op.word());
        *state.executed.entry(script.op.word()).or_default() += 1;
        let reply = lua::eval(&mut state.store, now, script.source, keys, args);
        state.deliver_published();
        if std::mem::take(&mut state.reset_at_next) {
            state.break_connections();
            drop(state);
            self.inner.changed.tell();
            return (reply, false);
        }
        if state.lost_replies > 0 {
            state.lost_replies -= 1;
            return (reply, false);
        }
        (reply, true)
    }

    /// Removes a client after the end of its connection. `requests` were not executed.
    pub(super) fn disconnect(&self, client: i64, requests: VecDeque<Ask>) {
        let mut state = self.state();
        state.pipes.remove(&client);
        state.store.stop_listening(client);
        if state.up && state.keep_abandoned && !requests.is_empty() {
            state.abandoned.push((client, requests));
        }
    }

    /// Wall clock of the master, in microseconds since 1970.
    pub(super) fn wall_us(&self) -> u64 {
        self.clock_ms(&self.state()) * 1000
    }

    /// Wall clock of the master, in ms since 1970.
    fn clock_ms(&self, state: &MasterState) -> u64 {
        let age_us = u64::try_from(self.inner.born.elapsed().as_micros()).unwrap_or(u64::MAX);
        let untouched_us = EPOCH_US.saturating_add(age_us);
        untouched_us.saturating_add_signed(state.clock_offset.us()) / 1000
    }

    fn change(&self, change: impl FnOnce(&mut MasterState)) {
        change(&mut self.state());
        self.inner.changed.tell();
    }

    fn state(&self) -> MutexGuard<'_, MasterState> {
        self.inner.state.lock()
    }
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Master").field(&self.inner.label).finish()
    }
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

fn words(words: &[&str]) -> Vec<Bytes> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}
