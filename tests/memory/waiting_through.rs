//! Events at the masters during a wait: the waiter gets the lock, later at worst, and nothing is left.

use std::time::Duration;

use multilock::Masters;
use multilock::sim::{Cluster, Keep, Master};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{connect, ms, queues, slow_down};

/// Time after which a waiter that nobody calls asks by itself.
const REASK: Duration = Duration::from_secs(5);
/// Time for which a place in a queue lasts, and its keys.
const TICKET: Duration = Duration::from_secs(15);
/// Longest lease, with the possible drift of clocks meanwhile.
const LONGEST_LEASE: Duration = Duration::from_millis(30_300);
/// Rounds, and the time that a new connection takes.
const SOME: Duration = Duration::from_secs(2);

/// One holds while two processes wait; then `happens` to every master, and to every one again after half a second
/// `ends`. How long the last one waits after the release.
async fn waits_through(happens: impl Fn(&Master), ends: impl Fn(&Master)) -> Duration {
    let cluster = Cluster::new(3);
    let holder = connect(&cluster).await;
    let waiting = [connect(&cluster).await, connect(&cluster).await];
    slow_down(&cluster, 1);
    let held = holder.red_lock("a").lock().await.expect("free");
    let waits = waiting.each_ref().map(|masters: &Masters| {
        let lock = masters.red_lock("a");
        tokio::spawn(async move {
            let guard = lock.lock().await.expect("granted in the end");
            sleep(ms(5)).await;
            // Its masters may have forgotten it.
            let _ = guard.unlock().await;
        })
    });
    sleep(ms(100)).await;
    cluster.iter().for_each(&happens);
    sleep(ms(500)).await;
    cluster.iter().for_each(&ends);
    sleep(ms(200)).await;
    // As above.
    let _ = held.unlock().await;
    let released = Instant::now();
    for wait in waits {
        let within = timeout(Duration::from_secs(60), wait);
        within.await.expect("nobody waits for ever").expect("no panic");
    }
    let took = released.elapsed();
    sleep(TICKET + SOME).await;
    let keys: Vec<String> = cluster.iter().flat_map(Master::locks).collect();
    assert!(queues(&cluster) == 0 && keys.is_empty(), "left: {keys:?}");
    took
}

async fn takes_at_most(within: Duration, happens: impl Fn(&Master), ends: impl Fn(&Master)) {
    let took = waits_through(happens, ends).await;
    assert!(took <= within, "{took:?}");
}

fn nothing(_: &Master) {}

