//! A lock and the options of its call site: [`MultiLock`].

pub(crate) mod guard;
pub(crate) mod held;
pub(crate) mod hold_guard;
pub(crate) mod lead;
pub(crate) mod leader;
pub(crate) mod leadership;
pub(crate) mod mode;
pub(crate) mod once;
pub(crate) mod options;
pub(crate) mod owner;
pub(crate) mod permits;
pub(crate) mod set;
pub(crate) mod set_guard;

use std::marker::PhantomData;
use std::time::Duration;

use crate::admin::force::Forced;
use crate::admin::inspect::Inspection;
use crate::error::{LockError, RunError};
use crate::lock::guard::MultiLockGuard;
use crate::lock::mode::{Exclusive, Mode, Shared};
use crate::lock::options::LockOptions;
use crate::lock::owner::Owner;
use crate::masters::Masters;
use crate::protocol::kind::HoldKind;
use crate::values::holder::Holder;
use crate::values::names::Names;
use crate::values::policy::Policy;

/// Handle to a lock on one or more names, under either policy, RedLock or MultiLock. Set options by value,
/// then await one verb.
///
/// Making a handle sends nothing to the masters. A handle can be stored and used any number of times. It gives an
/// [`Exclusive`] guard or, after [`read`](Self::read), a [`Shared`] one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::LockError;
/// use std::time::Duration;
///
/// let invoice = masters.red_lock("invoice:42").lease(Duration::from_secs(10)).wait(Duration::from_secs(2));
/// let guard = invoice.lock().await?;
/// // From elsewhere, at the same time:
/// assert!(matches!(invoice.try_lock().await, Err(LockError::Contended { .. })));
/// guard.unlock().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until one of its verbs is awaited"]
pub struct MultiLock<M = Exclusive> {
    options: LockOptions,
    mode: PhantomData<M>,
}

impl Masters {
    /// Returns a lock that a majority of the masters must grant ([`Policy::RedLock`]).
    ///
    /// Takes one name, or several that are locked together or not at all.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let invoice = masters.red_lock("invoice:42").lock().await?;
    /// let both = masters.red_lock(["account:ann", "account:bob"]).lock().await?;
    /// # Ok(()) }
    /// ```
    pub fn red_lock(&self, names: impl Into<Names>) -> MultiLock {
        self.lock(names, Policy::RedLock)
    }

    /// Returns a lock that every master must grant ([`Policy::MultiLock`]).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::LockError;
    ///
    /// let ledger = masters.multi_lock("ledger");
    /// ledger.try_lock().await?.unlock().await?;
    /// // One master of three is down: a majority is left, but not all of them.
    /// cluster.master(2).crash();
    /// assert!(matches!(ledger.try_lock().await, Err(LockError::Unreachable { .. })));
    /// masters.red_lock("ledger").try_lock().await?.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub fn multi_lock(&self, names: impl Into<Names>) -> MultiLock {
        self.lock(names, Policy::MultiLock)
    }

    /// Returns a lock under any policy.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(5).await?;
    /// use multilock::Policy;
    ///
    /// let guard = masters.lock("ledger", Policy::AtLeast(4)).lock().await?;
    /// assert!(guard.votes().granted() >= 4);
    /// # Ok(()) }
    /// ```
    pub fn lock(&self, names: impl Into<Names>, policy: Policy) -> MultiLock {
        MultiLock {
            options: LockOptions::new(self, names.into(), policy),
            mode: PhantomData,
        }
    }
}

