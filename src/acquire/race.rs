//! Pauses at random that keep contenders apart, and grow with each collision.

use std::time::Duration;

use tokio::time::sleep;

use crate::time::random::Chance;

/// Timers tick in milliseconds.
const TICK: Duration = Duration::from_millis(1);
/// A notice that comes sooner than this after a refusal is that of a rollback.
const SHORTEST_HOLD: Duration = Duration::from_micros(500);
/// Contenders may meet so often before they are kept apart.
const MEETINGS: u32 = 2;
/// So many races are lost in a row by bad luck alone.
const IN_STEP: u32 = 8;

/// The widest window from which a pause is drawn: among contenders, and while masters are out.
pub(crate) const SPLIT: Duration = Duration::from_millis(100);
pub(crate) const OUTAGE: Duration = Duration::from_secs(1);
/// The first window.
const NARROWEST: Duration = Duration::from_millis(2);

/// What one waiter has met so far, and how long it pauses therefore.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    /// After a split vote, and while masters are out.
    pub(crate) pauses: Pauses<'a>,
    /// Beyond the end of a holder's lease.
    pub(crate) alarms: Pauses<'a>,
    pub(crate) race: Race,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(chance: &'a Chance) -> Self {
        Self {
            pauses: Pauses::new(chance),
            alarms: Pauses::new(chance),
            race: Race::default(),
        }
    }
}

/// Waiters that hear of a release at the same time and are as old ask at the same time, and may wake
/// each other by their rollbacks, again and again.
#[derive(Debug, Default)]
pub(crate) struct Race {
    lost: u32,
    /// Notices in a row that were no holder's: contenders that met, each waking the other by its
    /// rollback.
    met: u32,
}

impl Race {
    pub(crate) fn lost(&mut self) {
        self.lost += 1;
    }

    /// Waits for a moment after a notice that came when the waiter had slept for so long, if it goes
    /// on like this.
    pub(crate) async fn start(&mut self, slept: Duration, chance: &Chance) {
        let nobody_held = slept < SHORTEST_HOLD;
        self.met = if nobody_held { self.met + 1 } else { 0 };
        if self.met > MEETINGS {
            // In step they would go on for ever: apart by chance, in a window that grows.
            let window = TICK * 2_u32.saturating_pow(self.met - MEETINGS);
            return sleep(chance.within(window.min(SPLIT))).await;
        }
        if self.lost > IN_STEP && chance.one_in(8) {
            // Perhaps it meets the same contender again and again, at a distance that the time to a
            // refusal does not tell. Rarely, because it puts those back who have lost most often.
            let window = TICK * 2_u32.saturating_pow((self.lost - IN_STEP) / 4);
            sleep(chance.within(window.min(slept).min(SPLIT))).await;
        }
    }
}

/// Draws the pauses of one waiter. Each window is twice the one before, and a pause is anywhere in
/// it: contenders that met in one round are spread over the next, so one of them soon wins. In step,
/// they would split the votes for ever.
#[derive(Debug)]
pub(crate) struct Pauses<'a> {
    window: Duration,
    chance: &'a Chance,
}

impl<'a> Pauses<'a> {
    fn new(chance: &'a Chance) -> Self {
        Self {
            window: NARROWEST,
            chance,
        }
    }

    pub(crate) fn next(&mut self, widest: Duration) -> Duration {
        let window = self.window.min(widest);
        self.window = (self.window * 2).min(widest);
        self.chance.within(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_limit() {
        let chance = Chance::from_host();
        let mut pauses = Pauses::new(&chance);
        for round in 0..100 {
            let most = (NARROWEST * 2_u32.saturating_pow(round)).min(SPLIT);
            assert!(pauses.next(SPLIT) < most);
        }
    }
}
