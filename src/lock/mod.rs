//! A lock and the options of its call site: [`MultiLock`].

pub(crate) mod guard;
pub(crate) mod hold_guard;
pub(crate) mod lead;
pub(crate) mod mode;
pub(crate) mod options;
pub(crate) mod owner;
pub(crate) mod set;
pub(crate) mod set_guard;

use std::marker::PhantomData;
use std::time::Duration;

use crate::admin::force::Forced;
use crate::admin::inspect::Inspection;
use crate::error::{LockError, RunError, UnlockError};
use crate::events::log;
use crate::lock::guard::MultiLockGuard;
use crate::lock::lead::Candidate;
use crate::lock::mode::{Exclusive, Mode, Shared};
use crate::lock::options::LockOptions;
use crate::lock::owner::Owner;
use crate::masters::Masters;
use crate::protocol::kind::HoldKind;
use crate::values::holder::Holder;
use crate::values::names::Names;
use crate::values::policy::Policy;

/// A lock on one or more names under one policy: set options by value, then await one verb.
///
/// Making one asks nobody anything; it can be kept and used any number of times. What it gives is an [`Exclusive`] guard,
/// or, after [`read`](Self::read), a [`Shared`] one.
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
    /// A lock that a majority of the masters must grant ([`Policy::RedLock`]).
    ///
    /// Takes one name, or several that are taken together or not at all.
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

    /// A lock that every master must grant ([`Policy::MultiLock`]).
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

    /// A lock under any policy.
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
    /// To read: any number of owners hold the names at once, while nobody writes them.
    ///
    /// Redisson's locks of these names are kept out, those that only read as well, and keep this one out. Everybody is served in order of arrival: a writer is not overtaken by readers that come later,
    /// nor a reader by later writers, and readers that stand together go in together. A lease ends by itself, however long
    /// others go on reading. Readers share a fencing token that is not smaller than that of any writer before them, and
    /// smaller than that of any writer after them, as long as fewer masters lose their fence keys, or are set back to
    /// older ones, than two quorums have in common.
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

    /// To write: one owner alone holds the names, and nobody reads them. Use it where others [`read`](Self::read) the
    /// names, here or by Redisson's `RReadWriteLock`; a lock that is neither does not
    /// keep that one's clients out.
    ///
    /// Its owner may enter again to read. Who reads and asks to write gets [`LockError::Upgrade`].
    pub fn write(mut self) -> Self {
        self.options.kind = HoldKind::Write;
        self
    }

    /// Keeps the names for so long after they were granted, also where the job is done and the guard given up before:
    /// for jobs that are started at about the same time on several hosts, and must run on one of them only. It has to
    /// be longer than the time by which they may start apart, and not longer than the lease. Zero by default.
    ///
    /// Who leaves before gets [`Unlocked::KeptFor`](crate::Unlocked::KeptFor), and holds no longer: nobody does until the rest
    /// is over, its owner and its process included. Whoever crashes before leaves the names to the lease, which counts from before the
    /// masters were asked. [`force_release`](Self::force_release) ends it at once.
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

    /// Waits strictly in order of arrival: nobody who begins to wait later is let in before, but for rounds that are
    /// under way when it has got its place in the queues. Without it, tasks of the process that holds may go first:
    /// where others waited when it was granted the names, those that stood in line by then, for 20 ms and the hold of
    /// the last one; else any, for 30 ms and one hold. With it, of these only those that are older than all who waited.
    /// Call sites may differ in it.
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

    /// Has one process of many do a job that never ends, and another one as soon as that one fails: acquires as
    /// [`lock`](Self::lock) does and runs the body, as [`run`](Self::run) does; whenever the hold is lost, it drops the body at
    /// its next await, and waits for the lock again. Ends when the body does, with what that returns.
    ///
    /// At any instant at most one leader's guard is valid, and every term has a larger fencing token than those before,
    /// unless the lock is not [`fenced`](Self::fenced).
    /// It is not promised that a leader which was paused has noticed before the next one begins: what it writes meanwhile
    /// only a resource that checks the tokens can reject.
    ///
    /// ```no_run
    /// # async fn serve(token: multilock::FencingToken) {}
    /// # async fn job(masters: multilock::Masters) -> Result<(), multilock::RunError<()>> {
    /// masters.red_lock("scheduler").lead(async |guard| serve(guard.fencing_token()).await).await
    /// # }
    /// ```
    ///
    /// Work that the body has spawned goes on when the term ends, unless it takes the
    /// [`cancellation_token`](MultiLockGuard::cancellation_token), as at [`run`](Self::run).
    ///
    /// A lock that cannot be had yet does not end the candidacy: masters that are out of reach, in quarantine, misconfigured or
    /// without a permission, and a [`wait`](Self::wait) that is over. The next attempt follows after a pause, which grows from
    /// 0.1 s to 10 s. The log tells the error once in 10 s (`cannot lead yet`). To give up, drop the future.
    ///
    /// In a task that is spawned the body has to be `async move` and to own what it uses, without references: otherwise the
    /// compiler cannot tell that it may go from thread to thread.
    ///
    /// # Errors
    ///
    /// [`RunError::Lock`] with an error that no time cures ([`LockError::is_permanent`]): an option that is not allowed, such as
    /// a [`lease`](Self::lease), which is not renewed; an owner that reads the names; masters that were closed. Outside of a tokio runtime any
    /// error. [`RunError::Overlapped`] as for [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, the body is dropped and the lock released in the background.
    pub async fn lead<T>(&self, mut body: impl AsyncFnMut(&MultiLockGuard) -> T) -> Result<T, RunError<T>> {
        let candidate = Candidate::new(&self.options).map_err(LockError::from)?;
        loop {
            let term = MultiLockGuard::of(candidate.elected().await?);
            match self.run_under(term, &mut body).await {
                Err(RunError::Lost(loss)) => {
                    log::leads_no_longer(&self.options.names, &loss);
                }
                ended => return ended,
            }
        }
    }
}

