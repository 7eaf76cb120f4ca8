//! Steps of clients: attempts, extensions, downgrades, and the evaluation of the answers.

use super::line::Verb;
use super::state::{Event, Kind, MASTERS, Phase, Slot, Word};
use super::step::Step;

impl Step<'_> {
    /// Begins an attempt. All requests are sent at once, and each may take any time.
    pub(super) fn attempt(&mut self, client: usize) {
        self.end_round(client);
        let one = &mut self.state.clients[client];
        one.attempts += 1;
        one.phase = Phase::Acquiring;
        self.ask_everybody(client, self.acquire_verb(client));
    }

    /// Begins an extension; the answers to an older one are not awaited any more.
    pub(super) fn extend(&mut self, client: usize) {
        self.end_round(client);
        let one = &mut self.state.clients[client];
        one.extensions_left -= 1;
        one.extending = true;
        self.ask_everybody(client, self.keep_verb(client));
        self.close_round(client);
    }

    /// The guard is a reader's from now on. Nobody has to confirm that, and a round under way goes on.
    pub(super) fn downgrade(&mut self, client: usize) {
        if self.scope.rules.reads_before_downgrade {
            self.state.clients[client].kind = Kind::Read;
            self.tell_of_downgrade(client);
        } else {
            self.end_round(client);
            self.state.clients[client].downgrading = true;
            self.ask_everybody(client, Verb::Downgrade);
            self.close_round(client);
        }
    }

    /// Reads a master's answer.
    pub(super) fn read(&mut self, client: usize, master: usize) {
        let link = &mut self.state.columns[master].links[client];
        let Slot::Answered(word) = link.slot else {
            return;
        };
        link.slot = if link.distrusted {
            Slot::Silent
        } else {
            Slot::Read(word)
        };
        if link.distrusted {
            self.state.note(Event::Quarantined);
        }
        let granted = self.granted(client);
        match self.state.clients[client] {
            one if one.phase == Phase::Acquiring => self.read_acquired(client, master, word),
            one if one.downgrading => {
                if granted >= self.scope.quorum[client] {
                    self.state.clients[client].kind = Kind::Read;
                }
                self.close_round(client);
            }
            _ => self.read_extended(client),
        }
    }

    fn granted(&self, client: usize) -> usize {
        self.state.count(client, |slot| slot == Slot::Read(Word::Granted))
    }

    fn read_acquired(&mut self, client: usize, master: usize, word: Word) {
        let one = self.state.clients[client];
        if word == Word::Refused {
            self.state.columns[master].links[client].touched &= !(1 << one.attempt());
        }
        let granted = self.granted(client);
        let open = self.state.count(client, Slot::is_open);
        let validity = self.scope.validity(client);
        if granted + open < self.scope.quorum[client] {
            self.leave(client);
        } else if granted >= self.scope.quorum[client] {
            if one.elapsed >= validity {
                self.leave(client);
                return;
            }
            self.end_round(client);
            let winner = &mut self.state.clients[client];
            winner.phase = Phase::Holding;
            winner.left = validity - one.elapsed;
        }
    }

    fn read_extended(&mut self, client: usize) {
        let agreed = self.granted(client);
        let against = self.state.count(client, |slot| slot == Slot::Read(Word::Refused));
        if against > MASTERS - self.scope.quorum[client] {
            self.lapse(client);
            return;
        }
        if agreed >= self.scope.quorum[client] {
            self.prolong(client);
        }
        // A master that still has the hold shows that it is alive. Only then is it put back on the masters that forgot it.
        if agreed > 0 {
            for master in 0..MASTERS {
                if self.state.columns[master].links[client].slot == Slot::Read(Word::Absent) {
                    self.ask(client, master, self.acquire_verb(client));
                    self.state.note(Event::Retaken);
                }
            }
        }
        self.close_round(client);
    }

    fn prolong(&mut self, client: usize) {
        let validity = self.scope.validity(client);
        let one = &mut self.state.clients[client];
        one.left = one.left.max(validity.saturating_sub(one.elapsed));
        self.state.note(Event::Extended);
    }

    fn close_round(&mut self, client: usize) {
        if self.state.count(client, Slot::is_open) == 0 {
            self.end_round(client);
        }
    }

    /// Releases a hold that lapsed, however late: its guard may have been kept.
    pub(super) fn clean_up(&mut self, client: usize, attempt: u8) {
        self.state.clients[client].lapsed &= !(1 << attempt);
        self.release(client, attempt);
    }
}
