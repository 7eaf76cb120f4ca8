//! The effect of each step.

use super::scope::{RollbackCalls, Scope};
use super::state::{MASTERS, Phase, Said, State, TICKETS, TICKETS_ANEW, Verb, WAITERS, waiter_of};

/// A step under way.
pub(super) struct Step<'a> {
    pub(super) scope: &'a Scope,
    pub(super) state: State,
}

impl Step<'_> {
    /// Begins a round.
    pub(super) fn ask(&mut self, waiter: usize) {
        let one = self.state.waiters[waiter];
        let verb = if one.narrow {
            Verb::AcquireNarrowly
        } else if one.phase == Phase::Idle || self.scope.rules.one_ticket {
            Verb::Acquire
        } else {
            Verb::AcquireAnew
        };
        for master in &mut self.state.masters {
            let link = &mut master.links[waiter];
            link.line.push(verb);
            (link.said, link.open) = (Said::Asked, false);
        }
        let after = (0..waiter).filter(|older| self.is_placed(*older));
        self.state.waiters[waiter].after = after.fold(0, |all, older| all | 1 << older);
        self.state.waiters[waiter].phase = Phase::Asking;
        // Rounds are counted where nothing else bounds them.
        if self.scope.calls {
            self.state.rounds += 1;
        }
    }

    /// Begins a round without having been called, as time has passed.
    pub(super) fn ask_in_time(&mut self, waiter: usize) {
        let one = &mut self.state.waiters[waiter];
        one.again -= 1;
        one.narrow |= self.scope.wants_both(waiter) && self.scope.rules.narrows;
        self.ask(waiter);
    }

    /// Whether enough masters have answered, so that no later waiter may win before it.
    fn is_placed(&self, waiter: usize) -> bool {
        let answered = self.state.count(waiter, |link| link.answered);
        self.state.waiters[waiter].waits() && answered >= self.scope.quorum[waiter]
    }

    /// A master executes the first message of a line.
    pub(super) fn execute(&mut self, waiter: usize, master: usize) {
        let Some(verb) = self.state.masters[master].links[waiter].line.pop() else {
            return;
        };
        match verb {
            Verb::Acquire | Verb::AcquireAnew | Verb::AcquireNarrowly => self.acquire(waiter, master, verb),
            Verb::RollBack | Verb::RollBackQuietly | Verb::RollBackNarrowly => {
                self.roll_back(waiter, master, verb);
            }
            Verb::Release => {
                if self.state.masters[master].free(waiter).is_some() {
                    self.call_head(master);
                }
            }
            Verb::Leave => {
                if self.state.masters[master].dequeue(waiter) && self.scope.rules.leaving_calls {
                    self.call_head(master);
                }
            }
        }
    }

    fn acquire(&mut self, waiter: usize, master: usize, verb: Verb) {
        let rules = &self.scope.rules;
        let tickets = if verb == Verb::AcquireAnew {
            TICKETS_ANEW
        } else {
            TICKETS
        };
        let ticket = tickets[waiter];
        let one = &mut self.state.masters[master];
        let minds = rules.newcomers_mind || one.has_queued(waiter);
        let held = !one.is_free() || one.shut && self.scope.wants_both(waiter);
        let ahead = minds && one.is_ahead_of(ticket);
        let granted = !held && !ahead;
        let left = (granted || verb == Verb::AcquireNarrowly) && one.dequeue(waiter);
        if granted {
            one.holder = Some(ticket);
        } else if verb != Verb::AcquireNarrowly {
            one.queue_up(ticket);
        }
        // A waiter that only an older ticket refuses calls that waiter. A waiter that steps aside calls the next one.
        if !granted && (left || !held && rules.refused_call) {
            self.call_head(master);
        }
        self.answer(waiter, master, granted);
    }

    fn answer(&mut self, waiter: usize, master: usize, granted: bool) {
        let phase = self.state.waiters[waiter].phase;
        let link = &mut self.state.masters[master].links[waiter];
        link.answered = self.scope.order && !matches!(phase, Phase::Done | Phase::Gone);
        // If another round has followed, the answer counts for no round.
        if link.line.has_acquire() {
            return;
        }
        match phase {
            Phase::Asking => {
                link.said = if granted { Said::Granted } else { Said::Refused };
                link.open |= granted;
                if !self.scope.decided_later {
                    self.decide(waiter);
                }
            }
            Phase::Waiting => link.open |= granted && self.scope.rules.late_grants_count,
            Phase::Idle | Phase::Done | Phase::Gone => {}
        }
        if !self.scope.calls {
            self.state.masters[master].links[waiter].open = false;
        }
    }

    /// Ends the round if its answers decide it. A later decision only delays the messages that follow it, but calls can
    /// arrive in between.
    pub(super) fn decide(&mut self, waiter: usize) {
        let needed = self.scope.quorum[waiter];
        if self.state.count(waiter, |link| link.said == Said::Granted) >= needed {
            let after = self.state.waiters[waiter].after;
            let overtakes = |older: usize| after & 1 << older != 0 && self.state.waiters[older].waits();
            self.state.overtaken |= (0..WAITERS).any(overtakes);
            self.answer_calls(waiter);
            self.end_round(waiter, Verb::Release);
            self.end(waiter, Phase::Done);
        } else if self.state.count(waiter, |link| link.said == Said::Refused) > MASTERS - needed {
            let touched = self
                .state
                .count(waiter, |link| matches!(link.said, Said::Asked | Said::Granted));
            let loud = match self.scope.rules.rollback_calls {
                RollbackCalls::Nobody => false,
                RollbackCalls::HeadAfterMany => touched > MASTERS - needed,
                RollbackCalls::Head | RollbackCalls::ItselfToo => true,
            };
            let verb = if self.state.waiters[waiter].narrow {
                Verb::RollBackNarrowly
            } else if loud {
                Verb::RollBack
            } else {
                Verb::RollBackQuietly
            };
            self.end_round(waiter, verb);
            self.state.waiters[waiter].phase = Phase::Waiting;
            self.state.waiters[waiter].after = 0;
        }
    }

    /// Leaves the queues of masters that refused it and have called it since, so that they call the next waiter.
    fn answer_calls(&mut self, waiter: usize) {
        for master in &mut self.state.masters {
            let link = &mut master.links[waiter];
            if self.scope.rules.winners_leave && link.open && link.said == Said::Refused {
                link.line.push(Verb::Leave);
            }
        }
    }

    /// Gives back the grants of the round, and grants that may still come.
    fn end_round(&mut self, waiter: usize, verb: Verb) {
        for master in &mut self.state.masters {
            let link = &mut master.links[waiter];
            if matches!(link.said, Said::Asked | Said::Granted) {
                link.line.push(verb);
            }
            link.said = Said::Nothing;
        }
    }

    /// The waiter ends: its knowledge of the masters is of no use any more.
    fn end(&mut self, waiter: usize, phase: Phase) {
        for master in &mut self.state.masters {
            let link = &mut master.links[waiter];
            (link.open, link.answered) = (false, false);
        }
        let one = &mut self.state.waiters[waiter];
        (one.phase, one.again, one.after) = (phase, 0, 0);
    }

    fn roll_back(&mut self, waiter: usize, master: usize, verb: Verb) {
        let one = &mut self.state.masters[master];
        let Some(ticket) = one.free(waiter) else {
            return;
        };
        if verb != Verb::RollBackNarrowly && self.scope.rules.queued_again {
            one.queue_up(ticket);
        }
        let itself = one.head().is_some_and(|head| waiter_of(head) == waiter);
        let may = !itself || self.scope.rules.rollback_calls == RollbackCalls::ItselfToo;
        if verb != Verb::RollBackQuietly && may {
            self.call_head(master);
        }
    }

    /// Calls the first waiter of the queue, if it could have the lock.
    fn call_head(&mut self, master: usize) {
        let one = &mut self.state.masters[master];
        if let (true, true, Some(head)) = (self.scope.calls, one.is_free(), one.head()) {
            let waiter = waiter_of(head);
            one.links[waiter].calls += 1;
            if self.scope.calls_arrive_at_once {
                self.hear(waiter, master);
            }
        }
    }

    /// A call arrives.
    pub(super) fn hear(&mut self, waiter: usize, master: usize) {
        let link = &mut self.state.masters[master].links[waiter];
        link.calls = link.calls.saturating_sub(1);
        match self.state.waiters[waiter].phase {
            Phase::Asking => link.open |= self.scope.rules.calls_count_early,
            Phase::Waiting => link.open = true,
            // A waiter that does not wait any more leaves.
            Phase::Idle | Phase::Done | Phase::Gone => {
                if self.scope.rules.strangers_leave && !link.line.has_leave() {
                    link.line.push(Verb::Leave);
                }
            }
        }
    }

    /// Takes out messages that change nothing, now or later. Delivers the calls of waiters that have ended: their answers
    /// take their time anyway.
    pub(super) fn tidy(&mut self) {
        for (waiter, master) in
            (0..WAITERS).flat_map(|waiter| (0..MASTERS).map(move |master| (waiter, master)))
        {
            while self.state.waiters[waiter].has_ended() && self.state.masters[master].links[waiter].calls > 0
            {
                self.hear(waiter, master);
            }
            let one = &mut self.state.masters[master];
            while one.links[waiter].line.first().is_some_and(|verb| match verb {
                Verb::Acquire | Verb::AcquireAnew | Verb::AcquireNarrowly => false,
                Verb::RollBack | Verb::RollBackQuietly | Verb::RollBackNarrowly | Verb::Release => {
                    !one.is_held_by(waiter)
                }
                Verb::Leave => !one.has_queued(waiter),
            }) {
                one.links[waiter].line.pop();
            }
        }
    }

    pub(super) fn give_up(&mut self, waiter: usize) {
        self.state.may_give_up = false;
        self.end_round(waiter, Verb::Release);
        for master in &mut self.state.masters {
            master.links[waiter].line.push(Verb::Leave);
        }
        self.end(waiter, Phase::Gone);
    }
}
