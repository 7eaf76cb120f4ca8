//! Many read and one writes, beside Redisson's locks on the same name. Neither side gets in beside the other, although
//! messages are late or lost and keys are deleted.

pub(crate) mod counts;
pub(crate) mod ours;
pub(crate) mod theirs;
pub(crate) mod walk;

use multilock::sim::{Client, Cluster, Master};
use multilock::{Masters, MultiLock, Quarantine, Shared};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::counts::Counts;
use self::ours::READERS;
use self::theirs::{LOCKS, NAME, RLOCK, Theirs};
use self::walk::Plan;
use crate::scene::{in_time, settle, violated};

const LEASE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_secs(20);
const ZERO: Duration = Duration::ZERO;
const EXCLUSION: &str = "mutual exclusion";

impl walk::Master for Master {
    async fn run(&self, words: &[&str]) -> Vec<String> {
        self.command(words).expect("an answer")
    }

    async fn run_script(&self, script: &str, keys: &[&str], args: &[&str]) -> Vec<String> {
        self.eval(script, keys, args).expect("an answer")
    }
}

async fn connect(cluster: &Cluster) -> Masters {
    let builder = Masters::builder().quarantine(Quarantine::Off);
    cluster.connect(builder).await.expect("connects")
}

fn reading(masters: &Masters) -> MultiLock<Shared> {
    masters.red_lock(NAME).read().lease(LEASE)
}

fn writing(masters: &Masters) -> MultiLock {
    masters.red_lock(NAME).write().lease(LEASE)
}

/// Time after which a waiter is in behind an `RLock` with this lease, which is released after `held`, and announced on this
/// channel.
async fn gets_in_after(beside: bool, lease: Duration, held: Duration, channel: &str) -> Duration {
    let cluster = Cluster::new(1);
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .beside_redisson(beside);
    let masters = cluster.connect(builder).await.expect("connects");
    let (master, theirs) = (cluster.master(0), Theirs::new(&RLOCK, 1));
    assert!(theirs.lock(master, lease).await, "free");
    let begun = Instant::now();
    let lock = masters.red_lock(NAME);
    let waits = tokio::spawn(async move { lock.lock().await.map(drop) });
    sleep(held).await;
    theirs.unlock(master).await;
    let _ = master.command(&["PUBLISH", channel, "0"]);
    waits.await.expect("no panic").expect("granted");
    begun.elapsed()
}

/// Without the option a waiter asks again when the lease ends that it was told, and after 5 s at the latest.
#[tokio::test(start_paused = true)]
async fn without_the_option_a_waiter_wakes_by_its_timer() {
    let second = Duration::from_secs(1);
    let margin = Duration::from_millis(20);
    let near = |took: Duration, ms: u64| {
        let expected = Duration::from_millis(ms);
        assert!(
            took >= expected && took < expected + margin,
            "{took:?} for {expected:?}"
        );
    };
    let channel = "redisson_lock__channel:{a}";
    near(gets_in_after(false, LEASE, second, channel).await, 5_000);
    near(gets_in_after(false, 3 * second, second, channel).await, 3_002);
    near(gets_in_after(true, LEASE, second, channel).await, 1_000);
}

/// A fair lock of theirs is announced to one of its waiters alone, on a channel of its own.
#[tokio::test(start_paused = true)]
async fn a_waiter_hears_what_waiters_of_a_fair_lock_hear() {
    let second = Duration::from_secs(1);
    let channel = "redisson_lock__channel:{a}:00000000-0000-4000-8000-000000000000:2";
    let took = gets_in_after(true, LEASE, second, channel).await;
    if took > second + Duration::from_millis(20) {
        violated("woken", &format!("only after {took:?}"));
    }
    let of_another = "redisson_lock__channel:{b}:00000000-0000-4000-8000-000000000000:2";
    let took = gets_in_after(true, LEASE, second, of_another).await;
    assert!(took > 4 * second, "{took:?}");
}

