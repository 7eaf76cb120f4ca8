//! Namespaces: applications that share masters without meeting.

use std::time::Duration;

use multilock::sim::Cluster;
use multilock::{ConnectError, LockError, Masters, NodeState, Quarantine};

async fn within(cluster: &Cluster, namespace: &str) -> Masters {
    let builder = Masters::builder().namespace(namespace);
    cluster.connect(builder).await.expect("connects")
}

#[tokio::test(start_paused = true)]
async fn two_namespaces_exclude_nothing_between_them() {
    let cluster = Cluster::new(3);
    let (prod, test) = (within(&cluster, "prod").await, within(&cluster, "test").await);
    let one = prod.red_lock("a").try_lock().await.expect("free");
    let other = test.red_lock("a").try_lock().await.expect("free there, too");
    assert!(one.is_valid() && other.is_valid());
    one.unlock().await.expect("released");
    let third = prod.red_lock("a").try_lock().await.expect("free again");
    assert!(third.is_valid() && other.is_valid());
}

#[tokio::test(start_paused = true)]
async fn every_key_and_channel_has_the_prefix() {
    let cluster = Cluster::new(3);
    let prod = within(&cluster, "prod").await;
    let guard = prod.red_lock("a").try_lock().await.expect("free");
    tokio::time::sleep(Duration::from_millis(1)).await;
    for master in cluster.iter() {
        assert!(
            master.keys().contains(&"prod:a".to_owned()),
            "{:?}",
            master.keys()
        );
        assert!(
            master.keys().iter().all(|key| key.contains("prod:a")),
            "{:?}",
            master.keys()
        );
    }
    let lock = prod.red_lock("a");
    let waiting = tokio::spawn(async move { lock.lock().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let keys = cluster.master(0).keys();
    let queues = keys
        .iter()
        .filter(|key| key.contains("queue") || key.contains("deadlines"));
    let queues: Vec<_> = queues.collect();
    assert_eq!(
        queues,
        ["multilock_deadlines:{prod:a}", "multilock_queue:{prod:a}"]
    );
    guard.unlock().await.expect("released");
    let next = waiting.await.expect("no panic").expect("woken");
    prod.red_lock("a").force_release().await.expect("forced");
    assert!(
        cluster
            .iter()
            .all(|master| !master.keys().contains(&"prod:a".to_owned()))
    );
    assert!(
        cluster
            .iter()
            .any(|master| master.keys().contains(&"multilock_revoked:{prod:a}".to_owned()))
    );
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn a_prefix_written_by_hand_is_the_same_name() {
    let cluster = Cluster::new(3);
    let plain = cluster.connect(Masters::builder()).await.expect("connects");
    let prod = within(&cluster, "prod").await;
    let guard = plain.red_lock("prod:a").try_lock().await.expect("free");
    let refused = prod.red_lock("a").try_lock().await;
    assert!(matches!(refused, Err(LockError::Contended { .. })), "{refused:?}");
    let inspection = prod.red_lock("a").inspect().await.expect("asked").remove(0);
    assert_eq!(inspection.name, "a", "the name as it was asked for");
    let held = |state: &NodeState| matches!(state, NodeState::Held { .. });
    assert!(inspection.nodes.iter().filter(|(_, state)| held(state)).count() >= 2);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn bad_namespaces_and_empty_names_are_refused() {
    let cluster = Cluster::new(3);
    for bad in ["", "a b", "{a}", "multilock_app", "redisson_rwlock"] {
        let refused = cluster.connect(Masters::builder().namespace(bad)).await;
        let error = refused.map(drop).expect_err("refused");
        assert!(
            matches!(&error, ConnectError::Invalid(invalid) if invalid.field == "namespace"),
            "{error}"
        );
    }
    let prod = within(&cluster, "prod").await;
    let error = prod.red_lock("").try_lock().await.map(drop).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "name: \"\" is not allowed; allowed: 1 to 4096 bytes"
    );
}

/// A force reports a spared key by the name that the caller knows.
#[tokio::test(start_paused = true)]
async fn a_force_spares_what_is_no_lock_in_a_namespace() {
    let cluster = Cluster::new(3);
    let builder = Masters::builder().quarantine(Quarantine::Off).namespace("prod");
    let masters = cluster.connect(builder).await.expect("connects");
    cluster
        .master(1)
        .command(&["RPUSH", "prod:a", "x"])
        .expect("a list");
    let forced = masters.red_lock("a").force_release().await.expect("all answer");
    let [spared] = forced.spared.as_slice() else {
        panic!("{forced:?}");
    };
    assert_eq!((spared.name.as_str(), spared.kind.as_str()), ("a", "list"));
    assert_eq!(forced.votes.granted(), 3);
}
