//! Fencing tokens: numbers that only rise, for a resource that checks for itself who comes first.
//!
//! A token is proposed by the client and accepted by the masters together with the grant. A quorum
//! that did both has never accepted one as high for the name before, so a grant that began after
//! another was complete has the larger token, whatever the clocks say. Clocks only make the first
//! proposal large enough in the common case, in microseconds since 1970.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest number that a Lua script handles exactly.
pub(crate) const LARGEST: u64 = (1 << 53) - 1;

/// Tells the holds of a name apart in the order in which they were granted.
///
/// Hand it to the resource with every write; the resource rejects a write with a smaller token than
/// the largest it has seen. Then a holder that was paused past its lease can do no harm. Re-entry
/// gives the same token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub(crate) u64);

impl FencingToken {
    /// What a lock has that was taken with `.fenced(false)`: smaller than every other.
    pub const NONE: Self = Self(0);

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a client knows of tokens.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// The largest that it proposed, or saw on any master for any name.
    highest: AtomicU64,
}

impl Tokens {
    /// A token of `floor` or more, and above every one this client has proposed or seen.
    pub(crate) fn propose(&self, floor: u64) -> u64 {
        let next = |highest: u64| highest.saturating_add(1).max(floor).min(LARGEST);
        let before = self
            .highest
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |highest| {
                Some(next(highest))
            });
        // The update never refuses.
        next(before.unwrap_or(floor))
    }

    /// Takes note of one that a master has stored. One that nothing can be above is somebody's
    /// mistake under one name, and must not spoil the others.
    pub(crate) fn saw(&self, token: u64) {
        if token < LARGEST {
            self.highest.fetch_max(token, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_number() {
        let token = FencingToken(42);
        assert_eq!(
            (token.get(), u64::from(token), token.to_string()),
            (42, 42, "42".into())
        );
    }

    #[test]
    fn proposals_rise_above_all_that_is_known() {
        let tokens = Tokens::default();
        let first = tokens.propose(1000);
        assert_eq!(first, 1000);
        assert!(tokens.propose(0) > first, "above its own last");
        tokens.saw(5000);
        assert!(tokens.propose(0) > 5000, "above what it has seen");
        assert!(tokens.propose(9000) >= 9000);
        tokens.saw(LARGEST);
        assert!(
            tokens.propose(0) < LARGEST,
            "one name's mistake does not spoil the others"
        );
    }
}