#[tokio::test(start_paused = true)]
async fn nothing_at_all() {
    takes_at_most(ms(50), nothing, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_data() {
    takes_at_most(SOME, |master| master.restart(Keep::Data), nothing).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_without_data() {
    takes_at_most(SOME, |master| master.restart(Keep::Nothing), nothing).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_and_a_start() {
    takes_at_most(SOME, Master::crash, |master| master.restart(Keep::Data)).await;
}

#[tokio::test(start_paused = true)]
async fn connections_that_break() {
    takes_at_most(SOME, Master::reset_connections, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn scripts_that_are_flushed() {
    takes_at_most(ms(50), Master::flush_scripts, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn all_keys_that_are_flushed() {
    // Nobody has a place any more that could be called.
    takes_at_most(REASK + SOME, Master::flush_all, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn queues_that_are_evicted() {
    let evict = |master: &Master| assert!(master.evict("multilock_queue:{a}"));
    takes_at_most(REASK + SOME, evict, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn deadlines_that_are_evicted() {
    let evict = |master: &Master| assert!(master.evict("multilock_deadlines:{a}"));
    takes_at_most(REASK + SOME, evict, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn memory_that_runs_out() {
    let fills = |master: &Master| master.out_of_memory(true);
    takes_at_most(REASK + SOME, fills, |master| master.out_of_memory(false)).await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_full() {
    let full = |master: &Master| master.answer_with(Some("MISCONF Errors writing to the AOF file"));
    takes_at_most(REASK + SOME, full, |master| master.answer_with(None)).await;
}

/// As for a user without permission to subscribe, and on servers that cannot send messages.
#[tokio::test(start_paused = true)]
async fn calls_that_are_never_heard() {
    takes_at_most(2 * REASK + SOME, |master| master.lose_notices(true), nothing).await;
}

/// The masters have no vote for as long as a lease may last that the step has ended early.
#[tokio::test(start_paused = true)]
async fn clocks_that_are_set_forward() {
    let set = |master: &Master| master.set_clock_forward(Duration::from_secs(3600));
    takes_at_most(LONGEST_LEASE + REASK + SOME, set, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn clocks_that_are_set_back() {
    let set = |master: &Master| master.set_clock_back(Duration::from_secs(3600));
    takes_at_most(REASK + SOME, set, nothing).await;
}

/// Somebody has made a key of another type where a queue belongs, or its deadlines: nobody waits there, and no script stops
/// after it has written.
#[tokio::test(start_paused = true)]
async fn queues_of_another_type() {
    for spoilt in ["multilock_queue:{b}", "multilock_deadlines:{b}"] {
        let cluster = Cluster::new(3);
        let (first, second) = (connect(&cluster).await, connect(&cluster).await);
        for master in cluster.iter() {
            master.command(&["SET", spoilt, "x"]).expect("written");
        }
        for _ in 0..2 {
            let lock = first.red_lock(["a", "b"]).lease(ms(1000));
            let held = timeout(REASK + SOME, lock.lock())
                .await
                .expect("in time")
                .expect("free");
            let lock = second.red_lock(["a", "b"]).lease(ms(1000));
            let waits = tokio::spawn(async move { lock.lock().await });
            sleep(ms(100)).await;
            held.unlock().await.expect("held");
            let guard = timeout(REASK + SOME, waits)
                .await
                .expect("in time")
                .expect("no panic");
            guard.expect("granted").unlock().await.expect("held");
        }
    }
}

/// Somebody has put a member into a queue that belongs to the other one, or to none.
#[tokio::test(start_paused = true)]
async fn members_of_a_queue_that_are_no_waiters_of_it() {
    for (queue, member) in [
        ("multilock_readers_queue:{a}", "w"),
        (
            "multilock_readers_queue:{a}",
            "00000000-0000-8000-8000-000000000000:1:1000",
        ),
        (
            "multilock_queue:{a}",
            "00000000-0000-8000-8000-000000000000:1r:1000",
        ),
        ("multilock_queue:{a}", "w"),
    ] {
        let cluster = Cluster::new(3);
        let (first, second) = (connect(&cluster).await, connect(&cluster).await);
        for master in cluster.iter() {
            master.command(&["ZADD", queue, "1", member]).expect("written");
        }
        let held = first.red_lock("a").lock().await.expect("free");
        let waits = tokio::spawn(async move { second.red_lock("a").lock().await });
        sleep(ms(100)).await;
        held.unlock().await.expect("held");
        let guard = timeout(SOME, waits).await.expect("in time").expect("no panic");
        guard.expect("granted").unlock().await.expect("held");
    }
}

/// Somebody has made a key of another type where the mark of a force belongs: a force puts that right.
#[tokio::test(start_paused = true)]
async fn a_revocation_mark_of_another_type() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for master in cluster.iter() {
        let key = "multilock_revoked:{a}";
        master.command(&["SET", key, "x"]).expect("written");
    }
    let lock = masters.red_lock("a");
    assert!(
        lock.try_lock().await.is_err(),
        "nobody knows whether it was forced"
    );
    lock.force_release().await.expect("all answer");
    let guard = lock.try_lock().await.expect("free");
    guard.unlock().await.expect("held");
}

fn dead(number: usize) -> String {
    format!("00000000-0000-8000-8000-{number:012}:1:1000")
}

/// More waiters have died than one script drops: no client overtakes the waiters behind them.
#[tokio::test(start_paused = true)]
async fn very_many_that_have_died() {
    let cluster = Cluster::new(1);
    let (holder, waiting) = (connect(&cluster).await, connect(&cluster).await);
    let held = holder.red_lock("a").lock().await.expect("free");
    let master = cluster.master(0);
    let beat = (1_u64 << 50).to_string();
    for number in 0..2000 {
        let waiter = dead(number);
        for (key, score) in [("multilock_queue:{a}", "1"), ("multilock_deadlines:{a}", &beat)] {
            master.command(&["ZADD", key, score, &waiter]).expect("written");
        }
    }
    let lock = waiting.red_lock("a");
    let waits = tokio::spawn(async move { lock.lock().await });
    sleep(ms(100)).await;
    held.unlock().await.expect("held");
    assert!(
        holder.red_lock("a").try_lock().await.is_err(),
        "one waits behind them"
    );
    let guard = timeout(REASK + SOME, waits)
        .await
        .expect("in time")
        .expect("no panic");
    guard.expect("granted").unlock().await.expect("held");
}

/// The first in the queue has died, so the one behind it is told of the short lease.
#[tokio::test(start_paused = true)]
async fn a_short_lease_before_one_that_has_died() {
    let cluster = Cluster::new(3);
    let (holder, dying, next) = (
        connect(&cluster).await,
        connect(&cluster).await,
        connect(&cluster).await,
    );
    let held = holder.red_lock("a").lock().await.expect("free");
    let lock = dying.red_lock("a").lease(ms(1000));
    let dying = tokio::spawn(async move { lock.lock().await.map(multilock::MultiLockGuard::leak) });
    sleep(ms(10)).await;
    for master in cluster.iter() {
        let beat = (1_u64 << 50).to_string();
        // Behind the waiter that is called, and ahead of the last.
        let ticket = master.command(&["ZRANGE", "multilock_queue:{a}", "0", "0", "WITHSCORES"]);
        let ticket = &ticket.expect("one")[1];
        for (key, score) in [
            ("multilock_queue:{a}", ticket),
            ("multilock_deadlines:{a}", &beat),
        ] {
            let after = format!("{score}.5");
            master.command(&["ZADD", key, &after, &dead(1)]).expect("written");
        }
    }
    let lock = next.red_lock("a");
    let next = tokio::spawn(async move { lock.lock().await.map(drop) });
    sleep(ms(10)).await;
    held.unlock().await.expect("held");
    dying.await.expect("no panic").expect("granted");
    let began = Instant::now();
    next.await.expect("no panic").expect("granted");
    assert!(began.elapsed() <= ms(1010), "{:?}", began.elapsed());
}
