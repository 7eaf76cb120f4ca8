//! Waiting: a waiter sleeps until something happens, and leaves nothing behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{
    connect, connect_by_default, executed, foreign_channels, jain, ms, queues, settle, slow_down,
};
use futures::future::join_all;
use multilock::sim::{Cluster, Keep, Master};
use multilock::{Closing, LockError, Masters, MultiLockGuard, Owner};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// Answer of a master that runs a script for too long.
const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// Scripts that each master has run.
fn scripts_run(cluster: &Cluster) -> Vec<u64> {
    cluster
        .iter()
        .map(|master| master.executed().values().sum())
        .collect()
}

/// Ends tasks that go on for ever. None has ended by itself, as by a rule that it found broken.
async fn end(tasks: Vec<JoinHandle<()>>) {
    tasks.iter().for_each(JoinHandle::abort);
    for task in tasks {
        let ended = task.await.expect_err("it goes on");
        assert!(ended.is_cancelled(), "{ended}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_a_waiter_of_another_process() {
    let cluster = Cluster::new(5);
    let (holder, waiter) = (connect(&cluster).await, connect(&cluster).await);
    slow_down(&cluster, 1);
    let guard = holder.red_lock("a").lock().await.expect("free");
    let waiting = tokio::spawn(async move {
        let guard = waiter.red_lock("a").lock().await.expect("its turn comes");
        (Instant::now(), guard)
    });
    sleep(ms(1500)).await;
    let released = Instant::now();
    guard.unlock().await.expect("held");
    let (won, guard) = waiting.await.expect("no panic");
    // Half a round trip for the call, one for the acquire, after half of one for the release.
    assert!(won - released <= ms(5), "{:?}", won - released);
    guard.unlock().await.expect("held");
    sleep(ms(100)).await;
    assert_eq!(foreign_channels(&cluster), [] as [&str; 0]);
    assert_eq!(queues(&cluster), 0, "nobody waits any more");
}

/// One master has an orphan, and an error of another one passes. No master calls the waiter then.
#[tokio::test(start_paused = true)]
async fn an_error_that_passes_keeps_nobody_waiting() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let orphan = ["HSET", "a", "9a7c4c1e-0000-8000-8000-000000000001:1", "1"];
    cluster.master(0).command(&orphan).expect("written");
    cluster.master(1).answer_with(Some(BUSY));
    let waiting = tokio::spawn(async move {
        let guard = masters.red_lock("a").lock().await.expect("two are well");
        (Instant::now(), guard)
    });
    sleep(ms(11_000)).await;
    let passed = Instant::now();
    cluster.master(1).answer_with(None);
    let (won, guard) = timeout(ms(6_000), waiting)
        .await
        .expect("in time")
        .expect("no panic");
    assert!(won - passed <= ms(1_100), "{:?}", won - passed);
    guard.unlock().await.expect("held");
}

/// A waiter for all masters could not win while one of them has an error, and another one refuses first. So it stays out of
/// the queues of the others, which would call it and wait for it.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_all_masters_keeps_nobody_waiting_while_one_has_an_error() {
    let cluster = Cluster::new(3);
    let (holder, for_all, other) = (
        connect(&cluster).await,
        connect(&cluster).await,
        connect(&cluster).await,
    );
    let guard = holder.red_lock("a").lock().await.expect("free");
    cluster.master(2).answer_with(Some(BUSY));
    let for_all = tokio::spawn(async move { for_all.multi_lock("a").lock().await.expect("its turn comes") });
    // Its first question found no error yet, so it was in the queues until the next one.
    sleep(ms(6_000)).await;
    let waiting = tokio::spawn(async move {
        let guard = other.red_lock("a").lock().await.expect("two are well");
        (Instant::now(), guard)
    });
    settle().await;
    let released = Instant::now();
    guard.unlock().await.expect("held");
    let (won, guard) = waiting.await.expect("no panic");
    assert!(won - released <= ms(5), "{:?}", won - released);
    cluster.master(2).answer_with(None);
    guard.unlock().await.expect("held");
    let guard = timeout(ms(1_100), for_all)
        .await
        .expect("in time")
        .expect("no panic");
    guard.unlock().await.expect("held");
}

