//! What stood in the way of a waiter, as the masters that refused it have told.

use std::sync::Arc;

use smallvec::SmallVec;

/// What the masters of one round said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blockers {
    /// On how many masters somebody waits with a smaller ticket.
    pub(crate) behind_others: u8,
    /// Another library's field stands under a name.
    pub(crate) foreign_field: bool,
    /// A key of another type does: whoever made it announces nothing.
    pub(crate) foreign_key: bool,
    /// What a client calls itself that holds, by the first master that told.
    pub(crate) holder: Option<Arc<str>>,
    /// For each name, how many masters refused on its account.
    pub(crate) by_name: SmallVec<[u8; 8]>,
}

impl Blockers {
    /// Adds what one master said: a letter for each name, as `lua/acquire.lua` gives them, and who holds.
    pub(crate) fn add(&mut self, causes: &str, holder: Option<Arc<str>>) {
        self.holder = self.holder.take().or(holder);
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
        let mut told = Blockers::default();
        told.add("o-", None);
        told.add("-H", Some("one".into()));
        told.add("oa", Some("other".into()));
        assert_eq!(told.holder.as_deref(), Some("one"));
        assert_eq!(told.by_name.as_slice(), [2, 2]);
        assert!(told.behind_others == 2 && told.foreign_field && !told.foreign_key);
        let mut alone = Blockers::default();
        alone.add("s", None);
        assert!(alone.foreign_key && alone.behind_others == 0 && !alone.foreign_field);
    }
}