impl MultiLock {
    /// Makes this a read lock: any number of owners read the names at once, while nobody writes them.
    ///
    /// - Waiters are served in order of arrival. Later readers do not overtake a writer, and later writers do
    ///   not overtake a reader. Readers next to each other in the queue get the lock together.
    /// - A reader's lease ends by itself, however long other readers hold the lock.
    /// - Redisson's locks of these names, its read locks too, and this lock exclude each other.
    /// - Not with [`fair`](Self::fair), [`at_least`](Self::at_least) or [`sticky`](Self::sticky): these return
    ///   [`LockError::Invalid`].
    ///
    /// Readers share a fencing token while all masters can be reached. It is at least that of every writer before
    /// them, and smaller than that of every writer after them. This holds as long as fewer masters lose their fence
    /// keys, or are set back to older ones, than two quorums have in common.
    ///
    /// ```no_run
    /// # async fn job(masters: multilock::Masters) -> Result<(), Box<dyn std::error::Error>> {
    /// let catalogue = masters.red_lock("catalogue");
    /// let reading = catalogue.clone().read().lock().await?;
    /// reading.unlock().await?;
    /// let writing = catalogue.write().lock().await?;
    /// // The writer stays in, and lets readers in beside it.
    /// let reading = writing.downgrade().await;
    /// # Ok(()) }
    /// ```
    pub fn read(self) -> MultiLock<Shared> {
        MultiLock {
            options: LockOptions {
                kind: HoldKind::Read,
                ..self.options
            },
            mode: PhantomData,
        }
    }

    /// Makes this a write lock: one owner holds the names alone, and nobody reads them. Use it if others
    /// [`read`](Self::read) the names, here or by Redisson's `RReadWriteLock`. A plain lock does not exclude
    /// the clients of an `RReadWriteLock`.
    ///
    /// The owner of a write lock may enter it again to read. An owner that reads and then wants to write gets
    /// [`LockError::Upgrade`].
    ///
    /// Not with [`fair`](Self::fair), as these locks always serve in order of arrival, nor with
    /// [`at_least`](Self::at_least): both return [`LockError::Invalid`].
    pub fn write(mut self) -> Self {
        self.options.kind = HoldKind::Write;
        self
    }

    /// Sets the least time for which the names stay locked after the grant, also if the guard is given up
    /// before. Zero by default. For jobs that start at about the same time on several hosts, and must run on
    /// one of them only. The time has to be longer than the difference between their starts, and not longer
    /// than the lease. With [`lease`](Self::lease) it has to be shorter than the validity of that lease, and a
    /// hold that would begin with less validity is refused.
    ///
    /// If the guard is given up earlier, [`unlock`](MultiLockGuard::unlock) returns
    /// [`Unlocked::KeptFor`](crate::Unlocked::KeptFor) with the rest of the time. Nobody can take the names
    /// until the rest is over, its owner and its process included. If the process crashes first, the names
    /// stay locked until the lease ends, which counts from before the request was sent.
    /// [`force_release`](Self::force_release) ends it at once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::{LockError, Unlocked};
    /// use std::time::Duration;
    ///
    /// let report = masters.red_lock("report").at_least(Duration::from_secs(5));
    /// let guard = report.try_lock().await?;
    /// // The job is done at once; a host whose schedule is a little late does not do it again.
    /// assert!(matches!(guard.unlock().await?, Unlocked::KeptFor(_)));
    /// assert!(matches!(report.try_lock().await, Err(LockError::Contended { .. })));
    /// # Ok(()) }
    /// ```
    pub fn at_least(mut self, at_least: Duration) -> Self {
        self.options.at_least = at_least;
        self
    }

