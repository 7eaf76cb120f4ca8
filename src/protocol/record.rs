//! Record of a master: its set of masters, the run of its server, and since when its memory counts.
//!
//! `lua/introduce.lua` stores the record. A client reads it only when it sets a connection up. With `strict`
//! each grant repeats the record's text, which shows that the memory was not wiped.

use std::sync::Arc;
use std::time::Duration;

use crate::values::master_set::MasterSet;

/// Separates the process from the data that it took over when it was promoted, in a run.
pub(crate) const PROMOTED: char = '-';

/// Whether a server of one run is still in it at a `later` time. Redis forgets a promotion when the server has had no
/// replica for `repl-backlog-ttl`.
pub(crate) fn is_same_run(run: &str, later: &str) -> bool {
    run.strip_prefix(later)
        .is_some_and(|rest| rest.is_empty() || (rest.starts_with(PROMOTED) && !later.contains(PROMOTED)))
}

/// Placeholder in the record for the run of a server that hides it.
pub(crate) const HIDDEN: &str = "-";

/// Value of the key `multilock_set` of a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) set: MasterSet,
    run: String,
    since_us: u64,
    pub(crate) text: Arc<str>,
}

impl Record {
    /// Parses a record; `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = |word: &str| word.parse::<u64>().ok();
        let mut words = text.split(' ');
        let mut next = || words.next().filter(|word| !word.is_empty());
        let (masters, run, since_us) = (number(next()?)?, next()?, number(next()?)?);
        let for_tests = match next() {
            Some(longest) => Some(Duration::from_millis(number(longest)?)),
            None => None,
        };
        Some(Self {
            set: MasterSet {
                masters: usize::try_from(masters).ok()?,
                for_tests,
            },
            run: run.to_owned(),
            since_us,
            text: text.into(),
        })
    }

    /// Time for which the memory has counted when the master's clock shows `clock_us`. `None` for a record
    /// - of another run,
    /// - of a hidden run, which is not distinct from other runs,
    /// - from a time that is still to come.
    pub(crate) fn age(&self, run: Option<&str>, clock_us: u64) -> Option<Duration> {
        let age = clock_us.checked_sub(self.since_us).map(Duration::from_micros);
        age.filter(|_| run.is_some_and(|run| is_same_run(&self.run, run)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_run_that_stored_it_is_vouched_for() {
        let record = Record::parse("3 ab-cd 5000000").expect("a record");
        assert_eq!((record.set.masters, record.set.for_tests), (3, None));
        for (run, counts) in [
            ("ab-cd", true),
            ("ab", true),
            ("ab-ce", false),
            ("ab-c", false),
            ("a", false),
            ("", false),
        ] {
            let age = record.age(Some(run), 7_000_000);
            assert_eq!(age, counts.then_some(Duration::from_secs(2)), "{run}");
        }
        let unpromoted = Record::parse("3 ab 5000000").expect("a record");
        assert_eq!(unpromoted.age(Some("ab-cd"), 7_000_000), None, "promoted since");
        assert_eq!(record.age(None, 7_000_000), None);
        assert_eq!(record.age(Some("ab-cd"), 4_999_999), None, "from the future");
        let hidden = Record::parse("3 - 5000000").expect("a record");
        assert_eq!(hidden.age(None, 7_000_000), None);
    }

    #[test]
    fn a_set_for_tests_tells_its_longest_lease() {
        let record = Record::parse("1 ab 5 2000").expect("a record");
        assert_eq!(record.set.for_tests, Some(Duration::from_secs(2)));
    }

    #[test]
    fn what_is_no_record_is_none() {
        for text in [
            "",
            "3",
            "3 ab",
            "3 ab soon",
            "three ab 5",
            "3 ab 5 long",
            "3  5",
            "-1 ab 5",
        ] {
            assert_eq!(Record::parse(text), None, "{text:?}");
        }
    }
}
