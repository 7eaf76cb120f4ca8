//! Strings, and the counters in them.

use redis::Value;

use super::reply::{
    Bytes, CommandReply, NOT_AN_INTEGER, OVERFLOW, SYNTAX, bulk, integer, invalid_expire, wrong_arity,
};
use super::{Data, Store, StoredValue};

impl Store {
    pub(super) fn string(&mut self, now: i64, name: &str, args: &[Bytes]) -> CommandReply {
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
                self.entries.insert(key.clone(), StoredValue { data, deadline });
                Ok(Value::Okay)
            }
            _ => Err(wrong_arity(name)),
        }
    }
}
