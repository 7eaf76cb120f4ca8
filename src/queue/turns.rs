//! Order among the waiters of several processes, without a word between them.
//!
//! Every waiter hears every release. Each process counts those that it has heard since it had the
//! names itself: its age. Whoever has waited longest is the oldest. From a release a process learns how
//! many listen, and so the age at which its turn comes when all take as many grants in a row as it does.
//! At that age it asks at once. Before, it leaves time to those who are older, as much as their turns
//! take. So a release makes one waiter ask, not all of them, and they take turns. If those who are older
//! have gone, or take shorter turns, the time runs out, and next time it asks as early as it could have.

use std::time::Duration;

use tokio::time::Instant;

/// The longest time that is left to others.
const LONGEST: Duration = Duration::from_millis(100);

/// One process's place in it.
#[derive(Debug, Default)]
pub(crate) struct Rota {
    /// Releases that were heard since it had the names.
    age: u32,
    /// As many of them were heard before the turn was passed on.
    heard_before: u32,
    /// Processes that want the names, this one included.
    sharers: u32,
    /// Grants in a row in this process's last turn.
    turn: u32,
    /// By how much the turn comes earlier than by count.
    early: u32,
    /// Whether the time that was left to others has run out.
    waited: bool,
    /// The usual time from one release to the next.
    apart: Duration,
    heard: Option<Instant>,
    /// What serves for it until that is known.
    patience: Duration,
}

impl Rota {
    /// So many releases were heard since the turn was passed on: for how long the names are left to others.
    pub(crate) fn heard(&mut self, releases: u64, now: Instant) -> Duration {
        let releases = u32::try_from(releases).unwrap_or(u32::MAX);
        let age = releases.saturating_add(self.heard_before);
        if age <= self.age {
            return self.ahead();
        }
        let more = age - self.age;
        self.age = age;
        if let Some(before) = self.heard.replace(now) {
            let apart = (now.saturating_duration_since(before) / more).min(LONGEST);
            self.apart = match self.apart {
                usual if usual.is_zero() => apart,
                // A pause in which nobody took them is not usual.
                usual if usual < apart => (usual * 31 + apart) / 32,
                usual => (usual + apart) / 2,
            };
        }
        self.ahead()
    }

    /// The time that those ahead need, and one more who has them now.
    fn ahead(&self) -> Duration {
        match self.due().saturating_sub(self.age) {
            0 => Duration::ZERO,
            _ if self.apart.is_zero() => self.patience.min(LONGEST),
            turns => self.apart.saturating_mul(turns.saturating_add(1)).min(LONGEST),
        }
    }

    /// The time that was left to others has run out.
    pub(crate) fn waited(&mut self) {
        self.waited = true;
    }

    /// The names were had, after others or right after another task of this process.
    pub(crate) fn granted(&mut self) {
        if std::mem::take(&mut self.waited) {
            // Nobody came who was older.
            self.early = self.by_count().saturating_sub(self.age);
        } else if self.age > 0 {
            // Somebody may have come again.
            self.early = self.early.saturating_sub(1);
        }
        self.age = 0;
        self.heard_before = 0;
    }

    /// Others have them.
    pub(crate) fn refused(&mut self) {
        self.waited = false;
    }

    /// This process's turn is over after so many grants in a row; so many processes share the names, and
    /// who hears of a release has surely asked after so long.
    /// Its own last release is counted as one that is heard, be that before or after.
    pub(crate) fn pass(&mut self, turn: u32, sharers: u32, patience: Duration, release_heard: bool) {
        self.turn = turn;
        self.heard_before = u32::from(release_heard);
        self.age = self.heard_before;
        self.sharers = sharers;
        self.patience = patience;
    }

    /// The age at which to ask: a little early, because to ask in vain costs a command, and to ask late
    /// leaves the names to nobody.
    fn due(&self) -> u32 {
        let early = (self.sharers / 8).max(1).saturating_add(self.early);
        let due = self.by_count().saturating_sub(early);
        // Who has had a turn leaves at least one to others, however often nobody took it: its own release
        // is heard, and one more.
        if self.turn > 0 { due.max(2) } else { due }
    }

    fn by_count(&self) -> u32 {
        // Its own release, too, is heard.
        self.sharers
            .saturating_sub(1)
            .saturating_mul(self.turn)
            .saturating_add(1)
    }
}

#[cfg(test)]
mod tests;
