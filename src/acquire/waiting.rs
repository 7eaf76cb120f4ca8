//! One waiter: its place in this process's line and in the queues on the masters, from the call to its end.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::acquire::enter::acquire_as;
use crate::acquire::first_master;
use crate::acquire::line::{self, LinePlace};
use crate::acquire::pauses::{OUTAGE, Pauses};
use crate::acquire::refusal::{Asked, Refusal};
use crate::acquire::request::AcquireRequest;
use crate::acquire::rollback::DelayedRollback;
use crate::error::LockError;
use crate::events::EventObserver;
use crate::hold::client::NEAR_US;
use crate::hold::grant::Hold;
use crate::interop::foreign_releases::ForeignReleases;
use crate::lock::hold_guard::HoldGuard;
use crate::node::Link;
use crate::node::messages::MessageCounts;
use crate::protocol::node_set::NodeSet;
use crate::protocol::tally::LossReason;
use crate::protocol::waiter::{FIRST_MASTER, LAST, Precedence, Waiter, WaiterKind};
use crate::queue::{Delivery, Joined, LinePosition, Mailbox, NextInLine, QueueEntry};
use crate::round::clocks::Clocks;
use crate::time::clock::Moment;
use crate::values::names::Names;
use crate::values::votes::Vote;

/// State of a waiter. When it is dropped, it withdraws from every queue.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Waiting<'a> {
    pub(super) request: &'a AcquireRequest,
    pub(super) entry: QueueEntry,
    /// Calls that had come before the last attempt was sent.
    pub(super) calls_before: MessageCounts,
    /// Whether the last attempt was sent with a place in the queues.
    pub(super) was_queued: bool,
    /// Whether another task of the owner was inside before the last attempt.
    pub(super) was_inside: bool,
    /// Turn in the line of this process.
    pub(super) mailbox: Arc<Mailbox<Hold>>,
    /// Whether the ticket was drawn from as many clocks as the waiter needs grants.
    has_ticket: bool,
    /// Whether the waiter may be in the queues: one of its rounds has reached enough masters, or none has been tried.
    pub(super) could_win: bool,
    /// For each of several names, the time since which it has blocked the waiter without a call for it.
    shut_since: SmallVec<[Option<Instant>; 4]>,
    /// Rollback of the last attempt.
    deferred: Option<DelayedRollback>,
    /// Masters that got the rollback of the attempt before the last, and those for the rollback of the last.
    pub(super) rolled_back: NodeSet,
    touched: NodeSet,
    pub(super) since: Instant,
    begun: Moment,
    /// Clocks of the masters, until the first attempt.
    pub(super) clocks: Option<Clocks>,
    /// Releases by clients of other libraries.
    pub(super) foreign_releases: ForeignReleases,
    /// Whether the waiter has met a field of Redisson's, so that it asks the first master first if it needs all.
    has_met_redisson: bool,
    /// Time in which the other masters are to call once a majority has. It doubles with each question after that: others may
    /// have the names there for long.
    pub(super) others_come_within: Duration,
    pub(super) pauses: Pauses<'a>,
    /// Makes closing wait until the waiter has left the queues, which it does in its drop.
    _leaves_queues: TaskTrackerToken,
}

impl<'a> Waiting<'a> {
    pub(super) fn begin(request: &'a AcquireRequest) -> Self {
        let pool = &request.client.pool;
        request.trace.label.waits();
        let state = pool.topics.waiters.join(pool.slots.len());
        let waiter = Waiter {
            number: state.number,
            ticket: 0,
            comes_within: Waiter::comes_within(pool.config.node_timeout),
            only: None,
            kind: WaiterKind::of(request.kind),
            at_first_master: false,
        };
        let mut waiting = Self {
            request,
            entry: QueueEntry { waiter, state },
            calls_before: MessageCounts::default(),
            was_queued: false,
            was_inside: false,
            mailbox: Arc::new(Mailbox::new()),
            has_ticket: false,
            could_win: true,
            shut_since: SmallVec::from_elem(None, request.names.len()),
            deferred: None,
            rolled_back: NodeSet::default(),
            touched: NodeSet::default(),
            since: Instant::now(),
            begun: pool.clock.now(),
            clocks: None,
            foreign_releases: ForeignReleases::default(),
            has_met_redisson: false,
            others_come_within: pool.config.node_timeout,
            pauses: Pauses::new(&pool.random),
            _leaves_queues: pool.tracker.token(),
        };
        waiting.draw_ticket();
        waiting
    }

