//! Trust in a master: its identity, the grants that it may have forgotten, and its clock.

pub(super) mod clock_check;
pub(super) mod master_clock;
pub(crate) mod membership;
mod offsets;
pub(super) mod servers;
