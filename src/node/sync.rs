//! What two threads touch in the pipe and the inbox, in one place, so that `tests/loom` can put its own in.

pub(crate) use std::sync::atomic::AtomicUsize;
pub(crate) use std::sync::{Mutex, MutexGuard};
