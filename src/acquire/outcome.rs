//! Outcome of a call for one lock or for all locks of a set.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::LockError;
use crate::lock::hold_guard::HoldGuard;

/// A guard for each request, in their order.
pub(crate) type Guards = SmallVec<[HoldGuard; 1]>;

/// Index of a request, and the reason why its lock is not granted.
pub(crate) type MemberError<E> = (usize, E);

/// Last refusal of a wait.
pub(super) type LastRefusal = Option<MemberError<Arc<LockError>>>;