    /// Serves waiters strictly in order of arrival. Without it, the process that holds the lock may first
    /// hand it to tasks of its own:
    /// - While nobody else is known to wait: to any task, for a second and one hold; a [sticky](Self::sticky) lock for two leases and one hold.
    /// - Once a waiter elsewhere is known: to tasks with smaller tickets, and to tasks that waited by then, for 20 ms and the
    ///   hold of the last one.
    ///
    /// With it, the process hands the lock only to those of its tasks that have waited longer than all other
    /// processes. Later waiters can then overtake only by rounds that are under way when this waiter gets its
    /// place in the queues. Call sites may differ in the option.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let ticket = masters.red_lock("ticket-office").fair().lock().await?;
    /// ticket.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub fn fair(mut self) -> Self {
        self.options.fair = true;
        self
    }

    /// Announces the terms of the lock to clients that [watch its leader](Masters::watch_leader). Each
    /// acquisition, release and [force](Self::force_release) is published on every master, and the process
    /// never hands the hold on without the masters. [`lead`](Self::lead) sets it. Set it for a lock that
    /// stands for a leader without `lead`.
    ///
    /// An owner that enters its hold again with this option is refused if the hold is not announced.
    ///
    /// The option costs each master six commands more for an acquisition and its release together, and no round trip. Not
    /// with [`sticky`](Self::sticky).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let mut leader = masters.watch_leader("primary")?;
    /// let guard = masters.red_lock("primary").announced().lock().await?;
    /// let seen = leader.wait_for(Option::is_some).await?.clone();
    /// assert_eq!(seen.map(|leader| leader.token), Some(guard.fencing_token()));
    /// # Ok(()) }
    /// ```
    pub fn announced(mut self) -> Self {
        self.options.rare_mut().announced = true;
        self
    }

    /// Lets the names stay with this client when the last guard is given up, until somebody else wants them. The next lock of
    /// the same names takes them without a message to the masters, with a fencing token of its own. For names that one
    /// process locks again and again: a partition, a session, an actor.
    ///
    /// **Close the client before the process ends** ([`Masters::close`](crate::Masters::close)), or drop its last
    /// [`Masters`](crate::Masters) while the runtime lives. A process that ends without either leaves the names locked
    /// until the lease ends, although [`unlock`](MultiLockGuard::unlock) has returned.
    ///
    /// The names are released
    /// - at once if another client wants them, or this client wants them with other options,
    /// - once a connection to a master was made again: the message that somebody waits may have been lost with the old one,
    /// - with the second renewal after their last use: a third to two thirds of the lease after it,
    /// - with the last token of the grant: after 64 holds, and up to 4,096 for names that use up all tokens again and
    ///   again; never with [`fenced(false)`](Self::fenced),
    /// - with the first renewal after two leases, so that the masters are asked again now and then,
    /// - if more than [`max_idle`](crate::MastersBuilder::max_idle) other names of the client were used since,
    /// - at once after a hold that was [extended](MultiLockGuard::extend) to a longer lease, or
    ///   [downgraded](MultiLockGuard::downgrade).
    ///
    /// A name that another client has asked for while it stayed does not stay again at once: its next 2 unlocks release
    /// it. Each further time that happens the number doubles, up to 64, and each use of a name that stayed halves it.
    ///
    /// While they stay, [`unlock`](MultiLockGuard::unlock) returns [`Unlocked::Stays`](crate::Unlocked::Stays), and others
    /// see the names as held. With [`beside_redisson`](crate::MastersBuilder::beside_redisson) the option has no effect:
    /// clients of other libraries cannot ask for a name.
    ///
    /// Not with [`read`](Self::read), [`lease`](Self::lease), [`at_least`](Self::at_least), [`fair`](Self::fair),
    /// [`announced`](Self::announced), [`lead`](Self::lead), [`once`](Self::once), or in a set: these return
    /// [`LockError::Invalid`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::{Closing, Unlocked};
    ///
    /// let partition = masters.red_lock("partition:7").sticky();
    /// for message in ["first", "second", "third"] {
    ///     let guard = partition.lock().await?;
    ///     println!("{message}, under token {}", guard.fencing_token());
    ///     // Of up to 64 locks only the first asks the masters.
    ///     assert_eq!(guard.unlock().await?, Unlocked::Stays);
    /// }
    /// masters.close(Closing::Release).await;
    /// # Ok(()) }
    /// ```
    pub fn sticky(mut self) -> Self {
        self.options.sticky = true;
        self
    }
}

