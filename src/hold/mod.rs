//! A hold: what one successful acquisition gave, shared by every guard that entered it.
//!
//! The count of a hold belongs to the client. Entering again and leaving an inner guard change it
//! here and nowhere else, so nothing that is late or lost on the network can miscount.

pub(crate) mod client;
pub(crate) mod ends;
pub(crate) mod extend;
pub(crate) mod holdings;
pub(crate) mod release;
pub(crate) mod schedule;
pub(crate) mod vote_record;
pub(crate) mod watchdog;

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::error::LossCause;
use crate::hold::ends::Ends;
use crate::hold::vote_record::{Places, Sheet};
use crate::names::Names;
use crate::protocol::claim::Claim;
use crate::protocol::field::Field;
use crate::queue::Turn;
use crate::time::clock::{Clock, Moment};
use crate::token::FencingToken;
use crate::votes::Vote;

/// Timers fire up to a millisecond late. Whoever waits for the end of a hold ends it this much early,
/// so that the word comes no later than the end, and no validity is left when it comes.
const TIMER_SLACK: Duration = Duration::from_millis(2);

/// One acquisition's hold on its names.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) names: Names,
    /// Never used again for another one.
    pub(crate) field: Field,
    /// Grants that the hold needs to be one.
    pub(crate) needed: usize,
    pub(crate) token: FencingToken,
    clock: Clock,
    acquired: Moment,
    state: Mutex<State>,
    /// Rings when the hold ends before its time.
    changed: Notify,
    /// Cancelled when it is lost; made when it is first asked for.
    cancellation: OnceLock<CancellationToken>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    ends: Ends,
    lease: Duration,
    count: u64,
    /// How many of these were leaked, and never leave.
    leaked: u64,
    /// How many of its guards want it renewed, and for how long at the most.
    renewing: u64,
    max_hold: Option<Duration>,
    votes: Sheet,
    /// Where something of it may be kept.
    touched: Places,
    /// Its release was begun.
    released: bool,
    /// This process's turn at the names, passed on when the hold ends.
    turn: Option<Turn>,
    /// Under which the watchdog keeps it.
    due: Option<(Instant, u64)>,
}

/// Where a hold is in its life. Nothing leads back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Held,
    /// Its last guard has left.
    Left,
    Lost(LossCause),
}

/// For how long a hold is good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// When that was looked at.
    pub(crate) at: Moment,
    /// Validity that is left.
    pub(crate) left: Duration,
    pub(crate) lease: Duration,
}

/// What entering a hold changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    /// Nobody wanted it renewed before.
    pub(crate) first_to_renew: bool,
}

/// What leaving a hold left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Other guards are still in; this many.
    Inside(u64),
    /// The same, and all of them were leaked.
    Leaked(u64),
    /// That was the last one.
    Last,
}

/// What a hold needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upkeep {
    /// To be extended by this lease.
    Renewal(Duration),
    /// To be looked at again when this much time has passed and it may have lapsed.
    Look(Duration),
    /// Nothing more: it has been given up.
    Nothing,
    /// To be cleaned up: it was lost.
    Burial,
}

/// The parts of a new hold.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) names: Names,
    pub(crate) field: Field,
    pub(crate) needed: usize,
    pub(crate) token: FencingToken,
    pub(crate) acquired: Moment,
    pub(crate) ends: Ends,
    pub(crate) lease: Duration,
    pub(crate) votes: Vec<Vote>,
    pub(crate) max_hold: Option<Duration>,
}

impl Hold {
    /// A hold that nobody has entered yet.
    pub(crate) fn new(clock: Clock, granted: Granted) -> Self {
        Self {
            names: granted.names,
            field: granted.field,
            needed: granted.needed,
            token: granted.token,
            clock,
            acquired: granted.acquired,
            state: Mutex::new(State {
                phase: Phase::Held,
                ends: granted.ends,
                lease: granted.lease,
                count: 0,
                leaked: 0,
                renewing: 0,
                max_hold: granted.max_hold,
                touched: Places::of(&granted.votes, Vote::may_have_granted),
                released: false,
                votes: Sheet::new(granted.votes),
                turn: None,
                due: None,
            }),
            changed: Notify::new(),
            cancellation: OnceLock::new(),
        }
    }

    /// Validity left; zero when the hold is lost or given up.
    pub(crate) fn remaining(&self) -> Duration {
        self.state().remaining(self.clock.now())
    }

