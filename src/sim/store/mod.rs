//! The keys of one master in memory: the commands the crate's scripts use, answered as Redis 7.0
//! answers them, down to the error lines.
//!
//! Nothing here reads a clock. Every call brings the time it happens at, so a test moves time by
//! naming another number, and two masters may disagree about it.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

/// A binary-safe string: a key, a field, a value or an argument.
pub(crate) type Bytes = Vec<u8>;

/// What a command answers: a reply, or a whole error line (`WRONGTYPE Operation against ...`).
pub(crate) type Reply = Result<Value, String>;

/// In order of insertion, as Redis keeps a hash of this size: the order shows in `HGETALL`.
type Hash = Vec<(Bytes, Bytes)>;
type Set = BTreeSet<Bytes>;
type SortedSet = BTreeMap<Bytes, f64>;
/// Only the length: a list is here to be a key of another type, and nothing reads its elements.
type List = usize;

const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const SYNTAX: &str = "ERR syntax error";
const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const HASH_NOT_AN_INTEGER: &str = "ERR hash value is not an integer";
const NOT_A_FLOAT: &str = "ERR value is not a valid float";
const NOT_A_RANGE: &str = "ERR min or max is not a float";
const OVERFLOW: &str = "ERR increment or decrement would overflow";

#[derive(Clone, Debug)]
enum Data {
    Hash(Hash),
    String(Bytes),
    Set(Set),
    SortedSet(SortedSet),
    List(List),
}

/// A type of value: how to find it in a key, and how a key of it begins.
trait Kind: Default {
    fn of(data: &mut Data) -> Option<&mut Self>;
    fn into_data(self) -> Data;
}

