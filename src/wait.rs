//! Between two rounds: how long to sleep before the next one.

use std::time::Duration;

use rand::RngExt;

use crate::error::LockError;

/// The first window from which a pause is drawn, and the widest.
const NARROWEST: Duration = Duration::from_millis(4);
const WIDEST: Duration = Duration::from_millis(100);

/// Draws the pauses of one waiter. Each window is twice the one before, and a pause is anywhere in
/// it: contenders that met in one round are spread over the next, so one of them soon wins. In step,
/// they would split the votes for ever.
#[derive(Debug)]
pub(crate) struct Pauses {
    window: Duration,
}

impl Pauses {
    pub(crate) fn new() -> Self {
        Self { window: NARROWEST }
    }

    /// How long to sleep after `obstacle`: never past the moment when the holder's lease ends.
    pub(crate) fn after(&mut self, obstacle: &LockError) -> Duration {
        let pause = self.window.mul_f64(rand::rng().random_range(0.0..1.0));
        self.window = (self.window * 2).min(WIDEST);
        match obstacle {
            LockError::Contended { retry_after, .. } => pause.min(*retry_after),
            _ => pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vote::Votes;

    #[test]
    fn pauses_grow_to_their_limit_and_end_with_the_lease() {
        let held = |retry_after| LockError::Contended {
            retry_after,
            votes: Votes::default(),
        };
        let mut pauses = Pauses::new();
        for round in 0..100 {
            let most = (NARROWEST * 2_u32.saturating_pow(round)).min(WIDEST);
            assert!(pauses.after(&held(Duration::from_secs(9))) < most);
        }
        assert!(pauses.after(&held(Duration::from_nanos(1))) <= Duration::from_nanos(1));
    }
}
