//! Channels that this process listens to: its own, on which its waiters are called, and those on which
//! clients of other libraries announce releases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::ChannelForm;
use super::recalls::Recalls;
use super::stale_waiters::StaleWaiter;
use super::waiters::Waiters;
use crate::interop::yielding::Yielding;
use crate::protocol::field::FieldMessage;
use crate::protocol::waiter::WaiterCall;

/// The channels that a client listens to.
pub(crate) struct Topics {
    nodes: usize,
    /// Channel on which the client's waiters are called, and holds recalled. Each connection listens to it from
    /// set-up on.
    pub(super) own: String,
    pub(crate) waiters: Waiters,
    pub(crate) recalls: Arc<Recalls>,
    pub(crate) yielding: Yielding,
    joined: Mutex<TopicsByChannel>,
}

/// Channels and patterns with their listeners.
type TopicsByChannel = BTreeMap<(ChannelForm, String), (Arc<Topic>, usize)>;

/// One channel, or the channels of one pattern, on all masters.
pub(crate) struct Topic {
    /// Number of messages from each master.
    notices: Box<[AtomicU64]>,
    /// Number of interruptions of the subscription. During one, messages may have been missed.
    interruptions: AtomicU64,
    notified: Notify,
}

impl Topics {
    pub(crate) fn new(nodes: usize, own: String) -> Self {
        Self {
            nodes,
            own,
            waiters: Waiters::default(),
            recalls: Arc::default(),
            yielding: Yielding::default(),
            joined: Mutex::default(),
        }
    }

    /// Joins the listeners of a channel. `act` runs before any other task can join or leave, so that
    /// subscriptions are sent in the order of the changes.
    pub(crate) fn join(&self, form: ChannelForm, channel: &str, act: impl FnOnce()) -> Arc<Topic> {
        let mut topics = self.joined.lock();
        let (topic, listeners) = topics
            .entry((form, channel.to_owned()))
            .or_insert_with(|| (Arc::new(Topic::new(self.nodes)), 0));
        *listeners += 1;
        let topic = Arc::clone(topic);
        act();
        topic
    }

    /// Leaves the listeners of a channel; `act` runs if that was the last one.
    pub(crate) fn leave(&self, form: ChannelForm, channel: &str, act: impl FnOnce()) {
        let mut topics = self.joined.lock();
        let key = (form, channel.to_owned());
        if let Some((_, listeners)) = topics.get_mut(&key) {
            *listeners -= 1;
            if *listeners == 0 {
                topics.remove(&key);
                act();
            }
        }
    }

    /// Runs `act` with every channel and every pattern that has listeners, before any other task can join or leave.
    pub(crate) fn resume<T>(&self, act: impl FnOnce(Vec<&(ChannelForm, String)>) -> T) -> T {
        act(self.joined.lock().keys().collect())
    }

    /// Takes in a message from the master at `node`. Returns the waiter that it calls, if the waiter has
    /// ended.
    pub(crate) fn take_in(
        &self,
        node: usize,
        form: ChannelForm,
        channel: &str,
        message: &str,
    ) -> Option<StaleWaiter> {
        if form == ChannelForm::Exact && channel == self.own {
            if let Some(message) = FieldMessage::parse(message) {
                self.recalls.take_in(message);
                return None;
            }
            return self.waiters.call(node, WaiterCall::parse(message)?);
        }
        if let Some((topic, _)) = self.joined.lock().get(&(form, channel.to_owned())) {
            topic.notices[node].fetch_add(1, Ordering::Relaxed);
            topic.notified.notify_waiters();
        }
        None
    }

    /// Wakes every listener and waiter to look again, because messages may have been missed.
    pub(crate) fn interrupt(&self) {
        for (topic, _) in self.joined.lock().values() {
            topic.interruptions.fetch_add(1, Ordering::Relaxed);
            topic.notified.notify_waiters();
        }
        self.waiters.interrupt();
        self.recalls.interrupt();
    }
}

impl Topic {
    fn new(nodes: usize) -> Self {
        Self {
            notices: (0..nodes).map(|_| AtomicU64::new(0)).collect(),
            interruptions: AtomicU64::new(0),
            notified: Notify::new(),
        }
    }

    pub(crate) fn notices(&self, node: usize) -> u64 {
        self.notices[node].load(Ordering::Relaxed)
    }

    /// Number of masters.
    pub(crate) fn nodes(&self) -> usize {
        self.notices.len()
    }

    pub(crate) fn interruptions(&self) -> u64 {
        self.interruptions.load(Ordering::Relaxed)
    }

    /// Resolves at the next message after this call.
    pub(crate) fn notified(&self) -> tokio::sync::futures::Notified<'_> {
        self.notified.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::ChannelForm::{Exact, Pattern};
    use super::*;

    #[test]
    fn the_first_joins_and_the_last_leaves() {
        let topics = Topics::new(3, "own".into());
        let mut sent = Vec::new();
        let topic = topics.join(Exact, "a", || sent.push("subscribe"));
        topics.join(Exact, "a", || {});
        topics.take_in(1, Exact, "a", "0");
        topics.take_in(1, Exact, "b", "0");
        topics.take_in(1, Pattern, "a", "0");
        assert_eq!(
            (topic.notices(0), topic.notices(1), topic.interruptions()),
            (0, 1, 0)
        );
        topics.interrupt();
        assert_eq!(topic.interruptions(), 1);
        topics.leave(Exact, "a", || sent.push("too early"));
        topics.leave(Pattern, "a", || sent.push("another"));
        topics.leave(Exact, "a", || sent.push("unsubscribe"));
        topics.leave(Exact, "a", || sent.push("twice"));
        assert_eq!(sent, ["subscribe", "unsubscribe"]);
        assert!(topics.resume(|channels| channels.is_empty()));
    }

    #[test]
    fn a_message_on_the_clients_own_channel_calls_a_waiter() {
        let topics = Topics::new(1, "own".into());
        let waiting = topics.waiters.join(1);
        let before = waiting.snapshot();
        let call = format!("{} a", waiting.number);
        assert_eq!(topics.take_in(0, Exact, "own", &call), None);
        assert!(waiting.called_since(0, &before));
        assert_eq!(topics.take_in(0, Exact, "own", "odd"), None);
        assert!(topics.take_in(0, Exact, "own", "99 a").is_some());
    }
}
