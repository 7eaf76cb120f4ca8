//! What Redisson's `RedissonReadWriteLockTest` shows of holds and their owners, as behaviours of this crate's read/write
//! locks: each test has the name of one of that suite, without `test`. What it shows of leases is in `redisson.rs`.
//!
//! | there | here |
//! | --- | --- |
//! | `testForceUnlock` | readers and writers are forced out alike; there each by its own lock |
//! | `testWriteRead…` | who writes and reads has one hold with two guards; there two |
//! | `testConcurrency…` | every fourth task writes, and a witness looks at who is inside |

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::time::Duration;

use super::{is_clean, is_contended, reading, writing};
use crate::support::{connect, ms, queues, settle, slow_down};
use multilock::sim::Cluster;
use multilock::{LockError, LossCause, Masters, NodeState, Owner, UnlockError, Unlocked};
use tokio::time::{Instant, sleep, timeout};

const NODES: usize = 3;
/// A release, a call, an acquire and its answer on their way, each for 1 ms; and the rounding of leases.
const HAND_OFF: Duration = Duration::from_millis(6);

async fn anybody_holds(masters: &Masters) -> bool {
    let inspections = reading(masters).inspect().await.expect("looks");
    let mut nodes = inspections.iter().flat_map(|inspection| &inspection.nodes);
    nodes.any(|(_, state)| *state != NodeState::Free)
}

#[tokio::test(start_paused = true)]
async fn multi_read() {
    const READERS: usize = 20;
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    slow_down(&cluster, 1);
    let begun = Instant::now();
    let mut guards = Vec::new();
    for number in 0..READERS {
        let masters = if number % 2 == 0 { &here } else { &there };
        guards.push(reading(masters).lock().await.expect("only read"));
    }
    assert_eq!(begun.elapsed(), ms(2) * 20, "nobody waits");
    let seen = &reading(&here).inspect().await.expect("looks")[0];
    assert_eq!(seen.readers.len(), READERS);
    assert!(guards.iter().all(|guard| seen.readers.contains(&guard.holder())));
    drop(guards);
    sleep(ms(20)).await;
    assert!(is_clean(&cluster));
}

#[tokio::test(start_paused = true)]
async fn write_lock() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    slow_down(&cluster, 1);
    let writer = writing(&here).lock().await.expect("free");
    for masters in [&here, &there] {
        for error in [
            writing(masters).wait(ms(500)).lock().await.expect_err("written"),
            reading(masters).wait(ms(500)).lock().await.expect_err("written"),
        ] {
            assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
        }
    }
    let waiting = tokio::spawn({
        let lock = reading(&there);
        async move { lock.lock().await }
    });
    sleep(ms(20)).await;
    let (unlocked, reader) = tokio::join!(writer.unlock(), timeout(HAND_OFF, waiting));
    assert_eq!(unlocked, Ok(Unlocked::Released));
    let reader = reader.expect("called").expect("no panic").expect("granted");
    reader.unlock().await.expect("held");
    sleep(ms(20)).await;
    assert!(is_clean(&cluster));
}

/// Writes, reads inside, and leaves in either order.
#[tokio::test(start_paused = true)]
async fn wr() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    for writer_first in [true, false] {
        let me = Owner::new();
        let writer = writing(&here).owner(&me).lock().await.expect("free");
        let reader = reading(&here).owner(&me).lock().await.expect("its own");
        if writer_first {
            assert_eq!(writer.unlock().await, Ok(Unlocked::Downgraded));
            assert!(is_contended(&writing(&there).try_lock().await));
            assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
        } else {
            assert_eq!(reader.unlock().await, Ok(Unlocked::StillHeld(1)));
            assert!(is_contended(&reading(&there).try_lock().await), "it still writes");
            assert_eq!(writer.unlock().await, Ok(Unlocked::Released));
        }
        settle().await;
        assert!(is_clean(&cluster) && !anybody_holds(&there).await);
    }
}

