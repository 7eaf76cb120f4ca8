//! Subscriptions to channels on all masters: those on which clients of other libraries announce releases, and those of
//! leaders that are watched.

use std::sync::{Arc, Weak};

use futures::future::join_all;
use tokio::time::timeout;

use crate::node::channels::Topic;
use crate::node::{ChannelForm, Inbox};
use crate::round::pool::Pool;

/// A subscription to some channels, on every master. Dropping the last one of a channel unsubscribes.
pub(crate) struct Subscription {
    /// Not kept alive: a watcher may have the subscription for longer than there is a client.
    pool: Weak<Pool>,
    topics: Vec<(ChannelForm, String, Arc<Topic>)>,
}

/// Numbers of messages at some moment.
#[derive(Clone, Debug)]
pub(crate) struct NoticeCounts {
    notices: Vec<u64>,
    interruptions: u64,
}

impl NoticeCounts {
    /// Replaces the numbers of the masters that `then` accepts by those of another moment.
    pub(crate) fn or(mut self, other: Self, then: impl Fn(usize) -> bool) -> Self {
        for (node, notices) in other
            .notices
            .into_iter()
            .enumerate()
            .filter(|(node, _)| then(*node))
        {
            self.notices[node] = notices;
        }
        self
    }
}

impl Subscription {
    /// Subscribes, and waits until every reachable master has confirmed, until the node timeout at most.
    /// Timers make up for messages that are missed meanwhile.
    pub(crate) async fn begin(
        pool: &Arc<Pool>,
        channels: impl IntoIterator<Item = (ChannelForm, String)>,
    ) -> Self {
        let mut subscription = Self {
            pool: Arc::downgrade(pool),
            topics: Vec::new(),
        };
        let mut calls = Vec::new();
        for (form, channel) in channels {
            let topic = pool.topics.join(form, &channel, || {
                calls.extend(listen(true, pool, form, &channel));
            });
            subscription.topics.push((form, channel, topic));
        }
        let confirmed = join_all(calls.into_iter().map(Inbox::answer));
        let _ = timeout(pool.config.node_timeout, confirmed).await;
        subscription
    }

    /// Numbers of messages by now. Taken before an attempt is sent, they show later which messages have come
    /// since.
    pub(crate) fn counts(&self) -> NoticeCounts {
        NoticeCounts {
            notices: (0..self.nodes()).map(|node| self.notices(node)).collect(),
            interruptions: self.interruptions(),
        }
    }

    /// Waits until a master that `counts` accepts has sent a message since then, or the subscription was
    /// interrupted.
    pub(crate) async fn notified(&self, since: &NoticeCounts, counts: impl Fn(usize) -> bool) {
        self.until(since.interruptions, || {
            let mut notices = since.notices.iter().enumerate();
            notices.any(|(node, old)| counts(node) && self.notices(node) > *old)
        })
        .await;
    }

    /// Waits until `is_met` holds, or until there were more interruptions.
    async fn until(&self, interruptions: u64, mut is_met: impl FnMut() -> bool) {
        loop {
            // Enabled before the check, so that no message is missed between the check and the wait.
            let mut notices_to_come: Vec<_> = self
                .topics
                .iter()
                .map(|(_, _, topic)| Box::pin(topic.notified()))
                .collect();
            for notified in &mut notices_to_come {
                notified.as_mut().enable();
            }
            if is_met() || self.interruptions() > interruptions {
                return;
            }
            futures::future::select_all(notices_to_come).await;
        }
    }

    /// Number of masters.
    fn nodes(&self) -> usize {
        self.topics.first().map_or(0, |(_, _, topic)| topic.nodes())
    }

    fn notices(&self, node: usize) -> u64 {
        self.topics.iter().map(|(_, _, topic)| topic.notices(node)).sum()
    }

    fn interruptions(&self) -> u64 {
        self.topics
            .iter()
            .map(|(_, _, topic)| topic.interruptions())
            .sum()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        let mut calls = Vec::new();
        for (form, channel, _) in &self.topics {
            pool.topics.leave(*form, channel, || {
                calls.extend(listen(false, &pool, *form, channel));
            });
        }
        if !calls.is_empty() {
            let within = pool.config.node_timeout;
            // The task makes the timer, since this value may be dropped outside of a runtime.
            pool.runtime
                .spawn(async move { timeout(within, join_all(calls.into_iter().map(Inbox::answer))).await });
        }
    }
}

fn listen(on: bool, pool: &Pool, form: ChannelForm, channel: &str) -> Vec<Inbox> {
    let links = pool.slots.iter().filter_map(|slot| slot.link().ok());
    links.map(|link| link.listen(on, form, channel)).collect()
}
