//! Owners: who may enter a hold again, by which of its holds.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use uuid::Uuid;

use crate::hold::Term;
use crate::hold::holdings::Holdings;
use crate::hold::tenure::Hold;
use crate::names::Names;
use crate::time::clock::Moment;

/// An actor of this process that may hold locks: a request, a job, a session.
///
/// Without one, every acquisition has an owner of its own and nothing is ever entered twice by
/// accident. To enter a lock again, make one `Owner` per actor and pass it down. Clones are the same
/// owner; two different owners exclude each other inside one process as well.
///
/// The masters never see an `Owner`: what they store is a fresh field for every grant, so that
/// nothing late can touch a newer hold.
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
    holds: Mutex<Holdings>,
    /// Rings when it has got another hold.
    entered: Notify,
}

/// What an owner already has of the names it asks for.
#[derive(Debug)]
pub(crate) enum Standing {
    /// None of them.
    Outside,
    /// All of them, in one hold that is good for so long.
    Inside(Hold, Term),
    /// Some, or all but in several holds.
    Overlapping(Names),
}

impl Owner {
    /// A new owner, different from every other.
    pub fn new() -> Self {
        Self::default()
    }

    /// The owner that the running tokio task is, as the running thread is in Java; outside of a task,
    /// the running thread. It lasts for as long as the task has a guard, or the owner itself.
    ///
    /// Two calls in one task give the same owner; a task that it spawns is another.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::{Masters, Owner};
    ///
    /// async fn add_postage(masters: Masters) -> Result<u64, multilock::LockError> {
    ///     let guard = masters.red_lock("invoice:42").owner(&Owner::task()).lock().await?;
    ///     Ok(guard.hold_count())
    /// }
    ///
    /// let task = tokio::spawn(async move {
    ///     let _guard = masters.red_lock("invoice:42").owner(&Owner::task()).lock().await?;
    ///     add_postage(masters.clone()).await
    /// });
    /// assert_eq!(task.await??, 2);
    /// # Ok(()) }
    /// ```
    pub fn task() -> Self {
        static ACTORS: LazyLock<Mutex<HashMap<Runner, Weak<Actor>>>> = LazyLock::new(Mutex::default);
        let runner =
            tokio::task::try_id().map_or_else(|| Runner::Thread(std::thread::current().id()), Runner::Task);
        let mut actors = ACTORS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(actor) = actors.get(&runner).and_then(Weak::upgrade) {
            return Self { actor };
        }
        // Looked through only when it has doubled, so the map stays in step with the living.
        if actors.len() == actors.capacity() {
            actors.retain(|_, actor| actor.strong_count() > 0);
        }
        let owner = Self::default();
        actors.insert(runner, Arc::downgrade(&owner.actor));
        owner
    }

    /// Where this owner stands now with `names` on the masters of `client`. Lapsed holds do not count.
    pub(crate) fn standing(&self, client: Uuid, names: &Names, now: Moment) -> Standing {
        let holds = self.holds();
        // One that reads may have several.
        let whole = holds.find(names, |hold| {
            let tenure = &hold.tenure;
            if tenure.field.client != client || !tenure.names.contains_all(names) {
                return None;
            }
            let term = hold.term(now);
            (!term.left.is_zero()).then_some((term, hold))
        });
        if let Some((term, hold)) = whole {
            return Standing::Inside(hold, term);
        }
        let part = holds.find(names, |hold| {
            let tenure = &hold.tenure;
            let touches = tenure.field.client == client && tenure.names.overlaps(names);
            (touches && !hold.term(now).left.is_zero()).then(|| tenure.names.clone())
        });
        part.map_or(Standing::Outside, Standing::Overlapping)
    }

    pub(crate) fn remember(&self, hold: &Hold) {
        self.holds().insert(hold);
        self.actor.entered.notify_waiters();
    }

    /// A hold has been given up.
    pub(crate) fn forget(&self, hold: &Hold) {
        self.holds().remove(hold);
    }

    fn holds(&self) -> MutexGuard<'_, Holdings> {
        self.actor.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when a task of this owner gets another hold, from the moment it is enabled.
    pub(crate) fn entered(&self) -> Notified<'_> {
        self.actor.entered.notified()
    }
}

/// What runs code, in the sense of [`Owner::task`].
#[derive(PartialEq, Eq, Hash)]
enum Runner {
    Task(tokio::task::Id),
    Thread(std::thread::ThreadId),
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
