//! A lock and the options of its call site: [`MultiLock`].

use std::marker::PhantomData;
use std::time::Duration;

use crate::acquire::enter::acquire;
use crate::error::{LockError, RunError};
use crate::events::log;
use crate::force::Forced;
use crate::guard::MultiLockGuard;
use crate::inspect::Inspection;
use crate::masters::Masters;
use crate::mode::{Exclusive, Mode, Shared};
use crate::names::Names;
use crate::options::Options;
use crate::owner::Owner;
use crate::policy::Policy;
use crate::protocol::kind::Kind;

/// A lock on one or more names under one policy: set options by value, then await one verb.
///
/// Making one asks nobody anything; it can be kept and used any number of times. What it gives is an [`Exclusive`] guard,
/// or, after [`read`](Self::read), a [`Shared`] one.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until one of its verbs is awaited"]
pub struct MultiLock<M = Exclusive> {
    options: Options,
    mode: PhantomData<M>,
}

impl Masters {
    /// A lock that a majority of the masters must grant ([`Policy::RedLock`]).
    ///
    /// Takes one name, or several that are taken together or not at all.
    pub fn red_lock(&self, names: impl Into<Names>) -> MultiLock {
        self.lock(names, Policy::RedLock)
    }

    /// A lock that every master must grant ([`Policy::MultiLock`]).
    pub fn multi_lock(&self, names: impl Into<Names>) -> MultiLock {
        self.lock(names, Policy::MultiLock)
    }

    /// A lock under any policy.
    pub fn lock(&self, names: impl Into<Names>, policy: Policy) -> MultiLock {
        MultiLock {
            options: Options::new(self, names.into(), policy),
            mode: PhantomData,
        }
    }
}

impl MultiLock {
    /// To read: any number of owners hold the names at once, while nobody writes them.
    ///
    /// Laid out as Redisson's `RReadWriteLock`, and excludes its locks, as long as no lease is longer than its
    /// `lockWatchdogTimeout` (30 s). Everybody is served in order of arrival: a writer is not overtaken by readers that come later,
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
            options: Options {
                kind: Kind::Read,
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
        self.options.kind = Kind::Write;
        self
    }

    /// Keeps the names for so long after they were granted, also where the job is done and the guard given up before:
    /// for jobs that are started at about the same time on several hosts, and must run on one of them only. It has to
    /// be longer than the time by which they may start apart, and not longer than the lease. Zero by default.
    ///
    /// Who leaves before gets [`Unlocked::KeptFor`](crate::Unlocked::KeptFor), and holds no longer: nobody does until the rest
    /// is over, its owner and its process included. Whoever crashes before leaves the names to the lease, which counts from before the
    /// masters were asked. [`force_release`](Self::force_release) ends it at once.
    pub fn at_least(mut self, at_least: Duration) -> Self {
        self.options.at_least = at_least;
        self
    }

    /// Waits strictly in order of arrival: nobody who begins to wait later is let in before, but for rounds that are
    /// under way when it has got its place in the queues. Without it, tasks of the process that holds may go first:
    /// where others waited when it was granted the names, those that stood in line by then, for 20 ms and the hold of
    /// the last one; else any, for 30 ms and one hold. With it, of these only those that are older than all who waited.
    /// Call sites may differ in it.
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
    /// In a task that is spawned the body has to be `async move` and to own what it uses, without references: otherwise the
    /// compiler cannot tell that it may go from thread to thread.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), but for [`RunError::Lost`]. Where a [`wait`](Self::wait) is set, it is that of each candidacy.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, the body is dropped and the lock released in the background.
    pub async fn lead<T>(&self, mut body: impl AsyncFnMut(&MultiLockGuard) -> T) -> Result<T, RunError<T>> {
        loop {
            match self.run(&mut body).await {
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
    /// lives. Counted in whole milliseconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Some(lease);
        self
    }

    /// The longest that [`lock`](Self::lock) may take. Without it, it waits for as long as it takes. Zero
    /// is one try that may take as long as [`try_lock`](Self::try_lock) does.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Refuses a hold that would begin with this much validity or less. Zero by default.
    pub fn min_validity(mut self, min: Duration) -> Self {
        self.options.min_validity = min;
        self
    }

    /// The longest that the hold is renewed; it then lasts for what is left of its lease. Without it,
    /// it is renewed for as long as its guard lives. It belongs to the hold: who enters one again
    /// shares what it began with.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.options.max_hold = Some(max);
        self
    }

    /// Whether every hold gets a [`FencingToken`](crate::FencingToken). On by default; off saves the
    /// masters one key per name. Every lock on a name should have it on, or none.
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
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.options.owner = Some(owner.clone());
        self
    }

    /// Tries once, without waiting for whoever holds: one round; a second one where a master has seen a larger
    /// fencing token or tells of longer leases.
    ///
    /// # Errors
    ///
    /// [`LockError::Contended`] when others hold it or wait for it, [`LockError::Unreachable`] when too few masters
    /// had a vote; the two are never confused. [`LockError::TooLate`], [`LockError::Unfenced`],
    /// [`LockError::Misconfigured`], [`LockError::Unchartered`], [`LockError::Upgrade`], [`LockError::Closed`] and
    /// [`LockError::Invalid`] as they say. Awaited outside of a tokio runtime: [`LockError::Unreachable`], whose votes say so.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, whatever the masters may have granted is released in the background.
    pub async fn try_lock(&self) -> Result<MultiLockGuard<M>, LockError> {
        let mut terms = self.options.terms()?;
        terms.begin();
        let acquired = acquire(&terms).await;
        if terms.trace.is_open() {
            terms.ended(acquired.as_ref().map_err(|refusal| &refusal.error));
        }
        acquired.map(MultiLockGuard::of).map_err(|refusal| refusal.error)
    }

    /// Waits until it has the lock, at most the time set by [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`], which says what stood in the way; [`LockError::Misconfigured`],
    /// [`LockError::Upgrade`], [`LockError::Closed`] and [`LockError::Invalid`], which no waiting would cure. Awaited outside of a
    /// tokio runtime it does not wait, and answers as [`try_lock`](Self::try_lock) does.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, whatever the masters may have granted is released in the background.
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
    /// # Errors
    ///
    /// [`RunError::Lock`] when the body never began, as always outside of a tokio runtime, [`RunError::Lost`] when it was dropped,
    /// [`RunError::Unlock`] with what it returned when it came to its end but the lock did not last
    /// or its release is not confirmed.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, the body is dropped and the lock released in the background.
    pub async fn run<T>(&self, body: impl AsyncFnOnce(&MultiLockGuard<M>) -> T) -> Result<T, RunError<T>> {
        let guard = self.lock().await?;
        let output = tokio::select! {
            // The loss first: no step of the body is taken after it.
            biased;
            loss = guard.lost() => return Err(RunError::Lost(loss)),
            output = body(&guard) => output,
        };
        match guard.unlock().await {
            Ok(_) => Ok(output),
            Err(error) => Err(RunError::Unlock { output, error }),
        }
    }

    /// What every master keeps under each of the names, and whether enough of them agree.
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
        self.options.force_release().await
    }

    /// As one lock of a set, whatever it gives.
    pub(crate) fn into_options(self) -> Options {
        self.options
    }
}
