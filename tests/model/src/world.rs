//! Events that happen to clients and nodes: deliveries, time, faults, and an operator's force.

use crate::client::Phase;
use crate::link::{Request, Slot, Verb};
use crate::scope::Loss;
use crate::state::{Breach, Event, Owner};
use crate::step::Step;

impl Step<'_> {
    /// The node executes the oldest request of a connection, and answers if that is still awaited.
    pub(crate) fn execute(&mut self, client: usize, node: usize) {
        let request = self.state.columns[node].links[client].queue.remove(0);
        let asker = &self.state.clients[client];
        let awaited = asker.attempts > 0 && request.serial == asker.serial();
        let answer = self.run(node, request);
        let link = &mut self.state.columns[node].links[client];
        if awaited && link.slot == Slot::Waiting && !matches!(request.verb, Verb::Release | Verb::Leave) {
            link.slot = Slot::Answered(answer);
        }
    }

    /// An abandoned socket delivers its oldest request; nobody reads the answer.
    pub(crate) fn execute_abandoned(&mut self, client: usize, node: usize) {
        let request = self.state.columns[node].links[client].abandoned.remove(0);
        self.run(node, request);
        self.state.note(Event::LateArrival);
    }

    fn run(&mut self, node: usize, request: Request) -> crate::link::Answer {
        let asked = if request.verb == Verb::ExtendShortly {
            1
        } else {
            self.scope.lease
        };
        let lease = asked.saturating_add_signed(self.scope.skew[node]);
        let executed = self.state.columns[node].node.execute(request, lease, self.scope);
        if executed.ttl_shrank {
            self.state.breach(Breach::TtlShrank);
        }
        executed.answer
    }

    /// A connection breaks. Its requests may still arrive, but the client never gets their answers.
    pub(crate) fn break_link(&mut self, client: usize, node: usize) {
        self.state.breaks -= 1;
        let obligations = self.scope.rules.obligations;
        let extensions_only = !self.scope.late_acquires;
        let link = &mut self.state.columns[node].links[client];
        link.up = false;
        if obligations {
            let owed = link.queue.iter().filter(|request| is_release(request)).copied();
            link.owed.extend(owed);
        }
        link.abandoned = std::mem::take(&mut link.queue);
        if extensions_only {
            link.abandoned
                .retain(|request| matches!(request.verb, Verb::Extend | Verb::ExtendShortly));
        }
        self.lose_answer(client, node);
    }

    /// A new connection: the server ends its predecessor, then the pending releases are sent.
    pub(crate) fn reconnect(&mut self, client: usize, node: usize) {
        let link = &mut self.state.columns[node].links[client];
        link.up = true;
        link.queue = std::mem::take(&mut link.owed);
        if self.scope.rules.kill_predecessor {
            link.abandoned.clear();
        }
    }

    /// A node restarts without its lost data. All sockets to it die with it.
    pub(crate) fn restart(&mut self, node: usize, loss: Loss) {
        self.state.restarts -= 1;
        let floor = self.floor();
        let quarantine = self.scope.quarantine();
        let stored = &mut self.state.columns[node].node;
        if loss != Loss::Fence {
            stored.free();
            stored.revoked = 0;
        }
        if loss != Loss::Lock {
            stored.fence = 0;
        }
        stored.floor = floor;
        stored.quarantine = quarantine;
        for client in 0..self.state.clients.len() {
            let link = &mut self.state.columns[node].links[client];
            link.up = true;
            link.abandoned.clear();
            link.queue.retain(is_release);
            let owed = std::mem::take(&mut link.owed);
            link.queue.extend(owed);
            self.lose_answer(client, node);
        }
    }

    /// Requests over a connection that is gone stay unanswered. An answer that has come is still read.
    fn lose_answer(&mut self, client: usize, node: usize) {
        let link = &mut self.state.columns[node].links[client];
        if link.slot != Slot::Waiting {
            return;
        }
        link.slot = Slot::Silent;
        if self.state.clients[client].extending.is_some() && self.count(client, Slot::is_open) == 0 {
            self.end_round(client);
        }
    }

    /// Somebody sets out to force a holder out of every node.
    pub(crate) fn force(&mut self, owner: Owner) {
        self.state.forced = Some(owner);
        for column in &mut self.state.columns {
            column.node.force_due = true;
        }
    }

    /// The force arrives at a node.
    pub(crate) fn force_at(&mut self, node: usize) {
        let marks = self.scope.rules.force_marks;
        let forced = self.state.forced;
        let stored = &mut self.state.columns[node].node;
        stored.force_due = false;
        for owner in stored.holder.into_iter().chain(forced) {
            stored.revoked |= if marks { owner.bit() } else { 0 };
        }
        stored.free();
        if self.state.columns.iter().all(|column| !column.node.force_due) {
            self.state.note(Event::Forced);
        }
    }

    /// Time passes: a tick on every clock.
    pub(crate) fn tick(&mut self) {
        if self.scope.clock_until > 0 {
            self.state.now += 1;
        }
        for column in &mut self.state.columns {
            column.node.tick();
        }
        let most = self.scope.validity();
        for client in 0..self.state.clients.len() {
            let one = &mut self.state.clients[client];
            if one.is_trying() || one.extending.is_some() {
                one.elapsed = (one.elapsed + 1).min(most);
            }
            if one.has_grant() && one.left > 0 {
                one.left -= 1;
                match (one.left, one.phase) {
                    (0, Phase::Holding) => self.lapse(client),
                    // A client that is passing the grant on may notice later.
                    (0, _) => self.end_round(client),
                    _ => {}
                }
            }
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "a filter of references")]
fn is_release(request: &Request) -> bool {
    matches!(request.verb, Verb::Release | Verb::Leave)
}
