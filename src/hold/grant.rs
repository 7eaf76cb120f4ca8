//! Grants: the result of one successful round on the masters, and the holds that have it one after the other.
//!
//! The masters know one owner field, one lease and one block of tokens. Inside this process the grant is
//! handed on from hold to hold if that is allowed. No message is sent for that: the same process goes on
//! holding. A mutex makes sure that only one of the holds has the grant at any moment.

use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::handoff::{self, Handoff};
use super::state::{FirstHold, HoldState, IdleHoldOptions, Phase, Upkeep};
use crate::error::LossCause;
use crate::events::HoldTrace;
use crate::node::recalls::{KnownField, Recallable};
use crate::node::sync::{Mutex, MutexGuard};
use crate::protocol::calls;
use crate::protocol::caption::Caption;
use crate::protocol::claim::Claim;
use crate::protocol::field::Field;
use crate::protocol::kind::HoldKind;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::WaitersBehind;
use crate::protocol::waiter::LAST;
use crate::queue::{Holding, LineOptions, LineRef, NextInLine, Turn};
use crate::time::clock::{Clock, Moment};
use crate::values::names::Names;
use crate::values::token::Block;
use crate::values::votes::Vote;

/// Result of one successful round: facts that stay, and a state that changes.
pub(crate) struct Grant {
    facts: GrantFacts,
    pub(super) clock: Clock,
    state: Mutex<HoldState>,
    /// Turn of this process at the names, handed on when the grant ends.
    turn: Mutex<Option<Turn<Hold>>>,
    /// Notified when the end of one of its holds has come nearer, or may have, and when somebody waits for the names.
    pub(super) changed: Notify,
    known: KnownField,
    pub(crate) trace: HoldTrace,
}

/// Facts of a round for the whole life of its grant.
pub(crate) struct GrantFacts {
    pub(crate) names: Names,
    /// Field that is never used again for another grant.
    pub(crate) field: Field,
    /// Size of the quorum.
    pub(crate) needed: usize,
    /// Tokens, one for each hold of the grant. A reader shares the token that is stored.
    pub(crate) tokens: Block,
    /// Kind of hold that the round requested.
    pub(crate) granted: HoldKind,
    /// For a seat of a name with permits: their number.
    pub(crate) permits: Option<u8>,
    /// Whether the release is announced to clients of Redisson's.
    pub(crate) beside_redisson: bool,
    /// Caption of the grant's holds.
    pub(crate) caption: Option<Arc<Caption>>,
    /// Waiters for the names at the time of the grant.
    pub(crate) behind: WaitersBehind,
    /// Time before the acquire was sent.
    pub(crate) begun: Moment,
    pub(crate) took: Duration,
}

impl Deref for Grant {
    type Target = GrantFacts;

    fn deref(&self) -> &GrantFacts {
        &self.facts
    }
}

/// One of the holds of a grant: a local acquisition, shared by every guard that entered it.
#[derive(Clone)]
pub(crate) struct Hold {
    pub(crate) grant: Arc<Grant>,
    /// Number of holds before it in the grant.
    pub(crate) number: u64,
}

impl Grant {
    /// Makes a grant with a first hold that no guard has entered yet.
    pub(crate) fn new(clock: Clock, facts: GrantFacts, first: FirstHold, known: KnownField) -> Self {
        Self {
            state: Mutex::new(HoldState::new(facts.granted, facts.begun, first)),
            facts,
            clock,
            turn: Mutex::new(None),
            changed: Notify::new(),
            known,
            trace: HoldTrace::default(),
        }
    }

    /// Leads recalls of the grant's field to the grant, and takes in recalls that have come before.
    pub(crate) fn take_recalls(self: &Arc<Self>) {
        let grant = Arc::downgrade(self);
        // What masters tell a reader of others is mostly about readers, whom it does not keep out.
        let behind = self.behind.first.filter(|_| !self.granted.is_shared());
        let before = self.known.granted(grant).into_iter().chain(behind);
        if let Some(first) = before.min() {
            self.note_waiter(first);
        }
    }

    /// Notes a waiter of another line or client. Returns whether the grant is idle.
    pub(crate) fn note_waiter(&self, ticket: NonZeroU64) -> bool {
        // The last ticket is that of a call that does not wait for a holder.
        if ticket.get() == LAST {
            return false;
        }
        let is_idle = self.state().note_waiter(ticket, self.clock.now());
        self.changed.notify_waiters();
        is_idle
    }

