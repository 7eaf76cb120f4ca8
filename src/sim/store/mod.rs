//! Keys of one master in memory, with the commands that the crate's scripts use. Answers and error lines are
//! those of Redis 7.0.
//!
//! No function here reads a clock. Every call has its time as an argument, so a test moves time by another
//! number, and the clocks of two masters may differ.

mod hash;
mod keyspace;
mod pattern;
mod reply;
mod set;
mod sorted_set;
mod string;

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use crate::node::ChannelForm;

pub(crate) use self::reply::{Bytes, CommandReply};
use self::reply::{bulks, int, unknown_command, unknown_subcommand, wrong_arity};

/// Fields in order of insertion, as in a Redis hash of this size: `HGETALL` shows the order.
type Hash = Vec<(Bytes, Bytes)>;
type Set = BTreeSet<Bytes>;
/// Members in the order of their scores; members with equal scores in the order of their names. The set is
/// small, so a search begins at the front.
type SortedSet = Vec<(f64, Bytes)>;
type List = Vec<Bytes>;

const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const UNKNOWN_IN_SCRIPT: &str = "ERR Unknown Redis command called from script";
const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

#[derive(Clone, Debug)]
enum Data {
    Hash(Hash),
    String(Bytes),
    Set(Set),
    SortedSet(SortedSet),
    List(List),
}

impl Data {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Hash(_) => "hash",
            Self::String(_) => "string",
            Self::Set(_) => "set",
            Self::SortedSet(_) => "zset",
            Self::List(_) => "list",
        }
    }
}

/// Type of a value: how it is found in a key, and how a new one begins.
trait ValueKind: Default {
    fn of(data: &mut Data) -> Option<&mut Self>;
    fn into_data(self) -> Data;
}

macro_rules! kinds {
    ($($kind:ty => $variant:ident),*) => {$(
        impl ValueKind for $kind {
            fn of(data: &mut Data) -> Option<&mut Self> {
                if let Data::$variant(value) = data { Some(value) } else { None }
            }
            fn into_data(self) -> Data {
                Data::$variant(self)
            }
        }
    )*};
}
kinds!(Hash => Hash, Bytes => String, Set => Set, SortedSet => SortedSet, List => List);

#[derive(Clone, Debug)]
struct StoredValue {
    data: Data,
    /// Last millisecond in which the key exists.
    deadline: Option<i64>,
}

/// Effect of a command on memory. It decides on the commands that a full master refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Writes,
    /// Writes, and is refused when memory is full (Redis' `denyoom`).
    Grows,
}
use Effect::{Grows, Reads, Writes};

type CommandGroup = fn(&mut Store, i64, &str, &[Bytes]) -> CommandReply;

/// Commands in the order of their names: name, arity as Redis counts it (the name included, negative for "at
/// least"), effect, family.
const COMMANDS: [(&str, isize, Effect, CommandGroup); 45] = [
    ("dbsize", 1, Reads, Store::keyspace),
    ("del", -2, Writes, Store::keyspace),
    ("exists", -2, Reads, Store::keyspace),
    ("flushall", -1, Writes, Store::keyspace),
    ("get", 2, Reads, Store::string),
    ("hdel", -3, Writes, Store::hash),
    ("hexists", 3, Reads, Store::hash),
    ("hget", 3, Reads, Store::hash),
    ("hgetall", 2, Reads, Store::hash),
    ("hincrby", 4, Grows, Store::hash),
    ("hkeys", 2, Reads, Store::hash),
    ("hlen", 2, Reads, Store::hash),
    ("hset", -4, Grows, Store::hash),
    ("hvals", 2, Reads, Store::hash),
    ("incr", 2, Grows, Store::string),
    ("keys", 2, Reads, Store::keyspace),
    ("llen", 2, Reads, Store::list),
    ("lpop", -2, Writes, Store::list),
    ("lpush", -3, Grows, Store::list),
    ("lrange", 4, Reads, Store::list),
    ("persist", 2, Writes, Store::keyspace),
    ("pexpire", -3, Writes, Store::keyspace),
    ("pexpireat", -3, Writes, Store::keyspace),
    ("pttl", 2, Reads, Store::keyspace),
    ("publish", 3, Reads, Store::server),
    ("pubsub", -2, Reads, Store::server),
    ("rpush", -3, Grows, Store::list),
    ("sadd", -3, Grows, Store::set),
    ("scan", -2, Reads, Store::keyspace),
    ("scard", 2, Reads, Store::set),
    ("set", -3, Grows, Store::string),
    ("sismember", 3, Reads, Store::set),
    ("smembers", 2, Reads, Store::set),
    ("srem", -3, Writes, Store::set),
    ("time", 1, Reads, Store::server),
    ("type", 2, Reads, Store::keyspace),
    ("unlink", -2, Writes, Store::keyspace),
    ("zadd", -4, Grows, Store::sorted_set),
    ("zcard", 2, Reads, Store::sorted_set),
    ("zrange", -4, Reads, Store::sorted_set),
    ("zrangebyscore", -4, Reads, Store::sorted_set),
    ("zrank", 3, Reads, Store::sorted_set),
    ("zrem", -3, Writes, Store::sorted_set),
    ("zremrangebyscore", 4, Writes, Store::sorted_set),
    ("zscore", 3, Reads, Store::sorted_set),
];

