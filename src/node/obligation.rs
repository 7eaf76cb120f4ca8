//! Releases that are owed to a master that could not be told.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::request::Request;

/// A release to be sent as soon as the master can be reached, however long that takes: a master that
/// was frozen for longer than the lease executes the acquire it was sent when it thaws.
pub(super) type Obligation = Arc<Request>;

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

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> Vec<Obligation> {
        self.queue.drain(..).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fence::FencingToken;
    use crate::script;

    #[test]
    fn bounded() {
        let mut obligations = Obligations::default();
        let fence = script::Fence {
            token: FencingToken::NONE,
            retention: Duration::ZERO,
        };
        for _ in 0..MOST + 10 {
            obligations.add(script::release(&"a".into(), "me:1", true, fence));
        }
        assert_eq!(obligations.take().len(), MOST);
        assert!(obligations.is_empty());
    }
}
