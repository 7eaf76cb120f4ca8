//! Waiting: who waits sleeps until something happens, and leaves nothing behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use multilock::sim::{Cluster, Keep};
use multilock::{Closing, LockError, Masters, Owner, Quarantine};
use tokio::time::{Instant, sleep, timeout};

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

async fn connect(cluster: &Cluster) -> Masters {
    cluster
        .connect(Masters::builder().quarantine(Quarantine::Off))
        .await
        .expect("connects")
}

/// Scripts that each master has run.
fn scripts_run(cluster: &Cluster) -> Vec<u64> {
    cluster
        .iter()
        .map(|master| master.executed().values().sum())
        .collect()
}

/// Every request and every reply takes a millisecond.
fn slow_down(cluster: &Cluster) {
    for master in cluster.iter() {
        master.set_delay(ms(1), ms(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_a_waiter_of_another_process() {
    let cluster = Cluster::new(5);
    let (holder, waiter) = (connect(&cluster).await, connect(&cluster).await);
    slow_down(&cluster);
    let guard = holder.red_lock("a").lock().await.expect("free");
    let waiting = tokio::spawn(async move {
        let guard = waiter.red_lock("a").lock().await.expect("its turn comes");
        (Instant::now(), guard)
    });
    sleep(ms(1500)).await;
    let released = Instant::now();
    guard.unlock().await.expect("held");
    let (won, guard) = waiting.await.expect("no panic");
    // Half a round trip for the notice, one for the acquire, after half of one for the release.
    assert!(won - released <= ms(5), "{:?}", won - released);
    guard.unlock().await.expect("held");
    sleep(ms(100)).await;
    assert!(
        cluster.iter().all(|master| master.channels().is_empty()),
        "nobody listens any more"
    );
}

/// Two processes that have the names in turn, each asking again when it has just given them up.
#[tokio::test(start_paused = true)]
async fn who_has_just_had_it_still_wakes_in_time() {
    let cluster = Cluster::new(5);
    let processes = [connect(&cluster).await, connect(&cluster).await];
    slow_down(&cluster);
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
    // The first refusal, the subscription and the second refusal of each process.
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
    assert!(
        cluster
            .iter()
            .all(|master| master.locks().is_empty() && master.channels().is_empty())
    );
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
    slow_down(&cluster);
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

/// 1 when all have the same, 1/n when one has everything (Jain, Chiu and Hawe, 1984).
fn jain(shares: &[usize]) -> f64 {
    let shares: Vec<f64> = shares
        .iter()
        .map(|share| f64::from(u32::try_from(*share).expect("small")))
        .collect();
    let (sum, squares) = (
        shares.iter().sum::<f64>(),
        shares.iter().map(|share| share * share).sum::<f64>(),
    );
    sum * sum / (f64::from(u32::try_from(shares.len()).expect("small")) * squares)
}

#[tokio::test(start_paused = true)]
async fn processes_share_a_name_fairly() {
    for way in [1, 3, 10] {
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
    sleep(way * 5_000).await;
    for task in &tasks {
        task.abort();
    }
    let shares: Vec<usize> = counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    assert!(shares.iter().sum::<usize>() > 500, "{way:?}: {shares:?}");
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
    assert!(matches!(error, LockError::TimedOut { last: None, .. }), "{error}");
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

/// No time to wait is one try, not a race between the masters' answers and a timer that is due already.
#[tokio::test(start_paused = true)]
async fn no_patience_is_one_try() {
    let cluster = Cluster::new(3);
    let (holder, masters) = (connect(&cluster).await, connect(&cluster).await);
    slow_down(&cluster);
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
        text.starts_with("too many masters answered with an error: memory-0: failed: BUSY"),
        "{text}"
    );
    cluster.master(0).freeze();
    cluster.master(1).freeze();
    let text = refusal().await;
    assert!(
        text.starts_with("too few masters answered: memory-0: no usable answer: none within 50ms"),
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

#[tokio::test(start_paused = true)]
async fn leaving_the_line_anywhere_leaves_nothing() {
    for after in 0..30 {
        let cluster = Cluster::new(3);
        let (holder, others) = (connect(&cluster).await, connect(&cluster).await);
        slow_down(&cluster);
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
        for master in cluster.iter() {
            assert_eq!(
                (master.locks(), master.channels()),
                (vec![], vec![]),
                "left after {after}"
            );
        }
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
    let outcome = outcome.recv_timeout(Duration::from_secs(10));
    let outcome = outcome.expect("virtual time goes on");
    assert!(matches!(outcome, Err(LockError::TimedOut { .. })), "{outcome:?}");
}

/// Each release makes one process ask, however many wait: the one whose turn it is.
#[tokio::test(start_paused = true)]
async fn commands_do_not_grow_with_the_processes_that_wait() {
    let mut commands = Vec::new();
    for processes in [3, 12] {
        let cluster = Cluster::new(3);
        slow_down(&cluster);
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
        // Until everybody knows how many there are.
        sleep(ms(2000)).await;
        let (grants, scripts) = (granted.load(Ordering::SeqCst), scripts_run(&cluster));
        sleep(ms(10_000)).await;
        let grants = granted.load(Ordering::SeqCst) - grants;
        let run: u64 = scripts_run(&cluster).iter().sum::<u64>() - scripts.iter().sum::<u64>();
        for task in &tasks {
            task.abort();
        }
        assert!(grants > 500, "{processes} processes: {grants} grants");
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        commands.push(run as f64 / grants as f64 / 3.0);
    }
    assert!(commands.iter().all(|count| *count <= 4.0), "{commands:?}");
}
