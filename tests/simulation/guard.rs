//! Locks and guards of every kind, as one type each, because a schedule draws the kind of its locks when it runs.

use std::time::Duration;

use multilock::{
    Either, ExtendError, FencingToken, LockError, Loss, Lost, MultiLock, MultiLockGuard, Shared, UnlockError,
    Unlocked, Votes,
};
use tokio_util::sync::CancellationToken;

/// Kind of a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockKind {
    #[default]
    Plain,
    Write,
    Read,
}

/// A lock that is about to be asked for.
#[derive(Clone, Debug)]
pub(crate) enum Lock {
    Exclusive(MultiLock),
    Shared(MultiLock<Shared>),
}

/// Guard that a [`Lock`] gives.
#[derive(Debug)]
pub(crate) enum Guard {
    Exclusive(MultiLockGuard),
    /// A guard that cannot be downgraded, because it reads or belongs to a set.
    Other(MultiLockGuard<Either>),
}

macro_rules! with {
    ($self:expr, $guard:ident => $value:expr) => {
        match $self {
            Self::Exclusive($guard) => $value,
            Self::Other($guard) => $value,
        }
    };
}

impl Guard {
    pub(crate) fn validity(&self) -> Duration {
        with!(self, guard => guard.validity())
    }

    pub(crate) fn is_valid(&self) -> bool {
        with!(self, guard => guard.is_valid())
    }

    pub(crate) fn ensure_valid(&self) -> Result<(), Lost> {
        with!(self, guard => guard.ensure_valid())
    }

    pub(crate) fn fencing_token(&self) -> FencingToken {
        with!(self, guard => guard.fencing_token())
    }

    pub(crate) fn hold_count(&self) -> u64 {
        with!(self, guard => guard.hold_count())
    }

    pub(crate) fn votes(&self) -> Votes {
        with!(self, guard => guard.votes())
    }

    pub(crate) fn holder(&self) -> String {
        with!(self, guard => guard.holder().redacted_owner().to_string())
    }

    pub(crate) fn cancellation_token(&self) -> CancellationToken {
        with!(self, guard => guard.cancellation_token())
    }

    pub(crate) async fn lost(&self) -> Loss {
        with!(self, guard => guard.lost().await)
    }

    pub(crate) async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        with!(self, guard => guard.extend(lease).await)
    }

    pub(crate) async fn unlock(self) -> Result<Unlocked, UnlockError> {
        with!(self, guard => guard.unlock().await)
    }

    pub(crate) fn leak(self) {
        with!(self, guard => guard.leak());
    }

    /// Whether it may be downgraded.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self, Self::Exclusive(_))
    }

    /// From here on it reads, where it could be downgraded.
    pub(crate) async fn downgrade(self) -> Self {
        match self {
            Self::Exclusive(guard) => Self::Other(guard.downgrade().await.into()),
            Self::Other(guard) => Self::Other(guard),
        }
    }
}

impl From<MultiLockGuard> for Guard {
    fn from(guard: MultiLockGuard) -> Self {
        Self::Exclusive(guard)
    }
}

impl From<MultiLockGuard<Shared>> for Guard {
    fn from(guard: MultiLockGuard<Shared>) -> Self {
        Self::Other(guard.into())
    }
}

impl From<MultiLockGuard<Either>> for Guard {
    fn from(guard: MultiLockGuard<Either>) -> Self {
        Self::Other(guard)
    }
}

impl Lock {
    pub(crate) fn of(lock: MultiLock, kind: LockKind) -> Self {
        match kind {
            LockKind::Plain => Self::Exclusive(lock),
            LockKind::Write => Self::Exclusive(lock.write()),
            LockKind::Read => Self::Shared(lock.read()),
        }
    }

    pub(crate) fn wait(self, wait: Duration) -> Self {
        match self {
            Self::Exclusive(lock) => Self::Exclusive(lock.wait(wait)),
            Self::Shared(lock) => Self::Shared(lock.wait(wait)),
        }
    }

    pub(crate) async fn try_lock(&self) -> Result<Guard, LockError> {
        match self {
            Self::Exclusive(lock) => lock.try_lock().await.map(Guard::from),
            Self::Shared(lock) => lock.try_lock().await.map(Guard::from),
        }
    }

    pub(crate) async fn lock(&self) -> Result<Guard, LockError> {
        match self {
            Self::Exclusive(lock) => lock.lock().await.map(Guard::from),
            Self::Shared(lock) => lock.lock().await.map(Guard::from),
        }
    }
}
