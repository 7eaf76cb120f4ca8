//! From a call to a guard: enter a hold or attempt a new one, and wait between two attempts.

mod attempt;
pub(crate) mod enter;
mod proposal;
mod race;
mod refusal;
mod rollback;
pub(crate) mod terms;
pub(crate) mod wait;
