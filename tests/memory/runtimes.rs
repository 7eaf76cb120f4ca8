//! Masters that are used on another runtime than the one in which they were connected, on none, or after that runtime
//! has ended. Every call ends by its own deadline, and its error names the cause.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::ms;
use futures::executor::block_on;
use multilock::sim::Cluster;
use multilock::{
    Closing, ExtendError, LockError, Masters, MultiLockGuard, NodeState, Owner, Quarantine, UnlockError,
    Votes,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tracing::Subscriber;
use tracing::span::{Id, Record};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Far more than any deadline here, and far less than for ever.
const SOON: Duration = Duration::from_secs(60);
/// A node deadline that is missed on purpose, and not on a machine with other work.
const HASTY: Duration = Duration::from_millis(500);
/// A node deadline that nobody waits for here.
const PATIENT: Duration = Duration::from_secs(5);

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Masters that were connected on a runtime, with a node deadline, and a guard of one name on them.
fn connected(runtime: &Runtime, node_timeout: Duration) -> (Cluster, Masters, MultiLockGuard) {
    runtime.block_on(async {
        let cluster = Cluster::new(3);
        let builder = Masters::builder()
            .quarantine(Quarantine::Off)
            .node_timeout(node_timeout);
        let masters = cluster.connect(builder).await.expect("connects");
        let guard = masters.red_lock("held").try_lock().await.expect("free");
        (cluster, masters, guard)
    })
}

/// Masters that a machine with other work does not make late.
async fn patient(cluster: &Cluster) -> Masters {
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .node_timeout(PATIENT);
    cluster.connect(builder).await.expect("connects")
}

/// Result of `work`, which has to come soon.
fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(work()));
    told.recv_timeout(SOON).expect("an end")
}

/// Checks the text of the votes that were waited for.
#[track_caller]
fn assert_all_say(votes: &Votes, words: &str) {
    let said: Vec<String> = votes.iter().map(|node| node.vote.to_string()).collect();
    assert!(
        said.iter().filter(|said| said.contains(words)).count() >= 2,
        "{votes}"
    );
    assert!(
        said.iter()
            .all(|said| said.contains(words) || said == "not waited for"),
        "{votes}"
    );
}

#[track_caller]
fn unreachable<T: std::fmt::Debug>(result: Result<T, LockError>, words: &str) {
    match result {
        Err(LockError::Unreachable { votes }) => assert_all_say(&votes, words),
        other => panic!("{other:?}"),
    }
}

/// Nobody drives the runtime of the connections, so nothing is answered.
#[test]
fn a_runtime_that_is_not_driven_makes_no_other_hang() {
    let first = runtime();
    let (cluster, masters, guard) = connected(&first, HASTY);
    soon(move || {
        runtime().block_on(async {
            let silence = "runtime that drives the connections, in which they were made, does not run";
            let lock = masters.red_lock("a");
            unreachable(lock.try_lock().await, silence);
            let waiting = lock.clone().wait(HASTY * 3).lock().await;
            assert!(
                matches!(waiting, Err(LockError::TimedOut { last: Some(_), .. })),
                "{waiting:?}"
            );
            unreachable(lock.force_release().await, silence);
            let inspection = lock.inspect().await.expect("looks").remove(0);
            assert!(
                inspection
                    .nodes
                    .iter()
                    .all(|(_, state)| matches!(state, NodeState::Silent(_)))
            );
            let extended = guard.extend(Duration::from_secs(30)).await;
            assert!(
                matches!(extended, Err(ExtendError::NotExtended { .. })),
                "{extended:?}"
            );
            let unlocked = guard.unlock().await;
            assert!(
                matches!(unlocked, Err(UnlockError::Unconfirmed { .. })),
                "{unlocked:?}"
            );
            masters.close(Closing::Release).await;
        });
    });
    drop((cluster, first));
}

#[test]
fn another_runtime_is_as_good_while_the_first_one_is_driven() {
    let first = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (cluster, masters, guard) = connected(&first, PATIENT);
    soon(move || {
        runtime().block_on(async {
            guard.extend(Duration::from_secs(30)).await.expect("held");
            let other = masters.red_lock("held").wait(SOON);
            let (unlocked, waited) = tokio::join!(guard.unlock(), other.lock());
            unlocked.expect("held");
            // Its late answers arrive on the first runtime, also after this one has ended.
            cluster.master(2).freeze();
            let second = masters.red_lock("a").try_lock().await.expect("two are well");
            drop((waited.expect("free"), second));
            cluster.master(2).thaw();
        });
        let both = masters.multi_lock(["a", "held"]).wait(SOON);
        drop(runtime().block_on(both.lock()).expect("free again"));
    });
}

