//! In place of the crate's own.

pub(crate) use loom::sync::atomic::AtomicUsize;
pub(crate) use loom::sync::{Mutex, MutexGuard};
