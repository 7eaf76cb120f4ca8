//! Owners: identities that may enter their holds again.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::hold::HoldView;
use crate::hold::grant::{Grant, Hold};
use crate::time::clock::Moment;
use crate::values::names::Names;

/// Actor of this process that may hold locks: a request, a job, a session.
///
/// Without one, every acquisition has an owner of its own, and no lock is entered twice by accident. To enter
/// a lock again, make one `Owner` per actor and pass it down. Clones are the same owner. Two different owners
/// exclude each other inside one process as well.
///
/// The masters never see an `Owner`. They store a fresh field for every grant, so that a late message cannot
/// touch a newer hold.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::{LockError, Owner};
///
/// let (ann, bob) = (Owner::new(), Owner::new());
/// let invoice = masters.red_lock("invoice:42");
/// let _outer = invoice.clone().owner(&ann).lock().await?;
/// let _inner = invoice.clone().owner(&ann).try_lock().await?;
/// let refused = invoice.owner(&bob).try_lock().await;
/// assert!(matches!(refused, Err(LockError::Contended { .. })));
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Owner {
    actor: Arc<Actor>,
}

#[derive(Default)]
struct Actor {
    holds: Mutex<Holds>,
    /// Notified when the owner has entered another hold.
    entered: Notify,
}

/// Nearly every owner has one hold at a time. The references are weak, so that an owner that outlives its
/// guards retains no grant.
type Holds = SmallVec<[(Weak<Grant>, u64); 1]>;

/// Relation of an owner's holds to the names that it asks for.
pub(crate) enum OwnerRelation {
    /// The owner holds none of the names.
    Outside,
    /// The owner holds all names, in one hold, with the time that this hold has left.
    Inside(Hold, HoldView),
    /// The owner holds some of the names, or all but in several holds.
    Overlapping(Names),
}

impl Owner {
    /// Makes a new owner, different from every other.
    pub fn new() -> Self {
        Self::default()
    }

    /// Relation of this owner's holds to `names` on the masters of `client`. Holds without validity do not
    /// count.
    pub(crate) fn relation(&self, client: Uuid, names: &Names, now: Moment) -> OwnerRelation {
        let mut part = None;
        let holds = self.actor.holds.lock();
        // An owner that reads may have several such holds.
        for (grant, number) in holds.iter() {
            let Some(grant) = grant.upgrade() else { continue };
            if grant.field.client != client || !grant.names.overlaps(names) {
                continue;
            }
            let is_whole = grant.names.contains_all(names);
            let number = *number;
            let hold = Hold { grant, number };
            let view = hold.with_state(|state, number| state.view(number, now));
            if view.left.is_zero() {
                continue;
            }
            if is_whole {
                return OwnerRelation::Inside(hold, view);
            }
            part.get_or_insert_with(|| hold.grant.names.clone());
        }
        part.map_or(OwnerRelation::Outside, OwnerRelation::Overlapping)
    }

    pub(crate) fn remember(&self, hold: &Hold) {
        let mut holds = self.actor.holds.lock();
        // Drops the holds of leaked guards. The scan runs only when there is no room for another hold, so
        // seldom.
        if holds.len() == holds.capacity() {
            holds.retain(|(grant, _)| grant.strong_count() > 0);
        }
        holds.push((Arc::downgrade(&hold.grant), hold.number));
        drop(holds);
        self.actor.entered.notify_waiters();
    }

    /// Forgets a hold that has been given up.
    pub(crate) fn forget(&self, hold: &Hold) {
        self.actor.holds.lock().retain(|(grant, number)| {
            *number != hold.number || !std::ptr::eq(grant.as_ptr(), Arc::as_ptr(&hold.grant))
        });
    }

    /// Notified when this owner has entered another hold.
    pub(crate) fn entered(&self) -> &Notify {
        &self.actor.entered
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.actor, &other.actor)
    }
}

impl Eq for Owner {}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:p})", Arc::as_ptr(&self.actor))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hold::grant::tests::hold_on;
    use crate::protocol::kind::HoldKind;
    use crate::time::clock::Clock;

    /// Makes a hold with a guard.
    fn hold(names: impl Into<Names>) -> Hold {
        let hold = hold_on(names.into(), Duration::from_secs(30));
        let now = Clock::Host.now();
        let entered =
            hold.with_state(|state, number| state.enter(number, now, Duration::ZERO, true, HoldKind::Plain));
        assert!(entered.is_some());
        hold
    }

    fn relation(owner: &Owner, names: impl Into<Names>) -> OwnerRelation {
        owner.relation(Uuid::nil(), &names.into(), Clock::Host.now())
    }

    #[test]
    fn a_hold_is_found_by_each_of_its_names() {
        let owner = Owner::new();
        let (first, second) = (hold(["a", "b"]), hold("c"));
        owner.remember(&first);
        owner.remember(&second);
        for name in ["a", "b", "c"] {
            assert!(
                matches!(relation(&owner, name), OwnerRelation::Inside(..)),
                "{name}"
            );
        }
        assert!(matches!(
            relation(&owner, ["b", "d"]),
            OwnerRelation::Overlapping(_)
        ));
        assert!(matches!(
            relation(&owner, ["b", "c"]),
            OwnerRelation::Overlapping(_)
        ));
        assert!(matches!(relation(&owner, "d"), OwnerRelation::Outside));
        owner.forget(&first);
        assert!(matches!(relation(&owner, "b"), OwnerRelation::Outside));
        assert!(matches!(relation(&owner, "c"), OwnerRelation::Inside(..)));
    }

    #[test]
    fn what_was_leaked_takes_no_room() {
        let owner = Owner::new();
        let kept = hold("kept");
        owner.remember(&kept);
        for n in 0..10_000 {
            owner.remember(&hold(format!("leaked {n}")));
        }
        assert!(
            owner.actor.holds.lock().capacity() < 100,
            "{}",
            owner.actor.holds.lock().capacity()
        );
        assert!(matches!(relation(&owner, "kept"), OwnerRelation::Inside(..)));
    }
}
