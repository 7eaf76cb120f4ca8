//! The files on grants, and their models, as the states are no wider than this module.

#[path = "../../../src/hold/age_report.rs"]
mod age_report;
#[path = "../../../src/hold/expiry.rs"]
pub(crate) mod expiry;
#[path = "../../../src/hold/grant.rs"]
pub(crate) mod grant;
#[path = "../../../src/hold/guard_counts.rs"]
mod guard_counts;
#[path = "../../../src/hold/handoff.rs"]
mod handoff;
#[path = "../../../src/hold/operations.rs"]
mod operations;
#[path = "../../../src/hold/state.rs"]
mod state;
#[path = "../../../src/hold/vote_record.rs"]
pub(crate) mod vote_record;

pub mod passing;
