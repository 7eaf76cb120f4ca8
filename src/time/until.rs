//! Waits for a change that is notified.

use std::pin::pin;

use tokio::sync::Notify;

/// Waits until `look` finds something. It looks at once, and again at each notification by `notify_waiters`.
pub(crate) async fn until<T>(news: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        // Enabled before the look, so that no notification falls between the look and the wait.
        let mut notified = pin!(news.notified());
        notified.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        notified.await;
    }
}
