//! The fencing tokens that a client proposes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::names::Names;
use crate::token::{FencingToken, LARGEST};

/// How far a clock may have gone back for a client to go on behind its own last proposal, in microseconds.
const BACK: u64 = 1_000_000;

/// What a client knows of tokens.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// The last that it proposed from the masters' clocks: two proposals are never the same.
    last: AtomicU64,
    /// Fences that were seen above the clocks, by their names. Of that name alone: what is wrong with one must
    /// not spoil the others.
    ahead: Mutex<Ahead>,
    /// Whether there are any.
    any_ahead: AtomicBool,
}

#[derive(Debug, Default)]
struct Ahead {
    fences: HashMap<Box<str>, u64>,
    /// From so many on, those that the clocks have passed are looked for.
    full: usize,
}

/// Fewer are not worth looking for.
const FEW: usize = 64;

impl Tokens {
    /// A token for these names that is `clock_us` or more, where that is what the masters' clocks show, and above
    /// all that is known of their fences.
    pub(crate) fn propose(&self, names: &Names, clock_us: u64) -> FencingToken {
        let next = |last: u64| {
            let behind = last.checked_sub(clock_us).is_some_and(|ahead| ahead < BACK);
            if behind { last + 1 } else { clock_us }
        };
        let before = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        // The update never refuses.
        let token = next(before.unwrap_or(clock_us));
        if !self.any_ahead.load(Ordering::Relaxed) {
            return FencingToken(token);
        }
        let mut ahead = self.ahead();
        let mut token = token;
        for name in names.iter() {
            match ahead.fences.get(name) {
                Some(fence) if *fence >= clock_us => token = token.max(fence + 1),
                // The clocks have passed it.
                Some(_) => drop(ahead.fences.remove(name)),
                None => {}
            }
        }
        for name in names.iter() {
            if let Some(fence) = ahead.fences.get_mut(name) {
                *fence = token;
            }
        }
        self.any_ahead.store(!ahead.fences.is_empty(), Ordering::Relaxed);
        FencingToken(token)
    }

    /// Takes note of a fence of one of these names that was seen when the masters' clocks showed `clock_us`.
    pub(crate) fn saw(&self, names: &Names, fence: u64, clock_us: u64) {
        if fence < clock_us || fence >= LARGEST {
            return;
        }
        let mut ahead = self.ahead();
        for name in names.iter() {
            let known = ahead.fences.entry(name.into()).or_default();
            *known = fence.max(*known);
        }
        if ahead.fences.len() > ahead.full {
            ahead.fences.retain(|_, fence| *fence >= clock_us);
            ahead.full = (ahead.fences.len() * 2).max(FEW);
        }
        self.any_ahead.store(true, Ordering::Relaxed);
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_are_what_the_clocks_show_and_never_the_same() {
        let tokens = Tokens::default();
        let a = Names::from("a");
        let propose = |clock| tokens.propose(&a, clock).get();
        assert_eq!(propose(1_000), 1_000);
        assert_eq!(propose(1_000), 1_001);
        assert_eq!(propose(5_000), 5_000);
        assert_eq!(propose(4_000), 5_001, "a clock that went back a little");
        let wrong = 9_000_000_000;
        assert_eq!(propose(wrong), wrong);
        assert_eq!(propose(6_000), 6_000, "one clock that was wrong for a while");
    }

    #[test]
    fn what_is_seen_of_a_fence_is_of_its_name_alone() {
        let tokens = Tokens::default();
        let (a, b, both) = (Names::from("a"), Names::from("b"), Names::from(["a", "b"]));
        tokens.saw(&a, 50_000, 1_000);
        assert_eq!(tokens.propose(&b, 2_000).get(), 2_000);
        assert_eq!(tokens.propose(&a, 3_000).get(), 50_001);
        assert_eq!(tokens.propose(&a, 4_000).get(), 50_002);
        assert_eq!(tokens.propose(&both, 5_000).get(), 50_003);
        tokens.saw(&a, LARGEST, 6_000);
        assert_eq!(
            tokens.propose(&a, 60_000).get(),
            60_000,
            "the clocks have passed it"
        );
        assert!(tokens.ahead().fences.is_empty());
    }

    /// A client may lock very many names while one of the masters' clocks is ahead.
    #[test]
    fn what_the_clocks_have_passed_is_forgotten() {
        let tokens = Tokens::default();
        for n in 0..10_000 {
            tokens.saw(&Names::from(format!("order:{n}")), 1_000 + n, 1_000 + n);
        }
        assert!(tokens.ahead().fences.len() <= FEW + 1);
    }
}
