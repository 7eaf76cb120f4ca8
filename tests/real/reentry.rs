//! Re-entry: counted by the client, and told to nobody.

use std::time::Duration;

use crate::support::{
    Cluster, Server, WITHIN, all_executed, connect, heard_from_all, held_everywhere, until_free,
};
use futures::future::join_all;
use multilock::{LockError, Masters, NodeState, Owner, Unlocked};

const LEASE: Duration = Duration::from_secs(30);

/// The owner's field on every master, with a count; the same everywhere.
async fn stored(servers: &[Server], name: &str) -> (String, String) {
    let mut entries = Vec::new();
    for server in servers {
        entries.extend(server.hgetall(name).await);
        assert!(server.pttl(name).await > 0, "there, and not for ever");
    }
    assert_eq!(entries.len(), servers.len(), "one field on each: {entries:?}");
    entries.dedup();
    assert_eq!(entries.len(), 1, "the same on each: {entries:?}");
    entries.remove(0)
}

/// Count on each master, as the crate reports it.
async fn inspected(masters: &Masters, name: &str) -> Vec<u64> {
    let inspection = masters
        .multi_lock(name)
        .inspect()
        .await
        .expect("a report")
        .remove(0);
    assert!(inspection.agreed.is_some(), "{inspection:?}");
    let counts = inspection.nodes.into_iter().map(|(_, state)| match state {
        NodeState::Held { count, .. } => count,
        other => panic!("{other:?}"),
    });
    counts.collect()
}

/// A guard without a named owner has an owner all the same, for re-entry.
#[tokio::test]
async fn the_owner_that_nobody_named() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let outer = held_everywhere(&masters.red_lock("a")).await;
    let owner = outer.owner().clone();
    assert_eq!(outer.owner(), &owner);
    let inner = masters.red_lock("a").owner(&owner).try_lock().await;
    let inner = inner.expect("entered");
    assert_eq!((outer.hold_count(), inner.owner()), (2, &owner));
    let stranger = masters.red_lock("a").try_lock().await;
    assert!(
        matches!(stranger, Err(LockError::Contended { .. })),
        "{stranger:?}"
    );
    assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    assert_eq!(outer.unlock().await, Ok(Unlocked::Released));
}

#[tokio::test]
async fn in_and_in_and_out_and_out() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    let me = Owner::new();
    let lock = masters.red_lock("a").owner(&me);
    let outer = held_everywhere(&masters.red_lock("a").owner(&me)).await;
    assert_eq!((outer.hold_count(), outer.owner()), (1, &me));
    let first = stored(cluster.servers(), "a").await;
    assert_eq!(first.1, "1");
    assert_eq!(inspected(&masters, "a").await, [1; 5]);

    let inner = lock.try_lock().await.expect("entered");
    assert_eq!((outer.hold_count(), inner.hold_count()), (2, 2));
    assert_eq!(inner.owner(), &me);
    // The masters get no message, so they still show the last one.
    assert_eq!(stored(cluster.servers(), "a").await, first);

    // The next message carries the new count.
    outer.extend(LEASE).await.expect("all are well");
    heard_from_all(&outer).await;
    assert_eq!(inspected(&masters, "a").await, [2; 5]);
    assert_eq!(
        stored(cluster.servers(), "a").await,
        (first.0.clone(), "2".to_owned())
    );

    assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    assert_eq!(outer.hold_count(), 1);
    assert!(outer.is_valid());
    assert_eq!(
        stored(cluster.servers(), "a").await.0,
        first.0,
        "whole on every master"
    );
    outer.extend(LEASE).await.expect("all are well");
    heard_from_all(&outer).await;
    assert_eq!(inspected(&masters, "a").await, [1; 5]);

    assert_eq!(outer.unlock().await, Ok(Unlocked::Released));
    until_free(cluster.servers(), "a").await;
    let nobody = masters.red_lock("a").inspect().await.expect("a report").remove(0);
    assert_eq!(nobody.agreed, None);
    assert!(
        nobody.nodes.iter().all(|(_, state)| *state == NodeState::Free),
        "{nobody:?}"
    );

    // From nothing again: a field that was never used before.
    let again = held_everywhere(&masters.red_lock("a").owner(&me)).await;
    assert_eq!(again.hold_count(), 1);
    assert_ne!(stored(cluster.servers(), "a").await.0, first.0);
    assert_eq!(again.unlock().await, Ok(Unlocked::Released));
}