    /// Whether somebody else is known to wait for the names: another task in the line of the grant, or a waiter that
    /// masters have reported. A hold that has become shared does not keep the waiters out that were reported before.
    pub(super) fn is_wanted(&self) -> bool {
        if self.kind().is_shared() {
            return false;
        }
        let has_waiters_elsewhere = self.state().elsewhere.is_some();
        has_waiters_elsewhere || self.line().is_some_and(|line| line.has_waiters())
    }

    /// Lets the vacant grant stay with the client, if no task stands in its line, and masters have reported no waiter.
    /// Returns whether it stays.
    pub(crate) fn become_idle(&self) -> bool {
        let now = self.clock.now();
        let stay = || self.state().become_idle(now, now.since(self.begun), self.granted);
        match self.line() {
            // No task joins the line meanwhile. A task that joins later looks for an idle grant.
            Some(line) => line.if_empty(stay),
            None => stay(),
        }
    }

    /// Takes the idle grant for a new hold of a running task.
    pub(crate) fn take_idle(self: &Arc<Self>, options: &IdleHoldOptions) -> Option<Hold> {
        let now = self.clock.now();
        let mut state = self.state();
        let number = state.take_idle(now, now.since(self.begun), options)?;
        drop(state);
        let grant = Arc::clone(self);
        Some(Hold { grant, number })
    }

    /// Whether its last hold has had the last token of its block. A token that readers share, or none, does not run out.
    pub(super) fn is_spent(&self) -> bool {
        self.tokens.size() > 1 && self.state().number + 1 >= self.tokens.size()
    }

    /// Whether the grant is idle and is not to be renewed. The next renewal begins now.
    pub(crate) fn take_unwanted(&self) -> bool {
        let age = self.clock.now().since(self.begun);
        self.state().take_unwanted(age)
    }

