//! Candidacy for the lead: waits for a lock in spite of all errors that time may cure, and runs a body in each term.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::acquire::request::Purpose;
use crate::error::{InvalidInput, LockError, RunError};
use crate::events::log;
use crate::hold::HoldState;
use crate::lock::MultiLock;
use crate::lock::guard::MultiLockGuard;
use crate::lock::leadership::Leadership;
use crate::lock::options::LockOptions;
use crate::time::backoff::Backoff;

impl MultiLock {
    /// Runs a job that never ends in one process of many, and in another one as soon as that one fails.
    ///
    /// Waits for the lock as [`lock`](Self::lock) does, and calls the body with the [`Leadership`] of the
    /// term. While the body runs, the lock is renewed. The body may be called for many terms:
    /// - The hold is lost: the body is dropped at its next await, and the candidate campaigns again.
    /// - [`Leadership::step_down`] is called: the body has the [`grace`](Self::grace) period to come to its
    ///   end, and is dropped otherwise. If it is dropped, the lock is given up, and the candidate campaigns again
    ///   behind all that wait by then.
    /// - The longest time of [`max_hold`](Self::max_hold) comes to its end: the same as after `step_down`. The grace period
    ///   ends with that time at the latest, and takes half of it at most.
    /// - The body ends: the lock is given up, and its output is returned. An error is such an output, too.
    ///
    /// At any instant at most one [`Leadership`] is valid. Every term has a larger fencing token than the
    /// terms before, unless the lock is not [`fenced`](Self::fenced). A leader that was paused may not notice
    /// its loss before the next term begins. Only a resource that checks the tokens can reject its writes.
    ///
    /// ```no_run
    /// use multilock::{Leadership, Masters, RunError};
    /// use std::sync::Arc;
    ///
    /// struct Scheduler { masters: Masters }
    ///
    /// impl Scheduler {
    ///     async fn serve(&self, leadership: Leadership) {
    ///         println!("leads, with token {}", leadership.fencing_token());
    ///         // The job: every write with the token.
    ///         std::future::pending().await
    ///     }
    ///
    ///     fn start(self: Arc<Self>) -> tokio::task::JoinHandle<Result<(), RunError<()>>> {
    ///         let lock = self.masters.red_lock("scheduler");
    ///         tokio::spawn(async move { lock.lead(|leadership| self.serve(leadership)).await })
    ///     }
    /// }
    /// ```
    ///
    /// Work that the body has spawned goes on when the term ends, unless it takes the
    /// [`cancellation_token`](Leadership::cancellation_token). The future of the body cannot borrow from the
    /// closure, which is called again for the next term. Write `async |leadership|` without `move`, or clone
    /// in the closure what an `async move` block takes.
    ///
    /// The candidacy survives masters that are out of reach, in quarantine, misconfigured or without a
    /// permission, and the end of a [`wait`](Self::wait). To give up, drop the future, or use
    /// [`lead_until`](Self::lead_until). The log shows:
    /// - `still waiting for a lock`, once in 10 s, while too few masters have a vote, as in an outage or a quarantine.
    ///   Servers that cannot be reached are shown by `master out of reach`.
    /// - `cannot lead yet`, once a minute for each kind of error, if the error ends an attempt: a missing permission, or a
    ///   `wait` that ends in an outage. The next attempt follows after a pause, which grows from 0.1 s to 10 s.
    ///
    /// # Errors
    ///
    /// - [`RunError::Lock`] with an error that no time cures ([`LockError::is_permanent`]): an option that is
    ///   not allowed, or masters that were closed. A [`lease`](Self::lease) is such an option, because it is not renewed,
    ///   and an [`owner`](Self::owner), because a hold that is entered again asks no master, and
    ///   [`sticky`](Self::sticky). Outside of a tokio runtime: with any error.
    /// - [`RunError::Overlapped`] as for [`run`](Self::run).
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped at any point, the body is dropped, the cancellation token of its term is
    /// cancelled, and the lock is released in the background.
    pub async fn lead<T, F>(&self, body: impl FnMut(Leadership) -> F) -> Result<T, RunError<T>>
    where
        F: Future<Output = T>,
    {
        let Ok(output) = self.stand(pending::<Infallible>(), body).await?;
        Ok(output)
    }

    /// Runs a job as [`lead`](Self::lead) does, until `stop` resolves: for a service that shuts down.
    ///
    /// A candidate that waits then leaves the queues. For a leader the
    /// [`cancellation_token`](Leadership::cancellation_token) is cancelled. The body goes on with its lock for
    /// the [`grace`](Self::grace) period at most, and is dropped if it has not ended by then. Then the lock is
    /// given up, so that the next candidate leads at once.
    ///
    /// Returns the output of the body, or `None` if no body has come to its end.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use std::time::Duration;
    ///
    /// // In a service: until ctrl_c() or a signal.
    /// let stop = tokio::time::sleep(Duration::from_secs(60));
    /// let scheduler = masters.red_lock("scheduler");
    /// let rounds = scheduler.lead_until(stop, async |leadership| {
    ///     let is_over = leadership.cancellation_token();
    ///     let mut rounds = 0;
    ///     while !is_over.is_cancelled() {
    ///         // A round of the job, which is always brought to its end.
    ///         tokio::time::sleep(Duration::from_secs(7)).await;
    ///         rounds += 1;
    ///     }
    ///     rounds
    /// });
    /// assert_eq!(rounds.await?, Some(9));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`lead`](Self::lead).
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// As for [`lead`](Self::lead).
    pub async fn lead_until<T, F>(
        &self,
        stop: impl Future<Output = ()>,
        body: impl FnMut(Leadership) -> F,
    ) -> Result<Option<T>, RunError<T>>
    where
        F: Future<Output = T>,
    {
        Ok(self.stand(stop, body).await?.ok())
    }

