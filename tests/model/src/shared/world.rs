//! Events that happen to clients and masters: deliveries, time, and faults.

use super::line::{Line, Request, Verb};
use super::state::{Breach, Event, Kind, Phase, Slot, Word, field_of};
use super::step::Step;

impl Step<'_> {
    /// The master executes the oldest request of a connection, and answers if that is still awaited.
    pub(super) fn execute(&mut self, client: usize, master: usize) {
        let Some(request) = self.state.columns[master].links[client].line.pop() else {
            return;
        };
        let word = self.run(client, master, request);
        if request.awaited {
            self.state.columns[master].links[client].slot = Slot::Answered(word);
            if self.scope.read_at_once {
                self.read(client, master);
            }
        }
    }

    /// An abandoned socket delivers its oldest request; nobody reads the answer.
    pub(super) fn execute_abandoned(&mut self, client: usize, master: usize) {
        if let Some(request) = self.state.columns[master].links[client].abandoned.pop() {
            self.run(client, master, request);
        }
    }

    fn run(&mut self, client: usize, master: usize, request: Request) -> Word {
        let field = field_of(client, request.attempt);
        let lease = self.scope.leases[client].saturating_add_signed(self.scope.skew[master]);
        let stored = &mut self.state.columns[master].master;
        let before = *stored;
        let word = stored.execute(request.verb, field, lease, &self.scope.rules);
        let after = *stored;
        let stayed = |field: &usize| before.has(*field) && after.has(*field);
        let turned = before.mode == Some(Kind::Read) && after.mode == Some(Kind::Write);
        if turned && before.fields().any(|field| stayed(&field)) {
            self.state.breach(Breach::ModeTurned);
        }
        if before
            .fields()
            .filter(stayed)
            .any(|field| after.cover(field) < before.cover(field))
        {
            self.state.breach(Breach::LeaseShrank);
        }
        let writes = matches!(request.verb, Verb::KeepWrite | Verb::AcquireWrite);
        if writes && before.mode == Some(Kind::Read) && before.has(field) {
            self.state.note(Event::LateWriter);
        }
        if request.verb == Verb::KeepRead && before.mode == Some(Kind::Write) && before.has(field) {
            self.state.note(Event::Healed);
        }
        if request.verb == Verb::Release && after.mode.is_some() && after.ttl < before.ttl {
            self.state.note(Event::Settled);
        }
        word
    }

    /// A connection breaks. Its requests may still arrive, but the client never gets their answers.
    pub(super) fn break_link(&mut self, client: usize, master: usize) {
        self.state.clients[client].breaks_left -= 1;
        let link = &mut self.state.columns[master].links[client];
        link.down = true;
        link.owed.extend(link.line.iter().filter(is_release));
        link.abandoned = std::mem::take(&mut link.line).unawaited();
        self.lose_answer(client, master);
    }

    /// A new connection: the server ends its predecessor, if the client may ask for that. Then the pending releases are
    /// sent.
    pub(super) fn reconnect(&mut self, client: usize, master: usize) {
        let link = &mut self.state.columns[master].links[client];
        link.down = false;
        link.line = std::mem::take(&mut link.owed);
        if self.scope.rules.kill_predecessor {
            link.abandoned = Line::default();
        }
    }

    /// A master restarts and has lost the key. All sockets to it die with it.
    pub(super) fn restart(&mut self, master: usize) {
        self.state.restarts -= 1;
        let quarantine = self.scope.quarantine();
        let stored = &mut self.state.columns[master].master;
        stored.free();
        stored.quarantine = quarantine;
        for client in 0..self.state.clients.len() {
            let link = &mut self.state.columns[master].links[client];
            link.down = false;
            link.abandoned = Line::default();
            link.line = link.line.filtered(|request| request.verb == Verb::Release);
            let owed = std::mem::take(&mut link.owed);
            link.line.extend(owed.iter());
            self.lose_answer(client, master);
        }
    }

    /// Requests over a connection that is gone stay unanswered. An answer that has come is still read.
    fn lose_answer(&mut self, client: usize, master: usize) {
        let link = &mut self.state.columns[master].links[client];
        if link.slot != Slot::Waiting {
            return;
        }
        link.slot = Slot::Silent;
        let one = &self.state.clients[client];
        if one.phase == Phase::Holding && self.state.count(client, Slot::is_open) == 0 {
            self.end_round(client);
        }
    }

    /// Time passes: a tick on every clock.
    pub(super) fn tick(&mut self) {
        for column in &mut self.state.columns {
            column.master.tick();
        }
        for client in 0..self.state.clients.len() {
            let most = self.scope.validity(client);
            let one = &mut self.state.clients[client];
            if one.phase == Phase::Acquiring || one.extending {
                one.elapsed = (one.elapsed + 1).min(most);
            }
            if one.phase == Phase::Holding {
                one.left -= 1;
                if one.left == 0 {
                    self.lapse(client);
                }
            }
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "a filter of references")]
fn is_release(request: &Request) -> bool {
    request.verb == Verb::Release
}