    /// The same, and the lease, for who has just looked at the clock and wants to enter: nothing is left
    /// to enter of a leaked hold.
    pub(crate) fn term(&self, now: Moment) -> Term {
        let mut state = self.state();
        let left = if state.is_leaked() {
            Duration::ZERO
        } else {
            state.remaining(now)
        };
        Term {
            at: now,
            left,
            lease: state.lease,
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.state().count
    }

    pub(crate) fn lease(&self) -> Duration {
        self.state().lease
    }

    pub(crate) fn votes(&self) -> Vec<Vote> {
        self.state().votes.to_vec()
    }

    /// All that it takes to release it.
    pub(crate) fn claim(&self) -> Claim {
        Claim {
            names: self.names.clone(),
            field: self.field,
            token: self.token,
        }
    }

    /// The masters that may keep something for this hold: they granted, or nobody can tell.
    pub(crate) fn touched(&self) -> Places {
        self.state().touched
    }

    /// Whether the caller is to release it: the first who asks is. One that was lost is released when that is
    /// found, and nothing of it is left for its guards to give up.
    pub(crate) fn is_to_release(&self) -> bool {
        !std::mem::replace(&mut self.state().released, true)
    }

    /// Notes what a master answered last.
    pub(crate) fn note_vote(&self, node: usize, vote: Vote) {
        self.state().votes.set(node, vote);
    }

    /// Enters, if more than `min_validity` is left now. Whoever wants the hold renewed has it renewed for
    /// as long as it is in.
    pub(crate) fn enter(&self, now: Moment, min_validity: Duration, renew: bool) -> Option<Entered> {
        let mut state = self.state();
        if state.is_leaked() || state.remaining(now) <= min_validity {
            return None;
        }
        let first_to_renew = renew && state.renewing == 0;
        state.count += 1;
        state.renewing += u64::from(renew);
        Some(Entered { first_to_renew })
    }

    /// Leaves once. The last to leave ends the validity before anything is sent.
    pub(crate) fn leave(&self, renew: bool) -> Left {
        let mut state = self.state();
        state.count = state.count.saturating_sub(1);
        state.renewing = state.renewing.saturating_sub(u64::from(renew));
        if state.count > 0 {
            return if state.is_leaked() {
                Left::Leaked(state.count)
            } else {
                Left::Inside(state.count)
            };
        }
        if state.phase == Phase::Held {
            state.phase = Phase::Left;
        }
        drop(state);
        self.changed.notify_waiters();
        Left::Last
    }

    /// One guard stays in for good, and does not want it renewed any more; whether only leaked ones are
    /// in.
    pub(crate) fn leak(&self, renew: bool) -> bool {
        let mut state = self.state();
        state.renewing = state.renewing.saturating_sub(u64::from(renew));
        state.leaked += 1;
        state.is_leaked()
    }

    /// Takes over what a confirmed extension gives, unless the validity had already ended: a lapse is
    /// terminal.
    pub(crate) fn prolong(&self, ends: Ends, lease: Duration) -> bool {
        let now = self.clock.now();
        let mut state = self.state();
        if state.remaining(now).is_zero() {
            return false;
        }
        state.ends.prolong(ends, now);
        state.lease = state.lease.max(lease);
        true
    }

    /// A master has confirmed the round that began at `start` after those that were needed.
    pub(crate) fn confirm(&self, node: usize, start: Moment) {
        self.state().ends.confirm(node, start);
    }

    /// Whether a master has kept it without a gap: it has counted for the hold, its end there has not
    /// come by anything that is known of its clock, and it has said nothing else since.
    pub(crate) fn is_kept_by(&self, node: usize) -> bool {
        let state = self.state();
        state.ends.stand_on(node, self.clock.now())
            && matches!(state.votes.to_vec()[node], Vote::Granted | Vote::Pending)
    }

    /// Does `send` on behalf of the hold, which will put something of it on a master, unless it has
    /// ended. What is sent here is sent before the release of the hold is.
    pub(crate) fn while_valid<T>(&self, node: usize, send: impl FnOnce(u64) -> T) -> Option<T> {
        let mut state = self.state();
        if state.remaining(self.clock.now()).is_zero() {
            return None;
        }
        state.touched.insert(node);
        Some(send(state.count))
    }

    /// Resolves when the hold has ended: why it was lost; `None` when it was given up.
    ///
    /// The timer is for the end as it is known, and is set anew only when it has fired: an extension wakes
    /// nobody. Whatever brings the end forward, and the watchdog after a suspension, rouses who waits.
    pub(crate) async fn ended(&self) -> Option<LossCause> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.look() {
                Phase::Lost(cause) => return Some(cause),
                Phase::Left => return None,
                Phase::Held => {}
            }
            tokio::select! {
                biased;
                () = sleep(self.remaining().saturating_sub(TIMER_SLACK)) => {}
                () = changed => {}
            }
        }
    }

    /// The token of the hold; `watch` is called if it is to be made and somebody has to watch.
    pub(crate) fn cancellation(&self, watch: impl FnOnce(CancellationToken)) -> CancellationToken {
        let make = || {
            let token = CancellationToken::new();
            watch(token.clone());
            token
        };
        self.cancellation.get_or_init(make).clone()
    }

    /// What the watchdog is to do with it.
    pub(crate) fn upkeep(&self) -> Upkeep {
        match self.look() {
            // Whoever closes the pool releases its holds.
            Phase::Left | Phase::Lost(LossCause::Closed) => return Upkeep::Nothing,
            Phase::Lost(_) => return Upkeep::Burial,
            Phase::Held => {}
        }
        let now = self.clock.now();
        let mut state = self.state();
        let spent = state.max_hold.is_some_and(|max| now.since(self.acquired) >= max);
        if state.renewing > 0 && !spent {
            Upkeep::Renewal(state.lease)
        } else {
            Upkeep::Look(state.remaining(now))
        }
    }

    pub(crate) fn set_due(&self, due: Option<(Instant, u64)>) -> Option<(Instant, u64)> {
        std::mem::replace(&mut self.state().due, due)
    }

    /// Keeps this process's turn until the hold ends.
    pub(crate) fn keep_turn(&self, turn: Turn) {
        let mut state = self.state();
        // One that was entered again may have a turn already, at more names than these.
        if state.phase == Phase::Held && state.turn.is_none() {
            state.turn = Some(turn);
        }
    }

    /// Takes the turn out, to be passed on by dropping it.
    pub(crate) fn take_turn(&self) -> Option<Turn> {
        self.state().turn.take()
    }

    /// The phase now; a hold with no validity left has lapsed.
    fn look(&self) -> Phase {
        let mut state = self.state();
        let lapsed = state.phase == Phase::Held && state.ends.remaining(self.clock.now()) <= TIMER_SLACK;
        if lapsed {
            state.phase = Phase::Lost(LossCause::Expired);
        }
        let phase = state.phase;
        drop(state);
        if lapsed {
            self.changed.notify_waiters();
        }
        phase
    }

    /// Wakes who waits for the end: it may have come nearer.
    pub(crate) fn rouse(&self) {
        self.changed.notify_waiters();
    }

    /// Ends the validity before its time; whether it had not ended yet.
    pub(crate) fn lose(&self, cause: LossCause) -> bool {
        let mut state = self.state();
        let held = state.phase == Phase::Held;
        if held {
            state.phase = Phase::Lost(cause);
            drop(state);
            self.changed.notify_waiters();
        }
        held
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_leaked(&self) -> bool {
        self.leaked > 0 && self.leaked == self.count
    }

    fn remaining(&mut self, now: Moment) -> Duration {
        if self.phase == Phase::Held {
            self.ends.remaining(now)
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::time::steps::Steps;
    use crate::time::validity::Validity;

    fn ends(start: Moment, lease: Duration) -> Ends {
        let validity = Validity::of_lease(start, lease, 0.0);
        let on = Places::of(&[Vote::Granted], |_| true);
        Ends::new(validity, on, 1, &Arc::new(Steps::new(1)), 0)
    }

    fn hold(lease: Duration) -> Hold {
        hold_on("a".into(), lease)
    }

    pub(crate) fn hold_on(names: Names, lease: Duration) -> Hold {
        let now = Clock::Host.now();
        let granted = Granted {
            names,
            field: Field {
                client: uuid::Uuid::nil(),
                number: 1,
            },
            needed: 1,
            token: FencingToken::NONE,
            acquired: now,
            ends: ends(now, lease),
            lease,
            votes: vec![Vote::Granted],
            max_hold: None,
        };
        Hold::new(Clock::Host, granted)
    }

    #[test]
    fn a_lapse_is_terminal() {
        let lapsed = hold(Duration::from_millis(5));
        assert!(lapsed.enter(Clock::Host.now(), Duration::ZERO, true).is_some());
        std::thread::sleep(Duration::from_millis(5));
        let lease = Duration::from_secs(30);
        assert!(!lapsed.prolong(ends(Clock::Host.now(), lease), lease));
        assert!(lapsed.enter(Clock::Host.now(), Duration::ZERO, true).is_none());
        assert!(lapsed.while_valid(0, |_| ()).is_none());
        assert_eq!(
            (lapsed.remaining(), lapsed.upkeep()),
            (Duration::ZERO, Upkeep::Burial)
        );
    }

    #[test]
    fn the_last_to_leave_ends_it() {
        let lease = Duration::from_secs(30);
        let hold = hold(lease);
        assert_eq!(
            hold.enter(Clock::Host.now(), Duration::ZERO, false),
            Some(Entered {
                first_to_renew: false
            })
        );
        assert_eq!(
            hold.enter(Clock::Host.now(), Duration::ZERO, true),
            Some(Entered { first_to_renew: true })
        );
        assert_eq!(hold.upkeep(), Upkeep::Renewal(lease));
        assert_eq!(hold.leave(true), Left::Inside(1));
        assert!(matches!(hold.upkeep(), Upkeep::Look(_)));
        assert_eq!(hold.leave(false), Left::Last);
        assert_eq!(
            (hold.remaining(), hold.upkeep()),
            (Duration::ZERO, Upkeep::Nothing)
        );
        assert!(
            hold.while_valid(0, |_| ()).is_none(),
            "nothing is sent after the release"
        );
    }
}
