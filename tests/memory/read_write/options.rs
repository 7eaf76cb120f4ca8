//! Read/write locks with the other options: policies, several names, sets, tokens, owners; and options that do not go
//! with them.

use super::{is_clean, is_contended, reading, writing};
use crate::support::{connect, ms, queues, settle, slow_down};
use multilock::sim::Cluster;
use multilock::{
    Either, FencingToken, LockError, Masters, MultiLock, MultiLockGuard, NodeState, Owner, Policy, Shared,
    Unlocked,
};
use tokio::time::{Instant, sleep, timeout};

const NODES: usize = 3;

#[track_caller]
fn assert_invalid<T: std::fmt::Debug>(tried: Result<T, LockError>, option: &str) {
    let error = tried.expect_err("not allowed");
    assert!(matches!(error, LockError::Invalid(_)), "{error}");
    assert!(error.to_string().contains(option), "{option}: {error}");
}

fn asked(cluster: &Cluster) -> u64 {
    let scripts = cluster.iter().map(multilock::sim::Master::executed);
    scripts
        .map(|executed| {
            executed
                .iter()
                .filter(|(name, _)| **name != "introduce")
                .map(|(_, count)| count)
                .sum::<u64>()
        })
        .sum()
}

/// Options that read/write locks always have, or never can have. No master is asked.
#[tokio::test(start_paused = true)]
async fn options_in_the_wrong_place() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let before = asked(&cluster);
    let lock = || masters.red_lock("a");
    let lease = ms(30_000);
    assert_invalid(lock().fair().read().try_lock().await, "fair");
    assert_invalid(lock().write().fair().lock().await, "fair");
    assert_invalid(
        lock().at_least(ms(5_000)).lease(lease).read().lock().await,
        "at_least",
    );
    assert_invalid(
        lock().write().at_least(ms(5_000)).lease(lease).try_lock().await,
        "at_least",
    );
    assert_invalid(lock().write().fair().inspect().await, "fair");
    assert_invalid(masters.lock("a", Policy::AtLeast(1)).read().try_lock().await, "");
    assert_invalid(masters.lock("a", Policy::AtLeast(4)).write().try_lock().await, "");
    assert_invalid(lock().read().max_hold(ms(1)).try_lock().await, "max_hold");
    assert_invalid(lock().read().lease(ms(0)).try_lock().await, "lease");
    let set = lock().fair().read().and(masters.red_lock("b").write());
    let error = set.lock().await.expect_err("not allowed");
    assert_eq!(error.index, 0);
    assert_invalid::<()>(Err(error.error), "fair");
    assert_eq!(asked(&cluster), before);
}

/// Every reader meets every writer on a master, under all policies.
#[tokio::test(start_paused = true)]
async fn policies_mix() {
    let policies = [Policy::RedLock, Policy::MultiLock, Policy::AtLeast(4)];
    for reads in policies {
        for writes in policies {
            let cluster = Cluster::new(5);
            let (here, there) = (connect(&cluster).await, connect(&cluster).await);
            let read = || here.lock("a", reads).read();
            let write = || there.lock("a", writes).write();
            let reader = read().try_lock().await.expect("free");
            assert!(is_contended(&write().try_lock().await), "{reads} and {writes}");
            reader.unlock().await.expect("held");
            let writer = write().try_lock().await.expect("free");
            assert!(is_contended(&read().try_lock().await), "{reads} and {writes}");
            assert!(is_contended(&here.lock("a", reads).write().try_lock().await));
            let downgraded = writer.downgrade().await;
            let beside = read().try_lock().await.expect("only read");
            assert!(downgraded.is_valid() && beside.is_valid());
            drop((downgraded, beside));
            settle().await;
            assert!(is_clean(&cluster));
        }
    }
}