impl<M: Mode> MultiLock<M> {
    /// Sets the lease of the hold, and turns renewal off. Without it, the hold has the builder's `lease` (by
    /// default 30 s). It is then renewed after every third of the lease for as long as its guard lives.
    /// Counted in whole milliseconds. At most [`LONGEST_LEASE`](crate::LONGEST_LEASE), and not shorter than two
    /// [node timeouts](crate::MastersBuilder::node_timeout) and the drift: 104 ms by default.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use std::time::Duration;
    ///
    /// let guard = masters.red_lock("report").lease(Duration::from_secs(10)).lock().await?;
    /// assert!(guard.is_valid());
    /// tokio::time::sleep(Duration::from_secs(10)).await;
    /// // Nothing has renewed it.
    /// assert!(!guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// Sets the longest time that [`lock`](Self::lock) may take. Without it, or with more than 365 days,
    /// `lock` waits without limit. Zero is one try that may take as long as [`try_lock`](Self::try_lock)
    /// does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::LockError;
    /// use std::time::Duration;
    ///
    /// let report = masters.red_lock("report").wait(Duration::from_secs(2));
    /// let _held = report.lock().await?;
    /// assert!(matches!(report.lock().await, Err(LockError::TimedOut { .. })));
    /// # Ok(()) }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Refuses a hold that would begin with this much validity or less. Zero by default.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use std::time::Duration;
    ///
    /// let lock = masters.red_lock("report").lease(Duration::from_secs(10)).min_validity(Duration::from_secs(8));
    /// assert!(lock.lock().await?.validity() > Duration::from_secs(8));
    /// # Ok(()) }
    /// ```
    pub fn min_validity(mut self, min: Duration) -> Self {
        self.options.min_validity = min;
        self
    }

