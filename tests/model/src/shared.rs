//! Read and write locks: many readers or one writer over a quorum, and a writer that becomes a reader.
//!
//! A machine of its own, as a key that many hold has a deadline for each of them and none of what the first one is
//! about: tokens, tenures, re-entry, force. Three masters, up to three clients, each of which reads or writes. As there,
//! requests of a connection are executed in their order at any later time, answers are read at any later time or never,
//! connections break, masters restart, and time passes for all clocks together. Readers' tokens need no
//! leases: they have a machine to themselves.
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
