//! Cases of Redisson's (github.com/redisson/redisson, `redisson/src/test/java/org/redisson`).

use std::time::Duration;

use futures::future::join_all;
use multilock::sim::Cluster;
use multilock::{Closing, Masters};
use multilock_test_support::{Server, patient, three, until, within};
use redis::Value;
use tokio::time::{Instant, sleep};

use crate::memory::{connect, executed, ms, slow_down};
use crate::steps::{Room, locks};

/// `testMultiInstanceReadLockZombieCleanup` (`RedissonReadWriteLockTest.java`): a reader's process ends without an
/// unlock, another one reads beyond its lease. Then a writer gets in.
#[tokio::test(start_paused = true)]
async fn test_multi_instance_read_lock_zombie_cleanup() {
    let cluster = Cluster::new(3);
    let zombie = connect(&cluster).await;
    let read = zombie.red_lock("zombie_test").read();
    let dead = read.lock().await.expect("free");
    zombie.close(Closing::Leave).await;
    drop((dead, read, zombie));
    let masters = connect(&cluster).await;
    let alive = masters
        .red_lock("zombie_test")
        .read()
        .lock()
        .await
        .expect("only read");
    let readers = async || {
        let seen = masters.red_lock("zombie_test").read().inspect().await;
        seen.expect("all answer")[0].readers.len()
    };
    assert_eq!(readers().await, 2, "the lease of the dead one has not ended");
    sleep(ms(35_000)).await;
    assert_eq!(readers().await, 1, "the living one does not keep it alive");
    alive.unlock().await.expect("held");
    let begun = Instant::now();
    let writer = masters
        .red_lock("zombie_test")
        .write()
        .wait(ms(5000))
        .lock()
        .await;
    writer.expect("nobody reads").unlock().await.expect("held");
    assert!(begun.elapsed() < ms(5), "{:?}", begun.elapsed());
}

/// `testLockIsNotRenewedAfterInterruptedTryLock` (`RedissonLockTest.java`): a call is interrupted at each moment of its
/// way. The lock is free again, and nobody renews it.
#[tokio::test(start_paused = true)]
async fn test_lock_is_not_renewed_after_interrupted_try_lock() {
    for moment in 0..=12 {
        let cluster = Cluster::new(3);
        let masters = connect(&cluster).await;
        slow_down(&cluster, 5);
        let lock = masters.red_lock("myLock");
        let trying = tokio::spawn(async move { lock.try_lock().await.map(drop) });
        sleep(ms(moment)).await;
        trying.abort();
        sleep(ms(100)).await;
        assert!(
            locks(&cluster).is_empty(),
            "free long before the lease ends, after {moment} ms"
        );
        sleep(ms(45_000)).await;
        assert_eq!(executed(&cluster, "extend"), 0, "after {moment} ms");
    }
}

/// Channels with subscribers, but those on which clients are called themselves.
async fn foreign_channels(server: &Server) -> Vec<String> {
    let channels: Vec<String> =
        redis::from_redis_value(server.command(&["PUBSUB", "CHANNELS"]).await).expect("channels");
    channels
        .into_iter()
        .filter(|channel| !channel.starts_with("multilock:"))
        .collect()
}

/// Connections to a server, without the asking one, and the number of subscribed connections.
async fn connections(server: &Server) -> (usize, usize) {
    let list: String = redis::from_redis_value(server.command(&["CLIENT", "LIST"]).await).expect("a list");
    let ours: Vec<&str> = list.lines().filter(|line| !line.contains("cmd=client")).collect();
    let subscribes = |line: &&&str| !line.contains(" sub=0 ");
    (ours.len(), ours.iter().filter(subscribes).count())
}

/// `testSubscriptionsPerConnection` (`RedissonLockTest.java`): 32 tasks of four clients, five names, on real servers. No
/// lock fails, a client has one connection to each server, and no channel is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_subscriptions_per_connection() {
    const PAIRS: usize = 40;
    let servers = three(&[]).await;
    let connecting = (0..4).map(|_| patient(servers.iter().map(Server::url)).connect());
    let clients: Vec<Masters> = join_all(connecting)
        .await
        .into_iter()
        .map(|client| client.expect("masters that can be used"))
        .collect();
    let rooms: [Room; 5] = Default::default();
    let tasks = (0..32).map(|task| {
        let (masters, rooms) = (&clients[task % clients.len()], &rooms);
        async move {
            for pair in 0..PAIRS {
                let name = (task * 7 + pair * 3 + pair / 5) % rooms.len();
                let guard = masters
                    .red_lock(format!("lock-{name}"))
                    .lock()
                    .await
                    .expect("in the end");
                let inside = rooms[name].visit(Duration::from_micros(200)).await;
                assert_eq!(inside, 1, "alone inside");
                guard.unlock().await.expect("held");
            }
        }
    });
    within("all of them get in", join_all(tasks)).await;
    assert_eq!(rooms.iter().map(Room::visits).sum::<usize>(), 32 * PAIRS);
    for server in &servers {
        assert_eq!(foreign_channels(server).await, Vec::<String>::new());
        // One connection serves for requests and messages. The server reads the end of a connection of this test later.
        let is_one_each = async || connections(server).await == (clients.len(), clients.len());
        until("each client has one connection", is_one_each).await;
    }
    join_all(clients.iter().map(|client| client.close(Closing::Release))).await;
    for server in &servers {
        // The server reads the end of a connection a moment later.
        let is_silent = async || server.command(&["PUBSUB", "CHANNELS"]).await == Value::Array(Vec::new());
        until("no channel is left", is_silent).await;
    }
}