/// Only the first waiter hears their announcements. It gives up, and the next one hears them.
#[tokio::test(start_paused = true)]
async fn whoever_moves_up_hears_their_release() {
    let second = Duration::from_secs(1);
    let cluster = Cluster::new(1);
    let (master, theirs) = (cluster.master(0), Theirs::new(&RLOCK, 1));
    assert!(theirs.lock(master, LEASE).await, "free");
    let begun = Instant::now();
    let mut waiting = Vec::new();
    for wait in [second, LEASE] {
        let builder = Masters::builder()
            .quarantine(Quarantine::Off)
            .beside_redisson(true);
        let masters = cluster.connect(builder).await.expect("connects");
        let lock = masters.red_lock(NAME).wait(wait);
        waiting.push(tokio::spawn(async move { lock.lock().await.map(drop) }));
        settle().await;
    }
    sleep_until(begun + 2 * second).await;
    theirs.unlock(master).await;
    let _ = master.command(&["PUBLISH", "redisson_lock__channel:{a}", "0"]);
    let next = waiting.pop().expect("two").await.expect("no panic");
    next.expect("granted");
    in_time(begun, 2 * second + Duration::from_millis(20));
    let first = waiting.pop().expect("two").await.expect("no panic");
    assert!(first.is_err(), "its time is over");
}

/// The first task of a process is not polled any more while it begins to listen for their release. The task behind it gets the
/// turn, and the lock.
#[tokio::test(start_paused = true)]
async fn a_turn_goes_on_if_its_task_is_not_polled_while_it_begins_to_listen() {
    let cluster = Cluster::new(1);
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .beside_redisson(true);
    let there_and_back = Duration::from_millis(10);
    let apart = Client::new().distances(&[there_and_back]);
    let masters = cluster.connect_as(&apart, builder).await.expect("connects");
    let (master, theirs) = (cluster.master(0), Theirs::new(&RLOCK, 1));
    let lease = Duration::from_secs(3);
    assert!(theirs.lock(master, lease).await, "free");
    let begun = Instant::now();
    let lock = masters.red_lock(NAME);
    let mut first = Box::pin(lock.lock());
    // Its question is answered, and its subscription is not.
    assert!(
        timeout(3 * there_and_back / 2, &mut first).await.is_err(),
        "it is held"
    );
    match timeout(2 * lease, lock.lock()).await {
        Ok(second) => drop(second.expect("granted")),
        Err(_) => violated("progress", "one that is not polled is waited for"),
    }
    in_time(begun, lease + Duration::from_millis(100));
    drop(first.await.expect("its turn comes"));
}

/// Deletes the name, as a force by a client of theirs does. The keys beside the name stay.
fn delete(cluster: &Cluster) {
    for master in cluster.iter() {
        assert!(master.evict(NAME), "it was held");
    }
}

fn lose_readers(cluster: &Cluster) {
    for master in cluster.iter() {
        assert!(master.evict(READERS), "it was read");
    }
}

async fn let_no_writer_in(masters: &Masters) {
    if let Ok(guard) = writing(masters).try_lock().await {
        violated(EXCLUSION, &format!("{guard:?} beside a reader"));
    }
}

