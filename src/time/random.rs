//! The only source of randomness of a pool: the client's id, and every jitter.
//!
//! There is one source, so that a run with masters in memory can be repeated from its seed.

use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use uuid::Uuid;

/// Draws values that must not be predictable, or must differ from other clients' values.
pub(crate) struct Random(Mutex<StdRng>);

impl Random {
    /// Seeds the source from the operating system.
    pub(crate) fn from_host() -> Self {
        Self(Mutex::new(rand::make_rng()))
    }

    /// Makes a source that draws the same every time.
    #[cfg(feature = "test-util")]
    pub(crate) fn from_seed(seed: u64) -> Self {
        use rand::SeedableRng;
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// Draws any moment within `window`.
    pub(crate) fn within(&self, window: Duration) -> Duration {
        window.mul_f64(self.0.lock().random_range(0.0..1.0))
    }

    /// Draws a number below `bound`; 0 for a bound of 0.
    pub(crate) fn below(&self, bound: usize) -> usize {
        self.0.lock().random_range(0..bound.max(1))
    }

    /// Draws a seed for another source.
    pub(crate) fn seed(&self) -> u64 {
        self.0.lock().next_u64()
    }

    /// Draws a unique id. It is of version 8. The ids of Redisson's clients are of version 4, so the owner
    /// fields differ.
    pub(crate) fn uuid(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.0.lock().fill_bytes(&mut bytes);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_draw_apart() {
        assert_ne!(Random::from_host().uuid(), Random::from_host().uuid());
        assert_eq!(Random::from_host().uuid().get_version_num(), 8);
        let random = Random::from_host();
        assert_ne!(random.seed(), random.seed());
        let window = Duration::from_millis(7);
        assert!((0..100).all(|_| random.within(window) < window));
    }
}
