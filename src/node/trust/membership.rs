//! Set of each master, by its record.
//!
//! Clients that list different numbers of masters may have quorums that do not meet. So if any master reports
//! another set, all masters refuse this client, and it stores nothing.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::Unfit;
use crate::values::master_set::MasterSet;

/// Sets that the masters have reported.
pub(crate) struct Membership {
    /// Set that this client lists.
    pub(crate) listed: MasterSet,
    masters: Mutex<Vec<ListedMaster>>,
    /// Notified at each report that is a change.
    pub(crate) news: Notify,
}

struct ListedMaster {
    label: Arc<str>,
    report: MasterReport,
}

/// State of a master's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MasterReport {
    /// No report yet.
    Awaited,
    /// The master could not be connected.
    Silent,
    /// The master had no record, or the record of this or another set.
    Set(Option<MasterSet>),
}

impl Membership {
    pub(crate) fn new<'a>(listed: MasterSet, labels: impl Iterator<Item = &'a Arc<str>>) -> Self {
        let master = |label: &Arc<str>| ListedMaster {
            label: Arc::clone(label),
            report: MasterReport::Awaited,
        };
        Self {
            listed,
            masters: Mutex::new(labels.map(master).collect()),
            news: Notify::new(),
        }
    }

    /// Takes in the set of a master's record, if it has one.
    pub(crate) fn note_set(&self, node: usize, set: Option<MasterSet>) {
        self.note(node, MasterReport::Set(set));
    }

    /// Notes that an attempt to connect to a master has failed before its report.
    pub(crate) fn failed(&self, node: usize) {
        self.note(node, MasterReport::Silent);
    }

    /// Whether every master has reported, or could not be connected.
    pub(crate) fn is_complete(&self) -> bool {
        self.masters
            .lock()
            .iter()
            .all(|master| master.report != MasterReport::Awaited)
    }

    /// Refuses this client if any master reports another set.
    pub(crate) fn check(&self) -> Result<(), Unfit> {
        let masters = self.masters.lock();
        let mut others = masters.iter().filter_map(|master| match master.report {
            MasterReport::Set(Some(set)) if set != self.listed => Some((master, set)),
            _ => None,
        });
        match others.next() {
            None => Ok(()),
            Some((master, set)) => Err(Unfit::OtherSet {
                reported_by: Arc::clone(&master.label),
                set,
                listed: self.listed,
            }),
        }
    }

    fn note(&self, node: usize, report: MasterReport) {
        let before = std::mem::replace(&mut self.masters.lock()[node].report, report);
        if before != report {
            self.news.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn set(masters: usize) -> MasterSet {
        MasterSet {
            masters,
            for_tests: None,
        }
    }

    fn three() -> Membership {
        let labels: Vec<Arc<str>> = ["a", "b", "c"].map(Arc::from).into();
        Membership::new(set(3), labels.iter())
    }

    #[test]
    fn one_master_of_another_set_is_enough() {
        let three = three();
        assert_eq!(three.check(), Ok(()), "no record was read");
        three.note_set(0, Some(set(3)));
        three.note_set(1, None);
        assert_eq!(three.check(), Ok(()));
        three.note_set(2, Some(set(5)));
        let refusal = three.check().expect_err("another number");
        assert!(
            refusal.to_string().starts_with("c is in a set of 5 masters"),
            "{refusal}"
        );
        three.failed(2);
        assert_eq!(three.check(), Ok(()), "it tells no more");
    }

    #[test]
    fn a_set_for_tests_is_another_one() {
        let three = three();
        let for_tests = MasterSet {
            for_tests: Some(Duration::from_secs(30)),
            ..set(3)
        };
        three.note_set(0, Some(for_tests));
        assert!(three.check().is_err());
    }

    #[test]
    fn a_master_that_cannot_be_connected_is_not_waited_for() {
        let three = three();
        three.note_set(0, None);
        three.note_set(1, Some(set(3)));
        assert!(!three.is_complete());
        three.failed(2);
        assert!(three.is_complete());
    }
}