impl<M: Mode> MultiLock<M> {
    /// Fixes how long the masters keep the hold, and turns renewal off. Where it is not set, the hold
    /// has the builder's `lease` (30 s) and is renewed every third of it for as long as its guard
    /// lives. Counted in whole milliseconds. At most [`LONGEST_LEASE`](crate::LONGEST_LEASE).
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

    /// The longest that [`lock`](Self::lock) may take. Without it, or with more than 365 days, it waits for as long as it
    /// takes. Zero is one try that may take as long as [`try_lock`](Self::try_lock) does.
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

    /// The longest that the hold is renewed; it then lasts for what is left of its lease. By default as long as
    /// [`MastersBuilder::max_hold`](crate::MastersBuilder::max_hold) says, or, without that, for as long as its guard lives.
    /// More than 365 days are for ever, whatever the builder says. It belongs to the hold: an owner that enters it again shares
    /// what it began with.
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

    /// Whether every hold gets a [`FencingToken`](crate::FencingToken). On by default; off saves the
    /// masters one key per name. Every lock on a name has it on, or none: where others took the name with tokens in the last ten
    /// minutes, one without is refused as [`LockError::Misconfigured`](crate::LockError::Misconfigured).
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

    /// The `label` under which this call site is counted in the metrics (feature `metrics`): all others are `default`. It
    /// stands for a kind of work, never for one name, as every label makes series of its own. Nothing else depends on it.
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

    /// Who is to hold. Whoever holds already enters again: at once, without asking the masters, unless a
    /// longer lease is asked for or little validity is left; then the hold is extended first. What is left
    /// is never shortened.
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

    /// Tries once, without waiting for whoever holds: one round; a second one where a master has seen a larger
    /// fencing token or tells of longer leases.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::LockError;
    ///
    /// match masters.red_lock("invoice:42").try_lock().await {
    ///     Ok(guard) => drop(guard.unlock().await?),
    ///     Err(LockError::Contended { retry_after, .. }) => println!("held by another, for {retry_after:?} at most"),
    ///     Err(LockError::Unreachable { votes }) => eprintln!("nobody can tell whether it is held: {votes}"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Contended`] when others hold it or wait for it, [`LockError::Unreachable`] when too few masters
    /// had a vote; the two are never confused. [`LockError::TooLate`], [`LockError::Unfenced`],
    /// [`LockError::Misconfigured`], [`LockError::Upgrade`], [`LockError::Closed`] and
    /// [`LockError::Invalid`] as they say. Awaited outside of a tokio runtime: [`LockError::Unreachable`], whose votes say so.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, whatever the masters may have granted is released in the background.
    pub async fn try_lock(&self) -> Result<MultiLockGuard<M>, LockError> {
        self.options.try_lock().await.map(MultiLockGuard::of)
    }

    /// Waits until it has the lock, at most the time set by [`wait`](Self::wait).
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
    /// // It has to wait for the one above.
    /// invoice.lock().await?.unlock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`], which always says what stood in the way; [`LockError::Misconfigured`],
    /// [`LockError::Upgrade`], [`LockError::Closed`] and [`LockError::Invalid`], which no waiting would cure. Awaited outside of a
    /// tokio runtime it does not wait, and answers as [`try_lock`](Self::try_lock) does.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, whatever the masters may have granted is released in the background.
    ///
    /// A future that has been polled and is not polled any more, as in a pinned branch of a `select!`, waits on. Once it is
    /// its turn, it keeps the others waiting for four node timeouts, at least 1 s. Then the next waiter has the turn, and
    /// this one comes again with its ticket when it is polled.
    pub async fn lock(&self) -> Result<MultiLockGuard<M>, LockError> {
        self.options.lock().await.map(MultiLockGuard::of)
    }

