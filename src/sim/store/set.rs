//! Sets and lists.

use super::reply::{Bytes, CommandReply, bulks, int, wrong_arity};
use super::{List, Set, Store};

impl Store {
    pub(super) fn set(&mut self, now: i64, name: &str, args: &[Bytes]) -> CommandReply {
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

    pub(super) fn list(&mut self, now: i64, name: &str, args: &[Bytes]) -> CommandReply {
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
}
