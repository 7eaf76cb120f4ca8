//! Read/write locks on real servers: their layout to the byte, their remains, and the holders inside.

mod many;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use multilock::{Masters, MultiLock, Shared, Unlocked};
use redis::aio::PubSub;
use tokio::time::{sleep, timeout};

use crate::support::{Cluster, Server, WITHIN, connect, connect_beside, until, within};

fn reading(masters: &Masters) -> MultiLock<Shared> {
    masters.red_lock("a").read()
}

fn writing(masters: &Masters) -> MultiLock {
    masters.red_lock("a").write()
}

async fn subscribe(server: &Server, channel: &str) -> PubSub {
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut listener = client.get_async_pubsub().await.expect("a connection");
    listener.subscribe(channel).await.expect("subscribed");
    listener
}

async fn next_message(listener: &mut PubSub) -> String {
    let message = timeout(WITHIN, listener.on_message().next()).await;
    let message = message.expect("a message in time").expect("a connection");
    message.get_payload().expect("text")
}

/// Nothing is left on any master but fences.
async fn until_clean(cluster: &Cluster) {
    for server in cluster.servers() {
        until("nothing is left", async || server.keys().await.is_empty()).await;
    }
}

fn sorted<const N: usize>(mut keys: [String; N]) -> Vec<String> {
    keys.sort();
    keys.into()
}

/// Mode of a name, which is `write`, and the one field beside it.
async fn under(server: &Server, name: &str) -> (String, String) {
    let mut fields: BTreeMap<String, String> = server.hgetall(name).await;
    assert_eq!(fields.remove("mode").as_deref(), Some("write"), "{fields:?}");
    assert_eq!(fields.len(), 1, "{fields:?}");
    fields.into_iter().next().expect("one")
}

#[track_caller]
fn assert_is_ours(owner: &str) {
    let (client, number) = owner.split_once(':').expect("a client and a number");
    assert_eq!((client.len(), &client[14..15]), (36, "8"), "{owner}");
    assert!(number.parse::<u64>().is_ok(), "{owner}");
}

/// Readers of a name, each with the end of its lease. The name holds the last end, and both keys end with it.
async fn readers(server: &Server, name: &str, readers: &str) -> BTreeMap<String, i64> {
    let listed = server
        .command(&["ZRANGE", readers, "0", "-1", "WITHSCORES"])
        .await;
    let listed: Vec<String> = redis::from_redis_value(listed).expect("a set");
    let pairs = listed.chunks_exact(2);
    let all: BTreeMap<String, i64> = pairs
        .map(|pair| (pair[0].clone(), pair[1].parse().expect("ms")))
        .collect();
    for owner in all.keys() {
        assert_is_ours(owner);
    }
    let (field, until) = under(server, name).await;
    assert_eq!(field, "multilock");
    assert_eq!(until.parse().ok(), all.values().max().copied(), "{all:?}");
    // One clock, looked at twice in this order. A daemon may set it back by a millisecond meanwhile.
    let lefts = [server.pttl(name).await, server.pttl(readers).await];
    assert!(lefts[0] + 1 >= lefts[1] && lefts[1] > 0, "{lefts:?}");
    all
}

