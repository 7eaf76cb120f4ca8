//! Very many readers: reports about them, their forced release, and the cost of their leaving for a server.

use std::time::Duration;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use multilock::{LossCause, Masters, MultiLockGuard, NodeState, Shared};
use tokio::time::{Instant, timeout};

use super::{reading, until_clean, writing};
use crate::support::{Cluster, Server, WITHIN, called_before, connect, patient, until};

/// Most readers that an inspection reports, in round numbers.
const MANY: usize = 8_000;
/// Longer than the tests take: most of them are not about renewals.
const LEASE: Duration = Duration::from_secs(30);

async fn read(masters: &Masters, readers: usize) -> Vec<MultiLockGuard<Shared>> {
    let mut guards = Vec::with_capacity(readers);
    let mut under_way = FuturesUnordered::new();
    for _ in 0..readers {
        let lock = reading(masters).fenced(false);
        under_way.push(async move { lock.try_lock().await });
        if under_way.len() == 64 {
            guards.push(under_way.next().await.expect("some").expect("only read"));
        }
    }
    while let Some(guard) = under_way.next().await {
        guards.push(guard.expect("only read"));
    }
    guards
}

/// The longest time in microseconds that the server has needed for one call since the last reset, on average of each
/// kind of call.
async fn slowest_us(server: &Server) -> f64 {
    let info = server.command(&["INFO", "commandstats"]).await;
    let info: String = redis::from_redis_value(info).expect("text");
    let of = |line: &str| {
        let (_, rest) = line.split_once("usec_per_call=")?;
        rest.split(',').next()?.parse::<f64>().ok()
    };
    let scripts = info.lines().filter(|line| line.starts_with("cmdstat_eval"));
    scripts.filter_map(of).fold(0.0, f64::max)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_thousand_are_all_told_of() {
    let cluster = Cluster::start(1).await;
    let masters = patient(cluster.urls()).lease(LEASE).connect().await;
    let masters = masters.expect("masters that can be used");
    let guards = read(&masters, MANY).await;
    let seen = reading(&masters).inspect().await.expect("looks").remove(0);
    assert_eq!(seen.readers.len(), MANY);
    let NodeState::Read { holders, remaining } = &seen.nodes[0].1 else {
        panic!("{:?}", seen.nodes[0]);
    };
    assert_eq!(holders.len(), MANY);
    assert!(remaining.is_some_and(|left| left <= LEASE));
    assert!(writing(&masters).try_lock().await.is_err());

    // Each that leaves looks at the longest of the others, and not at all of them.
    cluster.server(0).reset_stats().await;
    drop(guards);
    until_clean(&cluster).await;
    let slowest = slowest_us(cluster.server(0)).await;
    println!("{MANY} left, {slowest} us a call");
    // A call is for some forty of them; if each went through all the others, it would take a second.
    assert!(slowest < 200_000.0, "{slowest} us");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_forced_out_at_once() {
    const READERS: usize = MANY;
    const MARKS: [&str; 2] = ["multilock_forced:{a}", "multilock_revoked:{a}"];
    let cluster = Cluster::start(3).await;
    let (masters, other) = (connect(cluster.urls()).await, connect(cluster.urls()).await);
    let guards = read(&masters, READERS).await;
    let waiting = tokio::spawn({
        let lock = writing(&other);
        async move { lock.lock().await }
    });
    until("it waits", async || {
        reading(&other).inspect().await.expect("looks")[0].waiting == 1
    })
    .await;
    let begun = std::time::Instant::now();
    let forced = writing(&other).force_release().await.expect("all answer");
    println!("{READERS} forced out in {:?}", begun.elapsed());
    assert_eq!(forced.former.len(), READERS);
    assert!(forced.former.contains(&guards[0].holder()));
    for server in cluster.servers() {
        for mark in MARKS {
            assert!(server.exists(mark).await, "{mark} on {}", server.port());
        }
    }
    let writer = timeout(WITHIN, waiting).await.expect("called").expect("no panic");
    writer.expect("granted").unlock().await.expect("held");
    let lost = timeout(LEASE + WITHIN, guards[READERS / 2].lost())
        .await
        .expect("noticed");
    assert!(
        matches!(lost.cause, LossCause::TakenAway | LossCause::Expired),
        "{lost:?}"
    );
    drop(guards);
    for server in cluster.servers() {
        // One of them ends by itself.
        until("only the marks are left", async || {
            let keys = server.keys().await;
            keys.iter().all(|key| MARKS.contains(&key.as_str()))
        })
        .await;
    }
}

/// How often scripts have run, and for how many microseconds.
async fn scripts(server: &Server) -> (f64, f64) {
    let info = server.command(&["INFO", "commandstats"]).await;
    let info: String = redis::from_redis_value(info).expect("text");
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
    let figure = |name: &str| -> Option<f64> {
        let (_, rest) = line?.split_once(name)?;
        rest.split(',').next()?.parse().ok()
    };
    (
        figure("calls=").expect("a count"),
        figure("usec=").expect("a time"),
    )
}

/// None of them asks twice, and none waits until it would ask by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_clients_are_let_in_together() {
    const CLIENTS: u32 = 400;
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let masters = connect(cluster.urls()).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS / 20 {
        clients.extend(join_all((0..20).map(|_| connect(cluster.urls()))).await);
    }
    // A waiter asks by itself after five seconds, and some of these have passed before the last one waits.
    called_before(Duration::from_secs(4), async || {
        let writer = writing(&masters).fenced(false).lock().await.expect("free");
        let waiting: Vec<_> = clients
            .iter()
            .map(|client| {
                let lock = reading(client).fenced(false);
                tokio::spawn(async move { (lock.lock().await.expect("called"), Instant::now()) })
            })
            .collect();
        until("all wait", async || {
            reading(&masters).inspect().await.expect("looks")[0].waiting_to_read == u64::from(CLIENTS)
        })
        .await;
        server.reset_stats().await;
        let begun = Instant::now();
        writer.unlock().await.expect("held");
        let waiting = timeout(WITHIN, join_all(waiting)).await.expect("called");
        let inside = waiting.into_iter().map(|one| one.expect("no panic"));
        let (guards, times): (Vec<_>, Vec<_>) = inside.unzip();
        let (calls, us) = scripts(server).await;
        let (calls, us) = (calls / f64::from(CLIENTS), us / f64::from(CLIENTS));
        let last = times.into_iter().max().expect("some") - begun;
        println!("{CLIENTS} clients in {last:?}, {calls} scripts and {us} us of the master each");
        drop(guards);
        until_clean(&cluster).await;
        if calls < 1.3 { last } else { Duration::MAX }
    })
    .await;
}
