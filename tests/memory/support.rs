//! Helpers for the suites on masters in memory.

use std::future::poll_fn;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use multilock::sim::Cluster;
use multilock::{Masters, MastersBuilder, MultiLock, Quarantine, Unlocked};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn without_quarantine() -> MastersBuilder {
    Masters::builder().quarantine(Quarantine::Off)
}

/// Without quarantine: a master that restarts has its vote again at once.
pub(crate) async fn connect(cluster: &Cluster) -> Masters {
    let connecting = cluster.connect(without_quarantine());
    connecting.await.expect("connects")
}

/// As [`connect`], with another lease.
pub(crate) async fn connect_leasing(cluster: &Cluster, lease: Duration) -> Masters {
    let connecting = cluster.connect(without_quarantine().lease(lease));
    connecting.await.expect("connects")
}

/// With nothing but the defaults, quarantine included.
pub(crate) async fn connect_by_default(cluster: &Cluster) -> Masters {
    cluster.connect(Masters::builder()).await.expect("connects")
}

/// Every request and every reply takes so long.
pub(crate) fn slow_down(cluster: &Cluster, milliseconds: u64) {
    for master in cluster.iter() {
        master.set_delay(ms(milliseconds), ms(milliseconds));
    }
}

/// How often the masters have run a script, all together.
pub(crate) fn executed(cluster: &Cluster, script: &str) -> u64 {
    cluster
        .iter()
        .map(|master| master.executed().get(script).copied().unwrap_or(0))
        .sum()
}

/// Lets everything that is due happen.
pub(crate) async fn settle() {
    tokio::time::sleep(ms(5)).await;
}

/// The channels that somebody listens to, but for those on which the clients themselves are called, which they keep.
pub(crate) fn foreign_channels(cluster: &Cluster) -> Vec<String> {
    let channels = cluster.iter().flat_map(multilock::sim::Master::channels);
    channels
        .filter(|channel| !channel.starts_with("multilock:"))
        .collect()
}

/// How many keys of queues the masters have.
pub(crate) fn queues(cluster: &Cluster) -> usize {
    let keys = cluster.iter().flat_map(multilock::sim::Master::keys);
    keys.filter(|key| {
        let of_waiters = ["queue", "readers_queue", "deadlines"];
        of_waiters
            .iter()
            .any(|kind| key.starts_with(&format!("multilock_{kind}:")))
    })
    .count()
}

/// 1 when all have the same, 1/n when one has everything (Jain, Chiu and Hawe, 1984).
pub(crate) fn jain(shares: &[usize]) -> f64 {
    let shares: Vec<f64> = shares
        .iter()
        .map(|share| f64::from(u32::try_from(*share).expect("small")))
        .collect();
    let (sum, squares) = (
        shares.iter().sum::<f64>(),
        shares.iter().map(|share| share * share).sum::<f64>(),
    );
    sum * sum / (f64::from(u32::try_from(shares.len()).expect("small")) * squares)
}

/// A process on a runtime of its own. Nobody drives that one after it has done something, so the process is frozen
/// from then on, and its connections stand.
pub(crate) struct Apart(Runtime);

impl Apart {
    /// A process that has done `work`, and everything that followed within a moment.
    pub(crate) fn after<W>(cluster: &Cluster, work: impl FnOnce(Masters) -> W + Send + 'static) -> Self
    where
        W: Future<Output = ()>,
    {
        let (cluster, now) = (cluster.clone(), Instant::now());
        let doing = thread::spawn(move || {
            let mut builder = Builder::new_current_thread();
            let runtime = builder.enable_all().start_paused(true).build();
            let runtime = runtime.expect("a runtime");
            runtime.block_on(async {
                // Both runtimes are to have the same time.
                let behind = now.checked_duration_since(Instant::now());
                tokio::time::advance(behind.expect("virtual time is ahead of the host's")).await;
                work(connect(&cluster).await).await;
                settle().await;
            });
            runtime
        });
        Self(doing.join().expect("no panic"))
    }

    /// A process that has begun this number of waits.
    pub(crate) fn waiting(cluster: &Cluster, name: &'static str, tasks: usize) -> Self {
        Self::after(cluster, move |masters| async move {
            for _ in 0..tasks {
                let lock = masters.red_lock(name).fair();
                tokio::spawn(async move { lock.lock().await });
                tokio::task::yield_now().await;
            }
        })
    }

    /// Ends it as a signal does that it does not see: nothing more is sent, and its connections are closed.
    pub(crate) fn kill(self) {
        let killing = thread::spawn(move || drop(self.0));
        killing.join().expect("no panic");
    }
}

/// Ahead of the host's time by more than any test takes, as processes [`Apart`] need it.
pub(crate) async fn get_ahead() {
    tokio::time::sleep(Duration::from_secs(600)).await;
}

/// Takes a free lock, and gives it back.
pub(crate) async fn pair(lock: &MultiLock) {
    let guard = lock.lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

/// Polls `future` at most so often; `None` when it was not done by then.
pub(crate) fn polled<F: Future>(future: F, polls: usize) -> impl Future<Output = Option<F::Output>> {
    dropped_after(future, polls, false)
}

/// Polls `future` so often, and drops it when it is woken the next time, before it takes in the event. `None` when it
/// was not done by then.
pub(crate) fn woken<F: Future>(future: F, polls: usize) -> impl Future<Output = Option<F::Output>> {
    dropped_after(future, polls, true)
}

fn dropped_after<F: Future>(
    future: F,
    polls: usize,
    when_woken: bool,
) -> impl Future<Output = Option<F::Output>> {
    let (mut future, mut left) = (Box::pin(future), polls);
    poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Pending if left == 0 && !when_woken => Poll::Ready(None),
            polled => polled.map(Some),
        }
    })
}
