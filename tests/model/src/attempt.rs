//! An attempt: from the first request to a hold or its rollback.

use crate::client::Phase;
use crate::link::{Answer, Slot, Verb, Word};
use crate::state::{Breach, Event, NODES};
use crate::step::Step;

impl Step<'_> {
    /// Begins an attempt. All requests are sent at once, and each may take any time.
    pub(crate) fn attempt(&mut self, client: usize) {
        let asker = &mut self.state.clients[client];
        asker.attempts += 1;
        asker.phase = Phase::Acquiring;
        asker.round = 0;
        asker.needs = self.scope.quorum[client];
        self.propose(client);
        self.begin_round(client, false);
        for node in 0..NODES {
            self.ask(client, node, Verb::Acquire);
        }
    }

    /// Reads an answer to an acquire.
    pub(crate) fn read_acquired(&mut self, client: usize, node: usize, answer: Answer) {
        let attempt = self.state.clients[client].attempt();
        let link = &mut self.state.columns[node].links[client];
        if matches!(answer.word, Word::Refused | Word::Revoked) {
            link.touched &= !(1 << attempt);
        }
        let accepted = answer.accepted;
        link.slot = match answer.word {
            _ if link.distrusted => Slot::Silent,
            Word::Granted | Word::Retaken => Slot::Granted { accepted },
            Word::Refused => Slot::Refused { accepted },
            Word::Absent | Word::Revoked => Slot::Silent,
        };
        if link.distrusted {
            self.state.note(Event::Quarantined);
        } else {
            let asker = &mut self.state.clients[client];
            asker.highest = asker.highest.max(answer.highest);
        }
        let granted = self.count(client, |slot| matches!(slot, Slot::Granted { .. }));
        let open = self.count(client, Slot::is_open);
        if granted >= self.quorum(client) {
            self.granted(client);
        } else if granted + open < self.quorum(client) {
            self.roll_back(client);
        }
    }

    fn granted(&mut self, client: usize) {
        let accepted = self.count(client, |slot| {
            matches!(
                slot,
                Slot::Granted { accepted: true } | Slot::Refused { accepted: true }
            )
        });
        if !self.scope.rules.one_token_for_all {
            let asker = &mut self.state.clients[client];
            asker.token = asker.highest;
        }
        if self.scope.fenced && accepted < self.quorum(client) {
            self.raise(client);
        } else {
            self.enter_hold(client);
        }
    }

    fn raise(&mut self, client: usize) {
        self.propose(client);
        let elapsed = self.state.clients[client].elapsed;
        self.state.clients[client].round += 1;
        let anywhere = !self.scope.rules.raise_needs_owner;
        let granted = |slot| matches!(slot, Slot::Granted { .. });
        let asked: [bool; NODES] =
            std::array::from_fn(|node| anywhere || granted(self.state.columns[node].links[client].slot));
        self.begin_round(client, false);
        // The lease runs from the first round on.
        self.state.clients[client].elapsed = elapsed;
        self.state.clients[client].phase = Phase::Raising;
        for node in (0..NODES).filter(|node| asked[*node]) {
            self.ask(client, node, Verb::Raise);
        }
        self.decide_raise(client);
    }

    /// Reads an answer to a raise.
    pub(crate) fn read_raised(&mut self, client: usize, node: usize, answer: Answer) {
        if answer.word == Word::Granted && !answer.accepted {
            self.state.breach(Breach::RaiseRefused);
        }
        let link = &mut self.state.columns[node].links[client];
        let counts = answer.word == Word::Granted && answer.accepted && !link.distrusted;
        link.slot = if counts {
            Slot::Granted { accepted: true }
        } else {
            Slot::Silent
        };
        self.decide_raise(client);
    }

    fn decide_raise(&mut self, client: usize) {
        let accepted = self.count(client, |slot| matches!(slot, Slot::Granted { .. }));
        let open = self.count(client, Slot::is_open);
        if accepted >= self.quorum(client) {
            self.state.note(Event::Raised);
            self.enter_hold(client);
        } else if accepted + open < self.quorum(client) {
            self.roll_back(client);
        }
    }

    /// A quorum has granted: a hold, if there is validity left after its last answer.
    fn enter_hold(&mut self, client: usize) {
        let validity = self.scope.validity();
        let elapsed = self.state.clients[client].elapsed;
        if elapsed >= validity {
            if self.scope.rules.answers_in_time {
                self.roll_back(client);
                return;
            }
            self.state.breach(Breach::TooLate);
        }
        self.end_round(client);
        let winner = &mut self.state.clients[client];
        winner.phase = Phase::Holding;
        winner.left = validity.saturating_sub(elapsed).max(1);
        winner.count = 1;
        self.state.note(Event::Granted);
        if self.state.refused.0 & 1 << client != 0 {
            self.state.note(Event::RivalWon);
        }
        if self.scope.fenced {
            self.issue(client);
        }
    }

    /// Ends an attempt that is lost, cancelled or out of time.
    pub(crate) fn roll_back(&mut self, client: usize) {
        let refused = self.count(client, |slot| matches!(slot, Slot::Refused { .. }));
        if refused >= self.blocking(client) {
            self.state.refused.0 |= 1 << client;
        }
        let anywhere = self.scope.rules.rollback_wherever;
        let attempt = self.state.clients[client].attempt();
        self.release(client, attempt, 0, |slot| {
            anywhere || matches!(slot, Slot::Granted { .. })
        });
        self.end_round(client);
        let asker = &mut self.state.clients[client];
        asker.phase = Phase::Idle;
        asker.token = 0;
        asker.top = 0;
        self.state.note(Event::RolledBack);
    }
}
