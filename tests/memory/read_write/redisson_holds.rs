//! Behaviours of holds and their owners from Redisson's `RedissonReadWriteLockTest`, for this crate's read/write
//! locks. Each test has the name of a test of that suite, without `test`. Behaviours of leases are in `redisson.rs`.
//! The other tests of the suite have equivalents in the tests beside these two files and in
//! `tests/simulation/directed`.
//!
//! | there | here |
//! | --- | --- |
//! | `testForceUnlock` | readers and writers are forced out alike; there each by its own lock |
//! | `testWR` | an owner that writes and reads has one hold with two guards; there two |
//! | `testConcurrency…` | every fourth task writes, and a witness counts the holders inside |

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::time::Duration;

use super::{is_clean, is_contended, reading, writing};
use crate::support::{connect, ms, queues, settle, slow_down};
use multilock::sim::Cluster;
use multilock::{LossCause, NodeState, Owner, Unlocked};
use tokio::time::{Instant, sleep, timeout};

const NODES: usize = 3;
/// A release, a call, an acquire and its answer on their way, each for 1 ms; and the rounding of leases.
const HAND_OFF: Duration = Duration::from_millis(6);

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
        assert!(is_clean(&cluster));
    }
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
    // Count that the masters get at the next renewal.
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

/// Holders inside, counted by itself and not by the masters: the number of readers, or -1 for a writer.
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

/// Each task of each process takes the lock `iterations` times without a break, for `held` each time. One turn in
/// four writes. Returns the largest number of readers at once.
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
    assert!(concurrency(16, 1, 25, ms(10)).await > 1);
}

#[tokio::test(start_paused = true)]
async fn concurrency_multi_instance() {
    assert!(concurrency(100, 1, 1, ms(1)).await > 1);
}
