//! Subscriptions to channels on all masters: those on which clients of other libraries announce releases, and those of
//! leaders that are watched.

use std::sync::{Arc, Weak};

use futures::future::join_all;
use tokio::time::timeout;

use crate::node::messages::Messages;
use crate::node::{ChannelForm, Inbox};
use crate::round::pool::Pool;

/// A subscription to some channels, on every master. Dropping the last one of a channel unsubscribes.
pub(crate) struct Subscription {
    /// Not kept alive: a watcher may have the subscription for longer than there is a client.
    pool: Weak<Pool>,
    channels: Vec<(ChannelForm, String)>,
    pub(crate) messages: Arc<Messages>,
}

impl Subscription {
    /// Subscribes, and waits until every reachable master has confirmed, until the node timeout at most.
    /// Timers make up for messages that are missed meanwhile.
    pub(crate) async fn begin(
        pool: &Arc<Pool>,
        channels: impl IntoIterator<Item = (ChannelForm, String)>,
    ) -> Self {
        let subscription = Self {
            pool: Arc::downgrade(pool),
            channels: channels.into_iter().collect(),
            messages: Arc::new(Messages::new(pool.slots.len())),
        };
        let mut calls = Vec::new();
        for (form, channel) in &subscription.channels {
            pool.topics.join(*form, channel, &subscription.messages, || {
                calls.extend(listen(true, pool, *form, channel));
            });
        }
        let confirmed = join_all(calls.into_iter().map(Inbox::answer));
        let _ = timeout(pool.config.node_timeout, confirmed).await;
        subscription
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        let mut calls = Vec::new();
        for (form, channel) in &self.channels {
            pool.topics.leave(*form, channel, &self.messages, || {
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