/// Who has written goes on reading, and those that wait to read come in beside it.
#[tokio::test(start_paused = true)]
async fn write_read() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    slow_down(&cluster, 1);
    let me = Owner::new();
    let writer = writing(&here).owner(&me).lock().await.expect("free");
    let reader = reading(&here).owner(&me).lock().await.expect("its own");
    let waiting = tokio::spawn({
        let lock = reading(&there);
        async move { lock.lock().await }
    });
    sleep(ms(100)).await;
    assert!(!waiting.is_finished());
    let (unlocked, beside) = tokio::join!(writer.unlock(), timeout(HAND_OFF, waiting));
    assert_eq!(unlocked, Ok(Unlocked::Downgraded));
    let beside = beside.expect("called").expect("no panic").expect("granted");
    assert!(reader.is_valid() && beside.is_valid());
    // Also after it has been renewed.
    sleep(ms(100_000)).await;
    assert!(reader.is_valid() && beside.is_valid());
    for masters in [&here, &there] {
        assert!(is_contended(&writing(masters).try_lock().await));
    }
    beside.unlock().await.expect("held");
    reader.unlock().await.expect("held");
    sleep(ms(20)).await;
    assert!(is_clean(&cluster));
}

#[tokio::test(start_paused = true)]
async fn write_read_reentrancy() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let me = Owner::new();
    let first = writing(&here).owner(&me).lock().await.expect("free");
    let second = reading(&here).owner(&me).lock().await.expect("its own");
    let third = writing(&here).owner(&me).lock().await.expect("its own");
    let fourth = reading(&here).owner(&me).lock().await.expect("its own");
    assert_eq!(fourth.hold_count(), 4);
    assert_eq!(first.unlock().await, Ok(Unlocked::StillHeld(3)));
    assert!(is_contended(&reading(&there).try_lock().await), "it still writes");
    assert_eq!(third.unlock().await, Ok(Unlocked::Downgraded));
    let beside = reading(&there).try_lock().await.expect("only read");
    let error = writing(&here).owner(&me).try_lock().await.expect_err("it reads");
    assert_eq!(error, LockError::Upgrade { held: "a".into() });
    assert_eq!(second.unlock().await, Ok(Unlocked::StillHeld(1)));
    assert_eq!(fourth.unlock().await, Ok(Unlocked::Released));
    assert!(beside.is_valid());
    beside.unlock().await.expect("held");
    settle().await;
    assert!(is_clean(&cluster));
    // Outside again, it may write.
    let writer = writing(&here).owner(&me).try_lock().await.expect("free");
    writer.unlock().await.expect("held");
}

#[tokio::test(start_paused = true)]
async fn force_unlock() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    slow_down(&cluster, 1);
    let readers = [
        reading(&here).lock().await.expect("free"),
        reading(&there).lock().await.expect("only read"),
    ];
    let waiting = tokio::spawn({
        let lock = writing(&there);
        async move { lock.lock().await }
    });
    sleep(ms(20)).await;
    // By either of the two locks.
    let forced = writing(&here).force_release().await.expect("all answer");
    assert_eq!(forced.former.len(), 2);
    assert!(
        readers
            .iter()
            .all(|reader| forced.former.contains(&reader.holder()))
    );
    let writer = timeout(HAND_OFF, waiting).await.expect("called");
    let writer = writer.expect("no panic").expect("granted");
    for reader in readers {
        assert_eq!(
            timeout(ms(11_000), reader.lost()).await.map(|loss| loss.cause),
            Ok(LossCause::TakenAway)
        );
    }
    let forced = reading(&here).force_release().await.expect("all answer");
    assert_eq!(forced.former, [writer.holder()]);
    assert!(!anybody_holds(&there).await);
    assert!(writer.unlock().await.is_err());
    let reader = reading(&here).try_lock().await.expect("free");
    reader.unlock().await.expect("held");
}

