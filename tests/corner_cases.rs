//! Rare schedules that once went wrong, each with how it must end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use multilock::sim::Cluster;
use multilock::{Closing, LockError, Masters, Owner, Quarantine};
use tokio::time::{sleep, timeout};

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

async fn connect(cluster: &Cluster) -> Masters {
    connect_with(cluster, Duration::from_secs(30)).await
}

async fn connect_with(cluster: &Cluster, lease: Duration) -> Masters {
    let builder = Masters::builder().quarantine(Quarantine::Off).lease(lease);
    cluster.connect(builder).await.expect("connects")
}

fn slow_down(cluster: &Cluster, milliseconds: u64) {
    for master in cluster.iter() {
        master.set_delay(ms(milliseconds), ms(milliseconds));
    }
}

fn executed(cluster: &Cluster, script: &str) -> u64 {
    cluster
        .iter()
        .map(|master| master.executed().get(script).copied().unwrap_or(0))
        .sum()
}

/// An owner's hold has less left than a re-entry wants, and cannot get as much: it waits or fails, and
/// does not contend with itself.
#[tokio::test(start_paused = true)]
async fn reentry_that_wants_more_validity_than_there_is() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    slow_down(&cluster, 1);
    let me = Owner::new();
    let lock = masters.red_lock("a").owner(&me);
    let outer = lock.clone().lease(ms(10_000)).lock().await.expect("free");
    sleep(ms(5000)).await;
    let before = executed(&cluster, "acquire");
    let greedy = lock.clone().min_validity(ms(25_000));
    assert!(matches!(greedy.try_lock().await, Err(LockError::TooLate { .. })));
    assert!(timeout(ms(1000), greedy.lock()).await.is_err());
    assert_eq!(
        executed(&cluster, "acquire"),
        before,
        "its own hold is not contended for"
    );
    // What can be had by an extension is had.
    let inner = lock.min_validity(ms(9000)).lock().await.expect("extended");
    assert!(inner.validity() > ms(9000) && outer.hold_count() == 2);
}

/// A hold without a token does not satisfy a call site that wants one; the other way round it does.
#[tokio::test(start_paused = true)]
async fn a_fenced_reentry_into_a_hold_without_a_token_is_refused() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let me = Owner::new();
    let lock = masters.red_lock("a").owner(&me);
    let outer = lock.clone().fenced(false).lock().await.expect("free");
    let error = lock.try_lock().await.expect_err("no token to give");
    assert_eq!(
        error.to_string(),
        "fenced: true is not allowed; allowed: false, as the owner holds a without a token"
    );
    assert!(matches!(error, LockError::Invalid(_)), "{error:?}");
    assert_eq!(outer.hold_count(), 1);
    outer.unlock().await.expect("held");
    let outer = lock.lock().await.expect("free");
    let inner = lock.clone().fenced(false).lock().await.expect("entered");
    assert_eq!(inner.fencing_token(), outer.fencing_token());
}

/// Whoever cancels the token that he was given ends his own work.
#[tokio::test(start_paused = true)]
async fn a_cancellation_token_that_is_cancelled_tells_nobody_else() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let guard = masters.red_lock("a").lease(ms(1000)).lock().await.expect("free");
    let (mine, other) = (guard.cancellation_token(), guard.cancellation_token());
    mine.cancel();
    sleep(ms(100)).await;
    assert!(guard.is_valid() && !other.is_cancelled());
    sleep(ms(1000)).await;
    assert!(other.is_cancelled(), "it has lapsed");
}

/// The owner of a leaked guard is shut out, also while a token of the hold is out.
#[tokio::test(start_paused = true)]
async fn a_leaked_hold_shuts_its_owner_out_until_its_lease_ends() {
    let cluster = Cluster::new(3);
    let masters = connect_with(&cluster, ms(3000)).await;
    let me = Owner::new();
    let lock = masters.red_lock("a").owner(&me);
    let guard = lock.lock().await.expect("free");
    guard.extend(ms(3000)).await.expect("well");
    let token = guard.cancellation_token();
    guard.leak();
    let refused = lock.try_lock().await;
    assert!(matches!(refused, Err(LockError::Contended { .. })), "{refused:?}");
    let _next = lock.wait(ms(3100)).lock().await.expect("free at the lease's end");
    assert!(token.is_cancelled());
}