/// A master freezes, ends or answers with errors while a waiter for all masters stands before a waiter for a majority. The
/// release of the holder calls the first one, which cannot win.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_all_masters_keeps_nobody_waiting_once_one_is_silent() {
    let faults: [fn(&Master); 3] = [Master::freeze, Master::crash, |master| {
        master.answer_with(Some(BUSY));
    }];
    for (masters, fault) in [3, 5].into_iter().flat_map(|n| faults.map(|fault| (n, fault))) {
        let cluster = Cluster::new(masters);
        let (holder, for_all, other) = (
            connect(&cluster).await,
            connect(&cluster).await,
            connect(&cluster).await,
        );
        let guard = holder.red_lock("a").lock().await.expect("free");
        let for_all = tokio::spawn(async move { for_all.multi_lock("a").lock().await });
        settle().await;
        let waiting = tokio::spawn(async move {
            let guard = other.red_lock("a").lock().await.expect("a majority is well");
            (Instant::now(), guard)
        });
        settle().await;
        fault(cluster.master(0));
        let released = Instant::now();
        guard.unlock().await.expect("held");
        let (won, guard) = waiting.await.expect("no panic");
        // A node timeout for the call of the last master, and one for its answer.
        assert!(won - released <= ms(110), "{:?}", won - released);
        guard.unlock().await.expect("held");
        for_all.abort();
    }
}

/// One master has an orphan. The others let a waiter for all masters in, and call it once it has given that up.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_all_masters_asks_seldom_behind_an_orphan() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let orphan = ["HSET", "a", "9a7c4c1e-0000-8000-8000-000000000001:1", "1"];
    cluster.master(0).command(&orphan).expect("written");
    let waiting = tokio::spawn(async move { masters.multi_lock("a").lock().await });
    sleep(ms(20_000)).await;
    let scripts = scripts_run(&cluster);
    assert!(scripts.iter().all(|scripts| *scripts <= 40), "{scripts:?}");
    waiting.abort();
}

/// Two processes that have the names in turn, each asking again when it has just given them up.
#[tokio::test(start_paused = true)]
async fn who_has_just_had_it_still_wakes_in_time() {
    let cluster = Cluster::new(5);
    let processes = [connect(&cluster).await, connect(&cluster).await];
    slow_down(&cluster, 1);
    let mut held = processes[0].red_lock("a").lock().await.expect("free");
    for turn in 1..=50 {
        let process = processes[turn % 2].clone();
        let waiting = tokio::spawn(async move {
            let guard = process.red_lock("a").lock().await.expect("its turn comes");
            (Instant::now(), guard)
        });
        sleep(ms(12)).await;
        let released = Instant::now();
        held.unlock().await.expect("held");
        let (won, guard) = waiting.await.expect("no panic");
        assert!(won - released <= ms(5), "turn {turn}: {:?}", won - released);
        held = guard;
    }
    held.unlock().await.expect("held");
}

