//! Channels that this process listens to: its own, on which its waiters are called, and those on which
//! clients of other libraries announce releases.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::ChannelForm;
use super::messages::Messages;
use super::recalls::Recalls;
use super::stale_waiters::StaleWaiter;
use super::waiters::Waiters;
use crate::interop::yielding::Yielding;
use crate::protocol::field::FieldMessage;
use crate::protocol::waiter::WaiterCall;

/// The channels that a client listens to.
pub(crate) struct Topics {
    /// Channel on which the client's waiters are called, and holds recalled. Each connection listens to it from
    /// set-up on.
    pub(super) own: String,
    pub(crate) waiters: Waiters,
    pub(crate) recalls: Arc<Recalls>,
    pub(crate) yielding: Yielding,
    joined: Mutex<ListenersByChannel>,
}

/// Channels and patterns with their listeners.
type ListenersByChannel = BTreeMap<(ChannelForm, String), Vec<Arc<Messages>>>;

impl Topics {
    pub(crate) fn new(own: String) -> Self {
        Self {
            own,
            waiters: Waiters::default(),
            recalls: Arc::default(),
            yielding: Yielding::default(),
            joined: Mutex::default(),
        }
    }

    /// Adds a listener to a channel. `act` runs before any other task can join or leave, so that
    /// subscriptions are sent in the order of the changes.
    pub(crate) fn join(
        &self,
        form: ChannelForm,
        channel: &str,
        listener: &Arc<Messages>,
        act: impl FnOnce(),
    ) {
        let mut joined = self.joined.lock();
        let listeners = joined.entry((form, channel.to_owned())).or_default();
        listeners.push(Arc::clone(listener));
        act();
    }

    /// Takes a listener from a channel; `act` runs if that was the last one.
    pub(crate) fn leave(
        &self,
        form: ChannelForm,
        channel: &str,
        listener: &Arc<Messages>,
        act: impl FnOnce(),
    ) {
        let mut joined = self.joined.lock();
        let key = (form, channel.to_owned());
        if let Some(listeners) = joined.get_mut(&key) {
            listeners.retain(|other| !Arc::ptr_eq(other, listener));
            if listeners.is_empty() {
                joined.remove(&key);
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
        let joined = self.joined.lock();
        for listener in joined.get(&(form, channel.to_owned())).into_iter().flatten() {
            listener.came(node);
        }
        None
    }

    /// Wakes every listener and waiter to look again, because messages may have been missed.
    pub(crate) fn interrupt(&self) {
        for listener in self.joined.lock().values().flatten() {
            listener.interrupt();
        }
        self.waiters.interrupt();
        self.recalls.interrupt();
    }
}

#[cfg(test)]
mod tests {
    use super::ChannelForm::{Exact, Pattern};
    use super::*;

    #[test]
    fn the_first_joins_and_the_last_leaves() {
        let topics = Topics::new("own".into());
        let (one, two) = (Arc::new(Messages::new(3)), Arc::new(Messages::new(3)));
        let mut sent = Vec::new();
        topics.join(Exact, "a", &one, || sent.push("subscribe"));
        topics.join(Exact, "a", &two, || {});
        let before = one.by_now();
        topics.take_in(1, Exact, "a", "0");
        topics.take_in(2, Exact, "b", "0");
        topics.take_in(2, Pattern, "a", "0");
        for listener in [&one, &two] {
            assert_eq!(
                [0, 1, 2].map(|node| listener.came_since(node, &before)),
                [false, true, false]
            );
            assert!(!listener.interrupted_since(&before));
        }
        topics.interrupt();
        assert!(one.interrupted_since(&before) && two.interrupted_since(&before));
        topics.leave(Exact, "a", &one, || sent.push("too early"));
        topics.leave(Exact, "a", &one, || sent.push("twice"));
        let before = (one.by_now(), two.by_now());
        topics.take_in(0, Exact, "a", "0");
        assert!(!one.came_since(0, &before.0) && two.came_since(0, &before.1));
        topics.leave(Pattern, "a", &two, || sent.push("another"));
        topics.leave(Exact, "a", &two, || sent.push("unsubscribe"));
        topics.leave(Exact, "a", &two, || sent.push("twice"));
        assert_eq!(sent, ["subscribe", "unsubscribe"]);
        assert!(topics.resume(|channels| channels.is_empty()));
    }

    #[test]
    fn a_message_on_the_clients_own_channel_calls_a_waiter() {
        let topics = Topics::new("own".into());
        let waiting = topics.waiters.join(1);
        let before = waiting.snapshot();
        let call = format!("{} a", waiting.number);
        assert_eq!(topics.take_in(0, Exact, "own", &call), None);
        assert!(waiting.messages.came_since(0, &before));
        assert_eq!(topics.take_in(0, Exact, "own", "odd"), None);
        assert!(topics.take_in(0, Exact, "own", "99 a").is_some());
    }
}