/// Whatever is dropped outside of a runtime, or after it, drops without a panic.
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
                let (one, other) = (connect(&cluster).await, connect(&cluster).await);
                let held = one.red_lock("a").lock().await.expect("free");
                let waiting = tokio::spawn(async move { other.red_lock("a").lock().await });
                sleep(ms(50)).await;
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

/// The shortest lease, and one renewal that fails: the watchdog lives on.
#[tokio::test(start_paused = true)]
async fn the_watchdog_survives_the_shortest_lease() {
    let cluster = Cluster::new(3);
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .node_timeout(ms(1))
        .lease(ms(12));
    let masters = cluster.connect(builder).await.expect("connects");
    let _guard = masters.red_lock("a").lock().await.expect("free");
    for master in cluster.iter() {
        master.freeze();
    }
    sleep(ms(20)).await;
    for master in cluster.iter() {
        master.thaw();
    }
    sleep(ms(50)).await;
    let next = masters.red_lock("b").lock().await.expect("free");
    sleep(ms(500)).await;
    assert!(next.is_valid());
}

/// A re-entry that is to be renewed, near the end of a fixed lease: it is renewed before that end.
#[tokio::test(start_paused = true)]
async fn a_renewing_reentry_near_the_end_is_renewed_in_time() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let me = Owner::new();
    let _outer = masters
        .red_lock("a")
        .owner(&me)
        .lease(ms(9000))
        .lock()
        .await
        .expect("free");
    sleep(ms(6500)).await;
    for master in cluster.iter() {
        master.hold_replies(true);
    }
    let inner = masters
        .red_lock("a")
        .owner(&me)
        .lock()
        .await
        .expect("entered with what is left");
    for master in cluster.iter() {
        master.hold_replies(false);
    }
    sleep(ms(5000)).await;
    assert!(inner.is_valid());
}

/// A master forgets the key and the script; the retake meets NOSCRIPT after the release has been sent.
#[tokio::test(start_paused = true)]
async fn a_retake_is_not_sent_again_after_its_release() {
    let cluster = Cluster::new(3);
    let masters = connect_with(&cluster, ms(3000)).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    slow_down(&cluster, 5);
    let forgetful = cluster.master(2);
    forgetful.command(&["DEL", "a"]).expect("forgotten");
    forgetful.forget_script("acquire");
    let extensions = || forgetful.executed().get("extend").copied().unwrap_or(0);
    let before = extensions();
    for _ in 0..2000 {
        if extensions() > before {
            break;
        }
        sleep(ms(1)).await;
    }
    sleep(ms(8)).await;
    guard.unlock().await.expect("held");
    sleep(ms(200)).await;
    assert!(forgetful.fields("a").is_empty());
}

/// Closing waits for what is on its way: an acquisition that is under way, a guard just dropped.
#[tokio::test(start_paused = true)]
async fn closing_leaves_nothing_that_is_under_way() {
    for after in 0..25 {
        let cluster = Cluster::new(3);
        let masters = connect(&cluster).await;
        let dropped = masters.red_lock("b").lock().await.expect("free");
        slow_down(&cluster, 5);
        let locking = masters.clone();
        let locking =
            tokio::spawn(async move { locking.red_lock("a").lock().await.map(|guard| guard.validity()) });
        sleep(ms(after)).await;
        drop(dropped);
        masters.close(Closing::Release).await;
        let _ = locking.await;
        sleep(ms(500)).await;
        for master in cluster.iter() {
            assert_eq!(master.locks(), Vec::<String>::new(), "closed after {after} ms");
        }
    }
}

