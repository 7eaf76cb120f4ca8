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
mod state;
pub(crate) mod tokens;
pub(crate) mod vote_record;
pub(crate) mod watchdog;

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub(crate) use self::state::{Entered, Left, Term, Upkeep};
use self::state::{Phase, State, TIMER_SLACK};
use crate::error::LossCause;
use crate::hold::ends::Ends;
use crate::hold::vote_record::NodeSet;
use crate::names::Names;
use crate::protocol::claim::Claim;
use crate::protocol::field::Field;
use crate::protocol::reply::Behind;
use crate::queue::Turn;
use crate::time::clock::{Clock, Moment};
use crate::token::FencingToken;
use crate::votes::Vote;

/// One acquisition's hold on its names.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) names: Names,
    /// Never used again for another one.
    pub(crate) field: Field,
    /// The size of its quorum.
    pub(crate) needed: usize,
    pub(crate) token: FencingToken,
    /// Whether the token is another than that of its acquire, which stored it along with the field.
    raised: bool,
    /// Who waited for the names when it was granted.
    pub(crate) behind: Behind,
    clock: Clock,
    acquired: Moment,
    state: Mutex<State>,
    /// Rings when the hold ends before its time.
    changed: Notify,
    /// Cancelled when it is lost; made when it is first asked for.
    cancellation: OnceLock<CancellationToken>,
}

/// The parts of a new hold.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) names: Names,
    pub(crate) field: Field,
    pub(crate) needed: usize,
    pub(crate) token: FencingToken,
    pub(crate) raised: bool,
    pub(crate) behind: Behind,
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
            raised: granted.raised,
            behind: granted.behind,
            clock,
            acquired: granted.acquired,
            state: Mutex::new(State::new(
                granted.ends,
                granted.lease,
                granted.max_hold,
                granted.votes,
            )),
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
        self.state().term(now)
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
            token: if self.raised {
                self.token
            } else {
                FencingToken::NONE
            },
        }
    }

    /// The masters that may keep something for this hold: they granted, or nobody can tell.
    pub(crate) fn touched(&self) -> NodeSet {
        self.state().touched
    }

    /// Whether the caller is to release it: the first who asks is. One that was lost is released when that is
    /// found, and nothing of it is left for its guards to give up.
    pub(crate) fn is_to_release(&self) -> bool {
        self.state().is_to_release()
    }

    /// Notes what a master answered last.
    pub(crate) fn note_vote(&self, node: usize, vote: Vote) {
        self.state().votes.set(node, vote);
    }

    /// Enters, if more than `min_validity` is left now. Whoever wants the hold renewed has it renewed for
    /// as long as it is in.
    pub(crate) fn enter(&self, now: Moment, min_validity: Duration, renew: bool) -> Option<Entered> {
        self.state().enter(now, min_validity, renew)
    }

    /// Leaves once. The last to leave ends the validity before anything is sent.
    pub(crate) fn leave(&self, renew: bool) -> Left {
        let left = self.state().leave(renew);
        if left == Left::Last {
            self.changed.notify_waiters();
        }
        left
    }

    /// One guard stays in for good, and does not want it renewed any more; whether only leaked ones are
    /// in.
    pub(crate) fn leak(&self, renew: bool) -> bool {
        self.state().leak(renew)
    }

    /// Takes over what a confirmed extension gives, unless the validity had already ended: a lapse is
    /// terminal.
    pub(crate) fn prolong(&self, ends: Ends, lease: Duration) -> bool {
        let now = self.clock.now();
        self.state().prolong(ends, lease, now)
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
            let left = match self.look(|state, now| (state.phase, state.remaining(now))) {
                (Phase::Lost(cause), _) => return Some(cause),
                (Phase::Left, _) => return None,
                (Phase::Held, left) => left,
            };
            tokio::select! {
                biased;
                () = sleep(left.saturating_sub(TIMER_SLACK)) => {}
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
        self.look(|state, now| state.upkeep(now, now.since(self.acquired)))
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

    /// What `read` finds in the state now; a hold with no validity left has lapsed.
    fn look<T>(&self, read: impl FnOnce(&mut State, Moment) -> T) -> T {
        let now = self.clock.now();
        let mut state = self.state();
        let lapsed = state.lapse(now);
        let found = read(&mut state, now);
        drop(state);
        if lapsed {
            self.changed.notify_waiters();
        }
        found
    }

    /// Wakes who waits for the end: it may have come nearer.
    pub(crate) fn rouse(&self) {
        self.changed.notify_waiters();
    }

    /// Ends the validity before its time; whether it had not ended yet.
    pub(crate) fn lose(&self, cause: LossCause) -> bool {
        let held = self.state().lose(cause);
        if held {
            self.changed.notify_waiters();
        }
        held
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let on = NodeSet::of(&[Vote::Granted], |_| true);
        Ends::new(validity, on, 1, &Arc::new(Steps::new(1)), 0)
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
            raised: false,
            behind: Behind::default(),
            acquired: now,
            ends: ends(now, lease),
            lease,
            votes: vec![Vote::Granted],
            max_hold: None,
        };
        Hold::new(Clock::Host, granted)
    }

    #[test]
    fn nothing_is_sent_for_what_has_ended() {
        let given_up = hold_on("a".into(), Duration::from_secs(30));
        assert!(given_up.enter(Clock::Host.now(), Duration::ZERO, true).is_some());
        assert_eq!(given_up.while_valid(0, |count| count), Some(1));
        assert_eq!(given_up.leave(true), Left::Last);
        assert!(
            given_up.while_valid(0, |_| ()).is_none(),
            "it would come after the release"
        );
        let lapsed = hold_on("a".into(), Duration::from_millis(5));
        std::thread::sleep(Duration::from_millis(5));
        assert!(lapsed.while_valid(0, |_| ()).is_none());
    }
}