/// Keys and fields of a name, and the messages that a waiter of Redisson's receives.
#[tokio::test]
async fn the_layout() {
    const LEASE: Duration = Duration::from_secs(21);
    for (name, tagged) in [("a", "{a}"), ("b:{tag}", "b:{tag}")] {
        let cluster = Cluster::start(1).await;
        let server = cluster.server(0);
        let masters = connect_beside(cluster.urls()).await;
        let lock = masters.multi_lock(name).fenced(false);
        let mut listener = subscribe(server, &format!("redisson_rwlock:{tagged}")).await;
        let of_readers = if name.contains('{') {
            format!("multilock_readers::{name}")
        } else {
            format!("multilock_readers:{tagged}")
        };

        let writer = lock.clone().write().lease(LEASE).lock().await.expect("free");
        let (owner, count) = under(server, name).await;
        assert_is_ours(&owner);
        assert_eq!(count, "1");
        assert_eq!(server.keys().await, [name], "nothing beside it");
        let left = server.pttl(name).await;
        assert!((10_000..=21_000).contains(&left), "{left}");
        assert_eq!(writer.unlock().await, Ok(Unlocked::Released));
        assert_eq!(next_message(&mut listener).await, "1");
        assert_eq!(server.keys().await, Vec::<String>::new());

        let first = lock.clone().read().lease(LEASE).lock().await.expect("free");
        assert_eq!(readers(server, name, &of_readers).await.len(), 1);
        assert_eq!(server.keys().await, sorted([name.to_owned(), of_readers.clone()]));
        assert!((10_000..=21_000).contains(&server.pttl(name).await));
        let second = lock
            .clone()
            .read()
            .lease(LEASE * 4 / 3)
            .lock()
            .await
            .expect("only read");
        assert_eq!(readers(server, name, &of_readers).await.len(), 2);
        assert!(server.pttl(name).await > 21_000, "the longer one");
        assert_eq!(second.unlock().await, Ok(Unlocked::Released));
        assert_eq!(readers(server, name, &of_readers).await.len(), 1);
        let left = server.pttl(name).await;
        assert!((1..=21_000).contains(&left), "the one that is still in: {left}");
        assert_eq!(first.unlock().await, Ok(Unlocked::Released));
        // The reader that left before the other one has published nothing.
        assert_eq!(next_message(&mut listener).await, "0");
        assert_eq!(server.keys().await, Vec::<String>::new());

        let writer = lock.write().lease(LEASE).lock().await.expect("free");
        let (owner, _) = under(server, name).await;
        let reader = writer.downgrade().await;
        assert!(readers(server, name, &of_readers).await.contains_key(&owner));
        assert_eq!(server.keys().await, sorted([name.to_owned(), of_readers]));
        assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
        assert_eq!(next_message(&mut listener).await, "0");
        assert_eq!(server.keys().await, Vec::<String>::new());
    }
}

/// Holders inside, counted by itself and not by the masters: the number of readers, or -1 for a writer.
#[derive(Default)]
struct Witness {
    inside: AtomicI64,
    overlaps: AtomicUsize,
    /// Counter of all writers: each reads it, and writes it some time later.
    shared: AtomicI64,
}

impl Witness {
    async fn read(&self) {
        let others = self.inside.fetch_add(1, Ordering::SeqCst);
        let seen = self.shared.load(Ordering::SeqCst);
        sleep(Duration::from_millis(1)).await;
        let changed = self.shared.load(Ordering::SeqCst) != seen;
        self.overlaps
            .fetch_add(usize::from(others < 0 || changed), Ordering::SeqCst);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    async fn write(&self) {
        let others = self.inside.swap(-1, Ordering::SeqCst);
        let seen = self.shared.load(Ordering::SeqCst);
        sleep(Duration::from_millis(1)).await;
        self.shared.store(seen + 1, Ordering::SeqCst);
        let meanwhile = self.inside.swap(0, Ordering::SeqCst);
        self.overlaps
            .fetch_add(usize::from(others != 0 || meanwhile != -1), Ordering::SeqCst);
    }
}

/// Two processes, in which some read and some write and some do both, count in a shared variable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_counted_twice_or_lost() {
    const TASKS: usize = 6;
    const TURNS: usize = 40;
    let cluster = Cluster::start(3).await;
    let witness = Arc::new(Witness::default());
    let mut tasks = Vec::new();
    for process in 0..2 {
        let masters = connect(cluster.urls()).await;
        for task in 0..TASKS {
            // Of either policy: they meet on a majority.
            let lock = match (process + task) % 2 {
                0 => masters.red_lock("a"),
                _ => masters.multi_lock("a"),
            };
            let witness = Arc::clone(&witness);
            tasks.push(tokio::spawn(async move {
                for turn in 0..TURNS {
                    match (task + turn) % 4 {
                        0 => {
                            let guard = lock.clone().write().lock().await.expect("its turn comes");
                            witness.write().await;
                            guard.unlock().await.expect("held");
                        }
                        1 => {
                            let guard = lock.clone().write().lock().await.expect("its turn comes");
                            witness.write().await;
                            let guard = guard.downgrade().await;
                            witness.read().await;
                            guard.unlock().await.expect("held");
                        }
                        _ => {
                            let guard = lock.clone().read().lock().await.expect("its turn comes");
                            witness.read().await;
                            guard.unlock().await.expect("held");
                        }
                    }
                }
            }));
        }
    }
    for task in tasks {
        within("everybody gets in", task).await.expect("no panic");
    }
    assert_eq!(witness.overlaps.load(Ordering::SeqCst), 0);
    let written = witness.shared.load(Ordering::SeqCst);
    assert_eq!(written, i64::try_from(2 * TASKS * TURNS / 2).expect("a few"));
    until_clean(&cluster).await;
}
