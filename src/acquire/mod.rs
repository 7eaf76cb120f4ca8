//! From a call to a guard: enter a hold or attempt a new one, and wait between two attempts.

mod attempt;
pub(crate) mod enter;
pub(crate) mod in_the_way;
mod line;
mod patience;
mod pauses;
mod proposal;
mod refusal;
pub(crate) mod request;
mod rest;
mod rollback;
pub(crate) mod several;
pub(crate) mod wait;
mod waiting;
