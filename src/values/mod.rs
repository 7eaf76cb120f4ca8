//! Arguments and results of calls.

pub(crate) mod holder;
pub(crate) mod last_force;
pub(crate) mod master_set;
pub(crate) mod names;
pub(crate) mod policy;
pub(crate) mod token;
pub(crate) mod votes;
