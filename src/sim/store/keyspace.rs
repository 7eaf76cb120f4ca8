//! Commands on keys of any type.

use redis::Value;

use super::pattern::matches;
use super::reply::{
    Bytes, CommandReply, NOT_AN_INTEGER, SYNTAX, bulks, int, integer, invalid_expire, wrong_arity,
};
use super::{Store, StoredValue};

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
                let name = self.live(now, key).map_or("none", |entry| entry.data.type_name());
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
            ("scan", [cursor, options @ ..]) => self.scan(now, cursor, options),
            ("keys", _) => Err("ERR a master in memory lists keys by '*' only".into()),
            ("flushall", []) => {
                self.entries.clear();
                Ok(Value::Okay)
            }
            ("flushall", _) => Err(SYNTAX.into()),
            _ => Err(wrong_arity(name)),
        }
    }

    /// All matching keys from the cursor on, at most as many as `COUNT` says. The cursor is a number of keys.
    fn scan(&mut self, now: i64, cursor: &Bytes, options: &[Bytes]) -> CommandReply {
        let skipped =
            usize::try_from(integer(cursor, "ERR invalid cursor")?).map_err(|_| "ERR invalid cursor")?;
        let (mut pattern, mut count, mut kind) = (b"*".to_vec(), 10, None);
        for option in options.chunks(2) {
            match option {
                [name, value] if name.eq_ignore_ascii_case(b"match") => pattern.clone_from(value),
                [name, value] if name.eq_ignore_ascii_case(b"count") => {
                    count = usize::try_from(integer(value, NOT_AN_INTEGER)?).map_err(|_| SYNTAX)?;
                }
                [name, value] if name.eq_ignore_ascii_case(b"type") => kind = Some(value),
                _ => return Err(SYNTAX.into()),
            }
        }
        let all = self.keys(now).count();
        let some = self.entries.iter().skip(skipped).take(count);
        let is_of_kind =
            |entry: &StoredValue| kind.is_none_or(|kind| kind == entry.data.type_name().as_bytes());
        let matching = some.filter(|(key, entry)| is_of_kind(entry) && matches(&pattern, key));
        let found = bulks(matching.map(|(key, _)| key))?;
        let next = skipped.saturating_add(count);
        let next = if next < all { next } else { 0 };
        Ok(Value::Array(vec![
            Value::BulkString(next.to_string().into_bytes()),
            found,
        ]))
    }

    pub(super) fn keys(&mut self, now: i64) -> impl Iterator<Item = &Bytes> {
        self.entries
            .retain(|_, entry| entry.deadline.is_none_or(|deadline| now <= deadline));
        self.entries.keys()
    }
}
