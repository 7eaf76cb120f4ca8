//! Causes for which masters refused a waiter.

use smallvec::SmallVec;

use crate::protocol::caption::HolderFacts;
use crate::protocol::seats::SeatSet;

/// Causes that the masters of one round gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blockers {
    /// Number of masters on which another waiter has a smaller ticket.
    pub(crate) behind_others: u8,
    /// Whether a name has the field of another library.
    pub(crate) foreign_field: bool,
    /// Whether a name is a key of another type; its client announces no release.
    pub(crate) foreign_key: bool,
    /// Whether only grants that may be idle are in the way.
    pub(crate) only_idle: bool,
    /// A holder as people know it, from the first master that reported one.
    pub(crate) holder: Option<Box<HolderFacts>>,
    /// For each name, the number of masters that refused because of it.
    pub(crate) by_name: SmallVec<[u8; 8]>,
    /// Each master that refused a permit, and the seats that it would give instead.
    pub(crate) seats: SmallVec<[(usize, SeatSet); 1]>,
}

impl Blockers {
    /// Adds one master's answer: a letter for each name, as in `lua/acquire.lua`, and the holder.
    pub(crate) fn add(&mut self, causes: &str, holder: Option<Box<HolderFacts>>) {
        self.holder = self.holder.take().or(holder);
        let is_first = self.by_name.is_empty();
        let may_be_idle = causes.bytes().all(|cause| matches!(cause, b'-' | b'i'));
        self.only_idle = may_be_idle && (self.only_idle || is_first);
        let is_behind = |cause: u8| cause == b'a' || cause.is_ascii_uppercase();
        self.behind_others += u8::from(causes.bytes().any(is_behind));
        self.by_name.resize(self.by_name.len().max(causes.len()), 0);
        for (count, cause) in self.by_name.iter_mut().zip(causes.bytes()) {
            *count += u8::from(cause != b'-');
            self.foreign_field |= cause.eq_ignore_ascii_case(&b'h');
            self.foreign_key |= cause.eq_ignore_ascii_case(&b's');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_add_up() {
        let mut blockers = Blockers::default();
        blockers.add("o-", None);
        let labelled = |label: &str| {
            Some(Box::new(HolderFacts {
                label: Some(label.into()),
                ..HolderFacts::default()
            }))
        };
        blockers.add("-H", labelled("one"));
        blockers.add("oa", labelled("other"));
        assert_eq!(blockers.holder, labelled("one"));
        assert_eq!(blockers.by_name.as_slice(), [2, 2]);
        assert!(blockers.behind_others == 2 && blockers.foreign_field && !blockers.foreign_key);
        let mut idle = Blockers::default();
        idle.add("-i", None);
        idle.add("i-", None);
        assert!(idle.only_idle);
        idle.add("o", None);
        idle.add("i", None);
        assert!(!idle.only_idle && !blockers.only_idle);
        let mut alone = Blockers::default();
        alone.add("s", None);
        assert!(alone.foreign_key && alone.behind_others == 0 && !alone.foreign_field);
    }
}
