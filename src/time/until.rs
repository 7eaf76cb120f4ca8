//! Waits for a change that is notified, or for a time that may not be set.

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Waits until `look` finds something. It looks at once, and again at each notification by `notify_waiters`.
pub(crate) async fn until<T>(news: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        // Made before the look: it misses no notification by `notify_waiters` from then on, also before it is polled.
        let notified = news.notified();
        if let Some(found) = look() {
            return found;
        }
        notified.await;
    }
}

/// Sleeps until a time. Without one, it never resolves.
pub(crate) async fn sleep_until_if(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