#[test]
fn once_the_first_runtime_has_ended_the_masters_are_closed() {
    let first = runtime();
    let (cluster, masters, guard) = connected(&first, PATIENT);
    let kept = first.block_on(masters.red_lock("kept").lock()).expect("free");
    let waiting = thread::spawn({
        let lock = masters.red_lock("held");
        move || runtime().block_on(lock.lock()).map(drop)
    });
    first.block_on(async { tokio::time::sleep(Duration::from_millis(100)).await });
    drop(first);
    let waited = soon(|| waiting.join().expect("no panic"));
    assert_eq!(waited, Err(LockError::Closed));
    assert_eq!(masters.status().voting(), 0);
    soon(move || {
        let second = runtime();
        let lock = masters.red_lock("a");
        let begun = Instant::now();
        for closed in [
            second.block_on(lock.try_lock()).map(drop),
            second.block_on(lock.lock()).map(drop),
            second.block_on(lock.inspect()).map(drop),
            second.block_on(lock.force_release()).map(drop),
            block_on(lock.lock()).map(drop),
        ] {
            assert!(
                closed
                    .expect_err("closed")
                    .to_string()
                    .contains("runtime in which they were connected has ended")
            );
        }
        let extended = second.block_on(guard.extend(Duration::from_secs(30)));
        assert!(
            matches!(extended, Err(ExtendError::NotExtended { .. })),
            "{extended:?}"
        );
        let unlocked = second.block_on(guard.unlock());
        assert!(
            matches!(unlocked, Err(UnlockError::Unconfirmed { .. })),
            "{unlocked:?}"
        );
        let closed = second.block_on(masters.close(Closing::Release));
        assert_eq!(
            (closed.unconfirmed, closed.left.len()),
            (1, 3),
            "nobody can be told"
        );
        assert!(!kept.is_valid());
        assert!(begun.elapsed() < PATIENT, "nobody waited for a deadline");
    });
    drop(cluster);
}

/// The runtime of the connections neither has to be driven, nor to live, for the loss to be told to those who work.
#[test]
fn a_loss_is_told_on_the_runtime_of_the_work() {
    for ends in [true, false] {
        let first = runtime();
        let (cluster, masters, held) = connected(&first, HASTY);
        let lock = masters.red_lock("short").lease(Duration::from_secs(2));
        let guard = first.block_on(lock.lock()).expect("free");
        let first = (!ends).then_some(first);
        let lost = soon(move || {
            runtime().block_on(async {
                let token = guard.cancellation_token();
                assert!(!token.is_cancelled());
                token.cancelled().await;
                // Whoever asks later need not wait for a task.
                (guard.is_valid(), guard.cancellation_token().is_cancelled())
            })
        });
        assert_eq!(lost, (false, true));
        drop((held, masters, cluster, first));
    }
}

/// Nobody would cancel the token of a runtime that has ended. The next one is as good as the first.
#[test]
fn a_token_ends_with_the_runtime_that_watches() {
    let first = runtime();
    let (cluster, masters, guard) = connected(&first, PATIENT);
    let second = runtime();
    let token = second.block_on(async { guard.cancellation_token() });
    assert!(!token.is_cancelled());
    drop(second);
    assert!(token.is_cancelled() && guard.is_valid());
    let token = first.block_on(async { guard.cancellation_token() });
    assert!(!token.is_cancelled());
    first.block_on(async { guard.unlock().await.expect("held") });
    assert!(!token.is_cancelled());
    drop((cluster, masters));
}

/// A hold that needs no master is entered, and its body runs: without a timer, and without a panic.
#[test]
fn a_body_runs_outside_of_any_runtime() {
    let first = runtime();
    let (cluster, masters, guard) = connected(&first, PATIENT);
    let me = Owner::new();
    let (outer, sticky) = first.block_on(async {
        let outer = masters.red_lock("outer").owner(&me).lock().await.expect("free");
        let sticky = masters.red_lock("sticky").sticky();
        sticky.run(async |_| ()).await.expect("free");
        (outer, sticky)
    });
    soon(move || {
        block_on(sticky.run(async |guard| assert!(guard.is_valid()))).expect("it stayed");
        let inner = masters.red_lock("outer").owner(&me);
        block_on(inner.run(async |guard| assert_eq!(guard.hold_count(), 2))).expect("entered");
        assert!(block_on(futures::future::poll_immediate(guard.lost())).is_none());
        drop((outer, masters, cluster));
    });
    drop(first);
}

