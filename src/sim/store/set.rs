//! Sets and lists.

use redis::Value;

use super::reply::{Bytes, CommandReply, NOT_AN_INTEGER, bulk, bulks, int, integer, wrong_arity};
use super::sorted_set::by_rank;
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
            ("llen", [key]) => int(self.find::<List>(now, key)?.map_or(0, |list| list.len())),
            ("lpush", [key, elements @ ..]) => {
                let list = self.find_or_create::<List>(now, key)?;
                list.splice(0..0, elements.iter().rev().cloned());
                int(list.len())
            }
            ("rpush", [key, elements @ ..]) => {
                let list = self.find_or_create::<List>(now, key)?;
                list.extend_from_slice(elements);
                int(list.len())
            }
            ("lpop", [key]) => {
                let Some(list) = self.find::<List>(now, key)? else {
                    return Ok(Value::Nil);
                };
                let first = list.remove(0);
                let left = list.len();
                self.remove_if_empty(key, left);
                Ok(bulk(Some(&first)))
            }
            ("lrange", [key, start, stop]) => {
                let start = integer(start, NOT_AN_INTEGER)?;
                let stop = integer(stop, NOT_AN_INTEGER)?;
                let mut none = List::new();
                let list = self.find::<List>(now, key)?.unwrap_or(&mut none);
                bulks(by_rank(list, start, stop))
            }
            _ => Err(wrong_arity(name)),
        }
    }
}
