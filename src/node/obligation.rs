//! Releases that are owed to a master that could not be told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::script::Request;

/// A release to be sent as soon as the master can be reached, unless the lease has ended by then.
#[derive(Clone, Debug)]
pub(crate) struct Obligation {
    pub(crate) release: Arc<Request>,
    pub(crate) incurred: Moment,
    /// After this the master has forgotten by itself.
    pub(crate) lease: Duration,
}

/// What is owed to one master, oldest first. Bounded: over it the oldest is left to its lease.
#[derive(Debug, Default)]
pub(super) struct Obligations {
    queue: VecDeque<Obligation>,
}

const MOST: usize = 16_384;

impl Obligations {
    pub(super) fn add(&mut self, obligation: Obligation) {
        if self.queue.len() >= MOST {
            self.queue.pop_front();
            tracing::warn!(
                most = MOST,
                "too many releases owed to one master; the oldest is left to its lease"
            );
        }
        self.queue.push_back(obligation);
    }

    /// Takes out all that still matter.
    pub(super) fn take(&mut self, clock: Clock) -> Vec<Obligation> {
        let now = clock.now();
        self.queue
            .drain(..)
            .filter(|owed| now.since(owed.incurred) < owed.lease)
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script;

    fn owed(lease: Duration) -> Obligation {
        Obligation {
            release: script::release(&"a".into(), "me:1", true),
            incurred: Clock::Host.now(),
            lease,
        }
    }

    #[test]
    fn bounded_and_forgotten_with_the_lease() {
        let mut obligations = Obligations::default();
        obligations.add(owed(Duration::ZERO));
        obligations.add(owed(Duration::from_secs(60)));
        assert_eq!(obligations.take(Clock::Host).len(), 1);
        assert!(obligations.is_empty());
        for _ in 0..MOST + 10 {
            obligations.add(owed(Duration::from_secs(60)));
        }
        assert_eq!(obligations.take(Clock::Host).len(), MOST);
    }
}
