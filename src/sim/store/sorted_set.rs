//! Sorted sets.

use redis::Value;

use super::reply::{
    Bytes, CommandReply, LIMIT_OF_RANKS, NOT_AN_INTEGER, SYNTAX, bound, bulk, bulks, decimal, int, integer,
    score, wrong_arity,
};
use super::{SortedSet, Store};

impl Store {
    pub(super) fn sorted_set(&mut self, now: i64, name: &str, args: &[Bytes]) -> CommandReply {
        match (name, args) {
            ("zadd", [key, word, pairs @ ..]) if word.eq_ignore_ascii_case(b"nx") => {
                self.add_scored(now, key, pairs, true)
            }
            ("zadd", [key, pairs @ ..]) => self.add_scored(now, key, pairs, false),
            ("zrem", [key, members @ ..]) => {
                self.remove_scored(now, key, |_, member| members.contains(member))
            }
            ("zremrangebyscore", [key, min, max]) => {
                let range = Range::parse(min, max)?;
                self.remove_scored(now, key, |score, _| range.contains(score))
            }
            ("zrange", [key, start, stop, options @ ..]) => {
                let options = RangeOptions::parse(options)?;
                if options.count != ALL {
                    return Err(LIMIT_OF_RANKS.into());
                }
                let start = integer(start, NOT_AN_INTEGER)?;
                let stop = integer(stop, NOT_AN_INTEGER)?;
                let mut none = SortedSet::new();
                let set = self.find::<SortedSet>(now, key)?.unwrap_or(&mut none);
                members(by_rank(set, start, stop), options.with_scores)
            }
            ("zrangebyscore", [key, min, max, options @ ..]) => {
                let options = RangeOptions::parse(options)?;
                let range = Range::parse(min, max)?;
                let mut none = SortedSet::new();
                let set = self.find::<SortedSet>(now, key)?.unwrap_or(&mut none);
                let within = set.iter().filter(|(score, _)| range.contains(*score));
                members(options.limit(within), options.with_scores)
            }
            (_, [key, args @ ..]) => {
                let mut none = SortedSet::new();
                let set = self.find::<SortedSet>(now, key)?.unwrap_or(&mut none);
                match (name, args) {
                    ("zscore", [member]) => {
                        let found = set.iter().find(|(_, other)| other == member);
                        Ok(bulk(found.map(|(score, _)| decimal(*score).into()).as_ref()))
                    }
                    ("zrank", [member]) => {
                        let place = set.iter().position(|(_, other)| other == member);
                        place.map_or(Ok(Value::Nil), int)
                    }
                    ("zcard", []) => int(set.len()),
                    _ => Err(wrong_arity(name)),
                }
            }
            _ => Err(wrong_arity(name)),
        }
    }

    /// Adds members. `NX` is the only option here: with it, existing members stay unchanged.
    fn add_scored(&mut self, now: i64, key: &Bytes, pairs: &[Bytes], only_new: bool) -> CommandReply {
        if !pairs.len().is_multiple_of(2) || pairs.is_empty() {
            return Err(SYNTAX.into());
        }
        let pairs = pairs.chunks_exact(2).map(|pair| Ok((score(&pair[0])?, &pair[1])));
        let pairs: Vec<_> = pairs.collect::<Result<_, String>>()?;
        let set = self.find_or_create::<SortedSet>(now, key)?;
        let before = set.len();
        for (score, member) in pairs {
            if only_new && set.iter().any(|(_, other)| other == member) {
                continue;
            }
            set.retain(|(_, other)| other != member);
            let place = set.partition_point(|(other, name)| (*other, name) < (score, member));
            // Small sets store integers as such, and their 0 has no sign.
            set.insert(place, (score + 0.0, member.clone()));
        }
        int(set.len() - before)
    }

    fn remove_scored(&mut self, now: i64, key: &Bytes, goes: impl Fn(f64, &Bytes) -> bool) -> CommandReply {
        let Some(set) = self.find::<SortedSet>(now, key)? else {
            return int(0);
        };
        let before = set.len();
        set.retain(|(score, member)| !goes(*score, member));
        let after = set.len();
        self.remove_if_empty(key, after);
        int(before - after)
    }
}

/// A range of scores.
struct Range {
    min: (f64, bool),
    max: (f64, bool),
}

impl Range {
    fn parse(min: &[u8], max: &[u8]) -> Result<Self, String> {
        Ok(Self {
            min: bound(min)?,
            max: bound(max)?,
        })
    }

    fn contains(&self, score: f64) -> bool {
        let ((min, above), (max, below)) = (self.min, self.max);
        let reaches = if above { min < score } else { min <= score };
        reaches && if below { score < max } else { score <= max }
    }
}

/// Options after a range.
struct RangeOptions {
    with_scores: bool,
    offset: i64,
    count: i64,
}

/// Count without a limit, like every other negative count.
const ALL: i64 = -1;

impl RangeOptions {
    fn parse(words: &[Bytes]) -> Result<Self, String> {
        let mut options = Self {
            with_scores: false,
            offset: 0,
            count: ALL,
        };
        let mut rest = words;
        while let [word, after @ ..] = rest {
            rest = match (word.to_ascii_lowercase().as_slice(), after) {
                (b"withscores", _) => {
                    options.with_scores = true;
                    after
                }
                (b"limit", [first, most, after @ ..]) => {
                    options.offset = integer(first, NOT_AN_INTEGER)?;
                    options.count = integer(most, NOT_AN_INTEGER)?;
                    after
                }
                _ => return Err(SYNTAX.into()),
            };
        }
        Ok(options)
    }

    fn limit<T>(&self, found: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        // Redis counts a negative offset down past the last member.
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        found.skip(offset).take(count)
    }
}

/// Items from one place to another, both included. A negative place is counted from the end.
pub(super) fn by_rank<T>(items: &[T], start: i64, stop: i64) -> impl Iterator<Item = &T> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let place = |index: i64| if index < 0 { length + index } else { index };
    let (start, stop) = (place(start).max(0), place(stop));
    (0..)
        .zip(items)
        .filter_map(move |(index, entry)| (start..=stop).contains(&index).then_some(entry))
}

fn members<'s>(entries: impl Iterator<Item = &'s (f64, Bytes)>, with_scores: bool) -> CommandReply {
    bulks(entries.flat_map(|(score, member)| {
        let score = with_scores.then(|| decimal(*score).into());
        [Some(member.clone()), score].into_iter().flatten()
    }))
}
