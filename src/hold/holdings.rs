//! The holds of one owner, found by their names.
//!
//! Weak, so that an owner that outlives its guards keeps nothing alive. Nearly every owner has one hold
//! at a time and pays for no more.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use crate::hold::tenure::{Hold, Tenure};
use crate::names::Names;

/// An index begins with room for so many names.
const ROOM: usize = 8;

#[derive(Debug, Default)]
pub(crate) enum Holdings {
    #[default]
    None,
    One(Weak<Tenure>, u32),
    Many(Box<Index>),
}

/// Several holds, by the digest of each of their names.
#[derive(Debug, Default)]
pub(crate) struct Index(HashMap<u64, SmallVec<[WeakHold; 1]>>);

/// A hold in its tenure.
#[derive(Debug)]
struct WeakHold(Weak<Tenure>, u32);

impl WeakHold {
    fn upgrade(&self) -> Option<Hold> {
        upgrade(&self.0, self.1)
    }

    fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Holdings {
    pub(crate) fn insert(&mut self, hold: &Hold) {
        let other = match self {
            Self::Many(index) => return index.insert(hold),
            Self::One(tenure, number) => upgrade(tenure, *number),
            Self::None => None,
        };
        *self = match other {
            Some(other) => {
                let mut index = Box::<Index>::default();
                index.insert(&other);
                index.insert(hold);
                Self::Many(index)
            }
            None => Self::One(Arc::downgrade(&hold.tenure), hold.number),
        };
    }

    /// Takes a hold out that has ended.
    pub(crate) fn remove(&mut self, hold: &Hold) {
        let empty = match self {
            Self::None => return,
            Self::One(tenure, number) => is(tenure, *number, hold),
            Self::Many(index) => {
                index.remove(hold);
                index.0.is_empty()
            }
        };
        if empty {
            *self = Self::None;
        }
    }

    /// What `take` makes of the first hold that it accepts, of those that may have a name of these.
    pub(crate) fn find<T>(&self, names: &Names, mut take: impl FnMut(Hold) -> Option<T>) -> Option<T> {
        match self {
            Self::None => None,
            Self::One(tenure, number) => upgrade(tenure, *number).and_then(take),
            Self::Many(index) => names.iter().find_map(|name| {
                let holds = index.0.get(&index.0.hasher().hash_one(name))?;
                holds.iter().filter_map(WeakHold::upgrade).find_map(&mut take)
            }),
        }
    }
}

impl Index {
    fn insert(&mut self, hold: &Hold) {
        let names = &hold.tenure.names;
        if self.0.len() + names.len() > self.0.capacity() {
            self.tidy(names.len());
        }
        for name in names.iter() {
            let digest = self.0.hasher().hash_one(name);
            let holds = self.0.entry(digest).or_default();
            holds.retain(|hold| hold.is_alive());
            holds.push(WeakHold(Arc::downgrade(&hold.tenure), hold.number));
        }
    }

    fn remove(&mut self, hold: &Hold) {
        for name in hold.tenure.names.iter() {
            let digest = self.0.hasher().hash_one(name);
            if let Some(holds) = self.0.get_mut(&digest) {
                holds.retain(|other| !is(&other.0, other.1, hold));
                if holds.is_empty() {
                    self.0.remove(&digest);
                }
            }
        }
    }

    /// Drops what is gone without having been taken out, and makes room for as much again as there is:
    /// all is looked through only when it has doubled.
    fn tidy(&mut self, more: usize) {
        self.0.retain(|_, holds| {
            holds.retain(|hold| hold.is_alive());
            !holds.is_empty()
        });
        self.0.reserve(self.0.len().max(ROOM) + more);
    }
}

fn upgrade(tenure: &Weak<Tenure>, number: u32) -> Option<Hold> {
    tenure.upgrade().map(|tenure| Hold { tenure, number })
}

fn is(tenure: &Weak<Tenure>, number: u32, hold: &Hold) -> bool {
    number == hold.number && std::ptr::eq(tenure.as_ptr(), Arc::as_ptr(&hold.tenure))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hold::tenure::tests::hold_on;

    fn hold(names: impl Into<Names>) -> Hold {
        hold_on(names.into(), Duration::from_secs(30))
    }

    fn looked_at(holdings: &Holdings, name: &str) -> usize {
        let mut count = 0;
        let none = holdings.find(&name.into(), |_| {
            count += 1;
            None::<()>
        });
        assert_eq!(none, None);
        count
    }

    #[test]
    fn one_of_very_many_is_found_without_looking_at_the_others() {
        let mut holdings = Holdings::default();
        let all: Vec<_> = (0..10_000).map(|n| hold(format!("name {n}"))).collect();
        for hold in &all {
            holdings.insert(hold);
        }
        assert_eq!(looked_at(&holdings, "name 7"), 1);
        assert_eq!(looked_at(&holdings, "another"), 0);
        for hold in &all {
            holdings.remove(hold);
        }
        assert!(matches!(holdings, Holdings::None), "{holdings:?}");
    }

    #[test]
    fn a_hold_is_found_by_each_of_its_names() {
        let mut holdings = Holdings::default();
        let (first, second) = (hold(["a", "b"]), hold("c"));
        holdings.insert(&first);
        holdings.insert(&second);
        for name in ["a", "b", "c"] {
            assert_eq!(looked_at(&holdings, name), 1, "{name}");
        }
        holdings.remove(&first);
        assert_eq!((looked_at(&holdings, "b"), looked_at(&holdings, "c")), (0, 1));
    }

    #[test]
    fn what_was_leaked_takes_no_room() {
        let mut holdings = Holdings::default();
        let kept = hold("kept");
        holdings.insert(&kept);
        for n in 0..10_000 {
            holdings.insert(&hold(format!("leaked {n}")));
        }
        let Holdings::Many(index) = &holdings else {
            panic!("{holdings:?}");
        };
        assert!(index.0.capacity() < 100, "{}", index.0.capacity());
        assert_eq!(looked_at(&holdings, "kept"), 1);
    }

    #[test]
    fn most_owners_pay_for_one_hold() {
        assert_eq!(size_of::<Holdings>(), 2 * size_of::<usize>());
    }
}
