//! A holder as masters and people name it: the parsed owner field of a lock's key.

use std::fmt;
use std::sync::Arc;

/// An owner as the masters store it. Knowing it is enough to release the lock, so it is shown only
/// in part.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Holder(pub(crate) Arc<str>);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start: String = self.0.chars().take(8).collect();
        match self.0.rsplit_once(':') {
            Some((_, number)) => write!(f, "{start}…:{number}"),
            None => write!(f, "{start}…"),
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder({self})")
    }
}