/// A reader that needs all masters waits for a writer that has three of five, and the other way round.
#[tokio::test(start_paused = true)]
async fn who_waits_under_another_policy_is_called() {
    let cluster = Cluster::new(5);
    slow_down(&cluster, 1);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    for (first, second) in [
        (Policy::RedLock, Policy::MultiLock),
        (Policy::MultiLock, Policy::RedLock),
    ] {
        let writer = here.lock("a", first).write().lock().await.expect("free");
        let waiting = tokio::spawn({
            let lock = there.lock("a", second).read();
            async move { lock.lock().await }
        });
        sleep(ms(50)).await;
        let (unlocked, reader) = tokio::join!(writer.unlock(), timeout(ms(20), waiting));
        assert_eq!(unlocked, Ok(Unlocked::Released));
        let reader = reader.expect("called").expect("no panic").expect("granted");
        let waiting = tokio::spawn({
            let lock = here.lock("a", first).write();
            async move { lock.lock().await }
        });
        sleep(ms(50)).await;
        let (unlocked, writer) = tokio::join!(reader.unlock(), timeout(ms(20), waiting));
        assert_eq!(unlocked, Ok(Unlocked::Released));
        let writer = writer.expect("called").expect("no panic").expect("granted");
        writer.unlock().await.expect("held");
        sleep(ms(20)).await;
        assert!(is_clean(&cluster));
    }
}