/// Keys of one master, and its published messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    entries: BTreeMap<Bytes, StoredValue>,
    /// Whether the master is at its `maxmemory` and evicts nothing: commands that grow memory are refused.
    pub(crate) oom: bool,
    /// Whether the user may not run `PUBLISH`.
    pub(crate) publish_denied: bool,
    /// Messages published since the owner last drained them: channel and message, oldest first.
    pub(crate) outbox: Vec<(Bytes, Bytes)>,
    /// Clients that listen to each channel and pattern, by the owner's numbers; no entry without any. `PUBLISH` and
    /// `PUBSUB` count them.
    pub(crate) receivers: BTreeMap<(ChannelForm, Bytes), BTreeSet<i64>>,
    /// Inside a script: whether it has run a command that writes.
    script: Option<bool>,
}

impl Store {
    /// Runs one command at `now_ms`, as a client would send it: the name, then its arguments.
    pub(crate) fn call(&mut self, now_ms: u64, args: &[Bytes]) -> CommandReply {
        let (name, rest) = args.split_first().ok_or("ERR unknown command")?;
        let find = |name: &[u8]| COMMANDS.binary_search_by(|known| known.0.as_bytes().cmp(name));
        // Scripts write names in capitals.
        let known = find(name).or_else(|_| find(&name.to_ascii_lowercase()));
        let Ok((name, arity, effect, family)) = known.map(|index| COMMANDS[index]) else {
            return Err(match self.script {
                Some(_) => UNKNOWN_IN_SCRIPT.into(),
                None => unknown_command(name, rest),
            });
        };
        let least = arity.unsigned_abs();
        if args.len() < least || (arity > 0 && args.len() > least) {
            return Err(match self.script {
                Some(_) => "ERR Wrong number of args calling Redis command from script".into(),
                None => wrong_arity(name),
            });
        }
        // A script that ends halfway is worse than too much memory, so a script that has written may finish.
        if self.oom && effect == Grows && self.script != Some(true) {
            return Err(OOM.into());
        }
        if self.publish_denied && name == "publish" {
            return Err(
                "ERR ACL failure in script: User app has no permissions to run the 'publish' command".into(),
            );
        }
        if let (Some(wrote), Grows | Writes) = (&mut self.script, effect) {
            *wrote = true;
        }
        family(self, i64::try_from(now_ms).unwrap_or(i64::MAX), name, rest)
    }

    /// Begins a script. Until [`Store::end_script`], wrong calls of commands have other error lines, and
    /// commands are refused for memory only before the first write.
    pub(crate) fn begin_script(&mut self) {
        self.script = Some(false);
    }

    pub(crate) fn end_script(&mut self) {
        self.script = None;
    }

    pub(crate) fn listen(&mut self, client: i64, form: ChannelForm, channel: &[u8]) {
        let listening = self.receivers.entry((form, channel.to_vec())).or_default();
        listening.insert(client);
    }

