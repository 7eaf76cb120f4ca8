//! Subscriptions to the release notices of the masters.

use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use tokio::time::timeout;

use crate::names::Names;
use crate::node::Inbox;
use crate::node::channels::Topic;
use crate::protocol::keys::channel;
use crate::round::pool::Pool;
use crate::votes::Vote;

/// A subscription to the releases of some names, on every master. Dropping the last one of a channel
/// unsubscribes.
pub(crate) struct Subscription {
    pool: Arc<Pool>,
    topics: Vec<(String, Arc<Topic>)>,
}

/// What had been heard at some moment.
#[derive(Clone, Debug)]
pub(crate) struct NoticeCounts {
    notices: Vec<u64>,
    interruptions: u64,
}

impl Subscription {
    /// Subscribes, and waits until every master that can be reached has confirmed, at most the node
    /// deadline. What is lost meanwhile is made up for by timers.
    pub(crate) async fn begin(pool: &Arc<Pool>, names: &Names) -> Self {
        let mut subscription = Self {
            pool: Arc::clone(pool),
            topics: Vec::with_capacity(names.len()),
        };
        let mut calls = Vec::new();
        for name in names.iter() {
            let channel = channel(name).text();
            let topic = pool
                .topics
                .join(&channel, || calls.extend(subscribe(pool, &channel)));
            subscription.topics.push((channel, topic));
        }
        let confirmed = join_all(calls.into_iter().map(Inbox::answer));
        let _ = timeout(pool.config.node_timeout, confirmed).await;
        subscription
    }

    /// What has been heard by now. Taken before an attempt is sent, it tells afterwards what was
    /// heard since.
    pub(crate) fn heard(&self) -> NoticeCounts {
        NoticeCounts {
            notices: (0..self.pool.slots.len())
                .map(|node| self.notices(node))
                .collect(),
            interruptions: self.interruptions(),
        }
    }

    /// Waits until a quorum has become possible: until `needed` masters either granted or, not being in
    /// quarantine, have announced a release since. Or until listening was interrupted.
    pub(crate) async fn quorum_possible(&self, since: &NoticeCounts, votes: &[Vote], needed: usize) {
        self.until(since.interruptions, || {
            let announced = |node: usize| {
                let old = since.notices.get(node);
                old.is_some_and(|old| self.notices(node) > *old)
            };
            // A master in quarantine announces this waiter's own rollbacks, and has no vote anyway.
            let open = votes.iter().enumerate().filter(|(node, vote)| match vote {
                Vote::Granted => true,
                Vote::Quarantined { .. } => false,
                _ => announced(*node),
            });
            open.count() >= needed
        })
        .await;
    }

    /// How many releases so many masters have announced since, each of them.
    pub(crate) fn releases(&self, since: &NoticeCounts, needed: usize) -> u64 {
        let mut releases: Vec<u64> = since
            .notices
            .iter()
            .enumerate()
            .map(|(node, old)| self.notices(node).saturating_sub(*old))
            .collect();
        releases.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        releases.get(needed - 1).copied().unwrap_or(0)
    }

    /// Waits until there are more of them, or listening was interrupted.
    pub(crate) async fn more_releases(&self, since: &NoticeCounts, needed: usize, than: u64) {
        // A gap before this call says nothing about what is missed now.
        self.until(self.interruptions(), || self.releases(since, needed) > than)
            .await;
    }

    /// Waits until it was heard, or listening was interrupted more often.
    async fn until(&self, interruptions: u64, mut heard: impl FnMut() -> bool) {
        loop {
            // Bells first, so that none is missed between the look and the wait.
            let mut notices_to_come: Vec<_> = self
                .topics
                .iter()
                .map(|(_, topic)| Box::pin(topic.notified()))
                .collect();
            for notified in &mut notices_to_come {
                notified.as_mut().enable();
            }
            if heard() || self.interruptions() > interruptions {
                return;
            }
            futures::future::select_all(notices_to_come).await;
        }
    }

    fn notices(&self, node: usize) -> u64 {
        self.topics.iter().map(|(_, topic)| topic.heard(node)).sum()
    }

    fn interruptions(&self) -> u64 {
        self.topics.iter().map(|(_, topic)| topic.interruptions()).sum()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut calls = Vec::new();
        for (channel, _) in &self.topics {
            self.pool
                .topics
                .leave(channel, || calls.extend(unsubscribe(&self.pool, channel)));
        }
        if !calls.is_empty() {
            let within = self.pool.config.node_timeout;
            // The timer is made by the task, since this may be dropped outside of a runtime.
            self.pool
                .runtime
                .spawn(async move { timeout(within, join_all(calls.into_iter().map(Inbox::answer))).await });
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.topics.iter().map(|(channel, _)| channel))
            .finish()
    }
}

fn subscribe(pool: &Pool, channel: &str) -> Vec<Inbox> {
    let channels = [channel.to_owned()];
    let links = pool.slots.iter().filter_map(|slot| slot.link().ok());
    links.map(|link| link.subscribe(&channels)).collect()
}

fn unsubscribe(pool: &Pool, channel: &str) -> Vec<Inbox> {
    let channels = [channel.to_owned()];
    let links = pool.slots.iter().filter_map(|slot| slot.link().ok());
    links.map(|link| link.unsubscribe(&channels)).collect()
}
