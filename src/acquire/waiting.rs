//! One wait: its place in this process's line and in the queues on the masters, from the call to its end.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{Instant, sleep};

use crate::acquire::line::{self, LinePlace};
use crate::acquire::pauses::{OUTAGE, Pauses};
use crate::acquire::refusal::Refusal;
use crate::acquire::request::AcquireRequest;
use crate::acquire::rollback::DelayedRollback;
use crate::events::EventObserver;
use crate::hold::client::NEAR_US;
use crate::hold::grant::Hold;
use crate::interop::subscription::{NoticeCounts, Subscription};
use crate::node::waiters::Heard;
use crate::protocol::node_set::NodeSet;
use crate::protocol::tally::LossReason;
use crate::protocol::waiter::{Precedence, Waiter};
use crate::queue::{Joined, LineTicket, NextInLine, QueueEntry, Seat};
use crate::round::clocks::Clocks;
use crate::time::clock::Moment;
use crate::values::names::Names;
use crate::values::votes::Vote;

/// What had come before an attempt was sent: it tells afterwards what has come since.
pub(super) struct Asked {
    pub(super) heard: Heard,
    /// From clients of other libraries.
    pub(super) noticed: Option<NoticeCounts>,
    /// Whether it asked as one that stands in the queues.
    pub(super) stood: bool,
}

/// Dropped, it leaves every queue.
pub(super) struct Waiting<'a> {
    request: &'a AcquireRequest,
    pub(super) entry: QueueEntry,
    /// Its turn in the line of this process.
    pub(super) seat: Arc<Seat<Hold>>,
    /// Whether its ticket was drawn from so many clocks as it needs grants.
    has_ticket: bool,
    /// Whether it may stand in the queues: a round of its own has reached enough masters, or none has been tried.
    pub(super) could_win: bool,
    /// Since when each of several names has stood in the way, without a call from there.
    shut_since: SmallVec<[Option<Instant>; 4]>,
    /// The rollback of its last attempt.
    deferred: Option<DelayedRollback>,
    /// The masters that were told to roll back the attempt before the last, and those for the last.
    pub(super) rolled_back: NodeSet,
    touched: NodeSet,
    pub(super) since: Instant,
    begun: Moment,
    /// The masters' clocks, until the first attempt.
    pub(super) clocks: Option<Clocks>,
    /// To releases by clients of other libraries; made when the first of them is met.
    pub(super) foreign: Option<Subscription>,
    pub(super) pauses: Pauses<'a>,
}

