//! `connect()`, `connect_lazy()` and `ready()`: the number of masters that must be reachable, and the rest of the
//! masters.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use multilock::sim::{Client, Cluster, Keep, Master, Network};
use multilock::{
    ConnectError, LockError, Masters, MastersBuilder, NodeError, Policy, Quarantine, Unfit, Unlocked, Vote,
};
use tokio::time::{Instant, sleep, timeout};
use tracing::Level;

use crate::journal::Journal;
use crate::support::{connect_by_default, ms, settle};

/// The defaults of a builder.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Reasons that pass by themselves, and reasons for which somebody has to change a configuration.
fn reasons() -> [Unfit; 4] {
    [
        Unfit::Replica,
        Unfit::Cluster,
        Unfit::Evicts {
            policy: "allkeys-lru".into(),
        },
        Unfit::Denied {
            error: "NOPERM".into(),
        },
    ]
}

fn strict() -> MastersBuilder {
    Masters::builder().require_all(true)
}

#[track_caller]
fn assert_unfit(refused: Result<Masters, ConnectError>, why: &Unfit) {
    match refused {
        Err(ConnectError::Unfit { reason, .. }) => assert_eq!(reason, *why),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_majority_of_fit_masters_is_enough() {
    for reason in reasons() {
        let cluster = Cluster::new(3);
        cluster.master(0).set_unfit(Some(reason.clone()));
        let begun = Instant::now();
        let masters = connect_by_default(&cluster).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "every master has answered");
        let status = masters.status();
        assert_eq!(
            status.nodes[0].connection,
            Err(NodeError::Unfit(reason.clone())),
            "{status:?}"
        );
        assert_eq!(status.voting(), 2);
        let guard = masters.red_lock("a").try_lock().await.expect("two of three");
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        masters
            .multi_lock("a")
            .try_lock()
            .await
            .expect_err("it has no vote");
        assert_unfit(cluster.connect(strict()).await, &reason);
        // It is tried again as any other.
        cluster.master(0).set_unfit(None);
        let ready = timeout(ms(1000), masters.ready(Policy::MultiLock)).await;
        assert_eq!(ready, Ok(Ok(())));
        let guard = masters.multi_lock("a").try_lock().await.expect("all three");
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        cluster.connect(strict()).await.expect("all are fit");
    }
}

/// Not by the other masters' silence either.
#[tokio::test(start_paused = true)]
async fn without_a_majority_of_fit_ones_it_is_refused_at_once() {
    for reason in reasons() {
        let cluster = Cluster::new(5);
        cluster.master(0).freeze();
        cluster.master(1).freeze();
        for place in 2..5 {
            cluster.master(place).set_unfit(Some(reason.clone()));
        }
        let begun = Instant::now();
        assert_unfit(cluster.connect(Masters::builder()).await, &reason);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        // Two may be unfit, and the frozen ones may come yet.
        cluster.master(2).set_unfit(None);
        let error = cluster
            .connect(Masters::builder())
            .await
            .expect_err("one of five");
        assert_eq!(begun.elapsed(), CONNECT_TIMEOUT);
        let ConnectError::TooFew {
            reached: 1,
            needed: 3,
            nodes,
        } = &error
        else {
            panic!("{error}");
        };
        for (place, (_, said)) in nodes.iter().enumerate() {
            match place {
                0 | 1 => assert!(
                    matches!(said, Some(NodeError::Connecting | NodeError::Unavailable(_))),
                    "{error}"
                ),
                2 => assert_eq!(*said, None),
                _ => assert_eq!(*said, Some(NodeError::Unfit(reason.clone()))),
            }
        }
        let text = error.to_string();
        assert!(
            text.starts_with("only 1 of 5 masters can be used, 3 are needed (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#too-few): "),
            "{text}"
        );
    }
}

/// An unfit master and a stopped master leave no majority. They may recover soon, so another try is worthwhile.
#[tokio::test(start_paused = true)]
async fn one_unfit_and_one_down_is_too_few() {
    let cluster = Cluster::new(3);
    cluster.master(0).set_unfit(Some(Unfit::Cluster));
    cluster.master(1).crash();
    let begun = Instant::now();
    let refused = cluster.connect(Masters::builder()).await;
    assert!(
        matches!(refused, Err(ConnectError::TooFew { reached: 1, .. })),
        "{refused:?}"
    );
    assert_eq!(begun.elapsed(), Duration::ZERO, "all have answered");
    cluster.master(1).restart(Keep::Data);
    connect_by_default(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn the_others_have_one_node_timeout_more() {
    let cluster = Cluster::new(3);
    cluster.master(1).freeze();
    let begun = Instant::now();
    let masters = connect_by_default(&cluster).await;
    assert_eq!(begun.elapsed(), NODE_TIMEOUT);
    assert_eq!(masters.status().nodes[1].connection, Err(NodeError::Connecting));
    let begun = Instant::now();
    cluster.connect(strict()).await.expect("a majority");
    assert_eq!(begun.elapsed(), CONNECT_TIMEOUT, "each has its whole time");
    cluster.master(1).thaw();
    // The majority is there after 20 ms; it is waited for the last one, and not for 50 ms.
    let distances = [10, 10, 25].map(ms);
    let begun = Instant::now();
    let masters = cluster
        .connect_from(&distances, Masters::builder())
        .await
        .expect("all are there");
    assert_eq!(masters.status().voting(), 3);
    let near = begun.elapsed();
    assert!((ms(25)..ms(70)).contains(&near), "{near:?}");
    // A connect timeout that is shorter ends it.
    cluster.master(1).freeze();
    let begun = Instant::now();
    let hasty = Masters::builder().connect_timeout(ms(30));
    cluster.connect(hasty).await.expect("a majority");
    assert_eq!(begun.elapsed(), ms(30));
}

/// The lines of one level, with their fields.
fn texts(log: &Journal, level: Level) -> Vec<String> {
    log.at(level).iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn each_master_that_is_missing_costs_one_warning() {
    let cluster = Cluster::new(7);
    cluster.master(0).set_unfit(Some(Unfit::Replica));
    cluster.master(1).crash();
    cluster.master(2).freeze();
    let (log, _installed) = Journal::begin();
    let _masters = connect_by_default(&cluster).await;
    let warned = texts(&log, Level::WARN);
    assert_eq!(
        warned,
        [
            "master is unfit and has no vote node=memory-0 reason=it is a replica, not a master (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#replica)",
            "master out of reach node=memory-1 reason=connection refused",
        ]
    );
    // The third line comes once it is known.
    sleep(ms(60_000)).await;
    let warned = texts(&log, Level::WARN);
    assert_eq!(warned.len(), 3, "{warned:#?}");
    assert_eq!(
        warned[2],
        "master out of reach node=memory-2 reason=no answer within 1s"
    );
    assert_eq!(log.at(Level::INFO).len(), 4, "four are connected");
}

#[tokio::test(start_paused = true)]
async fn a_master_that_becomes_unfit_has_no_vote_until_it_is_fit() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    for reason in reasons() {
        cluster.master(2).set_unfit(Some(reason.clone()));
        cluster.master(2).reset_connections();
        sleep(ms(40_000)).await;
        let status = masters.status();
        assert_eq!(status.nodes[2].connection, Err(NodeError::Unfit(reason)));
        let other = masters.red_lock("b").try_lock().await.expect("two of three");
        assert!(matches!(
            other.votes().iter().nth(2).map(|node| &node.vote),
            Some(Vote::NotSent { .. })
        ));
        cluster.master(2).set_unfit(None);
        let ready = timeout(Duration::from_secs(40), masters.ready(Policy::MultiLock)).await;
        assert_eq!(ready, Ok(Ok(())));
        assert!(guard.is_valid(), "the hold goes on");
    }
}

/// A server has one vote, at whichever of its addresses it was met first. The list has one vote less.
#[tokio::test(start_paused = true)]
async fn one_server_at_two_addresses_has_one_vote() {
    let cluster = Cluster::new(3);
    let network = Network::new(3);
    let client = Client::new().network(&network).masters(&[0, 1, 0]);
    let twice = cluster.connect_as(&client, Masters::builder()).await;
    let twice = twice.expect("two servers of three");
    let same_server = |masters: &Masters| {
        let nodes = masters.status().nodes;
        let is_twin = |place: usize| {
            matches!(
                nodes[place].connection,
                Err(NodeError::Unfit(Unfit::SameServer { .. }))
            )
        };
        [is_twin(0), is_twin(2)]
    };
    let twins = same_server(&twice);
    assert!(twins[0] != twins[1], "one of the two: {twins:?}");
    // The server alone is no majority, however often its addresses change places.
    cluster.master(1).crash();
    for _ in 0..20 {
        cluster.master(0).reset_connections();
        sleep(ms(700)).await;
        assert!(twice.status().voting() <= 1, "{:?}", twice.status());
        twice.red_lock("a").try_lock().await.expect_err("one server");
    }
    cluster.master(1).restart(Keep::Data);
    let new_set = || {
        for master in cluster.iter() {
            master.evict("multilock_set");
        }
    };
    new_set();
    // Three lists of four: two servers are no majority of them.
    let client = Client::new().masters(&[0, 0, 1, 1]);
    let refused = cluster.connect_as(&client, Masters::builder()).await;
    assert!(
        matches!(
            refused,
            Err(ConnectError::Unfit {
                reason: Unfit::SameServer { .. },
                ..
            })
        ),
        "{refused:?}"
    );
    new_set();
    let client = Client::new().masters(&[0, 1, 0]);
    let refused = cluster.connect_as(&client, strict()).await;
    assert!(
        matches!(
            refused,
            Err(ConnectError::Unfit {
                reason: Unfit::SameServer { .. },
                ..
            })
        ),
        "{refused:?}"
    );
}

/// A master tells that it is in a set of five.
fn of_five(master: &Master) {
    let record = ["SET", "multilock_set", "5 another-run 1"];
    master.command(&record).expect("set");
}

#[track_caller]
fn assert_other_set(reason: &Unfit) {
    let Unfit::OtherSet { set, listed, .. } = reason else {
        panic!("{reason}");
    };
    assert_eq!((set.masters, listed.masters), (5, 3));
}

/// One master that tells another number is enough to know it.
#[tokio::test(start_paused = true)]
async fn a_list_of_another_length_is_refused_at_once() {
    let cluster = Cluster::new(3);
    of_five(cluster.master(1));
    cluster.master(2).freeze();
    let begun = Instant::now();
    let refused = cluster.connect(Masters::builder()).await;
    let Err(ConnectError::Unfit { reason, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_other_set(&reason);
    assert!(
        reason
            .to_string()
            .starts_with("memory-1 is in a set of 5 masters"),
        "{reason}"
    );
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // The remedy in the message works.
    cluster.master(1).evict("multilock_set");
    assert!(cluster.connect(Masters::builder()).await.is_ok());
}

/// Nobody has used the masters yet, and one does not answer. The others are used once its time has passed.
#[tokio::test(start_paused = true)]
async fn a_new_set_waits_for_a_silent_master_and_no_longer() {
    let cluster = Cluster::new(3);
    cluster.iter().for_each(Master::flush_all);
    cluster.master(2).freeze();
    let begun = Instant::now();
    let connected = cluster.connect(Masters::builder()).await;
    assert!(connected.is_ok(), "{connected:?}");
    assert!(
        begun.elapsed() <= CONNECT_TIMEOUT + ms(50),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_lazy_client_with_a_list_of_another_length_never_gets_a_lock() {
    for delay in [ms(0), ms(400), ms(1500)] {
        let cluster = Cluster::new(3);
        cluster.iter().for_each(of_five);
        for master in cluster.iter() {
            master.set_delay(delay, ms(0));
        }
        let masters = cluster
            .connect_lazy(Masters::builder())
            .expect("the options are fine");
        // The connections stand while nothing is asked, so a late answer is heard on them.
        sleep(ms(5000)).await;
        for _ in 0..200 {
            masters.red_lock("a").try_lock().await.expect_err("another set");
            sleep(ms(50)).await;
        }
        if delay < CONNECT_TIMEOUT {
            let refused = masters.red_lock("a").lock().await;
            assert!(
                matches!(refused, Err(LockError::Misconfigured { .. })),
                "{refused:?}"
            );
            let nodes = masters.status().nodes;
            for node in nodes {
                let Err(NodeError::Unfit(reason)) = node.connection else {
                    panic!("{node:?}");
                };
                assert_other_set(&reason);
            }
        }
        assert!(cluster.iter().all(|master| master.locks().is_empty()));
    }
}

/// Tasks begin to wait before any master is connected, and so before any clock is known.
#[tokio::test(start_paused = true)]
async fn a_lazy_client_serves_its_tasks_in_order() {
    for down in [ms(0), ms(300), ms(20_000)] {
        for round in 0..10 {
            let cluster = Cluster::new(3);
            for (node, master) in cluster.iter().enumerate() {
                // One after the other, so that few clocks are known for a while.
                master.set_delay(ms(1 + 7 * node as u64), ms(1));
                if !down.is_zero() {
                    master.crash();
                }
            }
            let masters = cluster
                .connect_lazy(Masters::builder().quarantine(Quarantine::Off))
                .expect("the options are fine");
            let served = Arc::new(Mutex::new(Vec::new()));
            let tasks: Vec<_> = (0..8)
                .map(|task| {
                    let (lock, served) = (masters.red_lock("a"), Arc::clone(&served));
                    let lock = if round % 2 == 0 { lock } else { lock.fair() };
                    tokio::spawn(async move {
                        let guard = lock.lock().await.expect("granted in the end");
                        served.lock().expect("no panic").push(task);
                        sleep(ms(3)).await;
                        guard.unlock().await.expect("held");
                    })
                })
                .collect();
            sleep(down).await;
            if !down.is_zero() {
                cluster.iter().for_each(|master| master.restart(Keep::Data));
            }
            let begun = Instant::now();
            for task in tasks {
                timeout(Duration::from_secs(10), task)
                    .await
                    .expect("in time")
                    .expect("no panic");
            }
            let served = served.lock().expect("no panic").clone();
            assert_eq!(served, (0..8).collect::<Vec<_>>(), "{down:?}");
            assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lazy_client_waits_for_no_master() {
    let cluster = Cluster::new(3);
    cluster.iter().for_each(Master::freeze);
    let masters = cluster.connect_lazy(strict()).expect("the options are fine");
    let nodes = masters.status().nodes;
    assert!(
        nodes
            .iter()
            .all(|node| node.connection == Err(NodeError::Connecting)),
        "{nodes:?}"
    );
    let refused = masters.red_lock("a").try_lock().await;
    assert!(
        matches!(refused, Err(LockError::Unreachable { .. })),
        "{refused:?}"
    );
    assert_eq!(masters.status().ready_in(Policy::RedLock), None);
    sleep(ms(5000)).await;
    cluster.iter().for_each(Master::thaw);
    timeout(ms(1000), masters.ready(Policy::MultiLock))
        .await
        .expect("soon")
        .expect("not closed");
    // Options are checked before anything else.
    let refused = cluster.connect_lazy(Masters::builder().lease(ms(1)));
    assert_eq!(refused.expect_err("too short").field, "lease");
    let refused = Masters::builder().node("localhost").connect_lazy();
    assert_eq!(refused.expect_err("no URL").field, "node");
}

#[test]
fn a_lazy_client_needs_a_runtime() {
    let refused = Masters::builder().node("redis://127.0.0.1:1").connect_lazy();
    let refused = refused.expect_err("nobody would drive it");
    assert_eq!(
        refused.to_string(),
        "runtime: none is not allowed; allowed: a call inside of a tokio runtime, which drives the connections"
    );
}

#[tokio::test(start_paused = true)]
async fn ready_waits_for_the_first_vote_of_fresh_masters() {
    let cluster = Cluster::new(3);
    cluster.iter().for_each(|master| master.restart(Keep::Nothing));
    let (log, _installed) = Journal::begin();
    let masters = connect_by_default(&cluster).await;
    let told = texts(&log, Level::INFO);
    let told: Vec<_> = told
        .iter()
        .filter(|line| !line.contains("master connected"))
        .collect();
    assert_eq!(
        told,
        [
            "no lock is granted yet: too many masters are new to their set or were started not long ago, and may have lost \
          locks; Masters::ready waits for their votes remaining=30.3s"
        ]
    );
    let status = masters.status();
    let first_lock = status.ready_in(Policy::RedLock).expect("all are connected");
    assert_eq!((status.voting(), status.is_ready(Policy::RedLock)), (0, false));
    assert!((ms(30_000)..ms(30_500)).contains(&first_lock), "{first_lock:?}");
    let begun = Instant::now();
    let dropped = timeout(first_lock / 2, masters.ready(Policy::RedLock)).await;
    assert!(dropped.is_err(), "not yet");
    masters.ready(Policy::RedLock).await.expect("not closed");
    let waited = begun.elapsed();
    assert!(waited >= first_lock && waited < first_lock + ms(20), "{waited:?}");
    let guard = masters.red_lock("a").try_lock().await;
    guard
        .expect("they have their votes")
        .unlock()
        .await
        .expect("held");
    // At once where nothing is to be waited for; and no word in the log.
    let begun = Instant::now();
    masters.ready(Policy::MultiLock).await.expect("not closed");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let before = log.at(Level::INFO).len();
    let _other = connect_by_default(&cluster).await;
    assert_eq!(log.at(Level::INFO).len(), before + 3, "three are connected");
}

/// Some of the masters may forget where more than a majority is needed (`policy.rs`).
#[tokio::test(start_paused = true)]
async fn ready_in_tells_for_each_policy() {
    let cluster = Cluster::new(5);
    let masters = connect_by_default(&cluster).await;
    for (place, started) in [(0, 0), (1, 5000), (2, 3000), (3, 7000)] {
        sleep(ms(started)).await;
        cluster.master(place).restart(Keep::Nothing);
    }
    sleep(ms(1000)).await;
    let status = masters.status();
    let quarantine = |place: usize| {
        let connection = status.nodes[place].connection.as_ref().expect("connected");
        connection.quarantine
    };
    // Of five, three have to remember; two may forget where all five are needed.
    assert_eq!(status.ready_in(Policy::RedLock), Some(quarantine(1)));
    assert_eq!(status.ready_in(Policy::MultiLock), Some(quarantine(1)));
    assert_eq!(status.ready_in(Policy::AtLeast(4)), Some(quarantine(2)));
    assert_eq!(status.ready_in(Policy::AtLeast(2)), None);
    cluster.master(4).crash();
    settle().await;
    let status = masters.status();
    assert_eq!(status.ready_in(Policy::MultiLock), None);
    assert!(status.ready_in(Policy::RedLock) > Some(quarantine(1)));
    cluster.master(3).crash();
    cluster.master(2).crash();
    settle().await;
    assert_eq!(masters.status().ready_in(Policy::RedLock), None);
}

#[tokio::test(start_paused = true)]
async fn ready_ends_with_the_client() {
    let cluster = Cluster::new(3);
    cluster.iter().for_each(Master::crash);
    let masters = cluster
        .connect_lazy(Masters::builder())
        .expect("the options are fine");
    let refused = masters.ready(Policy::AtLeast(1)).await;
    assert!(
        matches!(&refused, Err(LockError::Invalid(invalid)) if invalid.field == "policy"),
        "{refused:?}"
    );
    let waiting = tokio::spawn({
        let masters = masters.clone();
        async move { masters.ready(Policy::RedLock).await }
    });
    sleep(ms(100_000)).await;
    assert!(!waiting.is_finished());
    masters.close(multilock::Closing::Release).await;
    assert_eq!(waiting.await.expect("no panic"), Err(LockError::Closed));
    assert_eq!(masters.ready(Policy::RedLock).await, Err(LockError::Closed));
}

/// The runtime of its connections ends while another one waits.
#[test]
fn ready_ends_with_the_runtime() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    };
    let first = runtime();
    let masters = first.block_on(async {
        let cluster = Cluster::new(3);
        cluster.iter().for_each(Master::crash);
        cluster
            .connect_lazy(Masters::builder())
            .expect("the options are fine")
    });
    let ending = std::thread::spawn(move || {
        std::thread::sleep(ms(50));
        drop(first);
    });
    let waiting = async { timeout(Duration::from_secs(60), masters.ready(Policy::RedLock)).await };
    let waited = runtime().block_on(waiting);
    assert_eq!(waited, Ok(Err(LockError::Closed)));
    ending.join().expect("no panic");
}
