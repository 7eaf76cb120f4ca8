//! Hashes.

use redis::Value;

use super::reply::{
    Bytes, CommandReply, HASH_NOT_AN_INTEGER, NOT_AN_INTEGER, OVERFLOW, bulk, bulks, int, integer,
    wrong_arity,
};
use super::{Hash, Store};

impl Store {
    pub(super) fn hash(&mut self, now: i64, name: &str, args: &[Bytes]) -> CommandReply {
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
}

/// Value of a field, made if it does not exist.
fn slot<'h>(hash: &'h mut Hash, field: &Bytes) -> &'h mut Bytes {
    let found = hash.iter().position(|(name, _)| name == field);
    let index = found.unwrap_or_else(|| {
        hash.push((field.clone(), Bytes::new()));
        hash.len() - 1
    });
    &mut hash[index].1
}