async fn until_free(cluster: &Cluster) {
    sleep(2 * LEASE).await;
    let mut left: Vec<_> = cluster.iter().flat_map(Master::locks).collect();
    // It has no end there.
    left.retain(|key| !key.starts_with("redisson_lock_token"));
    if !left.is_empty() {
        violated("nothing is left", &format!("{left:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn theirs_do_not_come_in_where_ours_read() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let first = reading(&masters).lock().await.expect("free");
    settle().await;
    let_none_of_theirs_in(&cluster).await;
    first.unlock().await.expect("held");
    let reader = writing(&masters).lock().await.expect("free").downgrade().await;
    settle().await;
    let_none_of_theirs_in(&cluster).await;
    reader.unlock().await.expect("held");
    until_free(&cluster).await;
}

async fn let_none_of_theirs_in(cluster: &Cluster) {
    for kind in LOCKS {
        for master in cluster.iter() {
            if Theirs::new(kind, 1).lock(master, LEASE).await {
                violated(EXCLUSION, &format!("{} beside one of ours", kind.name));
            }
        }
    }
}

/// A lock of theirs, also a lock to read, keeps ours out, even from reading.
#[tokio::test(start_paused = true)]
async fn ours_do_not_come_in_where_theirs_read() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for kind in LOCKS {
        let theirs = Theirs::new(kind, 1);
        for master in cluster.iter() {
            assert!(theirs.lock(master, LEASE).await, "free");
        }
        let_no_writer_in(&masters).await;
        if let Ok(guard) = reading(&masters).try_lock().await {
            violated(EXCLUSION, &format!("{guard:?} beside {}", kind.name));
        }
        settle().await;
        for master in cluster.iter() {
            theirs.unlock(master).await;
        }
        let guard = reading(&masters).lock().await.expect("free");
        guard.unlock().await.expect("held");
        settle().await;
    }
    until_free(&cluster).await;
}

/// A name is deleted under its reader, and another client writes it. A client that reads it after that does not bring
/// the former reader back.
#[tokio::test(start_paused = true)]
async fn readers_of_a_deleted_name_are_not_revived() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let former = reading(&here).lock().await.expect("free");
    settle().await;
    delete(&cluster);
    let writer = writing(&there).lock().await.expect("deleted");
    writer.unlock().await.expect("held");
    settle().await;
    let reader = reading(&there).lock().await.expect("free");
    settle().await;
    if former.extend(LEASE).await.is_ok() {
        violated("a loss is told", "a reader continues after somebody has written");
    }
    reader.unlock().await.expect("held");
    drop(former);
    until_free(&cluster).await;
}

/// A name is deleted under its reader, and locked by one of theirs; then the reader leaves.
#[tokio::test(start_paused = true)]
async fn a_late_release_deletes_nobody_elses() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let former = reading(&masters).lock().await.expect("free");
    settle().await;
    delete(&cluster);
    let theirs = Theirs::new(&RLOCK, 1);
    for master in cluster.iter() {
        assert!(theirs.lock(master, LEASE).await, "deleted");
    }
    let _ = former.unlock().await;
    settle().await;
    for master in cluster.iter() {
        if !theirs.holds(master).await {
            violated(EXCLUSION, "a release of ours has deleted one of theirs");
        }
        theirs.unlock(master).await;
    }
    until_free(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn readers_that_are_lost_keep_a_writer_out() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let reader = reading(&here).lock().await.expect("free");
    settle().await;
    lose_readers(&cluster);
    let_no_writer_in(&there).await;
    // An extension finds the masters without it, and puts it back.
    assert!(reader.is_valid());
    until_free(&cluster).await;
}

/// One comes in beside readers that are lost, with a lease that ends later than theirs, earlier, or in the same ms, and leaves.
#[tokio::test(start_paused = true)]
async fn who_leaves_does_not_free_readers_that_are_lost() {
    let apart = LEASE.saturating_sub(SHORT);
    for (first, second, after) in [
        (SHORT, LEASE, ZERO),
        (LEASE, SHORT, ZERO),
        (LEASE, LEASE, ZERO),
        (LEASE, SHORT, apart),
    ] {
        let cluster = Cluster::new(3);
        let (here, there) = (connect(&cluster).await, connect(&cluster).await);
        let begun = Instant::now();
        let reader = reading(&here).lease(first).lock().await.expect("free");
        lose_readers(&cluster);
        sleep_until(begun + after).await;
        let beside = reading(&there).lease(second).lock().await.expect("only read");
        settle().await;
        beside.unlock().await.expect("held");
        settle().await;
        let_no_writer_in(&there).await;
        assert!(reader.is_valid());
        drop(reader);
        until_free(&cluster).await;
    }
}

/// The readers are lost. A reader that comes in when the lease of the last one ends leaves again, and nobody is kept
/// out by them.
#[tokio::test(start_paused = true)]
async fn readers_that_are_lost_as_their_leases_end_keep_nobody_out() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let begun = Instant::now();
    reading(&here).lock().await.expect("free").leak();
    lose_readers(&cluster);
    sleep_until(begun + LEASE).await;
    let beside = reading(&there).lock().await.expect("only read");
    beside.unlock().await.expect("held");
    settle().await;
    let writer = writing(&there).try_lock().await;
    drop(writer.expect("nobody reads any more"));
    until_free(&cluster).await;
}

/// Ours that write and read, theirs that exclude each other or read and write, messages that come late, downgrades that get
/// lost, names that are deleted and readers that are lost, in random order on one master.
#[tokio::test(start_paused = true)]
async fn at_random() {
    let mut counts = Counts::default();
    for seed in 0..60 {
        let plan = Plan {
            seed,
            steps: 600,
            longest: LEASE,
        };
        let cluster = Cluster::new(1);
        walk::run(cluster.master(0), plan, &mut counts).await;
    }
    println!("{counts:?}");
    counts.check(50);
}
