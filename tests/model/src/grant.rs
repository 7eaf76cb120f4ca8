//! A grant that changes hands: it stays on the nodes, one hold in it ends and the next one begins.
//!
//! Nothing is sent. Rounds under way, touched nodes and the remaining validity belong to the grant, so they are the
//! client's own here. Between two holds anything may happen. If the next hold is given up, the grant is released. If
//! the client sleeps, it hands out a token when the time is over.
//!
//! A grant that is idle in a client, for the next lock of its names, is a grant between two holds for long. A recall,
//! `close` and every other end of it give the next hold up. A lock that takes the idle grant takes over.

use crate::client::Phase;
use crate::state::{Breach, Event};
use crate::step::Step;

impl Step<'_> {
    /// A hold ends, and its grant is kept for the next one.
    pub(crate) fn hand_over(&mut self, client: usize) {
        self.state.clients[client].phase = Phase::Between;
    }

    /// The next hold is given up before it exists.
    pub(crate) fn give_up_next(&mut self, client: usize) {
        let rules = self.scope.rules;
        if rules.given_up_is_released {
            let (attempt, token) = (self.state.clients[client].attempt(), self.declared(client));
            self.release(client, attempt, token, |_| true);
        }
        self.end_round(client);
        if rules.released_is_over {
            self.forget(client);
        }
    }

    /// The next hold begins. Without any time left it has its token all the same, and has lapsed.
    pub(crate) fn take_over(&mut self, client: usize) {
        let rules = self.scope.rules;
        let heir = &mut self.state.clients[client];
        let overlaps = heir.phase == Phase::Holding;
        heir.passes_left -= 1;
        heir.phase = Phase::Holding;
        if !rules.same_needs {
            heir.needs = if heir.needs == 2 { 3 } else { 2 };
        }
        if !rules.validity_of_grant {
            heir.left = self.scope.validity();
        }
        if self.scope.fenced && rules.token_for_each_hold {
            heir.token += 1;
        }
        let late = heir.left == 0;
        if overlaps {
            self.state.breach(Breach::Overlap);
        }
        if self.scope.fenced {
            self.issue(client);
        }
        self.state.note(Event::PassedOn);
        if late {
            self.lapse(client);
        }
    }

    /// If old guards are not idle, one of them releases the grant that was passed on.
    pub(crate) fn drop_old_guard(&mut self, client: usize) {
        let (attempt, token) = (self.state.clients[client].attempt(), self.declared(client));
        self.release(client, attempt, token, |_| true);
    }
}
