//! Read and write locks: many readers or one writer over a quorum, and a writer that becomes a reader.
//!
//! They have a machine of their own: a key with many holders has a deadline for each of them. The subjects of the first
//! machine are left out: tokens, grants, re-entry, force. There are three masters and up to three clients, and each client
//! reads or writes. Requests of a connection are executed in their order at any later time, as in the first machine.
//! Answers are read at any later time or never. Connections break, masters restart, and time passes for all clocks
//! together. Readers' tokens need no leases: they have a machine to themselves.
//!
//! Not here: keys that other libraries have a part in.

mod line;
mod master;
mod model;
mod properties;
mod round;
mod scope;
mod state;
mod step;
mod weaker;
mod world;

use model::Shared;
use scope::{Scope, scopes};
use weaker::{Weaker, weaker_forms};

use crate::run::{Verdict, explored, refuted_in};

/// Explores read and write locks in every scope.
#[must_use]
pub fn explore_shared() -> Vec<Verdict> {
    let explore = |scope: Scope| explored(scope.name, Shared { scope });
    scopes().into_iter().map(explore).collect()
}

/// Refutes their weaker forms.
#[must_use]
pub fn refute_shared() -> Vec<Verdict> {
    let refute = |weaker: Weaker| {
        let model = || Shared {
            scope: weaker.scope.clone(),
        };
        refuted_in(weaker.steps, weaker.scope.name, model, weaker.breaks)
    };
    weaker_forms().into_iter().map(refute).collect()
}
