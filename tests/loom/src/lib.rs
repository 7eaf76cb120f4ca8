//! The pipe, the inbox, and the line in which a hold passes from task to task, compiled from the crate's own files over
//! loom's locks: a model is run once for every order in which its threads may take them.

// The included files have tests and examples of their own crate, which run there.
#![cfg(not(any(test, doctest)))]
// The files are a part of a crate that uses all of them.
#![allow(dead_code, unreachable_pub, missing_docs, missing_debug_implementations)]
// A model reports its findings by a panic, and compares with results that may be errors.
#![allow(clippy::missing_panics_doc, clippy::unnecessary_wraps)]

mod error;
mod events;
pub mod hold;
pub mod inbox;
mod node;
mod protocol;
mod queue;
mod stream;
mod time;
pub mod values;

pub use node::redis::calls;

/// Runs a model in every order of its threads' steps that this number of preemptions allows.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut explorer = loom::model::Builder::new();
    explorer.preemption_bound = Some(preemptions);
    explorer.check(model);
}
