//! Steps that several cases have in common.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use multilock::sim::{Cluster, Master};
use multilock::{LockError, Masters, Mode, MultiLock, MultiLockGuard};
use tokio::task::JoinHandle;

use crate::memory::connect;

/// Clients of the same masters, each as if in a process of its own.
pub(crate) async fn clients(cluster: &Cluster, number: usize) -> Vec<Masters> {
    let mut clients = Vec::new();
    for _ in 0..number {
        clients.push(connect(cluster).await);
    }
    clients
}

pub(crate) fn is_contended<T>(tried: &Result<T, LockError>) -> bool {
    matches!(tried, Err(LockError::Contended { .. }))
}

/// Waits for a lock that is held, and returns how that ended. Panics if it does not end.
pub(crate) async fn wait_in_vain<M: Mode>(lock: MultiLock<M>) -> Result<MultiLockGuard<M>, LockError> {
    let waited = tokio::time::timeout(Duration::from_secs(60), lock.lock()).await;
    waited.expect("the wait has an end")
}

pub(crate) fn is_timed_out<T>(waited: &Result<T, LockError>) -> bool {
    matches!(waited, Err(LockError::TimedOut { .. }))
}

/// Waits for a lock in a task of its own.
pub(crate) fn waiting<M: Mode>(lock: MultiLock<M>) -> JoinHandle<Result<MultiLockGuard<M>, LockError>>
where
    MultiLock<M>: Send + Sync + 'static,
    MultiLockGuard<M>: Send,
{
    tokio::spawn(async move { lock.lock().await })
}

/// Keys of locks, seats and queues on all masters.
pub(crate) fn locks(cluster: &Cluster) -> Vec<String> {
    cluster.iter().flat_map(Master::locks).collect()
}

/// Number of holders that are inside at once, and the largest number so far.
#[derive(Debug, Default)]
pub(crate) struct Room {
    inside: AtomicUsize,
    most: AtomicUsize,
    visits: AtomicUsize,
}

impl Room {
    /// Spends some time inside. Returns the number that was inside at the entry.
    pub(crate) async fn visit(&self, time: Duration) -> usize {
        let inside = self.inside.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(inside, Ordering::Relaxed);
        self.visits.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(time).await;
        self.inside.fetch_sub(1, Ordering::Relaxed);
        inside
    }

    pub(crate) fn inside(&self) -> usize {
        self.inside.load(Ordering::Relaxed)
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    pub(crate) fn visits(&self) -> usize {
        self.visits.load(Ordering::Relaxed)
    }
}