    /// Hold that has the grant, or had it last.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        Hold {
            grant: Arc::clone(self),
            number: self.state().number,
        }
    }

    /// Number of its keys in an extension.
    pub(crate) fn extended_keys(&self) -> usize {
        calls::extended_keys(&self.names, self.granted, self.tokens)
    }

    /// Current kind of its hold.
    pub(crate) fn kind(&self) -> HoldKind {
        self.state().kind
    }

    pub(crate) fn lease(&self) -> Duration {
        self.state().lease
    }

    /// Longest lease that some master may have.
    pub(crate) fn longest_lease(&self) -> Duration {
        self.state().longest_lease()
    }

    /// Validity left of the grant, whichever hold has it.
    pub(crate) fn left(&self) -> Duration {
        self.state().left(self.clock.now())
    }

    /// Number of guards in the hold, for the masters.
    pub(crate) fn count(&self) -> u64 {
        self.state().entries()
    }

    pub(crate) fn votes(&self) -> Vec<Vote> {
        self.state().votes.to_vec()
    }

    /// Claim for the release of the grant.
    pub(crate) fn claim(&self) -> Claim {
        Claim {
            names: self.names.clone(),
            field: self.field,
            kind: self.granted,
            beside_redisson: self.beside_redisson,
        }
    }

    /// Masters that may store something for the grant: they granted, or their answer is unknown.
    pub(crate) fn touched(&self) -> NodeSet {
        self.state().touched
    }

    /// Time for which its names stay locked for everybody, the next task of this process included.
    pub(crate) fn kept(&self) -> Duration {
        let mut state = self.state();
        // The usual case.
        if state.keeps_nothing() {
            return Duration::ZERO;
        }
        state.kept(self.clock.now())
    }

    /// Whether the caller has to release the grant: true for the first caller. A lost grant is released when
    /// the loss is noticed, and its guards have nothing left to release.
    pub(crate) fn begin_release(&self) -> bool {
        self.state().begin_release()
    }

    /// Notes the last answer of a master.
    pub(crate) fn note_vote(&self, node: usize, vote: Vote) {
        self.state().votes.set(node, vote);
    }

    /// Notes the late answer of a master to the acquire. Returns whether that plans another question to the master, so that
    /// the grant needs something earlier.
    pub(crate) fn note_late_vote(&self, node: usize, vote: Vote) -> bool {
        let may_soon_grant = vote.may_soon_grant();
        let mut state = self.state();
        state.votes.set(node, vote);
        may_soon_grant && state.widen_later(self.clock.now().since(self.begun))
    }

    /// Notes a master that has confirmed the round that began at `start` after the quorum.
    pub(crate) fn confirm(&self, node: usize, start: Moment) {
        self.state().ends.confirm(node, start);
    }

    /// Whether the master counts for the hold, and the end there has not come, after all known steps of the master's clock.
    /// The answers since then do not matter. A master without an answer still has the grant. A master that has answered that
    /// it does not have the grant had forgotten it unnoticed: such a master counts again once it has the grant.
    pub(crate) fn is_kept_by(&self, node: usize) -> bool {
        self.state().ends.is_valid_on(node, self.clock.now())
    }

    /// Runs `send` on behalf of the grant, unless the grant has ended, or is about to. `send` may store a part of the grant
    /// on a master. Its message is sent before the release.
    pub(crate) fn while_valid<T>(&self, node: usize, send: impl FnOnce(u64, HoldKind) -> T) -> Option<T> {
        let mut state = self.state();
        if !state.may_be_stored(self.clock.now()) {
            return None;
        }
        state.touched.insert(node);
        Some(send(state.entries(), state.kind))
    }

    /// Next task of the watchdog for the grant.
    pub(crate) fn upkeep(&self) -> Upkeep {
        self.look(|state, now| state.upkeep(now, now.since(self.begun)))
    }

    /// Whether the grant has no slack: no master beyond its quorum has it, although the client lists more.
    pub(crate) fn is_without_slack(&self) -> bool {
        let (missing, nodes) = {
            let state = self.state();
            (state.votes.missing().len(), state.votes.nodes())
        };
        missing > 0 && nodes - missing <= self.needed
    }

    /// Stores this process's turn until the grant ends.
    pub(super) fn keep_turn(&self, turn: Turn<Hold>) {
        let state = self.state();
        // A hold that was entered again may have a turn already, at more names than these.
        let mut kept = self.turn.lock();
        if state.phase == Phase::Held && kept.is_none() {
            *kept = Some(turn);
        }
    }

    /// Takes the turn out. Dropping it hands it on.
    pub(crate) fn take_turn(&self) -> Option<Turn<Hold>> {
        self.turn.lock().take()
    }

    /// Hands the vacant grant on to the next in line if that is allowed. Returns whether it did. For the task that has removed
    /// the last guard.
    pub(crate) fn hand_on(self: &Arc<Self>) -> bool {
        self.hand_on_from(Phase::Vacant)
    }

    /// Hands the idle grant on to the next in line if that is allowed. Returns whether it did.
    pub(crate) fn hand_on_idle(self: &Arc<Self>) -> bool {
        self.hand_on_from(Phase::Idle)
    }

    fn hand_on_from(self: &Arc<Self>, from: Phase) -> bool {
        self.line()
            .is_some_and(|line| line.hand_on(|options, next| self.next_hold(from, options, next)))
    }

    fn line(&self) -> Option<LineRef<Hold>> {
        self.turn.lock().as_ref().map(|turn| turn.line().clone())
    }

    /// Whether the grant is what the masters would grant to a task with these options.
    pub(super) fn suits(&self, options: &LineOptions) -> bool {
        options.kind == self.granted
            && options.names == self.names
            // A grant of more masters is renewed by them all, so it would end with the first that is away.
            && options.needed == self.needed
            && options.fenced != self.tokens.is_none()
            && options.caption == self.caption
    }

    fn next_hold(self: &Arc<Self>, from: Phase, options: &LineOptions, next: &NextInLine) -> Option<Hold> {
        // The turn may be another line's, stored by a hold that was entered again.
        if !self.suits(options) {
            return None;
        }
        let now = self.clock.now();
        let mut state = self.state();
        if state.kind != options.kind || options.kind.is_shared() {
            return None;
        }
        let offer = Handoff {
            number: state.number + 1,
            tokens: self.tokens,
            left: state.left(now),
            lease: state.longer.is_none().then_some(state.lease),
            begun: self.begun,
            age_since_grant: now.since(self.begun).saturating_sub(self.took),
            elsewhere: state.elsewhere,
            may_stay: state.may_stay(now.since(self.begun)),
            beside_redisson: self.beside_redisson,
            now,
        };
        if !handoff::may_hand_off(&offer, options, next) {
            return None;
        }
        let number = state.hand_on(from, now, next)?;
        let grant = Arc::clone(self);
        Some(Hold { grant, number })
    }

    /// Reads the current state. A hold without validity has lapsed.
    pub(super) fn look<T>(&self, read: impl FnOnce(&mut HoldState, Moment) -> T) -> T {
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

    /// Cause of the loss of its last hold, if the hold was lost. A hold without validity has lapsed.
    pub(crate) fn loss(&self) -> Option<LossCause> {
        self.look(|state, now| match (state.phase, state.left(now)) {
            (Phase::Lost(cause), _) => Some(cause),
            (Phase::Vacant, Duration::ZERO) => Some(LossCause::Expired),
            _ => None,
        })
    }

    /// Whether the grant has a hold. Its task may not have taken it yet.
    pub(crate) fn is_held(&self) -> bool {
        self.look(|state, _| state.phase == Phase::Held)
    }

    /// Ends the validity early. Returns whether it had not ended yet.
    pub(crate) fn lose(&self, cause: LossCause) -> bool {
        let held = self.state().lose(cause);
        if held {
            self.changed.notify_waiters();
        }
        held
    }

    pub(super) fn state(&self) -> MutexGuard<'_, HoldState> {
        self.state.lock()
    }
}

