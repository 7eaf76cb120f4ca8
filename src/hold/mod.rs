//! Holds: what one successful acquisition gave, shared by every guard that entered it.
//!
//! The count of a hold belongs to the client. Entering again and leaving an inner guard change it
//! here and nowhere else, so nothing that is late or lost on the network can miscount. Nor do the masters hear of it
//! when a hold passes to the next task of this process that waits for the same: what they know is the grant.

pub(crate) mod client;
pub(crate) mod downgrade;
pub(crate) mod expiry;
pub(crate) mod extend;
pub(crate) mod grant;
mod handoff;
pub(crate) mod leave;
pub(crate) mod release;
pub(crate) mod retake;
pub(crate) mod schedule;
mod state;
mod status;
pub(crate) mod tokens;
pub(crate) mod vote_record;
pub(crate) mod watchdog;

pub(crate) use self::state::{Entered, FirstHold, HoldView, LeaveOutcome, Upkeep};
