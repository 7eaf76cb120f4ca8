//! The keys of one master in memory: the commands the crate's scripts use, answered as Redis 7.0
//! answers them, down to the error lines.
//!
//! Nothing here reads a clock. Every call brings the time it happens at, so a test moves time by
//! naming another number, and two masters may disagree about it.

mod hash;
mod keyspace;
mod reply;
mod set;
mod sorted_set;
mod string;

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

pub(crate) use self::reply::{Bytes, CommandReply};
use self::reply::{bulks, int, unknown_command, unknown_subcommand, wrong_arity};

/// In order of insertion, as Redis keeps a hash of this size: the order shows in `HGETALL`.
type Hash = Vec<(Bytes, Bytes)>;
type Set = BTreeSet<Bytes>;
/// In the order of the scores, and of the members where those are equal. As small as it is, it is searched
/// from the front.
type SortedSet = Vec<(f64, Bytes)>;
/// Only the length: a list is here to be a key of another type, and nothing reads its elements.
type List = usize;

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

/// A type of value: how to find it in a key, and how a key of it begins.
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
    /// The last millisecond the key is there.
    deadline: Option<i64>,
}

/// What a command does to memory; it decides what a full master refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Writes,
    /// Writes, and is refused when out of memory (Redis' `denyoom`).
    Grows,
}
use Effect::{Grows, Reads, Writes};

type Family = fn(&mut Store, i64, &str, &[Bytes]) -> CommandReply;

/// In the order of their names: name, arity as Redis counts it (the name included, negative for "at least"), effect,
/// family.
const COMMANDS: [(&str, isize, Effect, Family); 42] = [
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
    ("lpush", -3, Grows, Store::list),
    ("persist", 2, Writes, Store::keyspace),
    ("pexpire", -3, Writes, Store::keyspace),
    ("pexpireat", -3, Writes, Store::keyspace),
    ("pttl", 2, Reads, Store::keyspace),
    ("publish", 3, Reads, Store::server),
    ("pubsub", -2, Reads, Store::server),
    ("rpush", -3, Grows, Store::list),
    ("sadd", -3, Grows, Store::set),
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

/// The keys of one master, and what it published.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    entries: BTreeMap<Bytes, StoredValue>,
    /// The master is at its `maxmemory` and evicts nothing: commands that grow memory are refused.
    pub(crate) oom: bool,
    /// Messages published since the owner last drained them: channel and message, oldest first.
    pub(crate) outbox: Vec<(Bytes, Bytes)>,
    /// The clients that listen to each channel, in the owner's numbers; none without any. `PUBLISH` and
    /// `PUBSUB` count them.
    pub(crate) receivers: BTreeMap<Bytes, BTreeSet<i64>>,
    /// Inside a script: whether it has come to a command that writes.
    script: Option<bool>,
}

impl Store {
    /// Runs one command at `now_ms`, as a client would send it: the name, then its arguments.
    pub(crate) fn call(&mut self, now_ms: u64, args: &[Bytes]) -> CommandReply {
        let (name, rest) = args.split_first().ok_or("ERR unknown command")?;
        let find = |name: &[u8]| COMMANDS.binary_search_by(|known| known.0.as_bytes().cmp(name));
        // Scripts write them so.
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
        // Half of a script is worse than too much memory: once it has written, it may finish.
        if self.oom && effect == Grows && self.script != Some(true) {
            return Err(OOM.into());
        }
        if let (Some(wrote), Grows | Writes) = (&mut self.script, effect) {
            *wrote = true;
        }
        family(self, i64::try_from(now_ms).unwrap_or(i64::MAX), name, rest)
    }

    /// Until [`Store::end_script`], commands come from a script: errors in how they are called
    /// read differently, and memory is refused only before the first write.
    pub(crate) fn begin_script(&mut self) {
        self.script = Some(false);
    }

    pub(crate) fn end_script(&mut self) {
        self.script = None;
    }

    pub(crate) fn listen(&mut self, client: i64, channel: &[u8]) {
        let listening = self.receivers.entry(channel.to_vec()).or_default();
        listening.insert(client);
    }

    pub(crate) fn unlisten(&mut self, client: i64, channel: &[u8]) {
        if let Some(listening) = self.receivers.get_mut(channel) {
            listening.remove(&client);
            if listening.is_empty() {
                self.receivers.remove(channel);
            }
        }
    }

    /// The client is gone, and listens to nothing.
    pub(crate) fn stop_listening(&mut self, client: i64) {
        self.receivers.retain(|_, listening| {
            listening.remove(&client);
            !listening.is_empty()
        });
    }

    fn listening(&self, channel: &[u8]) -> usize {
        self.receivers.get(channel).map_or(0, BTreeSet::len)
    }

    /// The key's entry, unless it has expired by `now`. Redis still has a key in the very
    /// millisecond of its deadline, with a `PTTL` of 0.
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
                int(self.listening(channel))
            }
            ("pubsub", [verb, channels @ ..]) if verb.eq_ignore_ascii_case(b"numsub") => {
                let counts = channels.iter().flat_map(|channel| {
                    let count = i64::try_from(self.listening(channel)).unwrap_or(i64::MAX);
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

    /// Redis keeps no empty collections: the last element takes the key with it.
    fn remove_if_empty(&mut self, key: &[u8], left: usize) {
        if left == 0 {
            self.entries.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
