//! Fencing tokens that a client proposes, in blocks.
//!
//! A block begins with the time that the masters' clocks show. It begins higher only if a fence is above the
//! clocks, and a fence is a token that masters have accepted. A refused block is stored nowhere, so the next
//! block may have its tokens: each master accepts a token once. If refused blocks counted, tries alone would
//! drive a name's tokens away from the clocks, further than a master's floor reaches after a restart.
//!
//! A grant whose block has run out is acquired again, with a block twice as large. A large block takes a name's
//! tokens ahead of the clocks, by a small part of a lease at most: a proposal ahead of the clocks has no large block.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::values::names::Names;
use crate::values::token::{Block, FencingToken};

/// A client's knowledge of tokens.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// Fences that were above the clocks when masters reported or accepted them, by name. Each counts for its
    /// own name: an error in one must not spoil the others.
    ahead: Mutex<FencesAhead>,
    /// Whether there are any such fences.
    any_ahead: AtomicBool,
    /// Sizes of the next blocks of names whose last block ran out.
    sizes: Mutex<HashMap<Box<str>, u64>>,
    /// Whether there are any such sizes.
    any_sizes: AtomicBool,
}

#[derive(Debug, Default)]
struct FencesAhead {
    fences: HashMap<Box<str>, u64>,
    /// Number of fences above which fences that the clocks have passed are removed.
    full: usize,
}

/// Least number of fences for a removal to be worthwhile.
const FEW: usize = 64;

/// Largest number of names whose next block is known.
const MOST_SIZES: usize = 1024;

/// Least number of blocks in the microseconds of a lease.
const BLOCKS_IN_A_LEASE: u128 = 16;

impl Tokens {
    /// Proposes the first token of a block for these names: the time of the masters' clocks or `least`, and above all
    /// known fences of the names.
    pub(crate) fn propose(&self, names: &Names, clock_us: u64, least: u64) -> FencingToken {
        let least = least.max(clock_us);
        if !self.any_ahead.load(Ordering::Relaxed) {
            return FencingToken(least);
        }
        let mut ahead = self.ahead.lock();
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

    /// Notes that a grant of these names with a block of `size` tokens has had a hold for each of them.
    pub(crate) fn ran_out(&self, names: &Names, size: u64, lease: Duration) {
        let most = u64::try_from(lease.as_micros() / BLOCKS_IN_A_LEASE).unwrap_or(u64::MAX);
        let next = (size * 2).min(Block::MOST).min(most);
        let Some(name) = names.iter().next().filter(|_| next > Block::SIZE) else {
            return;
        };
        let mut sizes = self.sizes.lock();
        if sizes.len() >= MOST_SIZES {
            sizes.clear();
        }
        sizes.insert(name.into(), next);
        self.any_sizes.store(true, Ordering::Relaxed);
    }

    /// Takes the size of the next block of these names, for a block that begins at `first`. A block that is ahead of the
    /// clocks, which show `clock_us`, is not large.
    pub(crate) fn take_size(&self, names: &Names, first: FencingToken, clock_us: u64) -> u64 {
        if !self.any_sizes.load(Ordering::Relaxed) {
            return Block::SIZE;
        }
        let mut sizes = self.sizes.lock();
        let size = names.iter().next().and_then(|name| sizes.remove(name));
        self.any_sizes.store(!sizes.is_empty(), Ordering::Relaxed);
        size.filter(|_| first.get() <= clock_us).unwrap_or(Block::SIZE)
    }

    /// Notes a fence of these names that masters reported or accepted, when their clocks showed `clock_us`.
    pub(crate) fn saw(&self, names: &Names, fence: u64, clock_us: u64) {
        if fence >= clock_us {
            self.ahead.lock().note(names, fence, clock_us);
            self.any_ahead.store(true, Ordering::Relaxed);
        }
    }
}

impl FencesAhead {
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
        let propose = |names: &Names, clock, least| tokens.propose(names, clock, least).get();
        tokens.saw(&a, 50_000, 1_000);
        assert_eq!(propose(&b, 2_000, 0), 2_000);
        assert_eq!(propose(&a, 3_000, 0), 50_001);
        assert_eq!(propose(&both, 5_000, 0), 50_001);
        // A raise does this: its token is accepted far above the clocks.
        let c = Names::from("c");
        assert_eq!(propose(&c, 6_000, 70_000), 70_000);
        tokens.saw(&c, 70_063, 6_000);
        assert_eq!(propose(&c, 7_000, 0), 70_064);
        // Late answers report lower fences.
        tokens.saw(&c, 65_000, 6_000);
        assert_eq!(propose(&["a", "c"].into(), 7_000, 0), 70_064);
        assert_eq!(propose(&["a", "c"].into(), 7_000, 90_000), 90_000);
        let d = Names::from("d");
        assert_eq!(propose(&d, 8_000, 0), 8_000);
        for names in [&both, &c] {
            assert_eq!(propose(names, 80_000, 0), 80_000, "the clocks have passed it");
        }
        assert!(!tokens.any_ahead.load(Ordering::Relaxed));
    }

    #[test]
    fn a_block_that_ran_out_is_followed_by_one_twice_as_large() {
        let tokens = Tokens::default();
        let (a, b) = (Names::from("a"), Names::from("b"));
        let lease = Duration::from_secs(30);
        let size = |names, first| tokens.take_size(names, FencingToken(first), 1_000);
        assert_eq!(size(&a, 1_000), Block::SIZE);
        let mut last = Block::SIZE;
        for expected in [128, 256, 512, 1024, 2048, 4096, 4096] {
            tokens.ran_out(&a, last, lease);
            assert_eq!(size(&b, 1_000), Block::SIZE);
            last = size(&a, 1_000);
            assert_eq!(last, expected);
        }
        assert_eq!(size(&a, 1_000), Block::SIZE, "the grant before had tokens left");
        tokens.ran_out(&a, 4096, lease);
        assert_eq!(size(&a, 1_001), Block::SIZE, "ahead of the clocks");
        tokens.ran_out(&a, 4096, Duration::from_millis(10));
        assert_eq!(size(&a, 1_000), 625, "a sixteenth of the lease");
        tokens.ran_out(&a, 64, Duration::from_millis(1));
        assert_eq!(size(&a, 1_000), Block::SIZE);
        for n in 0..3_000 {
            tokens.ran_out(&Names::from(format!("order:{n}")), 64, lease);
        }
        assert!(tokens.sizes.lock().len() <= MOST_SIZES);
    }

    /// A client may lock very many names while one of the masters' clocks is ahead.
    #[test]
    fn what_the_clocks_have_passed_is_forgotten() {
        let tokens = Tokens::default();
        for n in 0..10_000 {
            tokens.saw(&Names::from(format!("order:{n}")), 1_000 + n, 1_000 + n);
        }
        let ahead = tokens.ahead.lock();
        assert!(ahead.fences.len() <= FEW + 1);
    }
}