    /// Sets the time that the body of [`lead_until`](Self::lead_until) has to come to its end after `stop`, and
    /// any leader's body after [`step_down`](Leadership::step_down) or at the end of [`max_hold`](Self::max_hold). 10 s by
    /// default. The lock is held meanwhile. Zero drops the body at its next await.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use std::time::Duration;
    /// use tokio::time::{Instant, sleep};
    ///
    /// let begun = Instant::now();
    /// let scheduler = masters.red_lock("scheduler").grace(Duration::from_secs(2));
    /// // This body does not look at its cancellation token.
    /// let led = scheduler.lead_until(sleep(Duration::from_secs(3)), |_| std::future::pending::<()>());
    /// assert_eq!(led.await?, None);
    /// assert_eq!(begun.elapsed().as_secs(), 5);
    /// # Ok(()) }
    /// ```
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.rare_mut().grace = grace;
        self
    }

    /// Leads in one term after the other, until the body ends, or `stop` resolves: then with its output as the inner
    /// error.
    async fn stand<T, S, F>(
        &self,
        stop: impl Future<Output = S>,
        mut body: impl FnMut(Leadership) -> F,
    ) -> Result<Result<T, S>, RunError<T>>
    where
        F: Future<Output = T>,
    {
        let candidate = self.options.of_candidate().map_err(LockError::from)?;
        let grace = self.options.rare().grace;
        let mut stop = pin!(stop);
        loop {
            let guard = tokio::select! {
                biased;
                stopped = &mut stop => return Ok(Err(stopped)),
                term = candidate.elected() => term?,
            };
            // The hold is not renewed after its bound, so the term ends there, with its grace before it.
            let (begun, bound) = (Instant::now(), guard.hold().left_to_renew());
            let before_bound = |rest: Duration| async move {
                match bound {
                    Some(bound) => sleep_until(begun + bound.saturating_sub(rest.min(bound / 2))).await,
                    None => pending().await,
                }
            };
            let leadership = Leadership::of(&guard);
            let over = leadership.end.clone().drop_guard();
            let mut stopped = None;
            let ended = {
                // Called after the wait, so that it sees what has changed meanwhile.
                let body = body(leadership.clone());
                let dismissed = async {
                    tokio::select! {
                        biased;
                        by = &mut stop => {
                            stopped = Some(by);
                            leadership.step_down();
                        }
                        () = leadership.end.cancelled() => {}
                        () = before_bound(grace) => leadership.step_down(),
                    }
                    tokio::select! {
                        () = sleep(grace) => {}
                        () = before_bound(Duration::ZERO) => {}
                    }
                };
                tokio::select! {
                    // Check for the loss first: no step of the body is taken after it.
                    biased;
                    loss = guard.lost() => Err(loss),
                    output = body => Ok(Some(output)),
                    () = dismissed => Ok(None),
                }
            };
            drop(over);
            match ended {
                Ok(Some(output)) => {
                    return self.release_after_body(guard, output).await.map(Ok);
                }
                Ok(None) => {
                    log::stepped_down(&self.options.names);
                    // No output is to be returned, and the log shows a release that is not confirmed.
                    let _ = self.release_after_body(guard, ()).await;
                }
                Err(loss) => log::leads_no_longer(&self.options.names, &loss),
            }
            if let Some(by) = stopped {
                return Ok(Err(by));
            }
        }
    }
}

impl LockOptions {
    /// Options of a candidate. The hold has to be renewed, so a lease is refused. A hold that is entered again asks no
    /// master, and has the token of the term before, so an owner is refused.
    fn of_candidate(&self) -> Result<Self, InvalidInput> {
        if let Some(lease) = self.lease {
            let allowed = "none with lead, whose hold is renewed: MastersBuilder::lease sets that lease, and max_hold the \
                           longest term";
            return Err(InvalidInput::time("lease", lease, allowed));
        }
        if self.owner.is_some() {
            let allowed = "not set with lead: a hold that is entered again asks no master";
            return Err(InvalidInput::new("owner", "set", allowed));
        }
        let mut options = Self {
            purpose: Purpose::Lead,
            ..self.clone()
        };
        options.rare_mut().announced = true;
        Ok(options)
    }

    /// Waits for the next term. After an error that time may cure, it tries again, with growing pauses.
    ///
    /// If the future is dropped at any point, all that the masters may have granted is released in the
    /// background.
    async fn elected(&self) -> Result<MultiLockGuard, LockError> {
        let pool = &self.masters.client.pool;
        let mut delays = Backoff::slow(&pool.random);
        loop {
            let begun = Instant::now();
            let error = match self.lock().await {
                Ok(term) => {
                    term.hold().with_state(HoldState::lasts_by_design);
                    return Ok(MultiLockGuard::of(term));
                }
                Err(error) => error,
            };
            // Outside of a runtime waiting is impossible.
            if error.is_permanent() || Handle::try_current().is_err() {
                return Err(error);
            }
            if error.is_contended() {
                // The candidate has waited for its turn already, and should have its place again soon.
                delays = Backoff::slow(&pool.random);
            } else {
                pool.log_throttle.cannot_lead(&self.names, &error);
            }
            let pause = delays.next();
            tokio::select! {
                biased;
                () = pool.closing.cancelled() => return Err(LockError::Closed),
                () = sleep(pause.saturating_sub(begun.elapsed())) => {}
            }
        }
    }
}
