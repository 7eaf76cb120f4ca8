//! One step under way: the part that all kinds of steps share.

use super::line::{Request, Verb};
use super::scope::Scope;
use super::state::{Kind, MASTERS, Phase, Slot, State, field_of};

/// A step from one state to the next.
pub(super) struct Step<'a> {
    pub(super) scope: &'a Scope,
    pub(super) state: State,
}

impl Step<'_> {
    /// Whether too many masters may have forgotten a lease, so that none of these has a vote for this quorum.
    pub(super) fn quarantined(&self, client: usize) -> bool {
        let forgetful = self
            .state
            .columns
            .iter()
            .filter(|column| column.master.quarantine > 0);
        forgetful.count() > self.scope.forgetful_allowed(client)
    }

    /// Nothing is awaited any more.
    pub(super) fn end_round(&mut self, client: usize) {
        for column in &mut self.state.columns {
            let link = &mut column.links[client];
            link.line = link.line.unawaited();
            link.slot = Slot::Unasked;
            link.distrusted = false;
        }
        let one = &mut self.state.clients[client];
        one.elapsed = 0;
        one.extending = false;
        one.downgrading = false;
    }

    pub(super) fn ask_everybody(&mut self, client: usize, verb: Verb) {
        for master in 0..MASTERS {
            self.ask(client, master, verb);
        }
    }

    /// Sends a request and awaits its answer; nothing is sent without a connection. The quarantines at the time of sending
    /// settle whether the answer counts.
    pub(super) fn ask(&mut self, client: usize, master: usize, verb: Verb) {
        let one = self.state.clients[client];
        let counts_everybody = one.phase == Phase::Holding && !self.scope.rules.quarantine_in_extensions;
        let many = self.quarantined(client);
        let column = &mut self.state.columns[master];
        let link = &mut column.links[client];
        if link.down {
            return;
        }
        link.line.push(Request {
            verb,
            attempt: one.attempt(),
            awaited: true,
        });
        link.slot = Slot::Waiting;
        link.distrusted = many && !counts_everybody && column.master.quarantine > 0;
        if matches!(verb, Verb::AcquireRead | Verb::AcquireWrite) {
            link.touched |= 1 << one.attempt();
        }
    }

    /// Sends the downgrade to every master; a master without a connection stays stricter than need be.
    pub(super) fn tell_of_downgrade(&mut self, client: usize) {
        let attempt = self.state.clients[client].attempt();
        for column in &mut self.state.columns {
            let link = &mut column.links[client];
            if !link.down {
                link.line.push(Request {
                    verb: Verb::Downgrade,
                    attempt,
                    awaited: false,
                });
            }
        }
    }

    /// Releases an attempt wherever something of it may be. A master without a connection is told later.
    pub(super) fn release(&mut self, client: usize, attempt: u8) {
        let request = Request {
            verb: Verb::Release,
            attempt,
            awaited: false,
        };
        for column in &mut self.state.columns {
            let link = &mut column.links[client];
            if link.touched & 1 << attempt != 0 {
                if link.down {
                    link.owed.push(request);
                } else {
                    link.line.push(request);
                }
            }
            link.touched &= !(1 << attempt);
        }
    }

    /// Gives up the hold or the attempt of the client.
    pub(super) fn leave(&mut self, client: usize) {
        let attempt = self.state.clients[client].attempt();
        self.release(client, attempt);
        self.end_round(client);
        let one = &mut self.state.clients[client];
        one.phase = Phase::Idle;
        one.left = 0;
        one.kind = self.scope.kinds[client];
    }

    /// The end of a hold that was not given up: lost for good, to be released later.
    pub(super) fn lapse(&mut self, client: usize) {
        self.end_round(client);
        let one = &mut self.state.clients[client];
        one.phase = Phase::Idle;
        one.left = 0;
        one.lapsed |= 1 << one.attempt();
        one.kind = self.scope.kinds[client];
    }

    /// Takes out requests that are not awaited and change nothing, now or later. Such a request is for a field that is not
    /// there, and no earlier request can bring the field.
    pub(super) fn tidy(&mut self) {
        for column in &mut self.state.columns {
            for (client, link) in column.links.iter_mut().enumerate() {
                while link.abandoned.is_empty()
                    && let Some(first) = link.line.first()
                    && !first.awaited
                    && !matches!(first.verb, Verb::AcquireRead | Verb::AcquireWrite)
                    && !column.master.has(field_of(client, first.attempt))
                {
                    link.line.pop();
                }
            }
        }
    }

    pub(super) fn acquire_verb(&self, client: usize) -> Verb {
        match self.state.clients[client].kind {
            Kind::Read => Verb::AcquireRead,
            Kind::Write => Verb::AcquireWrite,
        }
    }

    pub(super) fn keep_verb(&self, client: usize) -> Verb {
        match self.state.clients[client].kind {
            Kind::Read => Verb::KeepRead,
            Kind::Write => Verb::KeepWrite,
        }
    }
}
