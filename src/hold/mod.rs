//! Holds: local acquisitions of a grant, each shared by every guard that entered it.
//!
//! The count of a hold belongs to the client. A second entry and the end of an inner guard change the count
//! here and nowhere else. So late or lost messages cannot miscount. A hand-off to the next task of this
//! process sends no message either: the masters know only the grant.

mod age_report;
pub(crate) mod client;
pub(crate) mod end;
pub(crate) mod expiry;
pub(crate) mod extend;
pub(crate) mod grant;
mod guard_counts;
pub(crate) mod handoff;
pub(crate) mod idle;
pub(crate) mod job_mark;
pub(crate) mod last_seats;
mod operations;
pub(crate) mod recall;
pub(crate) mod release;
pub(crate) mod retake;
pub(crate) mod schedule;
mod state;
mod status;
pub(crate) mod tokens;
pub(crate) mod unsent_release;
pub(crate) mod vote_record;
pub(crate) mod watchdog;

pub(crate) use self::state::{Entered, Exited, FirstHold, HoldState, HoldView, IdleHoldOptions, Upkeep};