#[tokio::test(start_paused = true)]
async fn waiting_asks_hardly_anything() {
    let cluster = Cluster::new(5);
    let holder = connect(&cluster).await;
    let guard = holder.red_lock("a").lock().await.expect("free");
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let process = connect(&cluster).await;
        for _ in 0..25 {
            let process = process.clone();
            waiting.push(tokio::spawn(async move { process.red_lock("a").lock().await }));
        }
    }
    // The first refusal of each process puts it into the queues.
    sleep(ms(100)).await;
    let before = scripts_run(&cluster);
    sleep(Duration::from_secs(10)).await;
    for (before, after) in before.iter().zip(scripts_run(&cluster)) {
        // One acquire every 5 s and process, nothing to release after it, and the holder's renewal.
        let run = after - before;
        assert!((4..=9).contains(&run), "{run} scripts in 10 s of 4 processes");
    }
    for task in &waiting {
        task.abort();
    }
    guard.unlock().await.expect("held");
    sleep(ms(200)).await;
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
    assert_eq!(queues(&cluster), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_notice_costs_the_fallback_at_most() {
    let cluster = Cluster::new(3);
    let (holder, waiter) = (connect(&cluster).await, connect(&cluster).await);
    let guard = holder.red_lock("a").lock().await.expect("free");
    let waiting = tokio::spawn(async move { waiter.red_lock("a").lock().await });
    sleep(ms(500)).await;
    for master in cluster.iter() {
        master.lose_notices(true);
    }
    guard.unlock().await.expect("held");
    let _guard = timeout(ms(5100), waiting)
        .await
        .expect("within the fallback")
        .expect("no panic")
        .expect("granted");
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_is_followed_at_the_end_of_its_lease() {
    let cluster = Cluster::new(3);
    let (holder, waiter) = (connect(&cluster).await, connect(&cluster).await);
    // It dies: nothing is released.
    holder
        .red_lock("a")
        .lease(ms(2000))
        .try_lock()
        .await
        .expect("free")
        .leak();
    let begun = Instant::now();
    let guard = waiter.red_lock("a").lock().await.expect("its turn comes");
    let elapsed = begun.elapsed();
    assert!(elapsed >= ms(1900) && elapsed <= ms(2050), "{elapsed:?}");
    guard.unlock().await.expect("held");
}

/// One of two names is held for long. A waiter for both is in the queue of that name alone, also after it has asked again.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_a_name_that_is_held_for_long_does_not_wait_for_another_one() {
    let cluster = Cluster::new(3);
    let (holder, waiter) = (connect(&cluster).await, connect(&cluster).await);
    let _held = holder.red_lock("a").lock().await.expect("free");
    let waiting = tokio::spawn(async move { waiter.red_lock(["a", "b"]).lock().await.map(|_| ()) });
    sleep(ms(12_000)).await;
    for master in cluster.iter() {
        let keys = master.keys();
        assert!(keys.iter().any(|key| key == "multilock_queue:{a}"), "{keys:?}");
        assert!(!keys.iter().any(|key| key == "multilock_queue:{b}"), "{keys:?}");
    }
    let other = holder.red_lock("b").try_lock().await.expect("nobody waits");
    other.unlock().await.expect("held");
    waiting.abort();
}

/// A name is deleted by hand, so that no release calls its waiter. Another client that meets the waiter there has it called.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_nobody_calls_is_called_for_those_behind_it() {
    for reads in [false, true] {
        let cluster = Cluster::new(3);
        let (holder, waiter, other) = (
            connect(&cluster).await,
            connect(&cluster).await,
            connect(&cluster).await,
        );
        let _held = holder.red_lock("a").write().lock().await.expect("free");
        let waiting = tokio::spawn(async move {
            let lock = waiter.red_lock("a");
            if reads {
                lock.read().lock().await.map(MultiLockGuard::leak)
            } else {
                lock.write().lock().await.map(MultiLockGuard::leak)
            }
        });
        settle().await;
        for master in cluster.iter() {
            master.evict("a");
        }
        let begun = Instant::now();
        if reads {
            // Beside other readers it may come in at once.
            other.red_lock("a").read().try_lock().await.expect("free").leak();
        } else {
            let refused = other.red_lock("a").write().try_lock().await;
            assert!(refused.is_err(), "another one was first");
        }
        waiting.await.expect("no panic").expect("granted");
        assert!(begun.elapsed() < ms(20), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn broken_connections_wake_every_waiter() {
    let cluster = Cluster::new(3);
    let (holder, waiter) = (connect(&cluster).await, connect(&cluster).await);
    let guard = holder.red_lock("a").lock().await.expect("free");
    let waiting = tokio::spawn(async move { waiter.red_lock("a").lock().await });
    sleep(ms(500)).await;
    // The release is announced while nobody can hear it; both sides reconnect.
    for master in cluster.iter() {
        master.lose_notices(true);
    }
    guard.unlock().await.expect("held");
    for master in cluster.iter() {
        master.lose_notices(false);
        master.reset_connections();
    }
    let _guard = timeout(ms(1000), waiting)
        .await
        .expect("woken by subscribing again")
        .expect("no panic")
        .expect("granted");
}

#[tokio::test(start_paused = true)]
async fn first_come_first_served_within_a_process() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    slow_down(&cluster, 1);
    let guard = masters.red_lock("a").lock().await.expect("free");
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..64 {
        let (masters, order) = (masters.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let guard = masters.red_lock("a").lock().await.expect("its turn comes");
            order.lock().expect("not poisoned").push(number);
            guard.unlock().await.expect("held");
        }));
        tokio::task::yield_now().await;
    }
    let asked = scripts_run(&cluster);
    sleep(ms(100)).await;
    assert_eq!(scripts_run(&cluster), asked, "behind a local holder nobody asks");
    guard.unlock().await.expect("held");
    join_all(tasks).await;
    assert_eq!(*order.lock().expect("not poisoned"), (0..64).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn processes_share_a_name_fairly() {
    for way in [1, 10] {
        share_fairly(ms(way)).await;
    }
}

/// Four processes of sixteen tasks each, every message taking so long.
async fn share_fairly(way: Duration) {
    let cluster = Cluster::new(5);
    for master in cluster.iter() {
        master.set_delay(way, way);
    }
    let mut counts = Vec::new();
    let (mut tasks, inside) = (Vec::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..4 {
        let process = connect(&cluster).await;
        let count = Arc::new(AtomicUsize::new(0));
        counts.push(Arc::clone(&count));
        for _ in 0..16 {
            let (process, count, inside) = (process.clone(), Arc::clone(&count), Arc::clone(&inside));
            tasks.push(tokio::spawn(async move {
                loop {
                    let guard = process.red_lock("a").lock().await.expect("its turn comes");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    sleep(ms(1)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    count.fetch_add(1, Ordering::SeqCst);
                    guard.unlock().await.expect("held");
                }
            }));
        }
    }
    sleep(way * 2_000).await;
    end(tasks).await;
    let shares: Vec<usize> = counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    assert!(shares.iter().sum::<usize>() > 200, "{way:?}: {shares:?}");
    assert!(jain(&shares) >= 0.9, "{way:?}: {shares:?}");
}

#[tokio::test(start_paused = true)]
async fn split_votes_end_soon() {
    for contenders in [2, 3, 4, 8, 16] {
        let cluster = Cluster::new(5);
        let mut clients = Vec::new();
        for number in 0..contenders {
            // Each is nearest to another master.
            let distances: Vec<_> = (0..5).map(|place| ms(1 + (place + number) % 5)).collect();
            clients.push(
                cluster
                    .connect_from(&distances, Masters::builder())
                    .await
                    .expect("connects"),
            );
        }
        let begun = Instant::now();
        let won = join_all(clients.iter().map(|client| async move {
            let guard = client.red_lock("a").lock().await.expect("its turn comes");
            let won = begun.elapsed();
            guard.unlock().await.expect("held");
            won
        }))
        .await;
        let (first, last) = (won.iter().min().expect("some"), won.iter().max().expect("some"));
        println!("{contenders} contenders: the first after {first:?}, the last after {last:?}");
        assert!(*first < ms(1000), "{contenders} contenders: {first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn patience_ends_in_time_also_during_a_round() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for master in cluster.iter() {
        master.freeze();
    }
    let begun = Instant::now();
    let error = masters
        .red_lock("a")
        .wait(ms(30))
        .lock()
        .await
        .expect_err("nobody answers");
    assert!(begun.elapsed() <= ms(32), "{:?}", begun.elapsed());
    assert!(error.is_unreachable() && error.votes().is_some(), "{error}");
    let error = masters
        .red_lock("a")
        .wait(ms(130))
        .lock()
        .await
        .expect_err("nobody answers");
    assert!(
        matches!(&error, LockError::TimedOut { last: Some(last), .. } if matches!(**last, LockError::Unreachable { .. })),
        "{error}"
    );
}

/// Longer than anybody waits is for ever, for a lock and for a set.
#[tokio::test(start_paused = true)]
async fn a_wait_without_an_end() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let year = Duration::from_secs(366 * 24 * 3600);
    let (lock, other) = (masters.red_lock("a"), masters.red_lock("b"));
    let held = lock.lock().await.expect("free");
    for wait in [Duration::MAX, year] {
        let (alone, set) = (
            lock.clone().wait(wait),
            lock.clone().and(other.clone()).wait(wait),
        );
        let alone = tokio::time::timeout(ms(600_000), alone.lock());
        let set = tokio::time::timeout(ms(600_000), set.lock());
        let (alone, set) = tokio::join!(alone, set);
        assert!(alone.is_err() && set.is_err(), "it waits on");
    }
    drop(held);
    drop(lock.wait(Duration::MAX).lock().await.expect("free"));
}

/// No time to wait is one try, not a race between the masters' answers and a timer that is due already.
#[tokio::test(start_paused = true)]
async fn no_patience_is_one_try() {
    let cluster = Cluster::new(3);
    let (holder, masters) = (connect(&cluster).await, connect(&cluster).await);
    slow_down(&cluster, 1);
    let lock = masters.red_lock("a").wait(Duration::ZERO);
    for _ in 0..20 {
        let guard = lock.lock().await.expect("free");
        guard.unlock().await.expect("held");
    }
    let _guard = holder.red_lock("a").lock().await.expect("free");
    let before = scripts_run(&cluster);
    let error = lock.lock().await.expect_err("held");
    assert!(
        matches!(&error, LockError::TimedOut { last: Some(last), .. } if matches!(**last, LockError::Contended { .. })),
        "{error}"
    );
    sleep(ms(500)).await;
    for (before, after) in before.iter().zip(scripts_run(&cluster)) {
        assert!(
            after <= before + 2,
            "an acquire, and its release where it may be needed"
        );
    }
}

/// An error that no time would change is told as it is, also to a caller without any.
#[tokio::test(start_paused = true)]
async fn no_patience_tells_what_time_does_not_change() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for master in cluster.iter() {
        master.answer_with(Some(
            "NOPERM this user has no permissions to run the 'evalsha' command",
        ));
    }
    let lock = masters.red_lock("a").wait(Duration::ZERO);
    let error = lock.lock().await.expect_err("denied");
    assert!(matches!(error, LockError::Misconfigured { .. }), "{error}");
}

/// Masters that answer with an error have answered.
#[tokio::test(start_paused = true)]
async fn an_error_names_what_the_masters_said() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let refusal = async || {
        let error = masters.red_lock("a").try_lock().await.expect_err("no quorum");
        assert!(matches!(error, LockError::Unreachable { .. }), "{error}");
        error.to_string()
    };
    for master in cluster.iter() {
        master.answer_with(Some("BUSY Redis is busy running a script"));
    }
    let text = refusal().await;
    assert!(
        text.starts_with(
            "too many masters answered with an error: memory-0, memory-1, memory-2: failed: BUSY"
        ),
        "{text}"
    );
    cluster.master(0).freeze();
    cluster.master(1).freeze();
    let text = refusal().await;
    assert!(
        text.starts_with("too few masters answered: memory-0, memory-1: no usable answer: none within 50ms"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn waits_through_an_outage() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for master in cluster.iter() {
        master.crash();
    }
    let waiting = tokio::spawn(async move { masters.red_lock("a").lock().await });
    sleep(Duration::from_secs(60)).await;
    assert!(!waiting.is_finished());
    for master in cluster.iter() {
        master.restart(Keep::Data);
    }
    let _guard = timeout(ms(1500), waiting)
        .await
        .expect("soon after they are back")
        .expect("no panic")
        .expect("granted");
}

/// While too few masters are connected, an answer of the others decides nothing.
#[tokio::test(start_paused = true)]
async fn waiters_seldom_ask_the_masters_that_an_outage_leaves() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    cluster.master(1).crash();
    cluster.master(2).crash();
    sleep(ms(1000)).await;
    let wait = |number| {
        let lock = masters.red_lock(format!("lock-{number}"));
        tokio::spawn(async move { lock.lock().await })
    };
    let waiting: Vec<_> = (0..10).map(wait).collect();
    sleep(ms(10_000)).await;
    let before = executed(&cluster, "acquire");
    sleep(ms(60_000)).await;
    let asked = executed(&cluster, "acquire") - before;
    assert!(
        (100..=130).contains(&asked),
        "10 waiters asked {asked} times in a minute"
    );
    cluster.master(1).restart(Keep::Data);
    while masters.status().nodes[1].connection.is_err() {
        sleep(ms(1)).await;
    }
    sleep(ms(10)).await;
    assert!(waiting.iter().all(JoinHandle::is_finished), "at once");
}

/// In a quarantine, answers are known not to count until its end.
#[tokio::test(start_paused = true)]
async fn waiters_seldom_ask_masters_in_quarantine() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let guard = masters.red_lock("before").wait(ms(60_000)).lock().await;
    guard
        .expect("after the first quarantine")
        .unlock()
        .await
        .expect("held");
    cluster.iter().for_each(Master::crash);
    cluster.iter().for_each(|master| master.restart(Keep::Nothing));
    sleep(ms(1000)).await;
    let before = executed(&cluster, "acquire");
    let restarted = Instant::now();
    let guard = masters
        .red_lock("after")
        .lock()
        .await
        .expect("after the second one");
    let (asked, waited) = (executed(&cluster, "acquire") - before, restarted.elapsed());
    assert!(asked <= 30, "{asked} questions to three masters in {waited:?}");
    assert!((29_000..32_500).contains(&waited.as_millis()), "{waited:?}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn leaving_the_line_anywhere_leaves_nothing() {
    let cluster = Cluster::new(3);
    let (holder, others) = (connect(&cluster).await, connect(&cluster).await);
    slow_down(&cluster, 1);
    for after in 0..30 {
        let guard = holder.red_lock("a").lock().await.expect("free");
        let lock = others.red_lock("a");
        let (first, second, third) = (lock.clone(), lock.clone(), lock.clone());
        let first = tokio::spawn(async move { first.lock().await });
        tokio::task::yield_now().await;
        let second = tokio::spawn(async move { second.lock().await });
        tokio::task::yield_now().await;
        let third = tokio::spawn(async move { third.lock().await });
        // The head leaves, and one from the middle; the turn goes on to the last.
        sleep(ms(after / 2)).await;
        first.abort();
        sleep(ms(after % 2)).await;
        second.abort();
        sleep(ms(10)).await;
        guard.unlock().await.expect("held");
        let last = timeout(ms(100), third)
            .await
            .expect("its turn comes")
            .expect("no panic")
            .expect("granted");
        last.unlock().await.expect("held");
        sleep(ms(100)).await;
        let locks: Vec<_> = cluster.iter().flat_map(multilock::sim::Master::locks).collect();
        assert_eq!((locks, queues(&cluster)), (vec![], 0), "left after {after}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_waits_enters_when_its_other_task_gets_in() {
    let cluster = Cluster::new(3);
    let (masters, rival) = (connect(&cluster).await, connect(&cluster).await);
    let me = Owner::new();
    let theirs = rival.red_lock("a").lock().await.expect("free");
    let lock = masters.red_lock("a").owner(&me);
    let (one, other) = (lock.clone(), lock.clone());
    let one = tokio::spawn(async move { one.lock().await });
    let other = tokio::spawn(async move { other.lock().await });
    sleep(ms(100)).await;
    theirs.unlock().await.expect("held");
    let one = one.await.expect("no panic").expect("its turn comes");
    let other = timeout(ms(100), other)
        .await
        .expect("enters again")
        .expect("no panic")
        .expect("entered");
    assert_eq!((one.hold_count(), other.hold_count()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_local_holder_does_not_keep_the_line_waiting() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let stuck = masters.red_lock("a").lease(ms(1000)).lock().await.expect("free");
    let guard = timeout(ms(1100), masters.red_lock("a").lock())
        .await
        .expect("at the lease's end")
        .expect("granted");
    assert!(!stuck.is_valid() && guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn closing_tells_waiters_and_releases_or_leaves() {
    for closing in [Closing::Release, Closing::Leave] {
        let cluster = Cluster::new(3);
        let (masters, rival) = (connect(&cluster).await, connect(&cluster).await);
        let theirs = rival.red_lock("b").lock().await.expect("free");
        let guard = masters.red_lock("a").lock().await.expect("free");
        let waiter = masters.clone();
        let waiting = tokio::spawn(async move { waiter.red_lock("b").lock().await });
        sleep(ms(100)).await;
        masters.close(closing).await;
        assert!(matches!(waiting.await.expect("no panic"), Err(LockError::Closed)));
        assert!(matches!(
            masters.red_lock("c").try_lock().await,
            Err(LockError::Closed)
        ));
        sleep(ms(100)).await;
        let kept = cluster
            .iter()
            .filter(|master| !master.fields("a").is_empty())
            .count();
        assert_eq!(kept, if closing == Closing::Leave { 3 } else { 0 }, "{closing:?}");
        assert_eq!(guard.is_valid(), closing == Closing::Leave);
        drop(guard);
        theirs.unlock().await.expect("held");
    }
}

/// Otherwise the masters would call a client that is gone, or pass it by, until its places end.
#[tokio::test(start_paused = true)]
async fn the_waiters_of_a_closed_client_leave_the_queues() {
    for (closing, is_leaked) in [
        (Closing::Release, false),
        (Closing::Release, true),
        (Closing::Leave, false),
    ] {
        let cluster = Cluster::new(3);
        let (masters, rival) = (connect(&cluster).await, connect(&cluster).await);
        let theirs = rival.red_lock("b").lock().await.expect("free");
        let guard = masters.red_lock("a").lock().await.expect("free");
        if is_leaked {
            guard.leak();
        }
        let (alone, set) = (
            masters.red_lock("b"),
            masters.red_lock("b").and(masters.red_lock("c")),
        );
        let alone = tokio::spawn(async move { alone.lock().await });
        let set = tokio::spawn(async move { set.lock().await });
        sleep(ms(100)).await;
        let queues = |master: &Master| {
            let keys = master.keys();
            keys.into_iter()
                .filter(|key| key.starts_with("multilock_queue:"))
                .collect::<Vec<_>>()
        };
        for master in cluster.iter() {
            assert_eq!(
                queues(master),
                ["multilock_queue:{b}", "multilock_queue:{c}"],
                "they wait"
            );
        }
        masters.close(closing).await;
        assert!(matches!(alone.await.expect("no panic"), Err(LockError::Closed)));
        assert!(set.await.expect("no panic").is_err());
        for master in cluster.iter() {
            assert_eq!(queues(master), [""; 0], "{closing:?}, leaked: {is_leaked}");
        }
        theirs.unlock().await.expect("held");
    }
}

/// The owner is inside with less validity than it asks for, and no master is there to extend it: nothing
/// that it waits for makes the runtime stand still meanwhile.
#[test]
fn an_owner_inside_with_too_little_validity_sleeps() {
    let (done, outcome) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let outcome = runtime.block_on(async {
            let cluster = Cluster::new(3);
            let (masters, me) = (connect(&cluster).await, Owner::new());
            let lock = masters.red_lock("a").owner(&me);
            let guard = lock.clone().lease(ms(1000)).try_lock().await.expect("free");
            for master in cluster.iter() {
                master.crash();
            }
            sleep(ms(500)).await;
            let wanted = lock.lease(ms(1000)).min_validity(ms(900)).wait(ms(200));
            let outcome = wanted.lock().await.map(drop);
            drop(guard);
            outcome
        });
        done.send(outcome).expect("somebody waits for it");
    });
    let outcome = outcome.recv_timeout(Duration::from_secs(60));
    let outcome = outcome.expect("virtual time goes on");
    assert!(matches!(outcome, Err(LockError::TimedOut { .. })), "{outcome:?}");
}

/// The same in the line: a task of the owner gets in before the one in front.
#[tokio::test(start_paused = true)]
async fn an_owner_inside_with_too_little_validity_sleeps_in_the_line() {
    let cluster = Cluster::new(3);
    let (holder, masters, me) = (connect(&cluster).await, connect(&cluster).await, Owner::new());
    slow_down(&cluster, 5);
    let held = holder.red_lock("a").lock().await.expect("free");
    let brief = masters.red_lock("a").lease(ms(1000));
    let inside = brief.clone().owner(&me);
    let inside = tokio::spawn(async move { inside.lock().await });
    sleep(ms(50)).await;
    // An extension takes 10 ms, too, and then the hold has 978 ms left.
    let wanted = brief.min_validity(ms(980));
    let front = wanted.clone();
    let front = tokio::spawn(async move { front.lock().await });
    sleep(ms(50)).await;
    let behind = wanted.owner(&me).wait(ms(2000));
    let behind = tokio::spawn(async move { behind.lock().await });
    sleep(ms(50)).await;
    held.unlock().await.expect("held");
    let inside = inside.await.expect("no panic").expect("its turn");
    let before = executed(&cluster, "extend");
    let outcome = behind.await.expect("no panic");
    assert!(matches!(outcome, Err(LockError::TimedOut { .. })), "{outcome:?}");
    let asked = (executed(&cluster, "extend") - before) / 3;
    assert!((5..60).contains(&asked), "{asked} extensions in 1.8 s");
    drop(inside);
    front.abort();
}

/// After a while a waiter for two names is in the queue of one alone. The rollback on a master that has granted both does
/// not put it back into the other queue.
#[tokio::test(start_paused = true)]
async fn a_rollback_brings_no_waiter_back_into_a_queue_that_it_has_left() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let orphan = ["HSET", "a", "9a7c4c1e-0000-8000-8000-000000000001:1", "1"];
    for place in [0, 1] {
        cluster.master(place).command(&orphan).expect("written");
    }
    let lock = masters.red_lock(["a", "b"]);
    let waiting = tokio::spawn(async move { lock.lock().await });
    sleep(ms(1500)).await;
    for master in cluster.iter() {
        let is_queued = |name: &str| master.keys().contains(&format!("multilock_queue:{{{name}}}"));
        assert_eq!((is_queued("a"), is_queued("b")), (true, false));
    }
    waiting.abort();
}

/// Each release makes one process ask, however many wait: the first in the queue.
#[tokio::test(start_paused = true)]
async fn commands_do_not_grow_with_the_processes_that_wait() {
    let mut commands = Vec::new();
    for processes in [3, 12] {
        let cluster = Cluster::new(3);
        slow_down(&cluster, 1);
        let granted = Arc::new(AtomicUsize::new(0));
        let mut tasks = Vec::new();
        for _ in 0..processes {
            let (process, granted) = (connect(&cluster).await, Arc::clone(&granted));
            tasks.push(tokio::spawn(async move {
                loop {
                    let guard = process.red_lock("a").lock().await.expect("its turn comes");
                    sleep(ms(3)).await;
                    granted.fetch_add(1, Ordering::SeqCst);
                    guard.unlock().await.expect("held");
                }
            }));
        }
        // Until everybody stands in the queue.
        sleep(ms(1000)).await;
        let (grants, scripts) = (granted.load(Ordering::SeqCst), scripts_run(&cluster));
        sleep(ms(2000)).await;
        let grants = granted.load(Ordering::SeqCst) - grants;
        let run: u64 = scripts_run(&cluster).iter().sum::<u64>() - scripts.iter().sum::<u64>();
        end(tasks).await;
        assert!(grants > 100, "{processes} processes: {grants} grants");
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        commands.push(run as f64 / grants as f64 / 3.0);
    }
    assert!(commands.iter().all(|count| *count <= 4.0), "{commands:?}");
    assert!(commands[1] <= commands[0] + 0.5, "{commands:?}");
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

/// Contenders that each reach another master first, one master down.
async fn contenders(cluster: &Cluster, count: usize) -> Vec<Masters> {
    cluster.master(2).crash();
    let mut clients = Vec::new();
    for place in 0..count {
        let near = place % 2;
        let distances = [
            if near == 0 { ms(1) } else { ms(2) },
            if near == 1 { ms(1) } else { ms(2) },
        ];
        let connecting = cluster.connect_from(&distances, Masters::builder());
        clients.push(connecting.await.expect("a majority"));
    }
    clients
}

/// 17: contenders in lock-step split the votes for ever; with jitter somebody wins.
///
/// Rule: the pause after a lost round is random.
#[tokio::test(start_paused = true)]
async fn split_vote() {
    for count in [2, 3] {
        let cluster = Cluster::new(3);
        let clients = contenders(&cluster, count).await;
        // Without jitter: everyone tries again at the same moment.
        for round in 0..50 {
            let tries: Vec<Result<MultiLockGuard, LockError>> = join_all(
                clients
                    .iter()
                    .map(|client| async { client.red_lock("a").try_lock().await }),
            )
            .await;
            assert!(
                tries.iter().all(Result::is_err),
                "{count} contenders, round {round}"
            );
            sleep(ms(20)).await;
        }
        // With it: from the same start somebody wins within a few rounds, and then everyone else.
        let begun = Instant::now();
        let won = join_all(clients.iter().map(|client| async move {
            let guard = client
                .red_lock("a")
                .wait(ms(10_000))
                .lock()
                .await
                .expect("its turn comes");
            let won = begun.elapsed();
            guard.unlock().await.expect("held");
            won
        }))
        .await;
        let first = won.iter().min().expect("somebody");
        assert!(
            *first < ms(500),
            "{count} contenders: the first won after {first:?}"
        );
    }
}

/// A grant tells how many wait behind it: of each process the one in front.
#[tokio::test(start_paused = true)]
async fn a_grant_tells_how_many_wait() {
    let cluster = Cluster::new(5);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect(&cluster).await);
    }
    slow_down(&cluster, 1);
    let mut guard = clients[0].red_lock("a").lock().await.expect("free");
    assert_eq!(guard.waiting(), 0);
    let mut waits = Vec::new();
    for masters in clients.iter().skip(1).chain([&clients[3]]) {
        let lock = masters.red_lock("a");
        waits.push(tokio::spawn(
            async move { lock.lock().await.expect("its turn comes") },
        ));
        sleep(ms(20)).await;
    }
    let mut told = Vec::new();
    for wait in waits {
        guard.unlock().await.expect("held");
        guard = wait.await.expect("no panic");
        told.push(guard.waiting());
    }
    assert_eq!(told, [2, 1, 0, 0]);
}

/// Those behind each of its names count, and those that want to read.
#[tokio::test(start_paused = true)]
async fn a_grant_tells_how_many_wait_for_any_of_its_names() {
    let cluster = Cluster::new(3);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect(&cluster).await);
    }
    let (reading, other) = (clients[2].red_lock("a").read(), clients[3].red_lock("b"));
    let both = |client: usize| clients[client].red_lock(["a", "b"]);
    let (held, next) = (both(0).lock().await.expect("free"), both(1));
    let next = tokio::spawn(async move { next.lock().await.expect("its turn comes") });
    settle().await;
    let reading = tokio::spawn(async move { reading.lock().await.map(drop) });
    let other = tokio::spawn(async move { other.lock().await.map(drop) });
    settle().await;
    held.unlock().await.expect("held");
    let guard = next.await.expect("no panic");
    assert_eq!(guard.waiting(), 2);
    guard.unlock().await.expect("held");
    for waiter in [reading, other] {
        waiter.await.expect("no panic").expect("its turn comes");
    }
}

/// Servers keep their connections when an operator gives their user the right to listen. From then on waiters are called
/// over them.
#[tokio::test(start_paused = true)]
async fn a_client_listens_soon_after_that_is_no_longer_denied() {
    let cluster = Cluster::new(3);
    cluster.iter().for_each(|master| master.deny_subscribe(true));
    let (holder, waiter) = (connect(&cluster).await, connect(&cluster).await);
    let held = holder.red_lock("a").lock().await.expect("free");
    let lock = waiter.red_lock("a");
    let waiting = tokio::spawn(async move { lock.lock().await });
    let _leader = waiter.watch_leader("leader").expect("a name");
    sleep(ms(30_000)).await;
    let listening = || cluster.iter().map(|master| master.channels().len());
    assert!(listening().eq([0; 3]));
    cluster.iter().for_each(|master| master.deny_subscribe(false));
    sleep(ms(10_100)).await;
    // One channel of each client, and that of the leader.
    assert!(listening().eq([3; 3]), "{:?}", listening().collect::<Vec<_>>());
    let freed = Instant::now();
    held.unlock().await.expect("held");
    drop(waiting.await.expect("no panic").expect("called"));
    assert!(freed.elapsed() < ms(50), "{:?}", freed.elapsed());
}
