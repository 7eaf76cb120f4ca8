//! The lock: round, wait, guard.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::acquisition::{Plan, acquire};
use crate::config::in_range;
use crate::error::{InvalidInput, LockError};
use crate::guard::MultiLockGuard;
use crate::inspect::{self, Forced, Inspection};
use crate::masters::Masters;
use crate::name::Names;
use crate::owner::Owner;
use crate::policy::Policy;
use crate::wait::Pauses;

/// Longer than any process waits.
const MAX_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// A lock on one or more names under one policy: set options by value, then await one verb.
///
/// Making one asks nobody anything; it can be kept and used any number of times.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until one of its verbs is awaited"]
pub struct MultiLock {
    masters: Masters,
    names: Names,
    policy: Policy,
    lease: Option<Duration>,
    wait: Option<Duration>,
    min_validity: Duration,
    owner: Option<Owner>,
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
            masters: self.clone(),
            names: names.into(),
            policy,
            lease: None,
            wait: None,
            min_validity: Duration::ZERO,
            owner: None,
        }
    }
}

impl MultiLock {
    /// How long the masters keep the hold unless it is extended; the builder's `lease` (30 s) where
    /// this is not set. Counted in whole milliseconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// The longest that [`lock`](Self::lock) may take. Without it, it waits for as long as it takes.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Refuses a hold that would begin with this much validity or less. Zero by default.
    pub fn min_validity(mut self, min: Duration) -> Self {
        self.min_validity = min;
        self
    }

    /// Who is to hold. Whoever holds already enters again: at once, without asking the masters, and
    /// without ever shortening what is left.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Tries once: one round, no waiting.
    ///
    /// # Errors
    ///
    /// [`LockError::Contended`] when others hold it, [`LockError::Unreachable`] when too few masters
    /// answered to decide; the two are never confused. [`LockError::TooLate`],
    /// [`LockError::Misconfigured`] and [`LockError::Invalid`] as they say.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, whatever the masters may have granted is released in the background.
    pub async fn try_lock(&self) -> Result<MultiLockGuard, LockError> {
        acquire(&self.plan()?).await
    }

    /// Waits until it has the lock, at most the time set by [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`], which says what stood in the way; [`LockError::Misconfigured`] and
    /// [`LockError::Invalid`], which no waiting would cure.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, whatever the masters may have granted is released in the background.
    pub async fn lock(&self) -> Result<MultiLockGuard, LockError> {
        let plan = self.plan()?;
        let begun = Instant::now();
        let mut last = None;
        let acquired = self.acquire_in_time(&plan, begun, &mut last).await;
        acquired.unwrap_or_else(|| {
            Err(LockError::TimedOut {
                waited: begun.elapsed(),
                last: last.map(Box::new),
            })
        })
    }

    /// What every master keeps under each of the names, and whether enough of them agree.
    ///
    /// # Errors
    ///
    /// [`LockError::Invalid`] only: a master that does not answer is part of the report.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing, so it can be dropped at any point.
    pub async fn inspect(&self) -> Result<Vec<Inspection>, LockError> {
        let (pool, plan) = (&self.masters.pool, self.plan()?);
        Ok(inspect::inspect(pool, &self.names, plan.needed).await)
    }

    /// An operator's verb: takes the names away from whoever holds them, on every master that
    /// answers, and wakes who waits. The former holder is kept out until its lease has ended, and
    /// learns of it at its next extension.
    ///
    /// # Errors
    ///
    /// [`LockError::Unreachable`] when fewer masters confirmed than the policy needs. Those that
    /// did have taken it away all the same; it can be called again.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, some masters may have taken the names away and others not. Call it again.
    pub async fn force_release(&self) -> Result<Forced, LockError> {
        let (pool, plan) = (&self.masters.pool, self.plan()?);
        inspect::force(pool, &self.names, plan.needed).await
    }

    /// `None` when the time has passed; `last` is then what stood in the way.
    async fn acquire_in_time(
        &self,
        plan: &Plan,
        begun: Instant,
        last: &mut Option<LockError>,
    ) -> Option<Result<MultiLockGuard, LockError>> {
        let end = self.wait.map(|wait| begun + wait);
        let mut pauses = Pauses::new();
        loop {
            let error = match within(end, acquire(plan)).await? {
                Err(
                    error @ (LockError::Contended { .. }
                    | LockError::Unreachable { .. }
                    | LockError::TooLate { .. }),
                ) => error,
                decided => return Some(decided),
            };
            if matches!(error, LockError::Unreachable { .. }) {
                tracing::warn!(names = %self.names, %error, "still waiting for a lock");
            }
            let pause = pauses.after(&error);
            *last = Some(error);
            within(end, sleep(pause)).await?;
        }
    }

    /// The options, checked. No master has been asked yet.
    fn plan(&self) -> Result<Plan, InvalidInput> {
        self.names.check()?;
        let config = &self.masters.pool.config;
        let lease = config.checked_lease(self.lease.unwrap_or(config.lease))?;
        config.checked_min_validity(self.min_validity, lease)?;
        if let Some(wait) = self.wait {
            in_range("wait", wait, Duration::ZERO, MAX_WAIT)?;
        }
        Ok(Plan {
            pool: Arc::clone(&self.masters.pool),
            names: self.names.clone(),
            policy: self.policy,
            needed: self.policy.checked(self.masters.len())?,
            lease,
            lease_was_asked: self.lease.is_some(),
            min_validity: self.min_validity,
            owner: self.owner.clone().unwrap_or_default(),
        })
    }
}

async fn within<F: Future>(end: Option<Instant>, future: F) -> Option<F::Output> {
    match end {
        Some(end) => timeout_at(end, future).await.ok(),
        None => Some(future.await),
    }
}
