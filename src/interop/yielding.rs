//! Turns for clients of other libraries, which have no queue.
//!
//! Such clients ask once they get the message of a release. They would never get in before a waiter of this
//! crate that was called with the release. So if a master reports that they listen, the next waiter of this
//! crate asks a moment later.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::time::random::Random;
use crate::values::names::Names;

/// Time that a client of another library needs to ask, beside the round trip to the masters.
const SHORTEST: Duration = Duration::from_millis(1);
const SPREAD: Duration = Duration::from_millis(1);
/// Time without a report of listeners after which they count as gone.
const STALE: Duration = Duration::from_secs(60);
/// Number of names from which outdated ones are searched for.
const MANY: usize = 64;

/// Names for which clients of other libraries wait, and the end of their turn.
#[derive(Default)]
pub(crate) struct Yielding {
    turns: Mutex<HashMap<Names, ForeignTurn>>,
    any: AtomicBool,
}

struct ForeignTurn {
    /// Masters that reported listeners the last time, a bit for each.
    on: u64,
    /// Shortest round trip of a release.
    round_trip: Duration,
    /// Time of the last report of listeners.
    reported: Instant,
    until: Instant,
}

impl Yielding {
    /// Whether clients of other libraries wait for these names, as far as is known.
    pub(crate) fn is_due(&self, names: &Names) -> bool {
        let is_fresh = |theirs: &ForeignTurn| theirs.reported.elapsed() < STALE;
        self.any.load(Ordering::Relaxed) && self.turns.lock().get(names).is_some_and(is_fresh)
    }

    /// End of the turn of other libraries' clients, if it is their turn.
    pub(crate) fn until(&self, names: &Names) -> Option<Instant> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let until = self.turns.lock().get(names)?.until;
        (until > Instant::now()).then_some(until)
    }

    /// Notes that the names are being released now.
    pub(crate) fn released(&self, names: &Names, random: &Random) {
        if self.any.load(Ordering::Relaxed)
            && let Some(theirs) = self.turns.lock().get_mut(names)
            && theirs.reported.elapsed() < STALE
        {
            theirs.until = Instant::now() + theirs.round_trip * 2 + pause(random);
        }
    }

    /// Notes a master's answer to a release that was sent at `sent`, and its report of listeners.
    pub(crate) fn note_listeners(
        &self,
        names: &Names,
        node: usize,
        listen: bool,
        sent: Instant,
        random: &Random,
    ) {
        if !listen && !self.any.load(Ordering::Relaxed) {
            return;
        }
        let (mut turns, took) = (self.turns.lock(), sent.elapsed());
        if listen {
            if turns.len() >= MANY && turns.len().is_power_of_two() {
                turns.retain(|_, theirs| theirs.reported.elapsed() < STALE);
            }
            let theirs = turns.entry(names.clone()).or_insert_with(|| ForeignTurn {
                on: 0,
                round_trip: took,
                reported: Instant::now(),
                until: Instant::now() + took + pause(random),
            });
            theirs.on |= 1 << node;
            theirs.round_trip = took.min(theirs.round_trip);
            theirs.reported = Instant::now();
        } else if let Some(theirs) = turns.get_mut(names) {
            theirs.on &= !(1 << node);
            if theirs.on == 0 {
                turns.remove(names);
            }
        }
        self.any.store(!turns.is_empty(), Ordering::Relaxed);
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
        let answered = |node, listen| yielding.note_listeners(&names, node, listen, Instant::now(), &random);
        answered(0, false);
        assert!(!yielding.is_due(&names) && yielding.until(&names).is_none());
        answered(0, true);
        answered(1, true);
        answered(0, false);
        assert!(yielding.is_due(&names) && yielding.until(&names).is_some());
        tokio::time::sleep(SHORTEST + SPREAD).await;
        assert!(yielding.until(&names).is_none(), "nobody has come");
        yielding.released(&names, &random);
        assert!(yielding.until(&names).is_some());
        answered(1, false);
        assert!(!yielding.is_due(&names));
        // The bit of a master stays if the master can no longer be asked.
        answered(2, true);
        tokio::time::sleep(STALE).await;
        yielding.released(&names, &random);
        assert!(!yielding.is_due(&names) && yielding.until(&names).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_nobody_reports_any_more_are_forgotten() {
        let (yielding, random) = (Yielding::default(), Random::from_host());
        let answered = |name: usize| {
            let names = Names::from(name.to_string().as_str());
            yielding.note_listeners(&names, 0, true, Instant::now(), &random);
        };
        (0..MANY).for_each(answered);
        tokio::time::sleep(STALE).await;
        answered(MANY);
        assert_eq!(yielding.turns.lock().len(), 1);
    }
}