/// All names or none, in either mode, beside locks on some of them.
#[tokio::test(start_paused = true)]
async fn several_names_are_read_and_written_together() {
    let cluster = Cluster::new(NODES);
    slow_down(&cluster, 1);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let both = |masters: &Masters| masters.red_lock(["a", "b"]);
    let reader = both(&here).read().lock().await.expect("free");
    let beside = there.red_lock("b").read().try_lock().await.expect("only read");
    assert!(is_contended(&there.red_lock("a").write().try_lock().await));
    assert!(is_contended(&both(&there).write().try_lock().await));
    let token = reader.fencing_token();
    reader.unlock().await.expect("held");
    let writer = there
        .red_lock("a")
        .write()
        .try_lock()
        .await
        .expect("only b is read");
    assert!(writer.fencing_token() > token);
    let waiting = tokio::spawn({
        let lock = both(&here).write();
        async move { lock.lock().await }
    });
    sleep(ms(50)).await;
    writer.unlock().await.expect("held");
    sleep(ms(50)).await;
    assert!(!waiting.is_finished(), "b is read");
    let (unlocked, writer) = tokio::join!(beside.unlock(), timeout(ms(2_000), waiting));
    unlocked.expect("held");
    let writer = writer.expect("called").expect("no panic").expect("granted");
    for name in ["a", "b"] {
        assert!(
            is_contended(&there.red_lock(name).read().try_lock().await),
            "{name}"
        );
    }
    let reader = writer.downgrade().await;
    for name in ["a", "b"] {
        let beside = there.red_lock(name).read().try_lock().await.expect("only read");
        beside.unlock().await.expect("held");
    }
    for inspection in both(&here).read().inspect().await.expect("looks") {
        assert_eq!(inspection.readers, [reader.holder()], "{}", inspection.name);
    }
    // Renewed, all of them.
    sleep(ms(100_000)).await;
    assert!(reader.is_valid());
    assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
    sleep(ms(20)).await;
    assert!(is_clean(&cluster));
    assert_eq!(queues(&cluster), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unfenced_pair_leaves_nothing_at_all() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let reader = reading(&here).fenced(false).lock().await.expect("free");
    let beside = reading(&there).fenced(false).lock().await.expect("only read");
    assert_eq!(reader.fencing_token(), FencingToken::NONE);
    assert!(is_contended(&writing(&there).fenced(false).try_lock().await));
    drop((reader, beside));
    settle().await;
    let writer = writing(&there).fenced(false).lock().await.expect("free");
    assert_eq!(writer.fencing_token(), FencingToken::NONE);
    assert!(is_contended(&reading(&here).fenced(false).try_lock().await));
    let reader = writer.downgrade().await;
    sleep(ms(40_000)).await;
    assert!(reader.is_valid());
    drop(reader);
    settle().await;
    let keys: Vec<_> = cluster.iter().flat_map(multilock::sim::Master::keys).collect();
    assert_eq!(keys, Vec::<String>::new());
}

/// Read locks in sets: two sets that read the same name are in together, and a set that writes it is not.
#[tokio::test(start_paused = true)]
async fn sets_of_readers_and_writers() {
    let clusters = [Cluster::new(NODES), Cluster::new(1)];
    for cluster in &clusters {
        slow_down(cluster, 1);
    }
    let here = [connect(&clusters[0]).await, connect(&clusters[1]).await];
    let there = [connect(&clusters[0]).await, connect(&clusters[1]).await];
    let mixed = |masters: &[Masters; 2], name: &str| {
        masters[0]
            .red_lock("a")
            .read()
            .and(masters[1].red_lock(name).write())
    };
    let first = mixed(&here, "x").lock().await.expect("free");
    let second = mixed(&there, "y")
        .try_lock()
        .await
        .expect("both read a, and write apart");
    assert!(first.is_valid() && second.is_valid());
    let refused = mixed(&there, "x").try_lock().await.expect_err("x is written");
    assert_eq!(refused.index, 1);
    let both_write = there[0].red_lock("a").write().and(there[1].red_lock("z").write());
    let refused = both_write.try_lock().await.expect_err("a is read");
    assert_eq!(refused.index, 0);
    assert_eq!(first.fencing_tokens().len(), 2);

    // It waits for both readers, and holds nothing meanwhile.
    let waiting = tokio::spawn(async move { both_write.lock().await });
    sleep(ms(50)).await;
    assert_eq!(first.unlock().await, Ok(vec![Unlocked::Released; 2]));
    sleep(ms(50)).await;
    assert!(!waiting.is_finished() && !clusters[1].iter().any(|master| !master.fields("z").is_empty()));
    second.unlock().await.expect("held");
    let writers = timeout(ms(2_000), waiting).await.expect("called");
    let writers = writers.expect("no panic").expect("granted");
    let error = mixed(&here, "x")
        .wait(ms(100))
        .lock()
        .await
        .expect_err("a is written");
    assert_eq!(error.index, 0);
    assert!(matches!(error.error, LockError::TimedOut { .. }), "{error}");
    writers.unlock().await.expect("held");
    sleep(ms(50)).await;
    assert!(clusters.iter().all(is_clean));
    assert!(clusters.iter().all(|cluster| queues(cluster) == 0));
}

/// One owner of a set and of a single lock enters by the rules of each.
#[tokio::test(start_paused = true)]
async fn an_owner_enters_a_set_as_it_enters_each_lock() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let me = Owner::new();
    let reader = reading(&masters).owner(&me).lock().await.expect("free");
    let set = masters
        .red_lock("a")
        .write()
        .and(masters.red_lock("b").read())
        .owner(&me);
    let error = set.lock().await.expect_err("it reads a");
    assert_eq!(
        (error.index, error.error),
        (0, LockError::Upgrade { held: "a".into() })
    );
    let set = masters
        .red_lock("a")
        .read()
        .and(masters.red_lock("b").read())
        .owner(&me);
    let guards = set.lock().await.expect("its own, and free");
    assert_eq!(reader.hold_count(), 2);
    assert_eq!(
        guards.unlock().await,
        Ok(vec![Unlocked::StillHeld(1), Unlocked::Released])
    );
    assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
    settle().await;
    assert!(is_clean(&cluster));
}