#[tokio::test]
async fn a_stricter_policy_is_refused() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let me = Owner::new();
    let outer = held_everywhere(&masters.red_lock("a").owner(&me)).await;
    let before = stored(cluster.servers(), "a").await;
    let error = masters
        .multi_lock("a")
        .owner(&me)
        .lock()
        .await
        .expect_err("stricter");
    let LockError::Invalid(invalid) = &error else {
        panic!("{error}");
    };
    assert_eq!((invalid.field, invalid.value.as_str()), ("policy", "MultiLock"));
    assert!(outer.is_valid());
    assert_eq!(outer.hold_count(), 1);
    all_executed(&masters).await;
    assert_eq!(stored(cluster.servers(), "a").await, before);
    assert_eq!(outer.unlock().await, Ok(Unlocked::Released));

    // The other way round there is nothing to refuse.
    let outer = masters.multi_lock("a").owner(&me).lock().await.expect("free");
    let inner = masters
        .red_lock("a")
        .owner(&me)
        .try_lock()
        .await
        .expect("entered");
    assert_eq!(inner.hold_count(), 2);
    drop((outer, inner));
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn names_that_overlap_are_refused_and_names_within_are_entered() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let me = Owner::new();
    let both = masters
        .multi_lock(["a", "b"])
        .owner(&me)
        .try_lock()
        .await
        .expect("free");
    let before = [
        stored(cluster.servers(), "a").await,
        stored(cluster.servers(), "b").await,
    ];
    let error = masters
        .red_lock(["b", "c"])
        .owner(&me)
        .lock()
        .await
        .expect_err("they overlap");
    let LockError::Invalid(invalid) = &error else {
        panic!("{error}");
    };
    assert_eq!((invalid.field, invalid.value.as_str()), ("names", "b+c"));
    assert_eq!(both.hold_count(), 1);

    let one = masters
        .red_lock("b")
        .owner(&me)
        .try_lock()
        .await
        .expect("entered");
    assert_eq!((both.hold_count(), one.hold_count()), (2, 2));
    assert_eq!(one.unlock().await, Ok(Unlocked::StillHeld(1)));
    all_executed(&masters).await;
    let after = [
        stored(cluster.servers(), "a").await,
        stored(cluster.servers(), "b").await,
    ];
    assert_eq!(after, before);
    for server in cluster.servers() {
        assert!(!server.exists("c").await);
    }
    assert_eq!(both.unlock().await, Ok(Unlocked::Released));
    until_free(cluster.servers(), "a").await;
    until_free(cluster.servers(), "b").await;
}

#[tokio::test]
async fn two_owners_in_one_process_exclude_each_other() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let (me, you) = (Owner::new(), Owner::new());
    let guard = held_everywhere(&masters.red_lock("a").owner(&me)).await;
    let before = stored(cluster.servers(), "a").await;
    for lock in [
        masters.red_lock("a").owner(&you),
        masters.red_lock("a"),
        masters.red_lock(["a", "b"]),
    ] {
        let error = lock.try_lock().await.expect_err("held");
        let LockError::Contended { retry_after, .. } = error else {
            panic!("{error}");
        };
        assert!((LEASE / 2..=LEASE).contains(&retry_after), "{retry_after:?}");
    }
    // Nor does an owner enter through other masters' connections: that is another client.
    let other = connect(cluster.urls()).await;
    let error = other.red_lock("a").owner(&me).try_lock().await.expect_err("held");
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
    all_executed(&masters).await;
    all_executed(&other).await;
    assert_eq!(stored(cluster.servers(), "a").await, before);
    for server in cluster.servers() {
        assert!(!server.exists("b").await);
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let guard = masters.red_lock("a").owner(&you).try_lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_goes_from_task_to_task() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let me = Owner::new();
    let outer = held_everywhere(&masters.red_lock("a").owner(&me)).await;
    let tasks = (0..8).map(|_| {
        let lock = masters.red_lock("a").owner(&me);
        tokio::spawn(async move { lock.try_lock().await.expect("entered") })
    });
    let inner: Vec<_> = join_all(tasks)
        .await
        .into_iter()
        .map(|guard| guard.expect("no panic"))
        .collect();
    assert_eq!(outer.hold_count(), 9);
    assert_eq!(outer.unlock().await, Ok(Unlocked::StillHeld(8)));
    let left = join_all(inner.into_iter().map(|guard| tokio::spawn(guard.unlock()))).await;
    let mut left: Vec<_> = left
        .into_iter()
        .map(|left| left.expect("no panic").expect("whole"))
        .collect();
    left.sort_by_key(|left| match left {
        Unlocked::StillHeld(count) => *count,
        _ => 0,
    });
    assert_eq!(left[0], Unlocked::Released);
    assert_eq!(left[1..], (1..8).map(Unlocked::StillHeld).collect::<Vec<_>>());
    until_free(cluster.servers(), "a").await;
}

/// Nobody is inside yet, and one actor's tasks all come at once: one of them gets the hold from the
/// masters, and the others find it there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_one_owner_may_race_for_the_first_entry() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    for _ in 0..10 {
        let me = Owner::new();
        let tasks = (0..8).map(|_| {
            let lock = masters.red_lock("a").owner(&me).wait(WITHIN);
            tokio::spawn(async move { lock.lock().await.expect("one actor") })
        });
        let guards: Vec<_> = join_all(tasks)
            .await
            .into_iter()
            .map(|guard| guard.expect("no panic"))
            .collect();
        assert!(
            guards
                .iter()
                .all(|guard| guard.hold_count() == 8 && guard.is_valid())
        );
        drop(guards);
        until_free(cluster.servers(), "a").await;
    }
}
