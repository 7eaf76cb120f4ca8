//! One wait: its place in this process's line and in the queues on the masters, from the call to its end.

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::acquire::attempt::Asker;
use crate::acquire::line::LinePlace;
use crate::acquire::pauses::Pauses;
use crate::acquire::refusal::Refusal;
use crate::acquire::rollback::Deferred;
use crate::acquire::terms::Terms;
use crate::hold::client::NEAR_US;
use crate::hold::tenure::Hold;
use crate::hold::vote_record::NodeSet;
use crate::node::waiters::Heard;
use crate::protocol::tally::Obstacle;
use crate::protocol::waiter::Waiter;
use crate::queue::subscription::{self, NoticeCounts, Subscription};
use crate::queue::{InLine, Joined, Successor, Turn};
use crate::round::clocks::Clocks;
use crate::time::clock::Moment;
use crate::votes::Vote;

/// What had come before an attempt was sent: it tells afterwards what has come since.
pub(super) struct Asked {
    pub(super) heard: Heard,
    /// From clients of other libraries.
    pub(super) noticed: Option<NoticeCounts>,
    /// Whether it asked as one that stands in the queues.
    pub(super) stood: bool,
}

/// Its place in the line of this process.
pub(super) enum InLineAs<'a> {
    Front(Turn<Hold>),
    /// It may ask without a place.
    Beside,
    Behind(LinePlace<'a>),
}

