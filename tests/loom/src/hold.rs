//! The files on tenures, and their models, as the states are no wider than this module.

#[path = "../../../src/hold/ends.rs"]
pub(crate) mod ends;
#[path = "../../../src/hold/state.rs"]
mod state;
#[path = "../../../src/hold/succession.rs"]
mod succession;
#[path = "../../../src/hold/tenure.rs"]
pub(crate) mod tenure;
#[path = "../../../src/hold/vote_record.rs"]
pub(crate) mod vote_record;

pub mod passing;
