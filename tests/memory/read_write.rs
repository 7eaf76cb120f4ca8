//! Read/write locks: the holders that may be in together, their order, their time, and the keys that they leave.

mod leaving;
mod options;
mod redisson;
mod redisson_holds;

use crate::support::{connect, ms, queues, settle, slow_down};
use multilock::sim::Cluster;
use multilock::{
    LockError, Masters, MultiLock, MultiLockGuard, NodeState, Owner, Shared, UnlockError, Unlocked,
};
use tokio::time::{Instant, sleep, timeout};

const NODES: usize = 3;

fn reading(masters: &Masters) -> MultiLock<Shared> {
    masters.red_lock("a").read()
}

fn writing(masters: &Masters) -> MultiLock {
    masters.red_lock("a").write()
}

fn is_contended<T>(tried: &Result<T, LockError>) -> bool {
    matches!(tried, Err(LockError::Contended { .. }))
}

/// Nothing is left of any hold or waiter, but fences.
fn is_clean(cluster: &Cluster) -> bool {
    let mut keys = cluster.iter().flat_map(multilock::sim::Master::keys);
    keys.all(|key| key.starts_with("multilock_fence"))
}

#[tokio::test(start_paused = true)]
async fn readers_go_in_together_and_a_writer_alone() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let first = reading(&here).try_lock().await.expect("free");
    let second = reading(&there).try_lock().await.expect("only read");
    assert!(is_contended(&writing(&there).try_lock().await));
    assert!(
        is_contended(&there.red_lock("a").try_lock().await),
        "a plain one, too"
    );
    assert_eq!(first.unlock().await, Ok(Unlocked::Released));
    assert!(is_contended(&writing(&here).try_lock().await));
    assert_eq!(second.unlock().await, Ok(Unlocked::Released));
    settle().await;
    assert!(is_clean(&cluster));
    let writer = writing(&here).try_lock().await.expect("free");
    assert!(is_contended(&reading(&there).try_lock().await));
    assert!(is_contended(&writing(&there).try_lock().await));
    assert_eq!(writer.unlock().await, Ok(Unlocked::Released));
    settle().await;
    assert!(is_clean(&cluster));
}

/// A look shows those that read now, and the waiter that has waited for longest, be it to read or to write.
#[tokio::test(start_paused = true)]
async fn a_look_shows_current_readers_and_the_oldest_waiter() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let look = async || reading(&there).inspect().await.expect("looks").remove(0);
    let dead = reading(&here).lease(ms(1000)).lock().await.expect("free");
    let alive = reading(&there).lock().await.expect("only read");
    dead.leak();
    sleep(ms(1500)).await;
    assert_eq!(look().await.readers, [alive.holder()]);
    alive.unlock().await.expect("held");

    let _writer = writing(&here).lock().await.expect("free");
    let mut waiting = Vec::new();
    for (reads, label) in [(true, "first"), (false, "second")] {
        let builder = Masters::builder().client_label(label);
        let masters = cluster.connect(builder).await.expect("connects");
        waiting.push(tokio::spawn(async move {
            if reads {
                let _ = reading(&masters).lock().await;
            } else {
                let _ = writing(&masters).lock().await;
            }
        }));
        settle().await;
    }
    let seen = look().await;
    assert_eq!((seen.waiting, seen.waiting_to_read), (2, 1));
    let first = seen.first_waiting.expect("two wait");
    assert_eq!(first.client_label(), Some("first"));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn nobody_overtakes_on_either_side() {
    let cluster = Cluster::new(NODES);
    slow_down(&cluster, 1);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let first = reading(&here).lock().await.expect("free");
    let writer = {
        let lock = writing(&there);
        tokio::spawn(async move { (lock.lock().await.expect("in the end"), Instant::now()) })
    };
    sleep(ms(20)).await;
    assert!(is_contended(&reading(&here).try_lock().await), "behind a writer");
    let late: Vec<_> = [&here, &there, &here]
        .map(|masters| {
            let lock = reading(masters);
            tokio::spawn(async move { (lock.lock().await.expect("in the end"), Instant::now()) })
        })
        .into_iter()
        .collect();
    sleep(ms(20)).await;
    let waiting = &reading(&here).inspect().await.expect("looks")[0];
    assert_eq!(
        (waiting.waiting, waiting.waiting_to_read),
        (3, 2),
        "one of each process reads"
    );
    let released = Instant::now();
    first.unlock().await.expect("held");
    let (guard, at) = writer.await.expect("no panic");
    assert!(at - released <= ms(6), "{:?}", at - released);
    let released = Instant::now();
    guard.unlock().await.expect("held");
    let mut guards = Vec::new();
    for reader in late {
        let (guard, at) = reader.await.expect("no panic");
        assert!(at - released <= ms(10), "{:?}", at - released);
        guards.push(guard);
    }
    assert!(guards.iter().all(MultiLockGuard::is_valid), "together");
    drop(guards);
    sleep(ms(20)).await;
    assert!(is_clean(&cluster));
    assert_eq!(queues(&cluster), 0);
}

