//! Types that two threads share in the pipe, the inbox, a grant and the line of tasks. They are in one place
//! so that `tests/loom` can replace them.

pub(crate) use std::sync::atomic::AtomicUsize;

pub(crate) use parking_lot::{Mutex, MutexGuard};
