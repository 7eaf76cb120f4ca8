//! The turns that are left to clients of other libraries, which know no queue.
//!
//! They ask when they hear of a release, and would never get in before one of ours that was told of it beforehand. So
//! where a master says that they listen, the next of ours comes a moment after the release.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::time::random::Random;
use crate::values::names::Names;

/// What such a client takes to ask, beside the way to the masters and back.
const SHORTEST: Duration = Duration::from_millis(1);
const SPREAD: Duration = Duration::from_millis(1);
/// Who has not been heard to listen for so long does not any more.
const STALE: Duration = Duration::from_secs(60);
/// Names that are kept before those are looked for.
const MANY: usize = 64;

/// Where clients of other libraries wait, and until when it is their turn.
#[derive(Debug, Default)]
pub(crate) struct Yielding {
    turns: Mutex<HashMap<Names, ForeignTurn>>,
    any: AtomicBool,
}

#[derive(Debug)]
struct ForeignTurn {
    /// The masters that said last that they listen there, a bit for each.
    on: u64,
    /// What a release takes to be answered, by the first.
    round_trip: Duration,
    /// When one of them said so last.
    heard: Instant,
    until: Instant,
}

impl Yielding {
    /// Whether others wait for these names, as far as is known.
    pub(crate) fn is_due(&self, names: &Names) -> bool {
        let is_fresh = |theirs: &ForeignTurn| theirs.heard.elapsed() < STALE;
        self.any.load(Ordering::Relaxed) && self.turns().get(names).is_some_and(is_fresh)
    }

    /// Until when it is their turn, if it is.
    pub(crate) fn until(&self, names: &Names) -> Option<Instant> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let until = self.turns().get(names)?.until;
        (until > Instant::now()).then_some(until)
    }

    /// The names are being released now.
    pub(crate) fn released(&self, names: &Names, random: &Random) {
        if self.any.load(Ordering::Relaxed)
            && let Some(theirs) = self.turns().get_mut(names)
            && theirs.heard.elapsed() < STALE
        {
            theirs.until = Instant::now() + theirs.round_trip * 2 + pause(random);
        }
    }

    /// A master has answered a release that was sent at that moment, and said whether others listen.
    pub(crate) fn heard(&self, names: &Names, node: usize, listen: bool, sent: Instant, random: &Random) {
        if !listen && !self.any.load(Ordering::Relaxed) {
            return;
        }
        let (mut turns, took) = (self.turns(), sent.elapsed());
        if listen {
            if turns.len() >= MANY && turns.len().is_power_of_two() {
                turns.retain(|_, theirs| theirs.heard.elapsed() < STALE);
            }
            let theirs = turns.entry(names.clone()).or_insert_with(|| ForeignTurn {
                on: 0,
                round_trip: took,
                heard: Instant::now(),
                until: Instant::now() + took + pause(random),
            });
            theirs.on |= 1 << node;
            theirs.round_trip = took.min(theirs.round_trip);
            theirs.heard = Instant::now();
        } else if let Some(theirs) = turns.get_mut(names) {
            theirs.on &= !(1 << node);
            if theirs.on == 0 {
                turns.remove(names);
            }
        }
        self.any.store(!turns.is_empty(), Ordering::Relaxed);
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<Names, ForeignTurn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pause(random: &Random) -> Duration {
    SHORTEST + random.within(SPREAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn others_have_a_turn_for_as_long_as_any_master_says_that_they_listen() {
        let (yielding, random, names) = (Yielding::default(), Random::from_host(), Names::from("a"));
        let heard = |node, listen| yielding.heard(&names, node, listen, Instant::now(), &random);
        heard(0, false);
        assert!(!yielding.is_due(&names) && yielding.until(&names).is_none());
        heard(0, true);
        heard(1, true);
        heard(0, false);
        assert!(yielding.is_due(&names) && yielding.until(&names).is_some());
        tokio::time::sleep(SHORTEST + SPREAD).await;
        assert!(yielding.until(&names).is_none(), "nobody has come");
        yielding.released(&names, &random);
        assert!(yielding.until(&names).is_some());
        heard(1, false);
        assert!(!yielding.is_due(&names));
        // A master that cannot be asked any more keeps its bit.
        heard(2, true);
        tokio::time::sleep(STALE).await;
        yielding.released(&names, &random);
        assert!(!yielding.is_due(&names) && yielding.until(&names).is_none());
    }
}