#[tokio::test(start_paused = true)]
async fn hold_count() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let me = Owner::new();
    let outer = reading(&masters).owner(&me).lock().await.expect("free");
    assert_eq!(outer.hold_count(), 1);
    let inner = reading(&masters).owner(&me).lock().await.expect("its own");
    assert_eq!((outer.hold_count(), inner.hold_count()), (2, 2));
    assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    assert_eq!(outer.hold_count(), 1);
    assert_eq!(outer.unlock().await, Ok(Unlocked::Released));
    let outer = writing(&masters).owner(&me).lock().await.expect("free");
    let inner = writing(&masters).owner(&me).lock().await.expect("its own");
    assert_eq!((outer.hold_count(), inner.hold_count()), (2, 2));
    // What the masters are told at the next renewal.
    sleep(ms(15_000)).await;
    for (_, state) in &writing(&masters).inspect().await.expect("looks")[0].nodes {
        assert!(matches!(state, NodeState::Write { count: 2, .. }), "{state:?}");
    }
    drop((inner, outer));
    settle().await;
    assert!(is_clean(&cluster));
}

#[tokio::test(start_paused = true)]
async fn is_held_by_current_thread() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let look = async || reading(&masters).inspect().await.expect("looks").remove(0);
    let reader = reading(&masters).lock().await.expect("free");
    let seen = look().await;
    assert_eq!((seen.agreed, seen.readers), (None, vec![reader.holder()]));
    reader.unlock().await.expect("held");
    let writer = writing(&masters).lock().await.expect("free");
    let seen = look().await;
    assert_eq!((seen.agreed, seen.readers), (Some(writer.holder()), vec![]));
    let reader = writer.downgrade().await;
    let seen = look().await;
    assert_eq!((seen.agreed, seen.readers), (None, vec![reader.holder()]));
    reader.unlock().await.expect("held");
    let seen = look().await;
    assert_eq!((seen.agreed, seen.readers), (None, vec![]));
}

/// Another owner is not the one who holds, in the same process or another: it reads beside it, and does not write.
#[tokio::test(start_paused = true)]
async fn is_held_by_current_thread_other_thread() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let mine = reading(&here).owner(&Owner::new()).lock().await.expect("free");
    for masters in [&here, &there] {
        let other = Owner::new();
        assert!(is_contended(&writing(masters).owner(&other).try_lock().await));
        let theirs = reading(masters)
            .owner(&other)
            .try_lock()
            .await
            .expect("only read");
        assert_ne!(theirs.holder(), mine.holder());
        assert_eq!((theirs.hold_count(), mine.hold_count()), (1, 1));
        theirs.unlock().await.expect("held");
    }
    mine.unlock().await.expect("held");
}

#[tokio::test(start_paused = true)]
async fn is_locked() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    assert!(!anybody_holds(&there).await);
    let reader = reading(&here).lock().await.expect("free");
    assert!(anybody_holds(&there).await);
    reader.unlock().await.expect("held");
    assert!(!anybody_holds(&there).await);
    let writer = writing(&here).lock().await.expect("free");
    assert!(anybody_holds(&there).await);
    let reader = writer.downgrade().await;
    assert!(anybody_holds(&there).await);
    reader.unlock().await.expect("held");
    assert!(!anybody_holds(&there).await);
}

#[tokio::test(start_paused = true)]
async fn is_locked_other_thread() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let guard = writing(&here).lock().await.expect("free");
    assert!(anybody_holds(&there).await);
    writing(&there).force_release().await.expect("all answer");
    assert!(!anybody_holds(&there).await);
    let lost = timeout(ms(11_000), guard.lost()).await.expect("noticed");
    assert_eq!(lost.cause, LossCause::TakenAway);
}

/// Nobody else's hold can be given up: who holds no more is told so, and the others hold on.
#[tokio::test(start_paused = true)]
async fn unlock_fail() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let (stale_reader, other) = (
        reading(&here).lock().await.expect("free"),
        reading(&here).lock().await.expect("only read"),
    );
    reading(&there).force_release().await.expect("all answer");
    drop(other);
    let reader = reading(&there).lock().await.expect("free");
    let error = stale_reader.unlock().await.expect_err("taken away");
    assert!(matches!(error, UnlockError::WasLost { .. }), "{error}");
    reader.extend(ms(30_000)).await.expect("held");
    let stale_writer = {
        reader.unlock().await.expect("held");
        writing(&here).lock().await.expect("free")
    };
    writing(&there).force_release().await.expect("all answer");
    let reader = reading(&there).lock().await.expect("free");
    let error = stale_writer.unlock().await.expect_err("taken away");
    assert!(matches!(error, UnlockError::WasLost { .. }), "{error}");
    reader.extend(ms(30_000)).await.expect("held");
    reader.unlock().await.expect("held");
}

