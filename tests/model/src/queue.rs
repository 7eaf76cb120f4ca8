//! The queue of waiters on the masters: no later waiter overtakes an earlier one, and calls alone bring all waiters in.
//!
//! Three masters, up to three waiters for one name, each with a ticket that it draws once. Messages arrive at any later
//! time: those of one waiter to one master in their order, calls in any. An answer is received when it is given. A hold
//! lasts for as long as its releases are on their way. No message is lost and no client dies: only time makes up for
//! that, and there is time in few places here.
//!
//! Waiters are in the order of their tickets. As any of them may be the first to arrive, that is every order, unless
//! they need different numbers of grants. Masters that are alike may change places, so they are kept in order.
//!
//! Every way has an end. Rounds are counted in the state and are few. A message of a waiter comes from a round, a call or
//! its end, and a call comes from a message that a master executes. So no state comes back. A waiter that is not done
//! at the end of a way would wait for ever.

mod model;
mod scope;
mod state;
mod step;

use model::Queue;
use scope::{Scope, Weaker, scopes, weaker_forms};

use crate::run::{Verdict, explored, refuted};

/// Explores the queue in every scope.
#[must_use]
pub fn explore_queue() -> Vec<Verdict> {
    let explore = |scope: Scope| explored(scope.name, Queue { scope });
    scopes().into_iter().map(explore).collect()
}

/// Refutes its weaker forms.
#[must_use]
pub fn refute_queue() -> Vec<Verdict> {
    let refute = |Weaker { scope, breaks }| refuted(scope.name, || Queue { scope }, breaks);
    weaker_forms().into_iter().map(refute).collect()
}
