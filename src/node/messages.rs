//! Messages from the masters as one listener counts them: the calls of a waiter, or the messages of a subscription.

use std::sync::atomic::{AtomicU32, Ordering};

use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::time::until::until;

/// Messages from the masters to one listener.
pub(crate) struct Messages {
    /// Number of messages from each master.
    counts: SmallVec<[AtomicU32; 8]>,
    /// Number of interruptions of the subscription. During one, messages may have been missed.
    interruptions: AtomicU32,
    /// Notified after each change, so that the listener looks again.
    pub(crate) news: Notify,
}

/// Numbers of messages at some moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageCounts {
    counts: SmallVec<[u32; 8]>,
    interruptions: u32,
}

impl Messages {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            counts: (0..nodes).map(|_| AtomicU32::new(0)).collect(),
            interruptions: AtomicU32::new(0),
            news: Notify::new(),
        }
    }

    /// Number of masters.
    pub(super) fn nodes(&self) -> usize {
        self.counts.len()
    }

    /// Counts a message, which wakes nobody before `news` is notified.
    pub(super) fn count(&self, node: usize) {
        self.counts[node].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a message, and wakes the listener.
    pub(super) fn came(&self, node: usize) {
        self.count(node);
        self.news.notify_waiters();
    }

    /// Wakes the listener to look again, because messages may have been missed.
    pub(crate) fn interrupt(&self) {
        self.interruptions.fetch_add(1, Ordering::Relaxed);
        self.news.notify_waiters();
    }

    /// Numbers of messages by now. Taken before an attempt is sent, they show later which messages have come since.
    pub(crate) fn by_now(&self) -> MessageCounts {
        let counts = self.counts.iter();
        MessageCounts {
            counts: counts.map(|count| count.load(Ordering::Relaxed)).collect(),
            interruptions: self.interruptions.load(Ordering::Relaxed),
        }
    }

    /// Whether a master has sent a message since then.
    pub(crate) fn came_since(&self, node: usize, since: &MessageCounts) -> bool {
        self.counts[node].load(Ordering::Relaxed) != since.counts[node]
    }

    /// Whether messages may have been missed since then.
    pub(crate) fn interrupted_since(&self, since: &MessageCounts) -> bool {
        self.interruptions.load(Ordering::Relaxed) != since.interruptions
    }

    /// Waits until a master that `counts` accepts has sent a message since then, or messages may have been missed.
    pub(crate) async fn news_since(&self, since: &MessageCounts, counts: impl Fn(usize) -> bool) {
        let came = |node| counts(node) && self.came_since(node, since);
        let is_met = || self.interrupted_since(since) || (0..self.nodes()).any(came);
        until(&self.news, || is_met().then_some(())).await;
    }
}

impl MessageCounts {
    /// Replaces the numbers of the masters that `then` accepts by those of another moment.
    pub(crate) fn or(mut self, other: &Self, then: impl Fn(usize) -> bool) -> Self {
        for node in (0..self.counts.len()).filter(|node| then(*node)) {
            self.counts[node] = other.counts[node];
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_listener_is_woken_by_messages_that_count_and_by_gaps() {
        let tells: [fn(&Messages); 2] = [|messages| messages.came(1), Messages::interrupt];
        for tell in tells {
            let messages = Arc::new(Messages::new(2));
            let (theirs, before) = (Arc::clone(&messages), messages.by_now());
            let mut listening = tokio::spawn(async move {
                theirs.news_since(&before, |node| node == 1).await;
            });
            yield_now().await;
            messages.came(0);
            assert!(timeout(Duration::from_secs(1), &mut listening).await.is_err());
            tell(&messages);
            let woken = timeout(Duration::from_secs(1), listening).await;
            woken.expect("in time").expect("no panic");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn numbers_of_another_moment_leave_out_its_messages() {
        let messages = Messages::new(2);
        let before = messages.by_now();
        messages.came(0);
        messages.came(1);
        let since = before.or(&messages.by_now(), |node| node == 0);
        assert!(!messages.came_since(0, &since) && messages.came_since(1, &since));
        messages.news_since(&since, |_| true).await;
    }
}
