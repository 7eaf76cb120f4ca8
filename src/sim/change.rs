//! Notifies watchers of changes, in the order in which they wait. Tokio's `watch` wakes them in a random
//! order, and a run would not repeat itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::time::until::until;

#[derive(Clone, Debug, Default)]
pub(super) struct Change(Arc<ChangeNotice>);

#[derive(Debug, Default)]
struct ChangeNotice {
    times: AtomicU64,
    notify: Notify,
}

/// Sees every change since it was made, or since it looked last.
pub(super) struct Watch {
    notice: Arc<ChangeNotice>,
    seen: u64,
}

impl Change {
    pub(super) fn tell(&self) {
        self.0.times.fetch_add(1, Ordering::Relaxed);
        self.0.notify.notify_waiters();
    }

    pub(super) fn watch(&self) -> Watch {
        Watch {
            notice: Arc::clone(&self.0),
            seen: self.0.times.load(Ordering::Relaxed),
        }
    }
}

impl Watch {
    pub(super) fn look(&mut self) {
        self.seen = self.notice.times.load(Ordering::Relaxed);
    }

    pub(super) async fn changed(&mut self) {
        let (notice, seen) = (&self.notice, self.seen);
        let news = || Some(notice.times.load(Ordering::Relaxed)).filter(|times| *times != seen);
        self.seen = until(&notice.notify, news).await;
    }
}
