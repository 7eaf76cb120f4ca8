//! Fields of this client, and the recalls that have come for them: messages of masters that a waiter wants the names
//! of a field. The waiter is another client's, or of another line of this client.
//!
//! A recall may overtake the answer that grants the field. So a field is known from before its acquire is sent. A
//! recall is advice: it may be lost or late, and no promise depends on it.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::protocol::field::FieldMessage;

/// Fields of this client by number.
#[derive(Default)]
pub(crate) struct Recalls {
    fields: Mutex<BTreeMap<u64, Recalled>>,
    on_idle: OnceLock<Box<OnIdle>>,
}

/// Ends the idle grant of a field. The flag is set if another client or line wants its names. Otherwise a force
/// took them away on a master, or recalls may have been missed.
type OnIdle = dyn Fn(u64, bool) + Send + Sync;

/// Subject of a recall of one field.
enum Recalled {
    /// An attempt under way, with the smallest ticket of the recalls for it.
    Attempt(Option<NonZeroU64>),
    Grant(Weak<dyn Recallable>),
}

/// A grant, as recalls see it.
pub(crate) trait Recallable: Send + Sync {
    /// Takes in that a waiter with this ticket wants the names, or without a ticket that a try does. Returns whether the grant
    /// is idle.
    fn recalled(&self, ticket: Option<NonZeroU64>) -> bool;

    /// Takes in that recalls may have been missed. Returns whether the grant is idle.
    fn missed_recalls(&self) -> bool;
}

/// Entry of a field, removed when this is dropped.
pub(crate) struct KnownField {
    recalls: Arc<Recalls>,
    number: u64,
}

impl Recalls {
    /// Sets what ends idle grants. Only the first call counts.
    pub(crate) fn on_idle(&self, on_idle: impl Fn(u64, bool) + Send + Sync + 'static) {
        let _ = self.on_idle.set(Box::new(on_idle));
    }

    /// Enters the field of an attempt that is about to be sent.
    pub(crate) fn enter(self: &Arc<Self>, number: u64) -> KnownField {
        self.fields.lock().insert(number, Recalled::Attempt(None));
        KnownField {
            recalls: Arc::clone(self),
            number,
        }
    }

    /// Takes in a message about a field. A field that is not known has been given up.
    pub(super) fn take_in(&self, message: FieldMessage) {
        let ticket = match message {
            FieldMessage::Recall { ticket, .. } => Some(ticket),
            // No task may get the grant from this client any more.
            FieldMessage::Forced { .. } => Some(NonZeroU64::MIN),
            FieldMessage::Try { .. } => None,
        };
        let grant = match (self.fields.lock().get_mut(&message.number()), ticket) {
            (Some(Recalled::Grant(grant)), _) => grant.upgrade(),
            (Some(Recalled::Attempt(first)), Some(ticket)) => {
                *first = Some(first.map_or(ticket, |first| first.min(ticket)));
                return;
            }
            _ => return,
        };
        // A grant takes mutexes of its own, and may be dropped here.
        let Some(grant) = grant else { return };
        if grant.recalled(ticket) {
            let is_recalled = !matches!(message, FieldMessage::Forced { .. });
            self.end_idle(message.number(), is_recalled);
        }
    }

    fn end_idle(&self, number: u64, is_recalled: bool) {
        if let Some(on_idle) = self.on_idle.get() {
            on_idle(number, is_recalled);
        }
    }

    /// Takes in that messages of a master may have been missed. No grant stays with the client: a waiter whose recall was
    /// missed would ask again only after some seconds.
    pub(super) fn interrupt(&self) {
        let grants: Vec<_> = {
            let fields = self.fields.lock();
            let known = fields.iter().filter_map(|(number, recalled)| match recalled {
                Recalled::Grant(grant) => Some((*number, grant.upgrade()?)),
                Recalled::Attempt(_) => None,
            });
            known.collect()
        };
        for (number, grant) in grants {
            if grant.missed_recalls() {
                self.end_idle(number, false);
            }
        }
    }
}

impl KnownField {
    /// Leads later recalls to the grant of the field. Returns the smallest ticket of the earlier ones.
    pub(crate) fn granted(&self, grant: Weak<dyn Recallable>) -> Option<NonZeroU64> {
        let mut fields = self.recalls.fields.lock();
        let recalled = fields.get_mut(&self.number)?;
        match std::mem::replace(recalled, Recalled::Grant(grant)) {
            Recalled::Attempt(first) => first,
            Recalled::Grant(_) => None,
        }
    }
}

impl Drop for KnownField {
    fn drop(&mut self) {
        self.recalls.fields.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<u64>>);

    impl Recallable for Seen {
        fn recalled(&self, ticket: Option<NonZeroU64>) -> bool {
            let mut seen = self.0.lock();
            seen.extend(ticket.map(NonZeroU64::get));
            seen.len() > 2
        }

        fn missed_recalls(&self) -> bool {
            self.0.lock().push(0);
            true
        }
    }

    fn take_in(recalls: &Recalls, message: &str) {
        recalls.take_in(FieldMessage::parse(message).expect("a message"));
    }

    #[test]
    fn a_recall_may_overtake_the_grant() {
        let recalls = Arc::<Recalls>::default();
        let idle = Arc::<Mutex<Vec<bool>>>::default();
        let seen_idle = Arc::clone(&idle);
        recalls.on_idle(move |_, is_recalled| seen_idle.lock().push(is_recalled));
        let field = recalls.enter(7);
        for message in ["!7 30 a", "!7 20 a", "!7 25 a", "!8 1 a", "?7 1 a"] {
            take_in(&recalls, message);
        }
        let seen = Arc::<Seen>::default();
        let weak = Arc::downgrade(&seen);
        let first = field.granted(weak);
        assert_eq!(first.map(NonZeroU64::get), Some(20));
        take_in(&recalls, "!7 10 a");
        take_in(&recalls, "x7 a");
        assert!(idle.lock().is_empty(), "it is held");
        take_in(&recalls, "!7 11 a");
        take_in(&recalls, "x7 a");
        recalls.interrupt();
        assert_eq!(*idle.lock(), [true, false, false]);
        drop(field);
        take_in(&recalls, "!7 5 a");
        assert_eq!(*seen.0.lock(), [10, 1, 11, 1, 0]);
        assert!(recalls.fields.lock().is_empty());
    }
}
