//! Redisson's subscriptions: one connection of a process, and one subscription to a channel for all its waiters.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Ends with its connection when dropped.
#[derive(Debug)]
pub(super) struct Channels {
    /// Held while the server is told, so that a second waiter begins when the subscription stands.
    sink: tokio::sync::Mutex<PubSubSink>,
    entries: Entries,
    listening: JoinHandle<()>,
}

type Entries = Arc<Mutex<HashMap<String, Entry>>>;

#[derive(Debug)]
struct Entry {
    waiters: usize,
    /// A permit for each message. It wakes one waiter, or a later one if nobody slept.
    messages: Arc<Semaphore>,
}

impl Channels {
    pub(super) async fn connect(client: &redis::Client) -> Self {
        let connection = client.get_async_pubsub().await.expect("a server that answers");
        let (sink, stream) = connection.split();
        let entries = Entries::default();
        Self {
            sink: tokio::sync::Mutex::new(sink),
            listening: tokio::spawn(listen(stream, Arc::clone(&entries))),
            entries,
        }
    }

    /// Adds a waiter. Returns the channel's semaphore, with a permit for each message.
    pub(super) async fn join(&self, channel: &str) -> Arc<Semaphore> {
        let mut sink = self.sink.lock().await;
        let (messages, first) = enter(&mut lock(&self.entries), channel);
        if first {
            sink.subscribe(channel).await.expect("subscribed");
        }
        messages
    }

    /// Removes a waiter. Messages that nobody took go with the last waiter.
    pub(super) async fn leave(&self, channel: &str) {
        let mut sink = self.sink.lock().await;
        if leave(&mut lock(&self.entries), channel) {
            sink.unsubscribe(channel).await.expect("unsubscribed");
        }
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Notes a waiter; whether it is the first.
fn enter(entries: &mut HashMap<String, Entry>, channel: &str) -> (Arc<Semaphore>, bool) {
    let entry = entries.entry(channel.to_owned()).or_insert_with(|| Entry {
        waiters: 0,
        messages: Arc::new(Semaphore::new(0)),
    });
    entry.waiters += 1;
    (Arc::clone(&entry.messages), entry.waiters == 1)
}

/// Takes a waiter out; whether it was the last.
fn leave(entries: &mut HashMap<String, Entry>, channel: &str) -> bool {
    let entry = entries.get_mut(channel).expect("who leaves has joined");
    entry.waiters -= 1;
    let last = entry.waiters == 0;
    if last {
        entries.remove(channel);
    }
    last
}

/// Each `0` is for one waiter, each `1` for all.
async fn listen(mut stream: PubSubStream, entries: Entries) {
    while let Some(message) = stream.next().await {
        if let Some(entry) = lock(&entries).get(message.get_channel_name()) {
            let woken = match message.get_payload_bytes() {
                b"0" => 1,
                b"1" => entry.waiters,
                _ => 0,
            };
            entry.messages.add_permits(woken);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
