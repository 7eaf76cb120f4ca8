//! What two threads touch in the pipe, the inbox, a grant and the line of tasks, in one place, so that `tests/loom` can put its own in.

pub(crate) use std::sync::atomic::AtomicUsize;
pub(crate) use std::sync::{Mutex, MutexGuard};