impl Recallable for Grant {
    fn recalled(&self, ticket: Option<NonZeroU64>) -> bool {
        match ticket {
            Some(ticket) => self.note_waiter(ticket),
            None => self.state().phase == Phase::Idle,
        }
    }

    fn missed_recalls(&self) -> bool {
        let mut state = self.state();
        state.missed_recalls = true;
        state.phase == Phase::Idle
    }
}

impl Holding for Grant {
    fn left(&self) -> Duration {
        self.left()
    }

    fn votes(&self) -> Vec<Vote> {
        self.votes()
    }

    fn joined(&self) {
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::hold::Exited;
    use crate::hold::expiry::HoldExpiry;
    use crate::node::recalls::Recalls;
    use crate::protocol::field::Letters;
    use crate::time::steps::Steps;
    use crate::time::validity::Validity;

    fn ends(start: Moment, lease: Duration) -> HoldExpiry {
        let validity = Validity::of_lease(start, lease, 0.0);
        let on = NodeSet::of(&[Vote::Granted], |_| true);
        HoldExpiry::new(validity, on, 1, &Arc::new(Steps::new(1)), 0)
    }

    pub(crate) fn hold_on(names: Names, lease: Duration) -> Hold {
        let now = Clock::Host.now();
        let facts = GrantFacts {
            names,
            field: Field {
                client: uuid::Uuid::nil(),
                number: 1,
                letters: Letters::default(),
            },
            needed: 1,
            tokens: Block::NONE,
            granted: HoldKind::Plain,
            permits: None,
            beside_redisson: false,
            caption: None,
            behind: WaitersBehind::default(),
            begun: now,
            took: Duration::ZERO,
        };
        let first = FirstHold {
            ends: ends(now, lease),
            lease,
            votes: vec![Vote::Granted],
            max_hold: None,
            set_completes_within: None,
            is_sticky: false,
        };
        let known = Arc::<Recalls>::default().enter(1);
        Hold::first(Grant::new(Clock::Host, facts, first, known))
    }

    #[test]
    fn nothing_is_sent_for_what_has_ended() {
        let given_up = hold_on("a".into(), Duration::from_secs(30));
        assert!(
            given_up
                .with_state(|state, number| state.enter(
                    number,
                    Clock::Host.now(),
                    Duration::ZERO,
                    true,
                    HoldKind::Plain
                ))
                .is_some()
        );
        assert_eq!(given_up.grant.while_valid(0, |count, _| count), Some(1));
        assert_eq!(given_up.exit(true, false), Exited::Last);
        assert_eq!(
            given_up.grant.while_valid(0, |count, _| count),
            Some(1),
            "it may pass on"
        );
        assert!(given_up.grant.begin_release());
        assert!(
            given_up.grant.while_valid(0, |_, _| ()).is_none(),
            "it would come after the release"
        );
        let lapsed = hold_on("a".into(), Duration::from_millis(5));
        std::thread::sleep(Duration::from_millis(5));
        assert!(lapsed.grant.while_valid(0, |_, _| ()).is_none());
    }
}
