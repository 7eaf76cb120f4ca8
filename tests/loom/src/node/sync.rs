//! In place of the crate's own.

pub(crate) use loom::sync::MutexGuard;
pub(crate) use loom::sync::atomic::AtomicUsize;

/// A mutex of loom, with the interface of `parking_lot`.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("no thread of a model panics")
    }
}
