//! Random pauses that grow: after a split vote, during an outage of masters, and behind clients that announce nothing.

use std::time::Duration;

use crate::time::random::Random;

/// Widest windows from which a pause is drawn: after a split vote, and during an outage.
pub(crate) const SPLIT: Duration = Duration::from_millis(100);
pub(crate) const OUTAGE: Duration = Duration::from_secs(1);
/// First window.
const NARROWEST: Duration = Duration::from_millis(2);

/// Draws the pauses of one waiter. Each window is twice the one before, and a pause is anywhere in it. So
/// waiters that began together do not go on in step.
pub(crate) struct Pauses<'a> {
    window: Duration,
    random: &'a Random,
}

impl<'a> Pauses<'a> {
    pub(crate) fn new(random: &'a Random) -> Self {
        Self {
            window: NARROWEST,
            random,
        }
    }

    pub(crate) fn next(&mut self, widest: Duration) -> Duration {
        let window = self.window.min(widest);
        self.window = (self.window * 2).min(widest);
        self.random.within(window)
    }

    /// Pause from a window that does not grow.
    pub(crate) fn within(&self, window: Duration) -> Duration {
        self.random.within(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_limit() {
        let random = Random::from_host();
        let mut pauses = Pauses::new(&random);
        for round in 0..100 {
            let most = (NARROWEST * 2_u32.saturating_pow(round)).min(SPLIT);
            assert!(pauses.next(SPLIT) < most);
        }
        let longest = (0..1000).map(|_| pauses.next(SPLIT)).max();
        assert!(longest > Some(SPLIT / 2), "{longest:?}");
    }
}