#[tokio::test(start_paused = true)]
async fn lock_unlock() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    for _ in 0..2 {
        let guard = writing(&masters).lock().await.expect("free");
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        let guard = reading(&masters).lock().await.expect("free");
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    }
    settle().await;
    assert!(is_clean(&cluster));
}

#[tokio::test(start_paused = true)]
async fn reentrancy() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let lock = writing(&masters).owner(&Owner::new());
    let outer = lock.try_lock().await.expect("free");
    let inner = lock.try_lock().await.expect("its own");
    assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    // Also after it has been renewed.
    sleep(ms(60_000)).await;
    assert!(is_contended(
        &writing(&masters).owner(&Owner::new()).try_lock().await
    ));
    assert!(is_contended(
        &reading(&masters).owner(&Owner::new()).try_lock().await
    ));
    assert_eq!(outer.unlock().await, Ok(Unlocked::Released));
}

/// Who is inside, by itself and not by the masters: so many that read, or -1 for one that writes.
#[derive(Default)]
struct Witness {
    inside: AtomicIsize,
    written: AtomicUsize,
    most_reading: AtomicIsize,
}

impl Witness {
    async fn read(&self, held: Duration) {
        let others = self.inside.fetch_add(1, Ordering::SeqCst);
        assert!(others >= 0, "beside one that writes");
        self.most_reading.fetch_max(others + 1, Ordering::SeqCst);
        let written = self.written.load(Ordering::SeqCst);
        sleep(held).await;
        assert_eq!(
            self.written.load(Ordering::SeqCst),
            written,
            "nobody writes meanwhile"
        );
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    async fn write(&self, held: Duration) {
        assert_eq!(self.inside.swap(-1, Ordering::SeqCst), 0, "beside others");
        sleep(held).await;
        self.written.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.inside.swap(0, Ordering::SeqCst), -1, "others came in");
    }
}

/// So many tasks of each of so many processes come so often, without a break, each for so long; every fourth writes.
/// The most that read at once.
async fn concurrency(processes: usize, tasks: usize, iterations: usize, held: Duration) -> isize {
    let cluster = Cluster::new(NODES);
    let mut clients = Vec::new();
    for _ in 0..processes {
        clients.push(connect(&cluster).await);
    }
    slow_down(&cluster, 1);
    let witness = Arc::new(Witness::default());
    let mut working = Vec::new();
    let begun = Instant::now();
    for number in 0..processes * tasks {
        let masters = &clients[number % processes];
        let (reads, writes) = (reading(masters), writing(masters));
        let witness = Arc::clone(&witness);
        working.push(tokio::spawn(async move {
            for iteration in 0..iterations {
                if (number + iteration) % 4 == 0 {
                    let guard = writes.lock().await.expect("its turn comes");
                    witness.write(held).await;
                    guard.unlock().await.expect("held");
                } else {
                    let guard = reads.lock().await.expect("its turn comes");
                    witness.read(held).await;
                    guard.unlock().await.expect("held");
                }
            }
        }));
    }
    for task in working {
        task.await.expect("no rule was broken");
    }
    let elapsed = begun.elapsed();
    // Not longer than if all of them wrote.
    let all = u32::try_from(processes * tasks * iterations).expect("a few");
    assert!(elapsed <= (held + HAND_OFF) * all, "{elapsed:?}");
    sleep(ms(100)).await;
    assert!(is_clean(&cluster));
    assert_eq!(queues(&cluster), 0);
    witness.most_reading.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn concurrency_single_instance() {
    assert!(concurrency(1, 16, 1, ms(5)).await > 1);
}

#[tokio::test(start_paused = true)]
async fn concurrency_loop_multi_instance() {
    assert!(concurrency(16, 1, 50, ms(10)).await > 1);
}

#[tokio::test(start_paused = true)]
async fn concurrency_multi_instance() {
    assert!(concurrency(100, 1, 1, ms(1)).await > 1);
}
