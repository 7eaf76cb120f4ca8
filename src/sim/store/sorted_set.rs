//! Sorted sets.

use super::reply::{Bytes, NOT_A_FLOAT, NOT_A_RANGE, Reply, SYNTAX, bulk, int, score, wrong_arity};
use super::{SortedSet, Store};

impl Store {
    pub(super) fn sorted_set(&mut self, now: i64, name: &str, args: &[Bytes]) -> Reply {
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
}