    /// Sets the longest time for which the hold is renewed. After it, the hold lasts for the rest of its
    /// lease.
    /// - By default [`MastersBuilder::max_hold`](crate::MastersBuilder::max_hold) applies. If that is not
    ///   set, the hold is renewed for as long as its guard lives.
    /// - More than 365 days mean no limit, also if the builder sets one.
    /// - A limit shorter than the lease is refused.
    ///
    /// The limit belongs to the hold: if an owner enters its hold again, the limit of the first entry still
    /// applies, and no entry extends the hold after it. [`extend`](MultiLockGuard::extend) does, and so does
    /// an entry that sets a longer lease or [`at_least`](Self::at_least).
    ///
    /// For [`lead`](Self::lead) it is the longest term. The body is told before its end, by the
    /// [`grace`](Self::grace) period, or by half of the term if that is shorter.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use std::time::Duration;
    ///
    /// let guard = masters.red_lock("report").max_hold(Duration::from_secs(60)).lock().await?;
    /// // The last renewal is within the first minute, and the lease is 30 s.
    /// guard.lost().await;
    /// # Ok(()) }
    /// ```
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.options.max_hold = Some(max);
        self
    }

    /// Sets whether every hold gets a [`FencingToken`](crate::FencingToken). On by default; off saves the
    /// masters one key per name. All locks on a name must agree: if others hold the name with tokens, or did in the
    /// last two minutes, a lock without tokens is refused as
    /// [`LockError::Misconfigured`](crate::LockError::Misconfigured).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::FencingToken;
    ///
    /// let guard = masters.red_lock("cache").fenced(false).lock().await?;
    /// assert_eq!(guard.fencing_token(), FencingToken::NONE);
    /// # Ok(()) }
    /// ```
    pub fn fenced(mut self, fenced: bool) -> Self {
        self.options.fenced = fenced;
        self
    }

    /// Sets the `label` of this call site in the metrics (feature `metrics`); `default` without it. A label
    /// stands for a kind of work, never for one name, because every label makes series of its own. Nothing
    /// else depends on it.
    ///
    /// ```no_run
    /// # async fn job(masters: multilock::Masters, number: u64) -> Result<(), Box<dyn std::error::Error>> {
    /// let lock = masters.red_lock(format!("invoice:{number}")).metric_label("invoice");
    /// lock.lock().await?.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub fn metric_label(mut self, label: &'static str) -> Self {
        self.options.label = self.options.masters.client.pool.events.label(label);
        self
    }

    /// Sets a text about the hold, of at most 256 bytes, such as the holder's work. People see it beside the
    /// label of the client ([`client_label`](crate::MastersBuilder::client_label)):
    /// - in [`inspect`](Self::inspect) and the command `multilock` ([`Holder::about`]),
    /// - in the [`Contended`](LockError::Contended) errors of others,
    /// - in [`Leader`](crate::Leader).
    ///
    /// Each hold with a text has a key of its own on every master, which ends with the lease. A master that
    /// denies the key grants all the same. Tasks of a process hand a hold to each other only if they set the
    /// same text. So do not put a request's number into the text of a lock that many tasks want at once. If an owner
    /// enters its hold again, the text of the first entry stays.
    ///
    /// A text that is empty, too long, or has control characters is refused as [`LockError::Invalid`], before
    /// any master is asked.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Masters;
    ///
    /// let guard = masters.red_lock("import").about("rows of 2026-11").lock().await?;
    /// let other = cluster.connect(Masters::builder()).await?;
    /// let refused = other.red_lock("import").try_lock().await.expect_err("it is held");
    /// assert_eq!(refused.about(), Some("rows of 2026-11"));
    /// # Ok(()) }
    /// ```
    pub fn about(mut self, about: impl Into<String>) -> Self {
        self.options.rare_mut().about = Some(about.into().into());
        self
    }

    /// Sets the owner of the hold. An owner that holds the lock already enters it again at once, without a
    /// request to the masters. If the new lease is longer, little validity remains, or less than
    /// [`at_least`](Self::at_least), the hold is extended first. Its remaining time is never shortened.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::{Owner, Unlocked};
    ///
    /// let request = Owner::new();
    /// let outer = masters.red_lock("invoice:42").owner(&request).lock().await?;
    /// // In a function that may be called alone as well:
    /// let inner = masters.red_lock("invoice:42").owner(&request).lock().await?;
    /// assert_eq!(inner.hold_count(), 2);
    /// assert_eq!(inner.unlock().await?, Unlocked::StillHeld(1));
    /// assert_eq!(outer.unlock().await?, Unlocked::Released);
    /// # Ok(()) }
    /// ```
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.options.owner = Some(owner.clone());
        self
    }

    /// Checks the options, as [`lock`](Self::lock) does first. Sends nothing. For a program that is to refuse its configuration
    /// when it starts, before it has work. [`lead`](Self::lead), [`once`](Self::once) and
    /// [`force_release`](Self::force_release) refuse further options, as their own documentation says; for a set there is
    /// [`LockSet::check`](crate::LockSet::check).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Policy;
    ///
    /// masters.red_lock("report").check()?;
    /// let refused = masters.lock("report", Policy::AtLeast(1)).check().unwrap_err();
    /// assert!(refused.to_string().starts_with("policy: "));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::Invalid`] with the first option that is out of its range, its value, and the values that are allowed.
    /// - [`LockError::Closed`] once the masters were closed.
    pub fn check(&self) -> Result<(), LockError> {
        self.options.request().map(drop)
    }

    /// Tries once, without waiting for other holders. Takes one round, or two if a master has seen a larger
    /// fencing token. Behind a [`sticky`](Self::sticky) lock that nobody holds it asks again until the client of
    /// that lock has released it, for one node timeout at most.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::LockError;
    ///
    /// match masters.red_lock("invoice:42").try_lock().await {
    ///     Ok(guard) => drop(guard.unlock().await?),
    ///     Err(LockError::Contended { retry_after, .. }) => println!("held by another; try again in {retry_after:?}"),
    ///     Err(LockError::Unreachable { votes }) => eprintln!("nobody can tell whether it is held: {votes}"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::Contended`] when others hold the lock or wait for it.
    /// - [`LockError::Unreachable`] when too few masters had a vote; the two are never confused. Outside of a
    ///   tokio runtime whenever a master has to be asked, and the votes show that.
    /// - [`LockError::TooLate`], [`LockError::Unfenced`], [`LockError::Misconfigured`],
    ///   [`LockError::Upgrade`], [`LockError::Closed`] and [`LockError::Invalid`] as documented there.
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped at any point, all that the masters may have granted is released in the
    /// background.
    pub async fn try_lock(&self) -> Result<MultiLockGuard<M>, LockError> {
        self.options.try_lock().await.map(MultiLockGuard::of)
    }

    /// Waits until the lock is acquired, at most for the time set by [`wait`](Self::wait).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use std::time::Duration;
    ///
    /// let invoice = masters.red_lock("invoice:42").wait(Duration::from_secs(5));
    /// let guard = invoice.lock().await?;
    /// tokio::spawn(async move {
    ///     tokio::time::sleep(Duration::from_secs(1)).await;
    ///     guard.unlock().await
    /// });
    /// // This call has to wait for the guard above.
    /// invoice.lock().await?.unlock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::TimedOut`], which always contains the last obstacle.
    /// - [`LockError::Misconfigured`], [`LockError::Upgrade`], [`LockError::Closed`] and
    ///   [`LockError::Invalid`], which no waiting would cure.
    /// - Outside of a tokio runtime it does not wait, and returns the same as [`try_lock`](Self::try_lock).
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped at any point, all that the masters may have granted is released in the
    /// background.
    ///
    /// A future that is no longer polled, as in a pinned branch of a `select!`, stays a waiter. Once it has
    /// the turn, it keeps the others waiting for four node timeouts, at least 1 s and at most 10 s. Then the
    /// next waiter has the turn. If no master calls the future, that time begins up to 5 s after its last
    /// question. The future competes again with its ticket when it is polled. A question that was under way at the
    /// last poll may be granted all the same: the names then stay locked until that lease ends, or the future is
    /// polled or dropped. So do not keep the future beside long work without polling it.
    pub async fn lock(&self) -> Result<MultiLockGuard<M>, LockError> {
        self.options.lock().await.map(MultiLockGuard::of)
    }

    /// Acquires as [`lock`](Self::lock) does, runs the body and releases. If the hold is lost meanwhile, the
    /// body is dropped at its next await.
    ///
    /// ```no_run
    /// # async fn charge() -> u32 { 7 }
    /// # async fn job(masters: multilock::Masters) -> Result<(), multilock::RunError<u32>> {
    /// let receipt = masters.red_lock("invoice:42").run(async |_guard| charge().await).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// The body is an async closure: `async |guard| …`. A closure that returns an async block, `|_| async move { … }`, does
    /// not compile here ("implementation of `AsyncFnOnce` is not general enough").
    ///
    /// Spawned tasks and closures of `spawn_blocking` go on when the body is dropped. Pass them the token
    /// that is cancelled at the loss:
    ///
    /// ```
    /// # async fn copy_rows() {}
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let import = masters.red_lock("import");
    /// let copied = import.run(async |guard| {
    ///     let lost = guard.cancellation_token();
    ///     tokio::spawn(async move { lost.run_until_cancelled(copy_rows()).await }).await
    /// });
    /// assert!(copied.await??.is_some(), "it was cancelled");
    /// # Ok(()) }
    /// ```
    ///
    /// The release never loses the output of a body that came to its end. If too few masters confirm the
    /// release, the log and `multilock_unlocks_total` show it. The client sends the release again, and the
    /// lease frees the names at the latest.
    ///
    /// # Errors
    ///
    /// - [`RunError::Lock`] when the body never began, as outside of a tokio runtime whenever a master has to be asked.
    /// - [`RunError::Lost`] when the body was dropped.
    /// - [`RunError::Overlapped`] with the output of the body, when it came to its end but the lock did not
    ///   last.
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped at any point, the body is dropped and the lock is released in the background.
    pub async fn run<T>(&self, body: impl AsyncFnOnce(&MultiLockGuard<M>) -> T) -> Result<T, RunError<T>> {
        let guard = self.lock().await?;
        let output = tokio::select! {
            // Check for the loss first: no step of the body is taken after it.
            biased;
            loss = guard.lost() => return Err(RunError::Lost(loss)),
            output = body(&guard) => output,
        };
        self.release_after_body(guard, output).await
    }

    /// Releases the lock after a body that has come to its end.
    async fn release_after_body<T>(&self, guard: MultiLockGuard<M>, output: T) -> Result<T, RunError<T>> {
        match self.options.unlock_after_a_body(guard).await {
            Ok(()) => Ok(output),
            Err(votes) => Err(RunError::Overlapped { output, votes }),
        }
    }

    /// Returns the state of each of the names on every master, and whether enough masters agree.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::NodeState;
    ///
    /// let invoice = masters.red_lock("invoice:42");
    /// let guard = invoice.lock().await?;
    /// for inspection in invoice.inspect().await? {
    ///     assert_eq!(inspection.agreed, Some(guard.holder()));
    ///     for (node, state) in &inspection.nodes {
    ///         if let NodeState::Held { holder, remaining, .. } = state {
    ///             println!("{node}: {} is held by {holder} for {remaining:?}", inspection.name);
    ///         }
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Invalid`] and [`LockError::Closed`] only. A master that does not answer is part of the
    /// report. Outside of a tokio runtime that is each of them.
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// The call changes nothing, so the future can be dropped at any point.
    pub async fn inspect(&self) -> Result<Vec<Inspection>, LockError> {
        self.options.inspect().await
    }

    /// Sets the reason of [`force_release`](Self::force_release), of at most 256 bytes. The masters remember it for a day, with
    /// the time and the label of this client: [`LastForce`](crate::LastForce).
    ///
    /// # Errors
    ///
    /// A force fails with [`LockError::Invalid`] if the text is empty, too long or has a control character.
    pub fn force_reason(mut self, reason: impl Into<String>) -> Self {
        self.options.rare_mut().force_reason = Some(reason.into().into());
        self
    }

    /// Takes the names away from their holders and wakes waiters. For operators.
    ///
    /// The call first looks up the holders. A holder that was seen on any master is then excluded on every
    /// master that answers, until its lease has ended. Late requests of that holder have no effect. The holder learns
    /// of the loss at its next extension. A hold that is granted after the look is left alone. So is a key
    /// that is no lock: see [`Forced::spared`]. But any string counts as a lock of another library, and is deleted, also one
    /// without an expiry.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let invoice = masters.red_lock("invoice:42");
    /// let guard = invoice.lock().await?;
    /// let forced = invoice.force_release().await?;
    /// assert_eq!(forced.former, [guard.holder()]);
    /// assert!(forced.spared.is_empty(), "keys that are no locks");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::Unreachable`] when fewer masters with a vote answered than the policy needs. Either too
    ///   few answered the look, and nothing was changed. Or too few confirmed afterwards, and the masters
    ///   that did have taken the names away all the same. Calling it again is safe. Requests still in flight
    ///   have no effect after two node timeouts. Outside of a tokio runtime always.
    /// - [`LockError::Closed`] and [`LockError::Invalid`] as documented there.
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its end, some masters may have taken the names away and others not.
    /// Call it again.
    pub async fn force_release(&self) -> Result<Forced, LockError> {
        self.options.force_release(|_| true).await
    }

    /// Takes the names away from chosen holders alone: by the label of their client
    /// ([`Holder::client_label`]) or by the hold ([`Holder::redacted_owner`]).
    ///
    /// Other holders are left alone. So is a hold that begins after the look, also one of the same client.
    /// Each grant has an owner field of its own, and the deleting script compares it on every master. A hold
    /// that was handed on inside a process has the field of the hold before it. Otherwise as
    /// [`force_release`](Self::force_release).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let invoice = masters.red_lock("invoice:42");
    /// let guard = invoice.lock().await?;
    /// let stuck = guard.holder().redacted_owner().to_string();
    ///
    /// let is_stuck = |holder: &multilock::Holder| holder.redacted_owner().to_string() == stuck;
    /// let forced = invoice.force_release_from(is_stuck).await?;
    /// assert_eq!(forced.former, [guard.holder()]);
    ///
    /// let _next = invoice.lock().await?;
    /// let forced = invoice.force_release_from(is_stuck).await?;
    /// assert!(forced.former.is_empty(), "another hold has the name now");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`force_release`](Self::force_release).
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// As [`force_release`](Self::force_release).
    pub async fn force_release_from(&self, is_meant: impl Fn(&Holder) -> bool) -> Result<Forced, LockError> {
        self.options.force_release(is_meant).await
    }

    /// Turns the handle into its options, as one lock of a set in any mode.
    pub(crate) fn into_options(self) -> LockOptions {
        self.options
    }
}