    /// Begins to wait for a grant that is idle, behind all waiters.
    pub(super) fn begin_last(request: &'a AcquireRequest) -> Self {
        let mut waiting = Self::begin(request);
        waiting.entry.waiter.ticket = LAST;
        waiting.has_ticket = true;
        waiting
    }

    /// Joins the line of this process.
    pub(super) fn join_line(&self) -> Joined<Hold> {
        let next = NextInLine {
            ticket: Some(self.entry.waiter.ticket).filter(|ticket| *ticket > 0),
            begun: self.begun,
            renew: self.request.renew,
            max_hold: self.request.max_hold,
            at_least: self.request.at_least,
            is_sticky: self.request.sticky,
        };
        let lines = &self.request.client.lines;
        lines.join(&self.request.options, self.entry.clone(), next, &self.mailbox)
    }

    /// Takes a place in line behind the front task, which may be asking for the first time.
    pub(super) fn place_behind(
        &self,
        position: LinePosition<Hold>,
        asks: Option<(Arc<Mailbox<Hold>>, QueueEntry)>,
    ) -> LinePlace<'a> {
        if let Some((mailbox, place)) = asks {
            // No task waited behind the front task until now, so its absence did not matter.
            let answers_by = Instant::now() + self.request.client.pool.config.node_timeout;
            watch_absence_of(self.request, &mailbox, &place, Some(answers_by));
        }
        self.watch_absence();
        LinePlace {
            client: &self.request.client,
            position,
        }
    }

    /// Lets the turn be taken back, because others may wait behind this waiter from here on. If the waiter is woken
    /// and its task is not polled in time, the turn goes on to the next in line, and the waiter withdraws from the
    /// queues. The waiter comes back with its ticket once its task is polled.
    fn watch_absence(&self) {
        watch_absence_of(self.request, &self.mailbox, &self.entry, None);
    }

    /// Draws a ticket for a waiter in line without one, as soon as enough masters have shown their clocks.
    /// Never resolves.
    pub(super) async fn draw_late(&mut self, drawn: impl Fn(u64)) {
        let mut pauses = Pauses::new(&self.request.client.pool.random);
        while !self.has_ticket {
            sleep(pauses.next(OUTAGE)).await;
            self.draw_ticket();
            self.forget_clocks();
            if self.has_ticket {
                drawn(self.entry.waiter.ticket);
            }
        }
        std::future::pending::<()>().await;
    }

    /// Forgets the clocks of the masters, which are outdated by the next question: this task waits before it.
    pub(super) fn forget_clocks(&mut self) {
        self.clocks = None;
    }

    /// Precedence of a question at the same time as other tasks of the line.
    pub(super) fn concurrent(&mut self) -> Precedence<&'static QueueEntry> {
        self.draw_ticket();
        if self.has_ticket {
            Precedence::Ticketed(self.entry.waiter.ticket)
        } else {
            Precedence::Tried
        }
    }

    /// Prepares the next attempt.
    pub(super) fn prepare(&mut self) {
        // Otherwise the attempt would meet the grants of the last one.
        self.finish_rollback();
        self.draw_ticket();
        self.choose_first_asked();
        self.foreign_releases.before_asking();
        self.calls_before = self.entry.state.snapshot();
        let answers_by = Instant::now() + self.request.client.pool.config.node_timeout;
        self.entry.state.ignores_calls_until(answers_by);
        self.was_queued = self.queued_entry().is_some();
        self.was_inside = self.request.is_inside();
    }

    /// Chooses whether the next attempt asks the first master alone. Then the waiter is in no other queue.
    fn choose_first_asked(&mut self) {
        let before = self.entry.waiter.at_first_master;
        self.entry.waiter.at_first_master = self.has_met_redisson && first_master::is_possible(self.request);
        if before || !self.entry.waiter.at_first_master {
            return;
        }
        let (state, pool) = (&self.entry.state, &self.request.client.pool);
        let places = state.take_places();
        let others = places.without(NodeSet::one(FIRST_MASTER));
        state.note_queued(places.without(others));
        self.entry.withdraw(pool, &self.request.names, others);
    }

    /// Takes in the refusal of a waiter for a single lock, on behalf of its line, too. If the first master granted and others
    /// refused for long, the next attempt asks all at once: the waiter has its place in every queue then.
    pub(super) fn note_refused(&mut self, refusal: &Refusal, why: &Arc<LockError>) {
        self.mailbox.refused(why);
        self.watch_absence();
        self.has_met_redisson = match refusal.asked {
            Asked::FirstAndOthers => false,
            _ => self.has_met_redisson || refusal.blockers.foreign_field,
        };
    }

    /// Sleeps until a time. No call wakes the waiter before.
    pub(super) async fn sleep_through_calls(&self, until: Instant) {
        self.entry.state.ignores_calls_until(until);
        sleep_until(until).await;
    }

    /// Waits while clients of other libraries have their turn.
    pub(super) async fn yield_to_foreign(&mut self) -> Result<(), LockError> {
        let request = self.request;
        if let Some(until) = request.client.pool.topics.yielding.until(&request.names) {
            request.unless_closed(self.sleep_through_calls(until)).await?;
            self.forget_clocks();
        }
        Ok(())
    }

    /// Asks the masters once. If the job is done, opens the line: the tasks behind learn it at the same time, and not one after
    /// the other.
    pub(super) async fn ask(&mut self) -> Result<HoldGuard, Refusal> {
        let clocks = self.clocks.take();
        let asked = acquire_as(self.request, Precedence::of(self.queued_entry()), clocks).await;
        let once = self.request.once.as_ref();
        if once.is_some_and(|once| once.found.get().is_some())
            && let Some(Delivery::Turn(turn)) = self.mailbox.take()
        {
            turn.open();
        }
        asked
    }

    /// Gives the guard this process's turn. A read guard opens the line instead.
    pub(super) fn admit(&self, guard: HoldGuard) -> HoldGuard {
        match self.mailbox.take() {
            Some(Delivery::Turn(turn)) if self.request.kind.is_shared() => turn.open(),
            Some(Delivery::Turn(turn)) => guard.hold().keep_turn(turn),
            _ => {}
        }
        guard
    }

    pub(super) fn ticket(&self) -> u64 {
        self.entry.waiter.ticket
    }

    /// Takes over the ticket of its set, if the clocks of its own masters allow it.
    pub(super) fn take_ticket(&mut self, ticket: u64) -> bool {
        let clock_us = self
            .clocks
            .as_ref()
            .and_then(|clocks| clocks.median_us)
            .unwrap_or(0);
        let is_near = self.has_ticket && ticket <= clock_us.saturating_add(NEAR_US);
        if is_near {
            self.entry.waiter.ticket = ticket;
        }
        is_near
    }

    /// Whether the waiter may be in the queues from its next attempt on.
    pub(super) fn may_queue(&mut self) -> bool {
        self.draw_ticket();
        self.queued_entry().is_some()
    }

    /// Queue entry for the next question. `None` for a waiter that only tries, so that it does not exclude
    /// waiters that could win.
    pub(super) fn queued_entry(&self) -> Option<&QueueEntry> {
        (self.could_win && self.has_ticket).then_some(&self.entry)
    }

    /// Draws a ticket, unless the waiter has one that the masters' clocks allow.
    fn draw_ticket(&mut self) {
        if self.entry.waiter.ticket == LAST {
            return;
        }
        let clocks = self.clocks.take();
        let clocks = clocks.unwrap_or_else(|| Clocks::of(&self.request.client.pool));
        let Some(clock_us) = clocks.median_us else {
            return;
        };
        // A ticket that more clocks allowed is not given up for the median of a few.
        let are_enough = clocks.known() >= self.request.needed;
        let is_ahead = self.entry.waiter.ticket > clock_us.saturating_add(NEAR_US);
        if !self.has_ticket || are_enough && is_ahead {
            self.entry.waiter.ticket = self.request.client.draw_ticket(clock_us);
            self.has_ticket = are_enough;
        }
        self.clocks = Some(clocks);
    }

    /// Adjusts the waiter's places to a refusal.
    pub(super) fn refused(&mut self, refusal: &Refusal) {
        self.deferred.clone_from(&refusal.deferred);
        self.rolled_back = self.touched;
        self.touched = NodeSet::of(&refusal.votes, Vote::may_have_granted);
        let (slots, now) = (&self.request.client.pool.slots, Instant::now());
        let may_answer = |link: Arc<Link>| !link.is_silent() && !link.is_refusing(now);
        let is_reached = |(node, vote): &(usize, &Vote)| match vote {
            Vote::Granted | Vote::Refused { .. } => true,
            // The round was lost before this master had to answer, or was asked.
            Vote::Pending | Vote::NotAsked => slots[*node].link().is_ok_and(may_answer),
            _ => false,
        };
        let reached = refusal.votes.iter().enumerate().filter(is_reached).count();
        self.could_win = refusal.reason == LossReason::Held && reached >= self.request.needed;
        if !self.could_win {
            self.withdraw();
        }
        if self.request.names.len() > 1 {
            self.choose_queues(refusal);
        }
    }

    /// Chooses the queues of a waiter for several names. If one name has refused it for long, without a call
    /// for that name, it is in that queue alone. Otherwise it would block the other names for as long.
    /// After a call for the name, it is in all queues again.
    fn choose_queues(&mut self, refusal: &Refusal) {
        let (now, blocking) = (Instant::now(), self.request.blocking());
        let called = self.entry.state.take_names();
        for (index, name) in self.request.names.iter().enumerate() {
            let refused = refusal.blockers.by_name.get(index).copied().unwrap_or(0);
            let is_shut = usize::from(refused) >= blocking && !called.iter().any(|other| **other == *name);
            let since = &mut self.shut_since[index];
            *since = is_shut.then(|| since.unwrap_or(now));
        }
        let comes_within = self.entry.waiter.comes_within;
        let longest = self.longest_shut();
        let only = longest
            .filter(|(since, _)| now - *since >= comes_within)
            .map(|(_, index)| index);
        let before = std::mem::replace(&mut self.entry.waiter.only, only);
        let (Some(only), true) = (only, only != before && self.entry.state.may_be_queued()) else {
            return;
        };
        // The waiter withdraws at once: it would block the other names until its next question.
        let names = self.request.names.iter().enumerate();
        let others: Names = names
            .filter(|(index, _)| *index != only)
            .map(|(_, name)| name)
            .collect();
        self.finish_rollback();
        let pool = &self.request.client.pool;
        self.entry.withdraw(pool, &others, pool.all());
    }

    /// Name that has refused the waiter for longest, and the time since which it has.
    fn longest_shut(&self) -> Option<(Instant, usize)> {
        let shut = self.shut_since.iter().enumerate();
        shut.filter_map(|(index, since)| Some(((*since)?, index))).min()
    }

    /// Time for which the waiter may still be in the queues of several names. `None` if it is in one
    /// alone.
    pub(super) fn may_keep_shut(&self) -> Option<Duration> {
        let waiter = &self.entry.waiter;
        let (since, _) = self.longest_shut().filter(|_| waiter.only.is_none())?;
        Some(waiter.comes_within.saturating_sub(since.elapsed()))
    }

    fn finish_rollback(&mut self) {
        if let Some(deferred) = self.deferred.take() {
            deferred.finish();
        }
    }

    /// Withdraws from the queues.
    pub(super) fn withdraw(&mut self) {
        if self.entry.state.may_be_queued() {
            // The rollback would put the waiter back into the queues, so it is finished first.
            self.finish_rollback();
            self.entry
                .withdraw_all(&self.request.client.pool, &self.request.names);
        }
    }
}