impl<'a> Waiting<'a> {
    pub(super) fn begin(request: &'a AcquireRequest) -> Self {
        let pool = &request.client.pool;
        request.trace.label().waits();
        let calls = pool.topics.waiters.join(pool.slots.len());
        let waiter = Waiter {
            number: calls.number,
            ticket: 0,
            comes_within: Waiter::comes_within(pool.config.node_timeout),
            only: None,
            reads: request.kind.is_shared(),
        };
        let mut waiting = Self {
            request,
            entry: QueueEntry { waiter, calls },
            seat: Arc::new(Seat::new()),
            has_ticket: false,
            could_win: true,
            shut_since: SmallVec::from_elem(None, request.names.len()),
            deferred: None,
            rolled_back: NodeSet::default(),
            touched: NodeSet::default(),
            since: Instant::now(),
            begun: pool.clock.now(),
            clocks: None,
            foreign: None,
            pauses: Pauses::new(&pool.random),
        };
        waiting.draw_ticket();
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
        };
        let lines = &self.request.client.lines;
        lines.join(&self.request.wanted(), self.entry.clone(), next, &self.seat)
    }

    /// Stands in line behind one that asks, which may ask for the first time.
    pub(super) fn stand_behind(
        &self,
        standing: LineTicket<Hold>,
        asks: Option<(Arc<Seat<Hold>>, QueueEntry)>,
    ) -> LinePlace<'a> {
        if let Some((seat, place)) = asks {
            // Nobody waited behind it, so it did not mind.
            mind_absence_of(self.request, &seat, &place);
            place.calls.woken();
        }
        self.mind_absence();
        LinePlace {
            client: &self.request.client,
            standing,
            seat: Arc::clone(&self.seat),
        }
    }

    /// From here on others may wait behind it. Where it is woken and its task is not polled in time, its turn goes on to
    /// the next in line, and it leaves the queues. It comes again, with its ticket, once its task is polled.
    pub(super) fn mind_absence(&self) {
        mind_absence_of(self.request, &self.seat, &self.entry);
    }

    /// Draws a ticket as soon as enough masters have told their clocks, for one that stands in line without. Never
    /// resolves.
    pub(super) async fn draw_late(&mut self, drawn: impl Fn(u64)) {
        let mut pauses = Pauses::new(&self.request.client.pool.random);
        while !self.has_ticket {
            sleep(pauses.next(OUTAGE)).await;
            self.draw_ticket();
            // They go on meanwhile.
            self.clocks = None;
            if self.has_ticket {
                drawn(self.entry.waiter.ticket);
            }
        }
        std::future::pending::<()>().await;
    }

    /// As whom to ask beside others.
    pub(super) fn beside(&mut self) -> Precedence<&'static QueueEntry> {
        self.draw_ticket();
        if self.has_ticket {
            Precedence::Ticketed(self.entry.waiter.ticket)
        } else {
            Precedence::Tried
        }
    }

    /// Makes ready for the next attempt.
    pub(super) fn prepare(&mut self) -> Asked {
        // Else it would meet itself.
        self.finish_rollback();
        self.draw_ticket();
        // Until the answers are there, and it looks at them.
        self.entry.calls.present();
        self.entry.calls.woken();
        Asked {
            heard: self.entry.calls.heard(),
            noticed: self.foreign.as_ref().map(Subscription::heard),
            stood: self.queued_entry().is_some(),
        }
    }

    /// Takes over the ticket of the set that it is a part of, if the clocks of its own masters bear it out.
    pub(super) fn take_ticket(&mut self, ticket: u64) -> bool {
        let clock_us = self.clocks.as_ref().and_then(Clocks::median_us).unwrap_or(0);
        let is_near = self.has_ticket && ticket <= clock_us.saturating_add(NEAR_US);
        if is_near {
            self.entry.waiter.ticket = ticket;
        }
        is_near
    }

    /// Whether it may stand in the queues from its next attempt on.
    pub(super) fn may_stand(&mut self) -> bool {
        self.draw_ticket();
        self.queued_entry().is_some()
    }

    /// As whom to ask next; none for somebody who tries, and must not keep out others who could win.
    pub(super) fn queued_entry(&self) -> Option<&QueueEntry> {
        (self.could_win && self.has_ticket).then_some(&self.entry)
    }

    /// Draws a ticket, unless there is one already that the masters' clocks bear out.
    fn draw_ticket(&mut self) {
        let clocks = self.clocks.take();
        let clocks = clocks.unwrap_or_else(|| Clocks::of(&self.request.client.pool));
        let Some(clock_us) = clocks.median_us() else {
            return;
        };
        // The median of few is no reason to give up one that more of them bore out.
        let are_enough = clocks.known() >= self.request.needed;
        let is_ahead = self.entry.waiter.ticket > clock_us.saturating_add(NEAR_US);
        if !self.has_ticket || are_enough && is_ahead {
            self.entry.waiter.ticket = self.request.client.draw_ticket(clock_us);
            self.has_ticket = are_enough;
        }
        self.clocks = Some(clocks);
    }

    /// What a refusal means for its place.
    pub(super) fn refused(&mut self, refusal: &Refusal) {
        self.deferred.clone_from(&refusal.deferred);
        self.rolled_back = self.touched;
        self.touched = NodeSet::of(&refusal.votes, Vote::may_have_granted);
        let slots = &self.request.client.pool.slots;
        let is_reached = |(node, vote): &(usize, &Vote)| match vote {
            Vote::Granted | Vote::Refused { .. } => true,
            // The round was lost before it had to answer.
            Vote::Pending => slots[*node].link().is_ok_and(|link| !link.is_silent()),
            _ => false,
        };
        let reached = refusal.votes.iter().enumerate().filter(is_reached).count();
        self.could_win = refusal.reason == LossReason::Held && reached >= self.request.needed;
        if !self.could_win {
            self.leave();
        }
        if self.request.names.len() > 1 {
            self.choose_queues(refusal);
        }
    }

    /// A waiter whom one of its names has refused for long, without a call from there, stands in that name's queue
    /// alone: else it would keep the others shut for as long. Called from there, it stands in all of them again.
    fn choose_queues(&mut self, refusal: &Refusal) {
        let (now, blocking) = (Instant::now(), self.request.blocking());
        let called = self.entry.calls.take_names();
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
        let (Some(only), true) = (only, only != before && self.entry.calls.stands()) else {
            return;
        };
        // At once: until its next question it would keep the others shut.
        let names = self.request.names.iter().enumerate();
        let others: Names = names
            .filter(|(index, _)| *index != only)
            .map(|(_, name)| name)
            .collect();
        self.finish_rollback();
        self.entry.leave(&self.request.client.pool, &others, |_| true);
    }

    /// The name that has refused it for longest, and since when.
    fn longest_shut(&self) -> Option<(Instant, usize)> {
        let shut = self.shut_since.iter().enumerate();
        shut.filter_map(|(index, since)| Some(((*since)?, index))).min()
    }

    /// How long it may go on standing in the queues of several names; `None` where it stands in one alone.
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

    /// A round of it was won, and given back.
    pub(super) fn has_won(&mut self) {
        self.could_win = true;
    }

    /// Leaves the queues.
    pub(super) fn leave(&mut self) {
        if self.entry.calls.stands() {
            // It puts the waiter back.
            self.finish_rollback();
            self.entry
                .leave_all(&self.request.client.pool, &self.request.names);
        }
    }
}

/// The same for any waiter of a client that wants these names.
fn mind_absence_of(request: &AcquireRequest, seat: &Arc<Seat<Hold>>, place: &QueueEntry) {
    if place.calls.minds_absence() {
        return;
    }
    let (client, names) = (Arc::clone(&request.client), request.names.clone());
    let (seat, waiter) = (Arc::clone(seat), place.waiter);
    place.calls.on_absence(waiter.comes_within, move |calls| {
        client.pool.log_throttle.not_polled(&names);
        line::give_up(&client, seat.take());
        let calls = Arc::clone(calls);
        QueueEntry { waiter, calls }.leave_all(&client.pool, &names);
    });
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // First, so that the next in line asks behind what is left here.
        line::give_up(&self.request.client, self.seat.take());
        let pool = &self.request.client.pool;
        self.request.trace.label().waited();
        pool.topics.waiters.leave(self.entry.calls.number);
        let places = self.entry.calls.end();
        self.finish_rollback();
        self.entry
            .leave(pool, &self.request.names, |node| places.contains(node));
    }
}