/// An owner that waits for one name locks another: it keeps its place in line.
#[tokio::test(start_paused = true)]
async fn another_lock_of_the_owner_does_not_cost_the_place_in_line() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    slow_down(&cluster, 1);
    let me = Owner::new();
    let held = masters.red_lock("a").lock().await.expect("free");
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for (number, owner) in [(1, me.clone()), (2, Owner::new())] {
        let (lock, order) = (masters.red_lock("a").owner(&owner), Arc::clone(&order));
        waiting.push(tokio::spawn(async move {
            let guard = lock.lock().await.expect("its turn comes");
            order.lock().expect("not poisoned").push(number);
            guard.unlock().await.expect("held");
        }));
        sleep(ms(10)).await;
    }
    let before = executed(&cluster, "acquire");
    for _ in 0..10 {
        let other = masters.red_lock("b").owner(&me).lock().await.expect("free");
        other.unlock().await.expect("held");
        sleep(ms(5)).await;
    }
    assert_eq!(
        executed(&cluster, "acquire") - before,
        30,
        "nobody asked for the first name"
    );
    held.unlock().await.expect("held");
    for task in waiting {
        task.await.expect("no panic");
    }
    assert_eq!(*order.lock().expect("not poisoned"), [1, 2]);
}

/// Guards come and go while a renewal is under way: the hold is renewed once a period all the same.
#[tokio::test(start_paused = true)]
async fn renewals_do_not_multiply() {
    let cluster = Cluster::new(3);
    let masters = connect_with(&cluster, ms(3000)).await;
    slow_down(&cluster, 5);
    let lock = masters.red_lock("a").owner(&Owner::new());
    let _outer = lock.clone().lease(ms(3000)).lock().await.expect("free");
    for _ in 0..10 {
        let inner = lock.lock().await.expect("entered");
        let before = executed(&cluster, "extend");
        for _ in 0..2000 {
            if executed(&cluster, "extend") > before {
                break;
            }
            sleep(ms(1)).await;
        }
        drop(inner);
        let again = lock.lock().await.expect("entered");
        sleep(ms(10)).await;
        drop(again);
    }
    let _inner = lock.lock().await.expect("entered");
    sleep(ms(3000)).await;
    let before = executed(&cluster, "extend");
    sleep(ms(10_000)).await;
    let renewals = (executed(&cluster, "extend") - before) / 3;
    assert!((9..=12).contains(&renewals), "{renewals} in ten periods");
}

/// A loss that a caller's own extension finds passes the turn on at once.
#[tokio::test(start_paused = true)]
async fn a_loss_found_by_an_extension_passes_the_turn_on() {
    let cluster = Cluster::new(3);
    let (masters, operator) = (connect(&cluster).await, connect(&cluster).await);
    let guard = masters.red_lock("a").lock().await.expect("free");
    let next = masters.clone();
    let next = tokio::spawn(async move { next.red_lock("a").lock().await });
    sleep(ms(100)).await;
    operator.red_lock("a").force_release().await.expect("all answer");
    guard.extend(ms(30_000)).await.expect_err("taken away");
    let next = timeout(ms(1000), next)
        .await
        .expect("at once")
        .expect("no panic")
        .expect("its turn");
    assert!(next.is_valid());
}

/// A re-entry with a longer lease waits through an outage as any other lock does.
#[tokio::test(start_paused = true)]
async fn a_reentry_with_a_longer_lease_waits_through_an_outage() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = masters.red_lock("a").owner(&Owner::new());
    let _outer = lock.clone().lease(ms(10_000)).lock().await.expect("free");
    for master in cluster.iter() {
        master.hold_requests(true);
    }
    let longer = lock.lease(ms(20_000)).wait(ms(3000));
    let entering = tokio::spawn(async move { longer.lock().await });
    sleep(ms(500)).await;
    for master in cluster.iter() {
        master.hold_requests(false);
    }
    let inner = entering
        .await
        .expect("no panic")
        .expect("entered when they are back");
    assert!(inner.validity() > ms(15_000));
}

/// A master that always answers after the decision has forgotten a script: it learns it again although
/// nobody waits for it, and votes.
#[tokio::test(start_paused = true)]
async fn a_late_master_learns_a_forgotten_script() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let late = cluster.master(2);
    late.set_delay(ms(5), ms(5));
    late.forget_script("acquire");
    for _ in 0..2 {
        let guard = masters.red_lock("a").try_lock().await.expect("two grant");
        sleep(ms(50)).await;
        guard.unlock().await.expect("held");
        sleep(ms(50)).await;
    }
    assert_eq!(
        late.executed().get("acquire"),
        Some(&1),
        "unknown once, known then"
    );
}

/// What a force leaves alone is told by the name that the caller knows it by.
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