/// Dropped, it leaves every queue.
pub(super) struct Waiting<'a> {
    terms: &'a Terms,
    pub(super) place: InLine,
    /// Whether its ticket was drawn from so many clocks as it needs grants.
    has_ticket: bool,
    /// Whether it may stand in the queues: a round of its own has reached enough masters, or none has been tried.
    pub(super) could_win: bool,
    /// Since when each of several names has stood in the way, without a call from there.
    shut_since: SmallVec<[Option<Instant>; 4]>,
    /// The rollback of its last attempt.
    deferred: Option<Deferred>,
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
    pub(super) fn begin(terms: &'a Terms) -> Self {
        let pool = &terms.client.pool;
        terms.trace.label().waits();
        subscription::listen(pool);
        let calls = pool.topics.waiters.join(pool.slots.len());
        let waiter = Waiter {
            number: calls.number,
            ticket: 0,
            comes_within: Waiter::comes_within(pool.config.node_timeout),
            only: None,
            reads: terms.kind.is_shared(),
        };
        let mut waiting = Self {
            terms,
            place: InLine { waiter, calls },
            has_ticket: false,
            could_win: true,
            shut_since: SmallVec::from_elem(None, terms.names.len()),
            deferred: None,
            rolled_back: NodeSet::default(),
            touched: NodeSet::default(),
            since: Instant::now(),
            begun: pool.clock.now(),
            clocks: None,
            foreign: None,
            pauses: Pauses::new(&pool.chance),
        };
        waiting.draw_ticket();
        waiting
    }

    /// Joins the line of this process.
    pub(super) fn join_line(&self) -> InLineAs<'a> {
        let (client, renew) = (&self.terms.client, self.terms.renew);
        let successor = Successor {
            ticket: Some(self.place.waiter.ticket).filter(|ticket| *ticket > 0),
            begun: self.begun,
            renew,
            max_hold: self.terms.max_hold,
            at_least: self.terms.at_least,
        };
        let joined = client
            .lines
            .join(&self.terms.wanted(), self.place.clone(), successor);
        match joined {
            Joined::Turn(turn) => InLineAs::Front(turn),
            Joined::Beside => InLineAs::Beside,
            Joined::Behind(standing) => InLineAs::Behind(LinePlace {
                client,
                standing,
                renew,
            }),
        }
    }

    /// As whom to ask beside others.
    pub(super) fn beside(&mut self) -> Asker<'static> {
        self.draw_ticket();
        if self.has_ticket {
            Asker::Beside(self.place.waiter.ticket)
        } else {
            Asker::Try
        }
    }

    /// Makes ready for the next attempt.
    pub(super) fn prepare(&mut self) -> Asked {
        // Else it would meet itself.
        self.finish_rollback();
        self.draw_ticket();
        Asked {
            heard: self.place.calls.heard(),
            noticed: self.foreign.as_ref().map(Subscription::heard),
            stood: self.place().is_some(),
        }
    }

    /// Takes over the ticket of the set that it is a part of, if the clocks of its own masters bear it out.
    pub(super) fn take_ticket(&mut self, ticket: u64) -> bool {
        let clock_us = self.clocks.as_ref().and_then(Clocks::median_us).unwrap_or(0);
        let is_near = self.has_ticket && ticket <= clock_us.saturating_add(NEAR_US);
        if is_near {
            self.place.waiter.ticket = ticket;
        }
        is_near
    }

    /// Whether it may stand in the queues from its next attempt on.
    pub(super) fn may_stand(&mut self) -> bool {
        self.draw_ticket();
        self.place().is_some()
    }

    /// As whom to ask next; none for somebody who tries, and must not keep out others who could win.
    pub(super) fn place(&self) -> Option<&InLine> {
        (self.could_win && self.has_ticket).then_some(&self.place)
    }

    /// Draws a ticket, unless there is one already that the masters' clocks bear out.
    fn draw_ticket(&mut self) {
        let clocks = self.clocks.take();
        let clocks = clocks.unwrap_or_else(|| Clocks::of(&self.terms.client.pool));
        let Some(clock_us) = clocks.median_us() else {
            return;
        };
        // The median of few is no reason to give up one that more of them bore out.
        let are_enough = clocks.known() >= self.terms.needed;
        let is_ahead = self.place.waiter.ticket > clock_us.saturating_add(NEAR_US);
        if !self.has_ticket || are_enough && is_ahead {
            self.place.waiter.ticket = self.terms.client.draw_ticket(clock_us);
            self.has_ticket = are_enough;
        }
        self.clocks = Some(clocks);
    }

    /// What a refusal means for its place.
    pub(super) fn refused(&mut self, refusal: &Refusal) {
        self.deferred.clone_from(&refusal.deferred);
        self.rolled_back = self.touched;
        self.touched = NodeSet::of(&refusal.votes, Vote::may_have_granted);
        let slots = &self.terms.client.pool.slots;
        let is_reached = |(node, vote): &(usize, &Vote)| match vote {
            Vote::Granted | Vote::Refused { .. } => true,
            // The round was lost before it had to answer.
            Vote::Pending => slots[*node].link().is_ok_and(|link| !link.is_silent()),
            _ => false,
        };
        let reached = refusal.votes.iter().enumerate().filter(is_reached).count();
        self.could_win = refusal.obstacle == Obstacle::Held && reached >= self.terms.needed;
        if !self.could_win {
            self.leave();
        }
        if self.terms.names.len() > 1 {
            self.choose_queues(refusal);
        }
    }

    /// A waiter whom one of its names has refused for long, without a call from there, stands in that name's queue
    /// alone: else it would keep the others shut for as long. Called from there, it stands in all of them again.
    fn choose_queues(&mut self, refusal: &Refusal) {
        let (now, blocking) = (Instant::now(), self.terms.blocking());
        let called = self.place.calls.take_names();
        for (index, name) in self.terms.names.iter().enumerate() {
            let refused = refusal.obstruction.by_name.get(index).copied().unwrap_or(0);
            let is_shut = usize::from(refused) >= blocking && !called.iter().any(|other| **other == *name);
            let since = &mut self.shut_since[index];
            *since = is_shut.then(|| since.unwrap_or(now));
        }
        let comes_within = self.place.waiter.comes_within;
        let shut = self.shut_since.iter().enumerate();
        let longest = shut.filter_map(|(index, since)| Some(((*since)?, index))).min();
        self.place.waiter.only = longest
            .filter(|(since, _)| now - *since > comes_within)
            .map(|(_, index)| index);
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
        if self.place.calls.stands() {
            // It puts the waiter back.
            self.finish_rollback();
            self.place.calls.left();
            self.place
                .leave(&self.terms.client.pool, &self.terms.names, |_| true);
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let pool = &self.terms.client.pool;
        self.terms.trace.label().waited();
        pool.topics.waiters.leave(self.place.calls.number);
        let stands = self.place.calls.end();
        self.finish_rollback();
        if stands {
            self.place.leave(pool, &self.terms.names, |_| true);
        }
    }
}