macro_rules! kinds {
    ($($kind:ty => $variant:ident),*) => {$(
        impl Kind for $kind {
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
struct Entry {
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

type Family = fn(&mut Store, i64, &str, &[Bytes]) -> Reply;

/// Name, arity as Redis counts it (the name included, negative for "at least"), effect, family.
const COMMANDS: [(&str, isize, Effect, Family); 37] = [
    ("del", -2, Writes, Store::keyspace),
    ("dbsize", 1, Reads, Store::keyspace),
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
    ("zremrangebyscore", 4, Writes, Store::sorted_set),
    ("zscore", 3, Reads, Store::sorted_set),
];

/// The keys of one master, and what it published.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    entries: BTreeMap<Bytes, Entry>,
    /// The master is at its `maxmemory` and evicts nothing: commands that grow memory are refused.
    pub(crate) oom: bool,
    /// Messages published since the owner last drained them: channel and message, oldest first.
    pub(crate) outbox: Vec<(Bytes, Bytes)>,
    /// Subscribers of each channel, kept by the owner: what `PUBLISH` answers.
    pub(crate) receivers: BTreeMap<Bytes, usize>,
    /// Inside a script: whether it has come to a command that writes.
    script: Option<bool>,
}

impl Store {
    /// Runs one command at `now_ms`, as a client would send it: the name, then its arguments.
    pub(crate) fn call(&mut self, now_ms: u64, args: &[Bytes]) -> Reply {
        let (name, rest) = args.split_first().ok_or("ERR unknown command")?;
        let known = COMMANDS
            .iter()
            .find(|known| name.eq_ignore_ascii_case(known.0.as_bytes()));
        let Some(&(name, arity, effect, family)) = known else {
            return Err(match self.script {
                Some(_) => "ERR Unknown Redis command called from script".into(),
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

    /// The key's entry, unless it has expired by `now`. Redis still has a key in the very
    /// millisecond of its deadline, with a `PTTL` of 0.
    fn live(&mut self, now: i64, key: &[u8]) -> Option<&mut Entry> {
        let deadline = self.entries.get(key)?.deadline;
        if deadline.is_some_and(|deadline| now > deadline) {
            self.entries.remove(key);
        }
        self.entries.get_mut(key)
    }

    fn find<K: Kind>(&mut self, now: i64, key: &[u8]) -> Result<Option<&mut K>, String> {
        let found = self.live(now, key);
        found
            .map(|entry| K::of(&mut entry.data).ok_or_else(|| WRONGTYPE.into()))
            .transpose()
    }

    fn find_or_create<K: Kind>(&mut self, now: i64, key: &[u8]) -> Result<&mut K, String> {
        self.live(now, key);
        let fresh = || Entry {
            data: K::default().into_data(),
            deadline: None,
        };
        let entry = self.entries.entry(key.to_vec()).or_insert_with(fresh);
        K::of(&mut entry.data).ok_or_else(|| WRONGTYPE.into())
    }

    fn keyspace(&mut self, now: i64, name: &str, args: &[Bytes]) -> Reply {
        match (name, args) {
            ("exists", keys) => int(keys.iter().filter(|key| self.live(now, key).is_some()).count()),
            ("del" | "unlink", keys) => {
                let gone =
                    |key: &&Bytes| self.live(now, key).is_some() && self.entries.remove(*key).is_some();
                int(keys.iter().filter(gone).count())
            }
            ("type", [key]) => {
                let name = match self.live(now, key).map(|entry| &entry.data) {
                    None => "none",
                    Some(Data::Hash(_)) => "hash",
                    Some(Data::String(_)) => "string",
                    Some(Data::Set(_)) => "set",
                    Some(Data::SortedSet(_)) => "zset",
                    Some(Data::List(_)) => "list",
                };
                Ok(Value::SimpleString(name.into()))
            }
            ("pttl", [key]) => Ok(Value::Int(match self.live(now, key) {
                None => -2,
                Some(entry) => entry.deadline.map_or(-1, |deadline| deadline - now),
            })),
            ("pexpire" | "pexpireat", [key, time, options @ ..]) => {
                if let Some(option) = options.first() {
                    let option = String::from_utf8_lossy(option);
                    return Err(format!("ERR Unsupported option {option}"));
                }
                let base = if name == "pexpire" { now } else { 0 };
                let deadline = integer(time, NOT_AN_INTEGER)?
                    .checked_add(base)
                    .ok_or_else(|| invalid_expire(name))?;
                let Some(entry) = self.live(now, key) else {
                    return int(0);
                };
                entry.deadline = Some(deadline);
                // A time that is not in the future deletes, and counts as done.
                if deadline <= now {
                    self.entries.remove(key);
                }
                int(1)
            }
            ("persist", [key]) => {
                let entry = self.live(now, key);
                int(usize::from(
                    entry.is_some_and(|entry| entry.deadline.take().is_some()),
                ))
            }
            ("dbsize", []) => int(self.keys(now).count()),
            ("keys", [pattern]) if pattern == b"*" => bulks(self.keys(now)),
            ("keys", _) => Err("ERR a master in memory lists keys by '*' only".into()),
            ("flushall", []) => {
                self.entries.clear();
                Ok(Value::Okay)
            }
            ("flushall", _) => Err(SYNTAX.into()),
            _ => Err(wrong_arity(name)),
        }
    }

    fn keys(&mut self, now: i64) -> impl Iterator<Item = &Bytes> {
        self.entries
            .retain(|_, entry| entry.deadline.is_none_or(|deadline| now <= deadline));
        self.entries.keys()
    }

    fn string(&mut self, now: i64, name: &str, args: &[Bytes]) -> Reply {
        match (name, args) {
            ("get", [key]) => Ok(bulk(self.find::<Bytes>(now, key)?.as_deref())),
            ("incr", [key]) => {
                let next = match self.find::<Bytes>(now, key)? {
                    None => 1,
                    Some(old) => integer(old, NOT_AN_INTEGER)?.checked_add(1).ok_or(OVERFLOW)?,
                };
                *self.find_or_create::<Bytes>(now, key)? = next.to_string().into();
                Ok(Value::Int(next))
            }
            ("set", [key, value, options @ ..]) => {
                let (mut if_absent, mut if_present, mut ttl) = (false, false, None);
                let mut options = options.iter();
                while let Some(option) = options.next() {
                    match option.to_ascii_uppercase().as_slice() {
                        b"NX" if !if_present => if_absent = true,
                        b"XX" if !if_absent => if_present = true,
                        b"PX" => ttl = Some(options.next().ok_or(SYNTAX)?),
                        _ => return Err(SYNTAX.into()),
                    }
                }
                let deadline = match ttl.map(|ttl| integer(ttl, NOT_AN_INTEGER)).transpose()? {
                    None => None,
                    Some(ttl) if ttl <= 0 => return Err(invalid_expire(name)),
                    Some(ttl) => Some(now.checked_add(ttl).ok_or_else(|| invalid_expire(name))?),
                };
                let present = self.live(now, key).is_some();
                if (if_absent && present) || (if_present && !present) {
                    return Ok(Value::Nil);
                }
                let data = Data::String(value.clone());
                self.entries.insert(key.clone(), Entry { data, deadline });
                Ok(Value::Okay)
            }
            _ => Err(wrong_arity(name)),
        }
    }

    fn hash(&mut self, now: i64, name: &str, args: &[Bytes]) -> Reply {
        match (name, args) {
            ("hset", [key, pairs @ ..]) if pairs.len().is_multiple_of(2) => {
                let hash = self.find_or_create::<Hash>(now, key)?;
                let before = hash.len();
                for pair in pairs.chunks_exact(2) {
                    slot(hash, &pair[0]).clone_from(&pair[1]);
                }
                int(hash.len() - before)
            }
            ("hset", _) => Err(wrong_arity(name)),
            ("hincrby", [key, field, by]) => {
                let by = integer(by, NOT_AN_INTEGER)?;
                let hash = self.find_or_create::<Hash>(now, key)?;
                let old = match hash.iter().find(|(name, _)| name == field) {
                    None => 0,
                    Some((_, old)) => integer(old, HASH_NOT_AN_INTEGER)?,
                };
                let next = old.checked_add(by).ok_or(OVERFLOW)?;
                *slot(hash, field) = next.to_string().into();
                Ok(Value::Int(next))
            }
            ("hdel", [key, fields @ ..]) => {
                let Some(hash) = self.find::<Hash>(now, key)? else {
                    return int(0);
                };
                let before = hash.len();
                hash.retain(|(field, _)| !fields.contains(field));
                let after = hash.len();
                self.remove_if_empty(key, after);
                int(before - after)
            }
            (_, [key, fields @ ..]) => {
                let mut none = Hash::new();
                let hash = self.find::<Hash>(now, key)?.unwrap_or(&mut none);
                let value = |field| hash.iter().find(|(name, _)| name == field).map(|pair| &pair.1);
                match (name, fields) {
                    ("hget", [field]) => Ok(bulk(value(field))),
                    ("hexists", [field]) => int(usize::from(value(field).is_some())),
                    ("hlen", []) => int(hash.len()),
                    ("hkeys", []) => bulks(hash.iter().map(|(field, _)| field)),
                    ("hvals", []) => bulks(hash.iter().map(|(_, value)| value)),
                    ("hgetall", []) => bulks(hash.iter().flat_map(|(field, value)| [field, value])),
                    _ => Err(wrong_arity(name)),
                }
            }
            _ => Err(wrong_arity(name)),
        }
    }

    fn set(&mut self, now: i64, name: &str, args: &[Bytes]) -> Reply {
        match (name, args) {
            ("sadd", [key, members @ ..]) => {
                let set = self.find_or_create::<Set>(now, key)?;
                int(members
                    .iter()
                    .filter(|member| set.insert((*member).clone()))
                    .count())
            }
            ("srem", [key, members @ ..]) => {
                let Some(set) = self.find::<Set>(now, key)? else {
                    return int(0);
                };
                let removed = members.iter().filter(|member| set.remove(*member)).count();
                let left = set.len();
                self.remove_if_empty(key, left);
                int(removed)
            }
            (_, [key, members @ ..]) => {
                let mut none = Set::new();
                let set = self.find::<Set>(now, key)?.unwrap_or(&mut none);
                match (name, members) {
                    ("sismember", [member]) => int(usize::from(set.contains(member))),
                    ("scard", []) => int(set.len()),
                    ("smembers", []) => bulks(set.iter()),
                    _ => Err(wrong_arity(name)),
                }
            }
            _ => Err(wrong_arity(name)),
        }
    }

    fn sorted_set(&mut self, now: i64, name: &str, args: &[Bytes]) -> Reply {
        match (name, args) {
            // Its options are not known here.
            ("zadd", [key, pairs @ ..]) if pairs.len().is_multiple_of(2) => {
                let scores: Result<Vec<f64>, String> = pairs
                    .iter()
                    .step_by(2)
                    .map(|text| score(text, NOT_A_FLOAT))
                    .collect();
                let scores = scores?;
                let set = self.find_or_create::<SortedSet>(now, key)?;
                let members = pairs.iter().skip(1).step_by(2);
                let added = members
                    .zip(scores)
                    .filter(|(member, score)| set.insert((*member).clone(), *score).is_none());
                int(added.count())
            }
            ("zadd", _) => Err(SYNTAX.into()),
            ("zremrangebyscore", [key, min, max]) => {
                let (min, max) = (score(min, NOT_A_RANGE)?, score(max, NOT_A_RANGE)?);
                let Some(set) = self.find::<SortedSet>(now, key)? else {
                    return int(0);
                };
                let before = set.len();
                set.retain(|_, score| *score < min || *score > max);
                let after = set.len();
                self.remove_if_empty(key, after);
                int(before - after)
            }
            (_, [key, members @ ..]) => {
                let mut none = SortedSet::new();
                let set = self.find::<SortedSet>(now, key)?.unwrap_or(&mut none);
                match (name, members) {
                    ("zscore", [member]) => {
                        let text = set.get(member).map(|score| score.to_string().into_bytes());
                        Ok(bulk(text.as_ref()))
                    }
                    ("zcard", []) => int(set.len()),
                    _ => Err(wrong_arity(name)),
                }
            }
            _ => Err(wrong_arity(name)),
        }
    }

    fn list(&mut self, now: i64, name: &str, args: &[Bytes]) -> Reply {
        match (name, args) {
            ("llen", [key]) => int(self.find::<List>(now, key)?.map_or(0, |length| *length)),
            ("lpush" | "rpush", [key, elements @ ..]) => {
                let length = self.find_or_create::<List>(now, key)?;
                *length += elements.len();
                int(*length)
            }
            _ => Err(wrong_arity(name)),
        }
    }

    fn server(&mut self, now: i64, name: &str, args: &[Bytes]) -> Reply {
        match (name, args) {
            ("publish", [channel, message]) => {
                self.outbox.push((channel.clone(), message.clone()));
                int(self.receivers.get(channel).copied().unwrap_or_default())
            }
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

/// The value of a field, made if it is not there.
fn slot<'h>(hash: &'h mut Hash, field: &Bytes) -> &'h mut Bytes {
    let found = hash.iter().position(|(name, _)| name == field);
    let index = found.unwrap_or_else(|| {
        hash.push((field.clone(), Bytes::new()));
        hash.len() - 1
    });
    &mut hash[index].1
}

/// Redis reads only the canonical form of an integer: no `+1`, no ` 1`, no `01`.
fn integer(text: &[u8], otherwise: &str) -> Result<i64, String> {
    let parsed = str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<i64>().ok());
    parsed
        .filter(|number| number.to_string().as_bytes() == text)
        .ok_or_else(|| otherwise.into())
}

fn score(text: &[u8], otherwise: &str) -> Result<f64, String> {
    let parsed = str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<f64>().ok());
    parsed
        .filter(|score| !score.is_nan())
        .ok_or_else(|| otherwise.into())
}

#[expect(clippy::unnecessary_wraps, reason = "it ends the branches of a command")]
fn int(count: usize) -> Reply {
    Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn bulk(bytes: Option<&Bytes>) -> Value {
    bytes.map_or(Value::Nil, |bytes| Value::BulkString(bytes.clone()))
}

#[expect(clippy::unnecessary_wraps, reason = "it ends the branches of a command")]
fn bulks<B: AsRef<[u8]>>(items: impl Iterator<Item = B>) -> Reply {
    Ok(Value::Array(
        items
            .map(|item| Value::BulkString(item.as_ref().to_vec()))
            .collect(),
    ))
}

fn wrong_arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

fn invalid_expire(name: &str) -> String {
    format!("ERR invalid expire time in '{name}' command")
}

fn unknown_command(name: &[u8], args: &[Bytes]) -> String {
    let name = String::from_utf8_lossy(name);
    let quoted = args.iter().map(|arg| [b"'", arg.as_slice(), b"' "].concat());
    let args = quoted.collect::<Vec<_>>().concat();
    let args = String::from_utf8_lossy(&args).replace(['\r', '\n'], " ");
    format!("ERR unknown command '{name}', with args beginning with: {args}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(store: &mut Store, now_ms: u64, line: &str) -> Reply {
        let args: Vec<Bytes> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        store.call(now_ms, &args)
    }

    fn words(words: &[&str]) -> Reply {
        bulks(words.iter())
    }

    #[test]
    fn a_key_lives_through_its_last_millisecond() {
        let store = &mut Store::default();
        assert_eq!(call(store, 1_000, "HSET lock owner 1"), int(1));
        assert_eq!(call(store, 1_000, "PTTL lock"), Ok(Value::Int(-1)));
        assert_eq!(call(store, 1_000, "PEXPIRE lock 50"), int(1));
        assert_eq!(call(store, 1_049, "PTTL lock"), int(1));
        assert_eq!(call(store, 1_050, "PTTL lock"), int(0));
        assert_eq!(call(store, 1_050, "HLEN lock"), int(1));
        assert_eq!(call(store, 1_051, "DBSIZE"), int(0));
        assert_eq!(call(store, 1_051, "PTTL lock"), Ok(Value::Int(-2)));
        // A new key under the name of an expired one has no deadline.
        assert_eq!(call(store, 1_051, "SADD lock a"), int(1));
        assert_eq!(call(store, 9_999, "PTTL lock"), Ok(Value::Int(-1)));
    }

    #[test]
    fn expiry_that_is_not_in_the_future_deletes() {
        let store = &mut Store::default();
        for ttl in ["0", "-1", "-9223372036854775808"] {
            call(store, 7, "SET k v").unwrap();
            assert_eq!(call(store, 7, &format!("PEXPIRE k {ttl}")), int(1), "{ttl}");
            assert_eq!(call(store, 7, "EXISTS k"), int(0), "{ttl}");
        }
        assert_eq!(call(store, 7, "PEXPIRE k 10"), int(0));
        for bad in ["1.5", "x", "", "+1", "01", "-0", "9223372036854775808"] {
            assert_eq!(
                call(store, 7, &format!("PEXPIRE k {bad}")),
                Err(NOT_AN_INTEGER.into()),
                "{bad}"
            );
        }
        let far = format!("PEXPIRE k {}", i64::MAX);
        assert_eq!(
            call(store, 7, &far),
            Err("ERR invalid expire time in 'pexpire' command".into())
        );
        let never = "ERR invalid expire time in 'set' command";
        assert_eq!(call(store, 7, "SET k v PX 0"), Err(never.into()));
    }

    #[test]
    fn set_answers_nil_when_its_condition_fails() {
        let store = &mut Store::default();
        assert_eq!(call(store, 0, "SET k 1 XX"), Ok(Value::Nil));
        assert_eq!(call(store, 0, "SET k 1 px 100 nx"), Ok(Value::Okay));
        assert_eq!(call(store, 0, "SET k 2 NX"), Ok(Value::Nil));
        assert_eq!(call(store, 0, "INCR k"), int(2));
        assert_eq!(call(store, 0, "PTTL k"), int(100));
        assert_eq!(call(store, 0, "SET k 3 XX"), Ok(Value::Okay));
        assert_eq!(call(store, 0, "PTTL k"), Ok(Value::Int(-1)));
        assert_eq!(call(store, 0, "SET k 1 NX XX"), Err(SYNTAX.into()));
    }

    #[test]
    fn collections_keep_order_and_vanish_when_empty() {
        let store = &mut Store::default();
        assert_eq!(call(store, 0, "HSET h b 1 a 2 b 3"), int(2));
        assert_eq!(call(store, 0, "HGETALL h"), words(&["b", "3", "a", "2"]));
        assert_eq!(call(store, 0, "HINCRBY h b -3"), int(0));
        assert_eq!(call(store, 0, "HDEL h a a b"), int(2));
        assert_eq!(call(store, 0, "TYPE h"), Ok(Value::SimpleString("none".into())));
        assert_eq!(call(store, 0, "SADD s y x y"), int(2));
        assert_eq!(call(store, 0, "SMEMBERS s"), words(&["x", "y"]));
        assert_eq!(call(store, 0, "SREM s x y z"), int(2));
        assert_eq!(call(store, 0, "KEYS *"), words(&[]));
    }

    #[test]
    fn a_sorted_set_keeps_scores_and_vanishes_when_empty() {
        let store = &mut Store::default();
        assert_eq!(call(store, 0, "ZADD z 1700000001930 a 2.5 b"), int(2));
        assert_eq!(call(store, 0, "ZADD z 7 b 3 c"), int(1));
        let text = |text: &str| Ok(bulk(Some(&text.into())));
        assert_eq!(call(store, 0, "ZSCORE z a"), text("1700000001930"));
        assert_eq!(call(store, 0, "ZSCORE z b"), text("7"));
        assert_eq!(call(store, 0, "ZSCORE z x"), Ok(Value::Nil));
        assert_eq!(call(store, 0, "ZSCORE none a"), Ok(Value::Nil));
        assert_eq!(call(store, 0, "TYPE z"), Ok(Value::SimpleString("zset".into())));
        assert_eq!(call(store, 0, "ZREMRANGEBYSCORE z -inf 7"), int(2));
        assert_eq!(call(store, 0, "ZCARD z"), int(1));
        assert_eq!(call(store, 0, "ZREMRANGEBYSCORE z 8 +inf"), int(1));
        assert_eq!(call(store, 0, "ZREMRANGEBYSCORE z 8 +inf"), int(0));
        assert_eq!(call(store, 0, "EXISTS z"), int(0));
        let float = Err("ERR value is not a valid float".into());
        assert_eq!(call(store, 0, "ZADD z nan a"), float);
        let range = Err("ERR min or max is not a float".into());
        assert_eq!(call(store, 0, "ZREMRANGEBYSCORE z x 1"), range);
        assert_eq!(call(store, 0, "ZADD z 1 a 2"), Err(SYNTAX.into()));
    }

    #[test]
    fn errors_read_as_redis_writes_them() {
        let store = &mut Store::default();
        call(store, 0, "LPUSH l 1").unwrap();
        for line in [
            "HGET l f",
            "HINCRBY l f 1",
            "SADD l x",
            "ZADD l 1 x",
            "GET l",
            "INCR l",
            "HLEN l",
        ] {
            assert_eq!(call(store, 0, line), Err(WRONGTYPE.into()), "{line}");
        }
        let arity = |name| Err(format!("ERR wrong number of arguments for '{name}' command"));
        assert_eq!(call(store, 0, "GeT"), arity("get"));
        assert_eq!(call(store, 0, "HSET h a 1 b"), arity("hset"));
        let unknown = "ERR unknown command 'NoSuch', with args beginning with: 'a' 'b' ";
        assert_eq!(call(store, 0, "NoSuch a b"), Err(unknown.into()));
    }

    #[test]
    fn a_full_master_refuses_growth_until_a_script_has_written() {
        let store = &mut Store::default();
        call(store, 0, "HSET h a 1").unwrap();
        store.oom = true;
        assert_eq!(call(store, 0, "HSET h a 2"), Err(OOM.into()));
        assert_eq!(call(store, 0, "PEXPIRE h 10"), int(1));
        assert_eq!(
            call(store, 0, "HSET h a 2"),
            Err(OOM.into()),
            "outside a script each stands alone"
        );
        store.begin_script();
        assert_eq!(call(store, 0, "PUBLISH c m"), int(0));
        assert_eq!(call(store, 0, "HSET h a 2"), Err(OOM.into()));
        assert_eq!(call(store, 0, "DEL absent"), int(0));
        assert_eq!(call(store, 0, "HSET h a 2"), int(0));
        store.end_script();
        assert_eq!(call(store, 0, "SET k v"), Err(OOM.into()));
    }

    #[test]
    fn publish_leaves_the_message_in_the_outbox() {
        let store = &mut Store::default();
        store.receivers.insert(b"c".to_vec(), 2);
        assert_eq!(call(store, 0, "PUBLISH c m"), int(2));
        assert_eq!(store.outbox, [(b"c".to_vec(), b"m".to_vec())]);
        assert_eq!(call(store, 1_234_567, "TIME"), words(&["1234", "567000"]));
    }
}
