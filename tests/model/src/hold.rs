//! A hold: its extension, re-entry, and its end.

use crate::client::Phase;
use crate::link::{Answer, Link, Slot, Verb, Word};
use crate::state::{Breach, Event, NODES};
use crate::step::Step;

impl Step<'_> {
    /// Begins an extension; the answers to an older one are not awaited any more.
    pub(crate) fn extend(&mut self, client: usize, verb: Verb) {
        let everybody = !self.scope.rules.quarantine_in_extensions;
        self.begin_round(client, everybody);
        let gain = if verb == Verb::ExtendShortly {
            1
        } else {
            self.scope.validity()
        };
        let holder = &mut self.state.clients[client];
        holder.extensions_left -= 1;
        holder.round += 1;
        holder.extending = Some(gain);
        for node in 0..NODES {
            self.ask(client, node, verb);
        }
        self.close_extension(client);
    }

    /// Reads an answer to an extension, or to a retake in it.
    pub(crate) fn read_extended(&mut self, client: usize, node: usize, answer: Answer) {
        let link = &mut self.state.columns[node].links[client];
        link.slot = match answer.word {
            _ if link.distrusted => Slot::Silent,
            Word::Granted | Word::Retaken => Slot::Granted { accepted: true },
            Word::Absent => Slot::Absent,
            Word::Refused | Word::Revoked => Slot::Refused { accepted: false },
        };
        if link.distrusted {
            self.state.note(Event::Quarantined);
        }
        let agreed = self.count(client, |slot| matches!(slot, Slot::Granted { .. }));
        let against = self.count(client, |slot| matches!(slot, Slot::Refused { .. }));
        if against > NODES / 2 {
            self.lapse(client);
            return;
        }
        if agreed >= self.quorum(client) {
            self.prolong(client, answer.word == Word::Retaken);
        }
        // A node that still has the hold shows that it is alive. Only then is it put back on the nodes that forgot it.
        if agreed > 0 && self.state.clients[client].left > 0 {
            for node in 0..NODES {
                if self.state.columns[node].links[client].slot == Slot::Absent {
                    self.ask(client, node, Verb::Retake);
                }
            }
        }
        self.close_extension(client);
    }

    fn prolong(&mut self, client: usize, retaken: bool) {
        let counted = |link: &Link| link.forgetful && matches!(link.slot, Slot::Granted { .. });
        let links = self.state.columns.iter().map(|column| &column.links[client]);
        let forgetful = links.filter(|link| counted(link)).count();
        if forgetful > self.scope.forgetful_allowed(self.quorum(client)) {
            self.state.breach(Breach::Forgetful);
        }
        let holder = &mut self.state.clients[client];
        let gained = holder.extending.unwrap_or(0).saturating_sub(holder.elapsed);
        let revived = holder.left == 0 && gained > 0;
        let between = holder.phase == Phase::Between;
        holder.left = holder.left.max(gained);
        if revived {
            self.state.breach(Breach::Revived);
        }
        if between {
            self.state.note(Event::ExtendedBetween);
        }
        self.state.note(Event::Extended);
        if retaken {
            self.state.note(Event::RetakeCounted);
        }
    }

    fn close_extension(&mut self, client: usize) {
        if self.count(client, Slot::is_open) == 0 {
            self.end_round(client);
        }
    }

    /// Enters the hold once more.
    pub(crate) fn enter(&mut self, client: usize) {
        self.state.clients[client].entries_left -= 1;
        if self.scope.rules.client_counts {
            self.state.clients[client].count += 1;
            self.state.note(Event::Reentered);
            return;
        }
        self.begin_round(client, false);
        self.state.clients[client].round += 1;
        self.state.clients[client].entering = true;
        for node in 0..NODES {
            self.ask(client, node, Verb::Enter);
        }
    }

    /// Reads a node's answer to a re-entry, where nodes count.
    pub(crate) fn read_entered(&mut self, client: usize, node: usize, answer: Answer) {
        let granted = answer.word == Word::Granted;
        let slot = if granted {
            Slot::Granted { accepted: true }
        } else {
            Slot::Refused { accepted: false }
        };
        self.state.columns[node].links[client].slot = slot;
        let granted = self.count(client, |slot| matches!(slot, Slot::Granted { .. }));
        let open = self.count(client, Slot::is_open);
        if granted >= self.quorum(client) {
            self.end_round(client);
            self.state.clients[client].count += 1;
        } else if granted + open < self.quorum(client) {
            self.cancel_entry(client);
        }
    }

    /// Counts down again wherever a re-entry that failed or was cancelled may have been counted.
    pub(crate) fn cancel_entry(&mut self, client: usize) {
        let counted = |slot| !matches!(slot, Slot::Unasked | Slot::Refused { .. });
        self.count_down(client, |slot, _| counted(slot));
        self.end_round(client);
    }

    fn count_down(&mut self, client: usize, chosen: impl Fn(Slot, bool) -> bool) {
        let request = self.request(client, Verb::Leave);
        let attempt = self.state.clients[client].attempt();
        for column in &mut self.state.columns {
            let link = &mut column.links[client];
            if chosen(link.slot, link.touched & 1 << attempt != 0) {
                if link.up {
                    link.queue.push(request);
                } else {
                    link.owed.push(request);
                }
            }
        }
    }

    /// Leaves once, not for the last time.
    pub(crate) fn leave(&mut self, client: usize) {
        self.state.clients[client].count -= 1;
        if !self.scope.rules.client_counts {
            self.count_down(client, |_, touched| touched);
        }
    }

    /// Leaves for the last time.
    pub(crate) fn unlock(&mut self, client: usize) {
        let (attempt, token) = (self.state.clients[client].attempt(), self.declared(client));
        if self.scope.rules.client_counts {
            self.release(client, attempt, token, |_| true);
        } else {
            self.count_down(client, |_, touched| touched);
        }
        self.end_round(client);
        if self.scope.rules.unlock_ends_first {
            self.forget(client);
        }
    }

    /// The client has no hold any more, and no grant.
    pub(crate) fn forget(&mut self, client: usize) {
        let holder = &mut self.state.clients[client];
        holder.phase = Phase::Idle;
        holder.left = 0;
        holder.count = 0;
        holder.token = 0;
        holder.top = 0;
    }

    /// Releases a hold that lapsed, however late: its guard may have been kept.
    pub(crate) fn bury(&mut self, client: usize, attempt: u8) {
        self.state.clients[client].lapsed &= !(1 << attempt);
        self.release(client, attempt, 0, |_| true);
    }
}