/// Lets the turn of any waiter of this client for these names be taken back. A task that may be asking wakes at `wakes_by`.
fn watch_absence_of(
    request: &AcquireRequest,
    mailbox: &Arc<Mailbox<Hold>>,
    place: &QueueEntry,
    wakes_by: Option<Instant>,
) {
    if place.state.watches_absence() {
        return;
    }
    let (client, names) = (Arc::clone(&request.client), request.names.clone());
    let (mailbox, waiter) = (Arc::clone(mailbox), place.waiter);
    place
        .state
        .on_absence(waiter.comes_within, wakes_by, move |state| {
            client.pool.log_throttle.not_polled(&names);
            line::pass_on(&client, mailbox.take());
            let entry = QueueEntry {
                waiter,
                state: Arc::clone(state),
            };
            entry.withdraw_all(&client.pool, &names);
            // No master calls the waiter any more.
            state.messages.interrupt();
        });
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Wakes the next task in line. On a runtime of one thread that task asks after the messages below are sent.
        line::pass_on(&self.request.client, self.mailbox.take());
        let pool = &self.request.client.pool;
        self.request.trace.label.waited();
        pool.topics.waiters.remove(self.entry.state.number);
        let places = self.entry.state.end();
        self.finish_rollback();
        self.entry.withdraw(pool, &self.request.names, places);
    }
}
