//! The fencing tokens that a client proposes, in blocks.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::names::Names;
use crate::token::FencingToken;

/// How far a clock may have gone back for a client to go on behind its own last proposal, in microseconds.
const BACK: u64 = 1_000_000;

/// Where the last tokens of names are kept, so many to a place as come together. A block lasts as long as the clocks
/// take to pass it: for all names together they would not keep up.
const PLACES: usize = 256;

/// What a client knows of tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// The last ones that it took from the masters' clocks, of names with the same digest: no two blocks of a name
    /// have a token in common.
    last: Box<[AtomicU64; PLACES]>,
    digests: BuildHasherDefault<DefaultHasher>,
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
    pub(crate) fn new() -> Self {
        Self {
            last: Box::new([const { AtomicU64::new(0) }; PLACES]),
            digests: BuildHasherDefault::default(),
            ahead: Mutex::default(),
            any_ahead: AtomicBool::new(false),
        }
    }

    /// The first token of a block for these names: what the masters' clocks show, or `least`, and above all that is
    /// known of the names' fences.
    pub(crate) fn propose(&self, names: &Names, clock_us: u64, least: u64) -> FencingToken {
        let shown = self.next(names, clock_us);
        if least <= shown && !self.any_ahead.load(Ordering::Relaxed) {
            return FencingToken(shown);
        }
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let fence = names.iter().filter_map(|name| ahead.fences.get(name)).max();
        let above = fence.map_or(0, |fence| fence + 1);
        let token = FencingToken(shown.max(least).max(above));
        if token.get() > shown {
            // The next one is to be above it, too.
            ahead.note(names, token.last_of_block().get(), clock_us);
        } else if fence.is_some() {
            // The clocks have passed it.
            ahead.forget(names);
        }
        self.any_ahead.store(!ahead.fences.is_empty(), Ordering::Relaxed);
        token
    }

    /// Takes note of a fence of one of these names that was seen when the masters' clocks showed `clock_us`.
    pub(crate) fn saw(&self, names: &Names, fence: u64, clock_us: u64) {
        if fence >= clock_us {
            let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
            ahead.note(names, fence, clock_us);
            self.any_ahead.store(true, Ordering::Relaxed);
        }
    }

    /// What the clocks show, or the number behind the last one of any of the names.
    fn next(&self, names: &Names, clock_us: u64) -> u64 {
        let behind = |last: u64, least: u64| {
            let is_near = last.checked_sub(clock_us).is_some_and(|ahead| ahead < BACK);
            if is_near { least.max(last + 1) } else { least }
        };
        let last_of = |first| FencingToken(first).last_of_block().get();
        let mut first = clock_us;
        // Taken from each name in turn, so that what two find together at one is never the same.
        for name in names.iter() {
            let update = |last| Some(last_of(behind(last, first)));
            let last = self
                .place(name)
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
            // The update never refuses.
            first = last.map_or(first, |last| behind(last, first));
        }
        if names.len() > 1 {
            for name in names.iter() {
                self.place(name).fetch_max(last_of(first), Ordering::Relaxed);
            }
        }
        first
    }

    fn place(&self, name: &str) -> &AtomicU64 {
        let digest = self.digests.hash_one(name);
        &self.last[usize::try_from(digest % PLACES as u64).unwrap_or_default()]
    }
}

impl Ahead {
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
    fn proposals_are_what_the_clocks_show_and_never_the_same() {
        let tokens = Tokens::new();
        let a = Names::from("a");
        let propose = |clock| tokens.propose(&a, clock, 0).get();
        assert_eq!(propose(1_000), 1_000);
        assert_eq!(propose(1_000), 1_064, "above its own last block");
        assert_eq!(propose(1_100), 1_128);
        assert_eq!(propose(5_000), 5_000);
        assert_eq!(propose(4_000), 5_064, "a clock that went back a little");
        let wrong = 9_000_000_000;
        assert_eq!(propose(wrong), wrong);
        assert_eq!(propose(6_000), 6_000, "one clock that was wrong for a while");
    }

    #[test]
    fn what_is_seen_of_a_fence_is_of_its_name_alone() {
        let tokens = Tokens::new();
        let (a, b, both) = (Names::from("a"), Names::from("b"), Names::from(["a", "b"]));
        let propose = |names, clock, least| tokens.propose(names, clock, least).get();
        tokens.saw(&a, 50_000, 1_000);
        assert_eq!(propose(&b, 2_000, 0), 2_000);
        assert_eq!(propose(&a, 3_000, 0), 50_001);
        assert_eq!(propose(&a, 4_000, 0), 50_065);
        assert_eq!(propose(&both, 5_000, 0), 50_129);
        // As a raise has it: the next one goes on above that, and nobody else's does.
        let c = Names::from("c");
        assert_eq!(propose(&c, 6_000, 70_000), 70_000);
        assert_eq!(propose(&c, 7_000, 0), 70_064);
        let d = Names::from("d");
        assert_eq!(propose(&d, 8_000, 0), 8_000);
        for names in [&both, &c] {
            assert_eq!(
                propose(names, 80_000, 0).max(80_001),
                80_001,
                "the clocks have passed it"
            );
        }
        assert!(!tokens.any_ahead.load(Ordering::Relaxed));
    }

    /// A block lasts 64 us, so a client that takes more of them a second than that leaves room for must not run away
    /// from the clocks.
    #[test]
    fn many_names_do_not_outrun_the_clocks() {
        let tokens = Tokens::new();
        let names: Vec<_> = (0..5_000).map(|n| Names::from(format!("order:{n}"))).collect();
        let begun = 1_000_000_000;
        // 25,000 a second for a second.
        for n in 0..25_000 {
            let clock = begun + n * 40;
            let token = tokens.propose(&names[usize::try_from(n).expect("few") % names.len()], clock, 0);
            assert!(token.get() - clock < 2_000, "{token} at {clock}");
        }
    }

    /// A client may lock very many names while one of the masters' clocks is ahead.
    #[test]
    fn what_the_clocks_have_passed_is_forgotten() {
        let tokens = Tokens::new();
        for n in 0..10_000 {
            tokens.saw(&Names::from(format!("order:{n}")), 1_000 + n, 1_000 + n);
        }
        let ahead = tokens.ahead.lock().expect("not poisoned");
        assert!(ahead.fences.len() <= FEW + 1);
    }
}
