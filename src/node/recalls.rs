//! Fields of this client, and the recalls that have come for them: messages of masters that a waiter wants the names
//! of a field.
//!
//! A recall may overtake the answer that grants the field. So a field is known from before its acquire is sent. A
//! recall is advice: it may be lost or late, and no promise depends on it.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::protocol::field::FieldMessage;

/// Fields of this client by number.
#[derive(Debug, Default)]
pub(crate) struct Recalls {
    fields: Mutex<HashMap<u64, Recalled>>,
}

/// What a recall of one field concerns.
#[derive(Debug)]
enum Recalled {
    /// An attempt under way, with the smallest ticket of the recalls for it.
    Attempt(Option<NonZeroU64>),
    Grant(Arc<dyn Recallable>),
}

/// A grant, as recalls see it.
pub(crate) trait Recallable: std::fmt::Debug + Send + Sync {
    /// Takes in that a waiter with this ticket wants the names.
    fn recalled(&self, ticket: NonZeroU64);

    /// Takes in that a call that does not wait for a holder wants the names.
    fn tried(&self);

    /// Takes in that the field was forced out on a master.
    fn forced(&self);
}

/// Entry of a field, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct KnownField {
    recalls: Arc<Recalls>,
    number: u64,
}

impl Recalls {
    /// Enters the field of an attempt that is about to be sent.
    pub(crate) fn enter(self: &Arc<Self>, number: u64) -> KnownField {
        self.fields().insert(number, Recalled::Attempt(None));
        KnownField {
            recalls: Arc::clone(self),
            number,
        }
    }

    /// Takes in a message about a field. A field that is not known has been given up.
    pub(super) fn take_in(&self, message: FieldMessage) {
        let grant = match (self.fields().get_mut(&message.number()), message) {
            (Some(Recalled::Grant(grant)), _) => Arc::clone(grant),
            (Some(Recalled::Attempt(first)), FieldMessage::Recall { ticket, .. }) => {
                *first = Some(first.map_or(ticket, |first| first.min(ticket)));
                return;
            }
            _ => return,
        };
        // A grant takes mutexes of its own, and may be dropped here.
        match message {
            FieldMessage::Recall { ticket, .. } => grant.recalled(ticket),
            FieldMessage::Try { .. } => grant.tried(),
            FieldMessage::Forced { .. } => grant.forced(),
        }
    }

    fn fields(&self) -> MutexGuard<'_, HashMap<u64, Recalled>> {
        self.fields.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownField {
    /// Leads later recalls to the grant of the field. Returns the smallest ticket of the earlier ones.
    pub(crate) fn granted(&self, grant: Arc<dyn Recallable>) -> Option<NonZeroU64> {
        let before = self.recalls.fields().insert(self.number, Recalled::Grant(grant));
        match before {
            Some(Recalled::Attempt(first)) => first,
            _ => None,
        }
    }
}

impl Drop for KnownField {
    fn drop(&mut self) {
        let removed = self.recalls.fields().remove(&self.number);
        // The drop of a grant takes mutexes of its own.
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Seen(Mutex<Vec<Option<u64>>>);

    impl Recallable for Seen {
        fn recalled(&self, ticket: NonZeroU64) {
            self.0.lock().expect("not poisoned").push(Some(ticket.get()));
        }

        fn tried(&self) {
            self.forced();
        }

        fn forced(&self) {
            self.0.lock().expect("not poisoned").push(None);
        }
    }

    fn take_in(recalls: &Recalls, message: &str) {
        recalls.take_in(FieldMessage::parse(message).expect("a message"));
    }

    #[test]
    fn a_recall_may_overtake_the_grant() {
        let recalls = Arc::<Recalls>::default();
        let field = recalls.enter(7);
        for message in ["!7 30 a", "!7 20 a", "!7 25 a", "!8 1 a"] {
            take_in(&recalls, message);
        }
        let seen = Arc::<Seen>::default();
        let first = field.granted(Arc::clone(&seen) as _);
        assert_eq!(first.map(NonZeroU64::get), Some(20));
        take_in(&recalls, "!7 10 a");
        take_in(&recalls, "x7 a");
        drop(field);
        take_in(&recalls, "!7 5 a");
        assert_eq!(*seen.0.lock().expect("not poisoned"), [Some(10), None]);
        assert!(recalls.fields().is_empty());
    }
}