#[test]
fn outside_of_any_runtime_the_votes_say_so() {
    let first = runtime();
    let (cluster, masters, guard) = connected(&first, PATIENT);
    soon(move || {
        let words = "awaited outside of a tokio runtime";
        let lock = masters.red_lock("a");
        unreachable(block_on(lock.try_lock()), words);
        unreachable(block_on(lock.lock()), words);
        unreachable(block_on(lock.clone().wait(SOON).lock()), words);
        unreachable(block_on(lock.force_release()), words);
        assert!(block_on(lock.inspect()).is_ok());
        match block_on(guard.extend(Duration::from_secs(30))) {
            Err(ExtendError::NotExtended { votes, .. }) => assert_all_say(&votes, words),
            other => panic!("{other:?}"),
        }
        match block_on(guard.unlock()) {
            Err(UnlockError::Unconfirmed { votes, .. }) => assert_all_say(&votes, words),
            other => panic!("{other:?}"),
        }
        drop(masters);
    });
    // The remaining locks are released as soon as somebody drives the runtime.
    let released = async {
        while !cluster.iter().all(|master| master.locks().is_empty()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = first.block_on(async { tokio::time::timeout(SOON, released).await });
    in_time.expect("it is released");
}

/// Outside of any runtime the client is closed on the runtime of its connections, unless that may not be driven, or has
/// ended.
#[test]
fn a_client_is_closed_outside_of_any_runtime() {
    let close = |masters: Masters| {
        let closed = soon(move || block_on(masters.close(Closing::Release)));
        (closed.released, closed.unconfirmed, closed.left.len())
    };
    let driven = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (cluster, masters, guard) = connected(&driven, PATIENT);
    assert_eq!(close(masters), (1, 0, 0));
    assert!(!guard.is_valid());
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
    let undriven = runtime();
    let (_cluster, masters, guard) = connected(&undriven, PATIENT);
    assert_eq!(close(masters.clone()), (0, 1, 3));
    assert!(!guard.is_valid() && masters.status().closed);
    for ended in [
        runtime(),
        Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime"),
    ] {
        let (_cluster, masters, _guard) = connected(&ended, PATIENT);
        drop(ended);
        assert_eq!(close(masters), (0, 1, 3));
    }
}

#[test]
fn a_watcher_learns_that_the_first_runtime_has_ended() {
    let first = runtime();
    let (_cluster, masters, _guard) = connected(&first, PATIENT);
    let mut status = masters.watch_status();
    let watching = thread::spawn(move || {
        runtime().block_on(async { status.wait_for(|status| status.closed).await.is_ok() })
    });
    first.block_on(async { tokio::time::sleep(Duration::from_millis(100)).await });
    drop(first);
    assert!(soon(|| watching.join().expect("no panic")));
    // So does a watcher that comes later.
    assert!(masters.watch_status().borrow_and_update().closed);
}

/// Everything drops without a panic outside of a runtime, or after it.
#[test]
fn drops_outside_of_a_runtime_after_having_waited() {
    for leak in [false, true] {
        for runtime_first in [false, true] {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime");
            let guard = runtime.block_on(async {
                let cluster = Cluster::new(3);
                let (one, other) = (patient(&cluster).await, patient(&cluster).await);
                let held = one.red_lock("a").lock().await.expect("free");
                let waiting = tokio::spawn(async move { other.red_lock("a").lock().await });
                tokio::time::sleep(ms(50)).await;
                held.unlock().await.expect("held");
                waiting.await.expect("no panic").expect("its turn comes")
            });
            let runtime = (!runtime_first).then_some(runtime);
            if leak {
                guard.leak();
            } else {
                drop(guard);
            }
            drop(runtime);
        }
    }
}

/// Stops the thread that gives a hold up, after the hold has ended and before its release is sent.
#[derive(Clone, Default)]
struct StopsBeforeRelease(Arc<Notify>);

impl<S: Subscriber> Layer<S> for StopsBeforeRelease {
    fn on_record(&self, _: &Id, _: &Record<'_>, _: Context<'_, S>) {
        self.0.notify_one();
        thread::sleep(ms(200));
    }
}

#[test]
fn closing_waits_for_a_release_that_is_about_to_be_sent() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let stops = StopsBeforeRelease::default();
    let _installed = tracing::subscriber::set_default(Registry::default().with(stops.clone()));
    let (cluster, masters, guard) = connected(&runtime, PATIENT);
    let closing = runtime.spawn(async move {
        stops.0.notified().await;
        masters.close(Closing::Release).await
    });
    drop(guard);
    let closed = soon(move || runtime.block_on(closing).expect("no panic"));
    assert!(closed.left.is_empty(), "{closed:?}");
    assert_eq!(
        cluster.iter().map(|master| master.locks().len()).sum::<usize>(),
        0
    );
}
