//! Between two rounds: the turn in this process, release notices, the holder's remaining time, jitter.
//!
//! A waiter asks the masters only when something has happened that may have changed their answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::acquire::enter::acquire;
use crate::acquire::terms::{Plan, Refusal};
use crate::error::LockError;
use crate::guard::MultiLockGuard;
use crate::owner::Standing;
use crate::protocol::tally::Obstacle;
use crate::queue::subscription::{Heard, Listening};
use crate::queue::{Place, Turn};
use crate::time::random::Chance;

/// A notice may be lost, and silence is not noticed: a waiter that has heard nothing for so long asks
/// again.
const FALLBACK: Duration = Duration::from_secs(5);
/// After the end of a lease, until every master has seen it end too.
const AFTER_LEASE: Duration = Duration::from_millis(2);

/// Waits for this process's turn, and then until the masters grant. What stood in the way last is left
/// in `last`, for the caller whose patience ends.
///
/// Dropped at any point, it leaves the line and its subscriptions, and rolls back.
pub(crate) async fn contend(plan: &Plan, last: &mut Option<LockError>) -> Result<MultiLockGuard, LockError> {
    let mut pauses = Pauses::new(&plan.client.pool.chance);
    let mut alarms = Pauses::new(&plan.client.pool.chance);
    let turn = loop {
        let waiting = match plan.client.lines.join(&plan.names).try_turn() {
            Ok(turn) => break turn,
            Err(place) => place,
        };
        if let Some(turn) = unless_closed(plan, turn(plan, waiting)).await? {
            break turn;
        }
        // The same owner is inside by now. Should it leave before this task has entered, begin again.
        match acquire(plan).await {
            Err(refusal) if refusal.obstacle != Obstacle::Final => {
                *last = Some(refusal.error);
                unless_closed(plan, sleep(pauses.next(SPLIT))).await?;
            }
            settled => return settled.map_err(|refusal| refusal.error),
        }
    };
    if turn.must_step_back() {
        unless_closed(plan, step_back(plan, &turn)).await?;
    }
    let mut race = Race::default();
    loop {
        let heard = turn.listening().map(|listening| listening.heard());
        let asked = Instant::now();
        let acquired = acquire(plan).await;
        let refusal = match acquired {
            Ok(guard) => {
                turn.granted(asked.elapsed());
                guard.keep_turn(turn);
                return Ok(guard);
            }
            Err(refusal) if refusal.obstacle == Obstacle::Final => return Err(refusal.error),
            Err(refusal) => refusal,
        };
        if refusal.obstacle == Obstacle::Unreachable {
            tracing::warn!(names = %plan.names, error = %refusal.error, "still waiting for a lock");
        }
        turn.refused(asked.elapsed());
        race.lost();
        *last = Some(refusal.error.clone());
        // Who is inside and yet refused has too little validity left to enter: only time will help.
        let outside = !is_inside(plan);
        unless_closed(plan, async {
            tokio::select! {
                biased;
                () = rest(plan, &turn, &refusal, heard, (&mut pauses, &mut alarms), &mut race) => {}
                () = inside(plan), if outside => {}
            }
        })
        .await?;
    }
}

/// Waits for something that may take long. An attempt needs no such care: it looks for itself whether
/// the pool is closed, and is over by the node deadline.
async fn unless_closed<T>(plan: &Plan, waiting: impl Future<Output = T>) -> Result<T, LockError> {
    tokio::select! {
        biased;
        () = plan.client.pool.closing.cancelled() => Err(LockError::Closed),
        done = waiting => Ok(done),
    }
}

/// This process's turn; `None` when another task of the same owner has got a hold meanwhile, which is
/// then entered instead.
async fn turn(plan: &Plan, waiting: Place) -> Option<Turn> {
    tokio::select! {
        biased;
        () = inside(plan) => None,
        turn = waiting.turn() => Some(turn),
    }
}

/// Resolves when the owner is inside, by another of its tasks.
async fn inside(plan: &Plan) {
    let Some(owner) = &plan.owner else {
        return std::future::pending().await;
    };
    loop {
        // First listen, then look: nothing falls in between.
        let mut entered = pin!(owner.entered());
        entered.as_mut().enable();
        if is_inside(plan) {
            return;
        }
        entered.await;
    }
}

