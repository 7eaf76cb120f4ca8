//! One step under way: the state that it changes, and the part that all kinds of steps share.

use crate::client::Phase;
use crate::link::{Request, Slot, Verb};
use crate::scope::Scope;
use crate::state::{Breach, Event, NODES, Owner, State};

/// A step from one state to the next.
pub(crate) struct Step<'a> {
    pub(crate) scope: &'a Scope,
    pub(crate) state: State,
}

/// Tokens to a tick of the clock: clients count on from the tokens that they have seen more slowly than that.
const TOKENS_A_TICK: i8 = 4;

impl Step<'_> {
    pub(crate) fn owner(&self, client: usize, attempt: u8) -> Owner {
        let fresh = self.scope.rules.fresh_owner;
        Owner::new(client, if fresh { attempt } else { 0 })
    }

    pub(crate) fn present_owner(&self, client: usize) -> Owner {
        self.owner(client, self.state.clients[client].attempt())
    }

    pub(crate) fn request(&self, client: usize, verb: Verb) -> Request {
        let asker = &self.state.clients[client];
        Request {
            verb,
            owner: self.present_owner(client),
            token: match verb {
                Verb::Acquire | Verb::Raise => asker.token,
                _ => self.declared(client),
            },
            serial: asker.serial(),
        }
    }

    /// The token that is declared once there is a hold.
    pub(crate) fn declared(&self, client: usize) -> u8 {
        let holder = &self.state.clients[client];
        if self.scope.rules.block_declared {
            holder.top
        } else {
            holder.token
        }
    }

    /// Begins a round. The nodes with a vote are settled when it is sent.
    pub(crate) fn begin_round(&mut self, client: usize, counts_everybody: bool) {
        let allowed = self.scope.forgetful_allowed(self.quorum(client));
        let forgetful = |node: &crate::node::Node| node.quarantine > 0;
        let columns = &mut self.state.columns;
        let many = columns.iter().filter(|column| forgetful(&column.node)).count() > allowed;
        for column in columns {
            let link = &mut column.links[client];
            link.slot = Slot::Unasked;
            link.forgetful = forgetful(&column.node);
            link.distrusted = many && !counts_everybody && link.forgetful;
        }
        self.state.clients[client].elapsed = 0;
    }

    /// Sends a request and awaits its answer; nothing is sent without a connection.
    pub(crate) fn ask(&mut self, client: usize, node: usize, verb: Verb) {
        let request = self.request(client, verb);
        let attempt = self.state.clients[client].attempt();
        let creates =
            matches!(verb, Verb::Acquire | Verb::Retake) || !self.scope.rules.extend_creates_nothing;
        let link = &mut self.state.columns[node].links[client];
        if link.up {
            link.queue.push(request);
            link.slot = Slot::Waiting;
            link.touched |= if creates { 1 << attempt } else { 0 };
        }
    }

    /// Releases an attempt wherever something of it may be and `chosen` agrees. A node without a
    /// connection is told later.
    pub(crate) fn release(&mut self, client: usize, attempt: u8, token: u8, chosen: impl Fn(Slot) -> bool) {
        let request = Request {
            verb: Verb::Release,
            owner: self.owner(client, attempt),
            token,
            serial: 0,
        };
        let obligations = self.scope.rules.obligations;
        if self.state.clients[client].released & 1 << attempt != 0 {
            self.state.breach(Breach::ReleasedTwice);
        }
        self.state.clients[client].released |= 1 << attempt;
        for column in &mut self.state.columns {
            let link = &mut column.links[client];
            if link.touched & 1 << attempt != 0 && chosen(link.slot) {
                if link.up {
                    link.queue.push(request);
                } else if obligations {
                    link.owed.push(request);
                }
            }
            link.touched &= !(1 << attempt);
        }
    }

    /// Nothing is awaited any more.
    pub(crate) fn end_round(&mut self, client: usize) {
        for column in &mut self.state.columns {
            column.links[client].slot = Slot::Unasked;
            column.links[client].forgetful = false;
            column.links[client].distrusted = false;
        }
        let asker = &mut self.state.clients[client];
        asker.elapsed = 0;
        asker.extending = None;
        asker.entering = false;
    }

    pub(crate) fn count(&self, client: usize, which: impl Fn(Slot) -> bool) -> usize {
        let slots = self.state.columns.iter().map(|column| column.links[client].slot);
        slots.filter(|slot| which(*slot)).count()
    }

    pub(crate) fn quorum(&self, client: usize) -> usize {
        usize::from(self.state.clients[client].needs)
    }

    /// Refusals that leave no quorum.
    pub(crate) fn blocking(&self, client: usize) -> usize {
        NODES - self.quorum(client) + 1
    }

    /// Proposes a block of tokens above all tokens that the client has proposed or seen. The block is not below the
    /// client's clock, nor below the tokens that nodes may have forgotten.
    pub(crate) fn propose(&mut self, client: usize) {
        if !self.scope.fenced {
            return;
        }
        let mut token = self.state.clients[client].highest + 1;
        if self.scope.clock_until > 0 {
            let now = i8::try_from(self.state.now).unwrap_or(i8::MAX) + self.scope.clocks[client];
            token = token.max(u8::try_from(now * TOKENS_A_TICK).unwrap_or(0));
            let links = self.state.columns.iter().filter(|column| column.links[client].up);
            if let Some(floor) = links.map(|column| column.node.floor).max()
                && self.scope.rules.floor
            {
                token = token.max(floor);
            }
        }
        let top = token + self.scope.block - 1;
        let asker = &mut self.state.clients[client];
        asker.token = token;
        asker.top = top;
        asker.highest = if self.scope.rules.above_own_block {
            top
        } else {
            token
        };
    }

    /// The floor of a node that starts now: it may have forgotten all tokens that are proposed before its quarantine
    /// ends.
    pub(crate) fn floor(&self) -> u8 {
        if self.scope.clock_until == 0 {
            return 0;
        }
        (self.state.now + self.scope.lease) * TOKENS_A_TICK.unsigned_abs()
    }

    /// A token was handed out. A hold without validity may be late with it: it is ordered as its grant
    /// was granted.
    pub(crate) fn issue(&mut self, client: usize) {
        let holder = &self.state.clients[client];
        let (token, late) = (holder.token, holder.left == 0);
        if self.state.issued & 1 << token != 0 {
            self.state.breach(Breach::TokenTwice);
        }
        if !late && token < self.state.last_issued() {
            self.state.breach(Breach::TokenFell);
        }
        self.state.issued |= 1 << token;
    }

    /// The end of a hold that was not given up: lost for good, to be released later.
    pub(crate) fn lapse(&mut self, client: usize) {
        self.end_round(client);
        let loser = &mut self.state.clients[client];
        loser.left = 0;
        if self.scope.rules.lapse_is_terminal {
            loser.phase = Phase::Idle;
            loser.lapsed |= 1 << loser.attempt();
            loser.count = 0;
            loser.token = 0;
            loser.top = 0;
        }
        self.state.note(Event::Lapsed);
    }
}
