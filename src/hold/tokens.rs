//! Fencing tokens that a client proposes, in blocks.
//!
//! A block begins with the time that the masters' clocks show. It begins higher only if a fence is above the
//! clocks, and a fence is a token that masters have accepted. A refused block is stored nowhere, so the next
//! block may have its tokens: each master accepts a token once. If refused blocks counted, tries alone would
//! drive a name's tokens away from the clocks, further than a master's floor reaches after a restart.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::values::names::Names;
use crate::values::token::FencingToken;

/// A client's knowledge of tokens.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// Fences that were above the clocks when masters reported or accepted them, by name. Each counts for its
    /// own name: an error in one must not spoil the others.
    ahead: Mutex<AheadMasters>,
    /// Whether there are any.
    any_ahead: AtomicBool,
}

#[derive(Debug, Default)]
struct AheadMasters {
    fences: HashMap<Box<str>, u64>,
    /// Number of fences above which those that the clocks have passed are removed.
    full: usize,
}

/// Least number of fences for a removal to be worthwhile.
const FEW: usize = 64;

impl Tokens {
    /// Proposes the first token of a block for these names. It is the time of the masters' clocks or `least`,
    /// and above all known fences of the names.
    pub(crate) fn propose(&self, names: &Names, clock_us: u64, least: u64) -> FencingToken {
        let least = least.max(clock_us);
        if !self.any_ahead.load(Ordering::Relaxed) {
            return FencingToken(least);
        }
        let mut ahead = self.ahead();
        let fence = names.iter().filter_map(|name| ahead.fences.get(name)).max();
        let Some(fence) = fence.copied() else {
            return FencingToken(least);
        };
        if fence < clock_us {
            ahead.forget(names);
            self.any_ahead.store(!ahead.fences.is_empty(), Ordering::Relaxed);
        }
        FencingToken(least.max(fence + 1))
    }

    /// Notes a fence of these names that masters reported or accepted, when their clocks showed `clock_us`.
    pub(crate) fn saw(&self, names: &Names, fence: u64, clock_us: u64) {
        if fence >= clock_us {
            self.ahead().note(names, fence, clock_us);
            self.any_ahead.store(true, Ordering::Relaxed);
        }
    }

    fn ahead(&self) -> MutexGuard<'_, AheadMasters> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AheadMasters {
    fn note(&mut self, names: &Names, fence: u64, clock_us: u64) {
        for name in names.iter() {
            let known = self.fences.entry(name.into()).or_default();
            *known = fence.max(*known);
        }
        if self.fences.len() > self.full {
            self.fences.retain(|_, fence| *fence >= clock_us);
            self.full = (self.fences.len() * 2).max(FEW);
        }
    }

    fn forget(&mut self, names: &Names) {
        for name in names.iter() {
            self.fences.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_are_what_the_clocks_show_however_often_they_are_refused() {
        let tokens = Tokens::default();
        let a = Names::from("a");
        let propose = |clock| tokens.propose(&a, clock, 0).get();
        for clock in [1_000, 1_000, 1_100, 9_000_000_000, 5_000] {
            assert_eq!(propose(clock), clock);
        }
        // The token was accepted within the time of its block.
        tokens.saw(&a, 5_063, 5_010);
        assert_eq!(propose(5_020), 5_064);
        assert_eq!(propose(5_030), 5_064, "one that was refused is proposed again");
        assert_eq!(propose(6_000), 6_000);
        assert_eq!(propose(5_030), 5_030, "forgotten");
    }

    #[test]
    fn what_is_seen_of_a_fence_is_of_its_name_alone() {
        let tokens = Tokens::default();
        let (a, b, both) = (Names::from("a"), Names::from("b"), Names::from(["a", "b"]));
        let propose = |names, clock, least| tokens.propose(names, clock, least).get();
        tokens.saw(&a, 50_000, 1_000);
        assert_eq!(propose(&b, 2_000, 0), 2_000);
        assert_eq!(propose(&a, 3_000, 0), 50_001);
        assert_eq!(propose(&both, 5_000, 0), 50_001);
        // A raise does this: accepted far above the clocks.
        let c = Names::from("c");
        assert_eq!(propose(&c, 6_000, 70_000), 70_000);
        tokens.saw(&c, 70_063, 6_000);
        assert_eq!(propose(&c, 7_000, 0), 70_064);
        let d = Names::from("d");
        assert_eq!(propose(&d, 8_000, 0), 8_000);
        for names in [&both, &c] {
            assert_eq!(propose(names, 80_000, 0), 80_000, "the clocks have passed it");
        }
        assert!(!tokens.any_ahead.load(Ordering::Relaxed));
    }

    /// A client may lock very many names while one of the masters' clocks is ahead.
    #[test]
    fn what_the_clocks_have_passed_is_forgotten() {
        let tokens = Tokens::default();
        for n in 0..10_000 {
            tokens.saw(&Names::from(format!("order:{n}")), 1_000 + n, 1_000 + n);
        }
        let ahead = tokens.ahead.lock().expect("not poisoned");
        assert!(ahead.fences.len() <= FEW + 1);
    }
}
