//! Messages to a master and its answers: scripts, calls, replies, and the count of votes.

pub(crate) mod blockers;
pub(crate) mod calls;
pub(crate) mod caption;
pub(crate) mod claim;
pub(crate) mod command;
pub(crate) mod fault;
pub(crate) mod field;
pub(crate) mod job_mark;
pub(crate) mod keys;
pub(crate) mod kind;
pub(crate) mod lease_timing;
pub(crate) mod node_set;
pub(crate) mod permissions;
pub(crate) mod record;
pub(crate) mod release_tally;
pub(crate) mod reply;
pub(crate) mod seats;
pub(crate) mod tally;
pub(crate) mod text;
pub(crate) mod waiter;