/// Also within the process of the holder a writer comes behind those that have waited for longer elsewhere.
#[tokio::test(start_paused = true)]
async fn a_writer_of_the_holders_process_comes_in_its_turn() {
    let cluster = Cluster::new(NODES);
    slow_down(&cluster, 10);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let writer = writing(&here).lock().await.expect("free");
    let wait = |masters| {
        let lock = writing(masters);
        tokio::spawn(async move { lock.lock().await.expect("in the end") })
    };
    let earlier = wait(&there);
    sleep(ms(15)).await;
    // It joins the line before the holder hears of the other one.
    let later = wait(&here);
    sleep(ms(13)).await;
    assert!(writer.is_wanted() && !earlier.is_finished());
    assert_eq!(writer.unlock().await, Ok(Unlocked::Released));
    let earlier = timeout(ms(100), earlier)
        .await
        .expect("called")
        .expect("no panic");
    assert!(!later.is_finished());
    assert_eq!(earlier.unlock().await, Ok(Unlocked::Released));
    drop(timeout(ms(100), later).await.expect("called").expect("no panic"));
}

#[tokio::test(start_paused = true)]
async fn a_writer_lets_readers_in_and_nobody_in_between() {
    let cluster = Cluster::new(NODES);
    slow_down(&cluster, 1);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let writer = writing(&here).lock().await.expect("free");
    let token = writer.fencing_token();
    let (reader, other) = (
        tokio::spawn({
            let lock = reading(&there);
            async move { lock.lock().await.expect("in the end") }
        }),
        tokio::spawn({
            let lock = writing(&there);
            async move {
                sleep(ms(5)).await;
                lock.lock().await.expect("in the end")
            }
        }),
    );
    sleep(ms(20)).await;
    assert!(!reader.is_finished() && writer.is_wanted());
    let downgraded = writer.downgrade().await;
    assert!(!downgraded.is_wanted());
    let reader = timeout(ms(10), reader).await.expect("called").expect("no panic");
    assert!(downgraded.is_valid() && reader.is_valid());
    assert_eq!(downgraded.fencing_token(), token);
    assert!(reader.fencing_token() >= token);
    sleep(ms(50)).await;
    assert!(!other.is_finished());
    assert_eq!(downgraded.unlock().await, Ok(Unlocked::Released));
    assert!(!other.is_finished());
    assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
    let writer = timeout(ms(20), other).await.expect("called").expect("no panic");
    assert!(writer.fencing_token() > token);
    drop(writer);
    sleep(ms(20)).await;
    assert!(is_clean(&cluster));
}

/// Behind a writer of its own process a writer does not ask. Once that one only reads, later readers of other processes would
/// overtake it, if it did not ask then.
#[tokio::test(start_paused = true)]
async fn no_reader_overtakes_a_writer_behind_a_downgrade_in_its_process() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let writer = writing(&here).lock().await.expect("free");
    let next = writing(&here);
    let next = tokio::spawn(async move { next.lock().await.expect("in the end") });
    settle().await;
    let reader = writer.downgrade().await;
    settle().await;
    assert!(is_contended(&reading(&there).try_lock().await), "a writer waits");
    assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
    let next = timeout(ms(20), next).await.expect("called").expect("no panic");
    assert_eq!(next.unlock().await, Ok(Unlocked::Released));
}

#[tokio::test(start_paused = true)]
async fn who_writes_may_read_and_who_reads_may_not_write() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let owner = Owner::new();
    let writer = writing(&masters).owner(&owner).try_lock().await.expect("free");
    let reader = reading(&masters).owner(&owner).try_lock().await.expect("its own");
    assert_eq!(writer.hold_count(), 2);
    let again = writing(&masters).owner(&owner).try_lock().await.expect("its own");
    assert_eq!(again.unlock().await, Ok(Unlocked::StillHeld(2)));
    assert_eq!(writer.unlock().await, Ok(Unlocked::Downgraded));
    let refused = writing(&masters)
        .owner(&owner)
        .lock()
        .await
        .expect_err("it reads");
    assert_eq!(refused, LockError::Upgrade { held: "a".into() });
    let plain = masters
        .red_lock("a")
        .owner(&owner)
        .lock()
        .await
        .expect_err("it reads");
    assert!(matches!(plain, LockError::Invalid(_)), "{plain}");
    let beside = reading(&masters).try_lock().await.expect("only read");
    assert!(reader.is_valid() && beside.is_valid());
    for node in &reading(&masters).inspect().await.expect("looks")[0].nodes {
        assert!(
            matches!(&node.1, NodeState::Read { holders, .. } if holders.len() == 2),
            "{node:?}"
        );
    }
    drop((reader, beside));
    settle().await;
    assert!(is_clean(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_by_itself_however_long_others_read() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let short = reading(&here).lease(ms(400)).try_lock().await.expect("free");
    let long = reading(&there)
        .lease(ms(2_000))
        .try_lock()
        .await
        .expect("only read");
    sleep(ms(1_000)).await;
    assert!(!short.is_valid() && long.is_valid());
    assert!(matches!(short.unlock().await, Err(UnlockError::WasLost { .. })));
    reading(&there)
        .lease(ms(5_000))
        .try_lock()
        .await
        .expect("only read")
        .leak();
    drop(long);
    let begun = Instant::now();
    let writer = writing(&here).lock().await.expect("when its lease has ended");
    let waited = begun.elapsed();
    assert!((ms(4_900)..=ms(5_100)).contains(&waited), "{waited:?}");
    drop(writer);
    settle().await;
    assert!(is_clean(&cluster));
}