    /// Acquires as [`lock`](Self::lock) does, runs the body and releases. If the hold is lost
    /// meanwhile, the body is dropped at its next await.
    ///
    /// ```no_run
    /// # async fn charge() -> u32 { 7 }
    /// # async fn job(masters: multilock::Masters) -> Result<(), multilock::RunError<u32>> {
    /// let receipt = masters.red_lock("invoice:42").run(async |_guard| charge().await).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Work that the body has spawned goes on when the body is dropped: tasks, and closures of `spawn_blocking`. It takes the
    /// token that tells of the loss.
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
    /// The output of a body that came to its end is never lost by the release. A release that too few masters confirm is told by
    /// the log and by `multilock_unlocks_total`; the masters are told again, and the lease frees the names at the latest.
    ///
    /// # Errors
    ///
    /// [`RunError::Lock`] when the body never began, as always outside of a tokio runtime, [`RunError::Lost`] when it was dropped,
    /// [`RunError::Overlapped`] with its output when it came to its end but the lock did not last.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, the body is dropped and the lock released in the background.
    pub async fn run<T>(&self, body: impl AsyncFnOnce(&MultiLockGuard<M>) -> T) -> Result<T, RunError<T>> {
        let guard = self.lock().await?;
        self.run_under(guard, body).await
    }

    async fn run_under<T>(
        &self,
        guard: MultiLockGuard<M>,
        body: impl AsyncFnOnce(&MultiLockGuard<M>) -> T,
    ) -> Result<T, RunError<T>> {
        let output = tokio::select! {
            // The loss first: no step of the body is taken after it.
            biased;
            loss = guard.lost() => return Err(RunError::Lost(loss)),
            output = body(&guard) => output,
        };
        match guard.unlock().await {
            Ok(_) => Ok(output),
            Err(UnlockError::Unconfirmed { free_within, votes }) => {
                self.options.warn_of_unconfirmed(free_within, &votes);
                Ok(output)
            }
            Err(UnlockError::WasLost { votes }) => Err(RunError::Overlapped { output, votes }),
        }
    }

    /// What every master keeps under each of the names, and whether enough of them agree.
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
    /// [`LockError::Invalid`] and [`LockError::Closed`] only: a master that does not answer is part of the
    /// report, and outside of a tokio runtime that is each of them.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing, so it can be dropped at any point.
    pub async fn inspect(&self) -> Result<Vec<Inspection>, LockError> {
        self.options.inspect().await
    }

    /// An operator's verb: looks who holds the names, takes them away from these, and wakes who
    /// waits. Who was seen on any master is kept out on every one that answers until its lease has
    /// ended, whatever of it arrives late, and learns of it at its next extension. Whoever is granted the
    /// names after the look is left alone; so is a key that is no lock, as [`Forced::spared`] tells.
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
    /// [`LockError::Unreachable`] when fewer masters with a vote answered than the policy needs: at the
    /// look, and nothing was asked for, or after it, and those that did have taken the names away all
    /// the same. What of it is still on its way does nothing once two node timeouts have passed. It can
    /// be called again. The same outside of a tokio runtime. [`LockError::Closed`] and
    /// [`LockError::Invalid`] as they say.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, some masters may have taken the names away and others not. Call it again.
    pub async fn force_release(&self) -> Result<Forced, LockError> {
        self.options.force_release(|_| true).await
    }

    /// Takes the names away from chosen holders alone: by the label of their client ([`Holder::client_label`]), or by the hold
    /// ([`Holder::redacted_owner`]).
    ///
    /// Other holders keep the names. So does a hold that begins after the look, also one of the same client: each hold has an owner
    /// field of its own, which every master compares in the script that deletes it. A hold that was handed on inside of a process
    /// has the field of the hold before it. Otherwise as [`force_release`](Self::force_release).
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
    /// # Cancel safety
    ///
    /// As [`force_release`](Self::force_release).
    pub async fn force_release_from(&self, is_meant: impl Fn(&Holder) -> bool) -> Result<Forced, LockError> {
        self.options.force_release(is_meant).await
    }

    /// As one lock of a set, whatever it gives.
    pub(crate) fn into_options(self) -> LockOptions {
        self.options
    }
}
