//! Whether a master may be trusted: which server it is, what it may have forgotten, and what its clock does.

pub(super) mod clock_check;
pub(super) mod master_clock;
pub(crate) mod membership;
mod offsets;
pub(super) mod servers;