    pub(crate) fn unlisten(&mut self, client: i64, form: ChannelForm, channel: &[u8]) {
        let key = (form, channel.to_vec());
        if let Some(listening) = self.receivers.get_mut(&key) {
            listening.remove(&client);
            if listening.is_empty() {
                self.receivers.remove(&key);
            }
        }
    }

    /// Removes a client that is gone from all channels.
    pub(crate) fn stop_listening(&mut self, client: i64) {
        self.receivers.retain(|_, listening| {
            listening.remove(&client);
            !listening.is_empty()
        });
    }

    /// Listeners of a channel itself, and those of patterns that match it.
    pub(crate) fn listening(
        &self,
        channel: &[u8],
    ) -> impl Iterator<Item = (&(ChannelForm, Bytes), &BTreeSet<i64>)> {
        let exact = self
            .receivers
            .get_key_value(&(ChannelForm::Exact, channel.to_vec()));
        let patterns = self.receivers.range((ChannelForm::Pattern, Bytes::new())..);
        exact
            .into_iter()
            .chain(patterns.filter(move |((_, pattern), _)| is_matched(pattern, channel)))
    }

    /// Entry of a key, unless it has expired by `now`. In Redis a key still exists in the millisecond of its
    /// deadline, with a `PTTL` of 0.
    fn live(&mut self, now: i64, key: &[u8]) -> Option<&mut StoredValue> {
        let deadline = self.entries.get(key)?.deadline;
        if deadline.is_some_and(|deadline| now > deadline) {
            self.entries.remove(key);
        }
        self.entries.get_mut(key)
    }

    fn find<K: ValueKind>(&mut self, now: i64, key: &[u8]) -> Result<Option<&mut K>, String> {
        let found = self.live(now, key);
        found
            .map(|entry| K::of(&mut entry.data).ok_or_else(|| WRONGTYPE.into()))
            .transpose()
    }

    fn find_or_create<K: ValueKind>(&mut self, now: i64, key: &[u8]) -> Result<&mut K, String> {
        self.live(now, key);
        let fresh = || StoredValue {
            data: K::default().into_data(),
            deadline: None,
        };
        let entry = self.entries.entry(key.to_vec()).or_insert_with(fresh);
        K::of(&mut entry.data).ok_or_else(|| WRONGTYPE.into())
    }

    fn server(&mut self, now: i64, name: &str, args: &[Bytes]) -> CommandReply {
        match (name, args) {
            ("publish", [channel, message]) => {
                self.outbox.push((channel.clone(), message.clone()));
                int(self.listening(channel).map(|(_, clients)| clients.len()).sum())
            }
            ("pubsub", [verb, channels @ ..]) if verb.eq_ignore_ascii_case(b"numsub") => {
                let counts = channels.iter().flat_map(|channel| {
                    let clients = self.receivers.get(&(ChannelForm::Exact, channel.clone()));
                    let count = i64::try_from(clients.map_or(0, BTreeSet::len)).unwrap_or(i64::MAX);
                    [Value::BulkString(channel.clone()), Value::Int(count)]
                });
                Ok(Value::Array(counts.collect()))
            }
            ("pubsub", [verb, ..]) => Err(match self.script {
                Some(_) => UNKNOWN_IN_SCRIPT.into(),
                None => unknown_subcommand(name, verb),
            }),
            ("time", []) => {
                let (seconds, millis) = (now / 1000, now % 1000);
                bulks([seconds, millis * 1000].iter().map(ToString::to_string))
            }
            _ => Err(wrong_arity(name)),
        }
    }

    /// Removes an empty collection with its key, as Redis does.
    fn remove_if_empty(&mut self, key: &[u8], left: usize) {
        if left == 0 {
            self.entries.remove(key);
        }
    }
}

/// Whether a pattern with `*`, `?` and escaped letters matches a text; without sets of letters.
fn is_matched(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|at| is_matched(rest, &text[at..])),
        [b'?', rest @ ..] => !text.is_empty() && is_matched(rest, &text[1..]),
        [b'\\', letter, rest @ ..] | [letter, rest @ ..] => {
            text.first() == Some(letter) && is_matched(rest, &text[1..])
        }
    }
}

#[cfg(test)]
mod tests;