/// A reader that is in enters again at once, past a writer that waits. A reader of another owner waits behind the
/// writer, for its own time at most.
#[tokio::test(start_paused = true)]
async fn an_inner_reader_passes_a_waiting_writer() {
    let cluster = Cluster::new(NODES);
    slow_down(&cluster, 1);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let me = Owner::new();
    let outer = reading(&here).owner(&me).lock().await.expect("free");
    let writer = tokio::spawn({
        let lock = writing(&there);
        async move { lock.lock().await }
    });
    sleep(ms(50)).await;
    let begun = Instant::now();
    let inner = reading(&here).owner(&me).lock().await.expect("its own");
    assert_eq!((begun.elapsed(), inner.hold_count()), (ms(0), 2));
    let error = reading(&here)
        .wait(ms(200))
        .lock()
        .await
        .expect_err("behind the writer");
    assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
    drop(inner);
    let (unlocked, writer) = tokio::join!(outer.unlock(), timeout(ms(20), writer));
    unlocked.expect("held");
    let writer = writer.expect("called").expect("no panic").expect("granted");
    writer.unlock().await.expect("held");
}

/// Everything that an owner that is in may and may not ask for.
#[tokio::test(start_paused = true)]
async fn who_is_in_enters_again_only_as_what_it_holds() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let me = Owner::new();
    let plain = masters.red_lock("a").owner(&me);
    let read = || reading(&masters).owner(&me);
    let write = || writing(&masters).owner(&me);
    let before = |cluster: &Cluster| asked(cluster);

    let guard = plain.lock().await.expect("free");
    let count = before(&cluster);
    assert_invalid(read().lock().await, "kind");
    assert_invalid(write().lock().await, "kind");
    assert_eq!(before(&cluster), count, "no master was asked");
    guard.unlock().await.expect("held");

    let guard = write().lock().await.expect("free");
    let count = before(&cluster);
    assert_invalid(plain.lock().await, "kind");
    assert_invalid(
        masters.red_lock(["a", "b"]).read().owner(&me).lock().await,
        "names",
    );
    assert_invalid(masters.multi_lock("a").read().owner(&me).lock().await, "policy");
    let inner = [
        MultiLockGuard::<Either>::from(read().lock().await.expect("its own")),
        MultiLockGuard::<Either>::from(write().lock().await.expect("its own")),
    ];
    assert_eq!(before(&cluster), count, "no master was asked");
    drop(inner);
    assert_eq!(guard.hold_count(), 1);
    let guard: MultiLockGuard<Shared> = guard.downgrade().await;
    let count = before(&cluster);
    for tried in [
        write().lock().await,
        write().try_lock().await,
        write().wait(ms(5)).lock().await,
    ] {
        assert_eq!(
            tried.expect_err("it reads"),
            LockError::Upgrade { held: "a".into() }
        );
    }
    let inner = read().lock().await.expect("its own");
    assert_eq!(before(&cluster), count, "no master was asked");
    assert_eq!(guard.unlock().await, Ok(Unlocked::StillHeld(1)));
    assert_eq!(inner.unlock().await, Ok(Unlocked::Released));
    settle().await;
    assert!(is_clean(&cluster));
}

/// Two owners of one process that read do not get in each other's way to become writers: each is told at once.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_itself_to_leave() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let owners = [Owner::new(), Owner::new()];
    let mut guards = Vec::new();
    for owner in &owners {
        guards.push(reading(&masters).owner(owner).lock().await.expect("only read"));
    }
    for owner in &owners {
        let tried = timeout(ms(1), writing(&masters).owner(owner).lock()).await;
        let error = tried.expect("at once").expect_err("it reads");
        assert!(matches!(error, LockError::Upgrade { .. }), "{error}");
    }
    assert!(guards.iter().all(MultiLockGuard::is_valid));
}

/// The guard of a plain lock may be downgraded too, which changes nothing for others.
#[tokio::test(start_paused = true)]
async fn a_plain_lock_stays_one_when_its_guard_is_downgraded() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let lock: MultiLock = here.red_lock("a");
    let guard = lock.lock().await.expect("free").downgrade().await;
    assert!(guard.is_valid());
    assert!(is_contended(&reading(&there).try_lock().await));
    sleep(ms(60_000)).await;
    assert!(guard.is_valid());
    for (_, state) in &lock.inspect().await.expect("looks")[0].nodes {
        assert!(matches!(state, NodeState::Held { .. }), "{state:?}");
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    settle().await;
    assert!(is_clean(&cluster));
}
