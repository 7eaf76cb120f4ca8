//! Commands on keys of any type.

use redis::Value;

use super::reply::{
    Bytes, CommandReply, NOT_AN_INTEGER, SYNTAX, bulks, int, integer, invalid_expire, wrong_arity,
};
use super::{Data, Store};

impl Store {
    pub(super) fn keyspace(&mut self, now: i64, name: &str, args: &[Bytes]) -> CommandReply {
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
                // A deadline that is not in the future deletes the key, and counts as set.
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

    pub(super) fn keys(&mut self, now: i64) -> impl Iterator<Item = &Bytes> {
        self.entries
            .retain(|_, entry| entry.deadline.is_none_or(|deadline| now <= deadline));
        self.entries.keys()
    }
}
