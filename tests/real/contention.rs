//! Many clients that want the same lock. Two are never inside, everyone gets a turn, and a bounded wait in vain ends
//! in time with its reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Cluster, PATIENT, WITHIN, all_executed, connect, held_everywhere, until_free, within};
use futures::future::join_all;
use multilock::{LockError, Masters, MultiLock, Policy, Vote};
use tokio::task::yield_now;
use tokio::time::sleep;

/// As long as this at least, and until everyone has had a turn.
const FOR: Duration = Duration::from_secs(2);

/// Clients inside, seen by the contenders and not by the masters.
#[derive(Debug, Default)]
struct Witness {
    inside: AtomicBool,
    turns: Vec<AtomicUsize>,
}

impl Witness {
    fn of(contenders: usize) -> Arc<Self> {
        Arc::new(Self {
            inside: AtomicBool::new(false),
            turns: (0..contenders).map(|_| AtomicUsize::new(0)).collect(),
        })
    }

    fn everyone_had_a_turn(&self) -> bool {
        self.turns.iter().all(|turns| turns.load(Ordering::SeqCst) > 0)
    }

    async fn turn(&self, number: usize) {
        assert!(!self.inside.swap(true, Ordering::SeqCst), "two are inside");
        for _ in 0..3 {
            yield_now().await;
        }
        self.turns[number].fetch_add(1, Ordering::SeqCst);
        assert!(
            self.inside.swap(false, Ordering::SeqCst),
            "another has left for us"
        );
    }
}

async fn contend(lock: MultiLock, number: usize, witness: Arc<Witness>) {
    let begun = Instant::now();
    while begun.elapsed() < FOR || !witness.everyone_had_a_turn() {
        assert!(begun.elapsed() < WITHIN, "turns: {:?}", witness.turns);
        let guard = lock.clone().wait(WITHIN).lock().await.expect("a turn");
        witness.turn(number).await;
        // Gone by an unlock or by a drop.
        if number.is_multiple_of(2) {
            guard.unlock().await.expect("held all the time");
        } else {
            drop(guard);
        }
        // Something else to do: the greedy have a test of their own.
        sleep(Duration::from_millis(1)).await;
    }
}

async fn all_contend(cluster: &Cluster, clients: &[Masters], tasks: usize, policies: &[Policy]) {
    let witness = Witness::of(tasks);
    let contenders = (0..tasks).map(|number| {
        let lock = clients[number % clients.len()].lock("a", policies[number % policies.len()]);
        tokio::spawn(contend(lock, number, Arc::clone(&witness)))
    });
    for contender in join_all(contenders).await {
        contender.expect("no rule was broken");
    }
    until_free(cluster.servers(), "a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_tasks_of_one_client() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    all_contend(&cluster, &[masters], 8, &[Policy::RedLock]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_clients_of_two_tasks() {
    let cluster = Cluster::start(5).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect(cluster.urls()).await);
    }
    all_contend(&cluster, &clients, 8, &[Policy::RedLock]).await;
}

/// Any two quorums meet, under all policies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_clients_of_different_policies() {
    let cluster = Cluster::start(5).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect(cluster.urls()).await);
    }
    let policies = [
        Policy::RedLock,
        Policy::MultiLock,
        Policy::AtLeast(4),
        Policy::RedLock,
    ];
    all_contend(&cluster, &clients, 4, &policies).await;
}

/// A client that drops its guard and takes the next at once sends both over the same connections. The release has an
/// acquire right behind it. The others must not need luck to get in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_greedy_leave_the_others_a_turn() {
    let cluster = Cluster::start(5).await;
    let greedy = connect(cluster.urls()).await;
    let lock = greedy.red_lock("a");
    let turns = Arc::new(AtomicUsize::new(0));
    let inside = tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                let guard = lock.lock().await.expect("a turn");
                turns.fetch_add(1, Ordering::SeqCst);
                sleep(Duration::from_millis(2)).await;
                drop(guard);
            }
        }
    });
    let others = connect(cluster.urls()).await;
    for turn in 0..5 {
        for policy in [Policy::RedLock, Policy::MultiLock] {
            let lock = others.lock("a", policy);
            let mut all = Vec::new();
            loop {
                let before = turns.load(Ordering::SeqCst);
                let guard = within(&format!("turn {turn} of a {policy}"), lock.lock()).await;
                let overtaken = turns.load(Ordering::SeqCst) - before;
                guard.expect("a turn").unlock().await.expect("held all the time");
                // As often as its process may pass a hold on, twice.
                if overtaken <= 128 {
                    break;
                }
                // On a busy machine the question itself may be late, but not each time.
                all.push(overtaken);
                assert!(
                    all.len() < 3,
                    "turn {turn} of a {policy} was overtaken so often: {all:?}"
                );
            }
        }
    }
    inside.abort();
    assert!(
        inside.await.is_err_and(|ended| ended.is_cancelled()),
        "it went on"
    );
}

#[tokio::test]
async fn a_short_wait_ends_in_time_and_says_why() {
    const WAIT: Duration = Duration::from_millis(50);
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    let rival = connect(cluster.urls()).await;
    let guard = held_everywhere(&rival.red_lock("a")).await;
    let mut told = 0;
    let mut waits = 0;
    while waits < 10 || told == 0 {
        waits += 1;
        assert!(waits < 200, "not one of {waits} rounds was done within {WAIT:?}");
        let begun = Instant::now();
        let error = masters.red_lock("a").wait(WAIT).lock().await.expect_err("held");
        let took = begun.elapsed();
        assert!((WAIT..PATIENT).contains(&took), "{took:?}");
        let LockError::TimedOut { waited, last } = &error else {
            panic!("{error}");
        };
        assert!((WAIT..=took).contains(waited), "{waited:?}");
        match last.as_deref() {
            Some(LockError::Contended { votes, .. }) => {
                told += 1;
                assert!(votes.granted() == 0 && error.votes() == Some(votes), "{error}");
            }
            // On a busy machine not even one round may have come to its end.
            Some(LockError::Unreachable { votes }) if votes.iter().all(|node| node.vote == Vote::Pending) => {
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(guard.is_valid());
    guard.unlock().await.expect("held");
    // A wait of zero has passed already, and still gets an answer.
    let nobody = masters.red_lock("a").wait(Duration::ZERO).lock().await;
    assert!(
        matches!(nobody, Ok(_) | Err(LockError::TimedOut { .. })),
        "{nobody:?}"
    );
    drop(nobody);
    until_free(cluster.servers(), "a").await;
}

/// The wait is over when it is over, also in the middle of a round that would go on for long.
#[tokio::test]
async fn a_wait_ends_in_the_middle_of_a_round() {
    const WAIT: Duration = Duration::from_millis(200);
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    for server in &cluster.servers()[..2] {
        server.freeze().await;
    }
    let begun = Instant::now();
    let error = masters
        .red_lock("a")
        .wait(WAIT)
        .lock()
        .await
        .expect_err("one of three");
    let took = begun.elapsed();
    assert!((WAIT..PATIENT).contains(&took), "{took:?}");
    assert!(error.is_unreachable() && error.votes().is_some(), "{error}");
    for server in &cluster.servers()[..2] {
        server.thaw().await;
    }
    // The round that was given up is rolled back wherever it arrives.
    all_executed(&masters).await;
    until_free(cluster.servers(), "a").await;
}