fn is_inside(plan: &Plan) -> bool {
    !matches!(plan.standing(), Standing::Outside)
}

/// Sleeps until another attempt is worthwhile.
async fn rest(
    plan: &Plan,
    turn: &Turn,
    refusal: &Refusal,
    heard: Option<Heard>,
    (pauses, alarms): (&mut Pauses<'_>, &mut Pauses<'_>),
    race: &mut Race,
) {
    let timer = match (&refusal.error, refusal.obstacle) {
        (LockError::Contended { retry_after, .. }, Obstacle::Held) => {
            // Contenders that took each other for a holder would else wake at the same moment.
            (*retry_after + AFTER_LEASE).min(FALLBACK) + alarms.next(SPLIT)
        }
        (_, Obstacle::Unreachable) => pauses.next(OUTAGE),
        _ => return sleep(pauses.next(SPLIT)).await,
    };
    let (Some(listening), Some(heard)) = (turn.listening(), heard) else {
        // A release between the refusal and the subscription was announced to nobody: ask once more.
        listening(plan, turn).await;
        return;
    };
    let asleep = Instant::now();
    tokio::select! {
        biased;
        () = sleep(timer) => {}
        () = async {
            listening.quorum_possible(&heard, &refusal.votes, plan.needed).await;
            let slept = asleep.elapsed();
            defer(plan, turn, &listening).await;
            race.start(slept, &plan.client.pool.chance).await;
        } => {}
    }
}

/// Leaves the names to others who come first.
async fn step_back(plan: &Plan, turn: &Turn) {
    match turn.listening() {
        Some(listening) => defer(plan, turn, &listening).await,
        // It has not been in anybody's way so far, and perhaps there is nobody any more.
        None => sleep(turn.patience()).await,
    }
}

/// Leaves the names to those who have waited longer, until nobody takes them or they have had them.
async fn defer(plan: &Plan, turn: &Turn, listening: &Listening) {
    let since = turn.waits_since(listening);
    loop {
        let releases = listening.releases(&since, plan.needed);
        let ahead = turn.heard(releases);
        if ahead.is_zero() {
            return;
        }
        tokio::select! {
            biased;
            () = listening.more_releases(&since, plan.needed, releases) => {}
            () = sleep(ahead) => return turn.waited(),
        }
    }
}

async fn listening(plan: &Plan, turn: &Turn) -> Arc<Listening> {
    if let Some(listening) = turn.listening() {
        return listening;
    }
    let listening = Arc::new(Listening::begin(&plan.client.pool, &plan.names).await);
    turn.listen_with(Arc::clone(&listening));
    listening
}

/// Waiters that hear of a release at the same time and are as old ask at the same time, and may wake
/// each other by their rollbacks, again and again.
#[derive(Debug, Default)]
struct Race {
    lost: u32,
    /// Notices in a row that were no holder's: contenders that met, each waking the other by its
    /// rollback.
    met: u32,
}

impl Race {
    fn lost(&mut self) {
        self.lost += 1;
    }

    /// Waits for a moment after a notice that came when the waiter had slept for so long, if it goes
    /// on like this.
    async fn start(&mut self, slept: Duration, chance: &Chance) {
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

/// Timers tick in milliseconds.
const TICK: Duration = Duration::from_millis(1);
/// A notice that comes sooner than this after a refusal is that of a rollback.
const SHORTEST_HOLD: Duration = Duration::from_micros(500);
/// Contenders may meet so often before they are kept apart.
const MEETINGS: u32 = 2;
/// So many races are lost in a row by bad luck alone.
const IN_STEP: u32 = 8;

/// The widest window from which a pause is drawn: among contenders, and while masters are out.
const SPLIT: Duration = Duration::from_millis(100);
const OUTAGE: Duration = Duration::from_secs(1);
/// The first window.
const NARROWEST: Duration = Duration::from_millis(2);

/// Draws the pauses of one waiter. Each window is twice the one before, and a pause is anywhere in
/// it: contenders that met in one round are spread over the next, so one of them soon wins. In step,
/// they would split the votes for ever.
#[derive(Debug)]
struct Pauses<'a> {
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

    fn next(&mut self, widest: Duration) -> Duration {
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
