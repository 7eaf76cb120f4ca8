//! From a call to a guard: enters a hold or attempts a new one, and waits between two attempts.

mod attempt;
pub(crate) mod call;
pub(crate) mod conflict;
pub(crate) mod enter;
mod first_master;
pub(crate) mod in_the_way;
mod line;
mod line_up;
pub(crate) mod outcome;
mod patience;
mod pauses;
mod proposal;
mod refusal;
pub(crate) mod request;
mod rest;
mod rollback;
mod seats;
mod settle;
mod step;
mod thrifty;
mod wait;
mod wait_set;
mod waiting;
