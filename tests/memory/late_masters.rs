//! Masters that answer late, or with an error: a release is sent as often as it needs, and no more.

use std::time::Duration;

use crate::support::{connect, connect_by_default, ms, slow_down};
use futures::FutureExt;
use multilock::sim::{Cluster, Master};
use multilock::{
    Closing, LockError, LossCause, Masters, MultiLock, MultiLockGuard, Quarantine, Rounds, Unfit, Unlocked,
    Vote,
};
use tokio::time::{Instant, sleep, timeout};

fn releases(cluster: &Cluster, place: usize) -> u64 {
    let executed = cluster.master(place).executed();
    executed.get("release").copied().unwrap_or(0)
}

/// Asking again would bring the same answer.
#[tokio::test(start_paused = true)]
async fn a_release_that_meets_a_key_of_another_type_is_done_with() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    let error = "WRONGTYPE Operation against a key holding the wrong kind of value";
    cluster.master(0).answer_with(Some(error));
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    sleep(ms(1000)).await;
    cluster.master(0).answer_with(None);
    sleep(ms(1000)).await;
    assert_eq!(releases(&cluster, 0), 0);
}

/// Each spoilt fence belongs to one of the names.
#[tokio::test(start_paused = true)]
async fn a_spoilt_fence_keeps_no_name_from_its_release() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let guard = masters.red_lock(["a", "b", "c"]).lock().await.expect("free");
    for fence in ["multilock_fence:{a}", "multilock_fence:{b}"] {
        cluster.master(0).command(&["DEL", fence]).expect("deleted");
        cluster
            .master(0)
            .command(&["HSET", fence, "x", "y"])
            .expect("stored");
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    assert_eq!(cluster.master(0).fields("c"), [] as [&str; 0]);
    assert_eq!(releases(&cluster, 0), 1);
}

/// Every answer of one master comes after the node deadline.
async fn with_a_late_master() -> (Cluster, Masters) {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    cluster.master(2).set_delay(ms(40), ms(40));
    (cluster, masters)
}

/// The answers of a master come after the node timeout, and the first of them shows that its clock has passed the end of a hold.
#[tokio::test(start_paused = true)]
async fn a_late_answer_tells_of_a_clock_that_stepped() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    cluster.master(0).crash();
    sleep(ms(500)).await;
    let lease = ms(10_000);
    let guard = masters
        .red_lock("a")
        .lease(lease)
        .lock()
        .await
        .expect("two grant");
    cluster.master(1).set_delay(ms(0), ms(60));
    cluster.master(1).set_clock_forward(lease + ms(1000));
    assert!(guard.is_valid(), "nobody can know");
    assert!(masters.red_lock("b").try_lock().await.is_err());
    sleep(ms(100)).await;
    assert!(!guard.is_valid(), "one master of three has it");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_sent_once_to_a_master_that_is_late() {
    let (cluster, masters) = with_a_late_master().await;
    for pair in 0..2000 {
        let lock = masters.red_lock(format!("n{pair}"));
        let guard = lock.try_lock().await.expect("two are in time");
        guard.unlock().await.expect("held");
        sleep(ms(2)).await;
    }
    sleep(ms(1000)).await;
    assert_eq!(releases(&cluster, 2), 2000, "one a pair");
    assert_eq!(cluster.master(2).locks(), [] as [&str; 0]);
    sleep(ms(60_000)).await;
    assert_eq!(releases(&cluster, 2), 2000, "and none after the last");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_beside_a_late_master_asks_no_more_than_it_must() {
    let cluster = Cluster::new(3);
    let (holder, waiter) = (
        connect_by_default(&cluster).await,
        connect_by_default(&cluster).await,
    );
    let _held = holder.red_lock("a").try_lock().await.expect("free");
    cluster.master(2).set_delay(ms(40), ms(40));
    let waiting = tokio::spawn(async move { waiter.red_lock("a").lock().await.map(drop) });
    sleep(ms(5000)).await;
    let asked = || cluster.master(0).executed()["acquire"];
    let before = asked();
    sleep(ms(60_000)).await;
    assert!(asked() - before <= 20, "{} times in a minute", asked() - before);
    waiting.abort();
}

/// The connection of the late master is kept. A release that waits there ends with it.
#[tokio::test(start_paused = true)]
async fn a_release_whose_connection_ended_is_sent_on_the_next() {
    let (cluster, masters) = with_a_late_master().await;
    let guard = masters.red_lock("a").try_lock().await.expect("free");
    sleep(ms(100)).await;
    cluster.master(2).hold_requests(true);
    guard.unlock().await.expect("held");
    sleep(ms(60)).await;
    cluster.master(2).reset_connections();
    cluster.master(2).hold_requests(false);
    sleep(ms(1000)).await;
    assert_eq!(cluster.master(2).locks(), [] as [&str; 0]);
    assert_eq!(releases(&cluster, 2), 1);
}

/// A try that no master answers in time, where the last answers took 60 ms. Returns the text of its error.
/// The release goes first on a new connection, so that the next acquire does not meet the old hold there.
#[tokio::test(start_paused = true)]
async fn a_master_that_is_back_gets_the_pending_release_before_the_next_acquire() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    // A new connection takes calls while its subscription has no answer yet.
    let _watch = masters.watch_leader("b").expect("a name");
    cluster.master(2).set_delay(ms(5), ms(5));
    let lock = masters.multi_lock("a");
    let guard = lock.lock().await.expect("free");
    cluster.master(2).set_unfit(Some(Unfit::Cluster));
    cluster.master(2).reset_connections();
    sleep(ms(10)).await;
    drop(guard);
    let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
    sleep(ms(1000)).await;
    let acquires = || cluster.master(2).executed()["acquire"];
    let before = acquires();
    cluster.master(2).set_unfit(None);
    waiting.await.expect("ends").expect("granted");
    assert_eq!(acquires() - before, 1);
}

async fn late_everywhere(lock: &MultiLock) -> String {
    let error = lock.try_lock().await.expect_err("no answer in time");
    let LockError::Unreachable { votes } = &error else {
        panic!("{error}");
    };
    let late = Vote::Late {
        within: ms(50),
        took: Some(ms(60)),
    };
    assert!(votes.iter().all(|node| node.vote == late), "{votes}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn masters_that_are_too_far_are_told_as_such() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    for master in cluster.iter() {
        master.set_delay(ms(30), ms(30));
    }
    let lock = masters.red_lock("a");
    drop(lock.try_lock().await);
    sleep(ms(100)).await;
    let text = late_everywhere(&lock).await;
    let why = "no master answers in time: answers took up to 60ms, and are awaited for 50ms; \
               set MastersBuilder::node_timeout to more than they take: memory-0, memory-1, memory-2: no usable";
    assert!(text.starts_with(why), "{text}");
}

/// A master that is asked last, because the others do not answer, takes no longer than they do.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_timed_from_its_own_question() {
    let cluster = Cluster::new(3);
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .rounds(Rounds::Thrifty);
    let masters = cluster.connect(builder).await.expect("masters");
    for master in cluster.iter() {
        master.set_delay(ms(30), ms(30));
    }
    let lock = masters.red_lock("a");
    drop(lock.try_lock().await);
    // Its answers come during this one, and those of its rollback after it.
    late_everywhere(&lock).await;
}

/// Masters that answer late are in the way all the same.
#[tokio::test(start_paused = true)]
async fn masters_that_are_too_far_for_a_quorum_are_told_as_such() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    for place in [0, 1] {
        cluster.master(place).set_delay(ms(30), ms(30));
    }
    let lock = masters.red_lock("a");
    let text = lock.try_lock().await.expect_err("one in time").to_string();
    assert!(
        text.starts_with("too few masters answered: memory-0, memory-1: no usable"),
        "{text}"
    );
    sleep(ms(100)).await;
    let error = lock.try_lock().await.expect_err("one in time");
    let LockError::Unreachable { votes } = &error else {
        panic!("{error}");
    };
    assert_eq!(votes.granted(), 1, "{votes}");
    let text = error.to_string();
    assert!(
        text.starts_with("too few masters answer in time: answers took up to 60ms"),
        "{text}"
    );
    sleep(ms(100)).await;
    for master in cluster.iter() {
        assert_eq!(master.locks(), [] as [&str; 0]);
    }
}

/// Takes `locks` locks, with names of that length and a number.
async fn take_many(masters: &Masters, locks: usize, length: usize) -> Vec<MultiLockGuard> {
    let name = "x".repeat(length);
    let mut guards = Vec::with_capacity(locks);
    for n in 0..locks {
        let lock = masters.red_lock(format!("{name}{n}"));
        guards.push(lock.try_lock().await.expect("free"));
    }
    guards
}

/// More than one connection carries at once; each release is wanted by a guard that was dropped.
#[tokio::test(start_paused = true)]
async fn many_guards_that_are_dropped_at_once_leave_nothing() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    drop(take_many(&masters, 1000, 2000).await);
    sleep(ms(2000)).await;
    for (place, master) in cluster.iter().enumerate() {
        assert_eq!(master.locks(), [] as [&str; 0]);
        assert!(
            releases(&cluster, place) < 500,
            "{} calls",
            releases(&cluster, place)
        );
    }
}

/// While the backlogs of all masters are full, no client gets another lock.
#[tokio::test(start_paused = true)]
async fn whoever_locks_faster_than_masters_release_is_slowed_down() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let guards = take_many(&masters, 1000, 3000).await;
    slow_down(&cluster, 5);
    drop(guards);
    assert!(masters.status().nodes.iter().all(|node| node.is_overloaded));
    // The call is not refused: it waits until the backlogs are below their limit.
    let begun = Instant::now();
    let guard = masters.red_lock("a").wait(ms(5000)).lock().await.expect("free");
    assert!(begun.elapsed() >= ms(50), "{:?}", begun.elapsed());
    assert!(begun.elapsed() < ms(150), "it is woken: {:?}", begun.elapsed());
    guard.unlock().await.expect("held");
    sleep(ms(5000)).await;
    for master in cluster.iter() {
        assert_eq!(master.locks(), [] as [&str; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_tells_what_was_released_and_what_was_not() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let mut guards = Vec::new();
    for n in 0..1000 {
        guards.push(masters.red_lock(format!("n{n}")).try_lock().await.expect("free"));
    }
    cluster.master(2).freeze();
    let closed = masters.close(Closing::Release).await;
    assert_eq!((closed.released, closed.unconfirmed), (1000, 0));
    let left: Vec<_> = closed.left.iter().map(|(node, owed)| (&**node, *owed)).collect();
    assert_eq!(left, [("memory-2", 1000)]);
    for place in [0, 1] {
        assert_eq!(cluster.master(place).locks(), [] as [&str; 0]);
        // Of 48 holds each, by their keys.
        assert!(releases(&cluster, place) <= 22, "in batches");
    }
}

/// The end of a connection to a silent master is no sign of life.
#[tokio::test(start_paused = true)]
async fn closing_waits_for_a_silent_master_for_four_node_timeouts() {
    for frozen in 1..=3 {
        for silent_for in [0, 60, 120, 1000] {
            let cluster = Cluster::new(3);
            let masters = connect_by_default(&cluster).await;
            let _guard = masters.red_lock("a").try_lock().await.expect("free");
            cluster.iter().take(frozen).for_each(Master::freeze);
            let _ = masters.red_lock("b").try_lock().await;
            sleep(ms(silent_for)).await;
            let begun = Instant::now();
            masters.close(Closing::Release).await;
            // One more for what is under way.
            assert!(
                begun.elapsed() <= ms(250),
                "{frozen} {silent_for} {:?}",
                begun.elapsed()
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closing_takes_the_time_that_far_masters_need() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let mut guards = Vec::new();
    for n in 0..1000 {
        guards.push(masters.red_lock(format!("n{n}")).try_lock().await.expect("free"));
    }
    for master in cluster.iter() {
        master.set_delay(ms(40), ms(40));
    }
    // Given up on the way, and called again.
    assert!(timeout(ms(100), masters.close(Closing::Release)).await.is_err());
    let closed = masters.close(Closing::Release).await;
    assert_eq!((closed.released, closed.unconfirmed), (1000, 0));
    assert_eq!(closed.left, []);
    for master in cluster.iter() {
        assert_eq!(master.locks(), [] as [&str; 0]);
    }
}

/// One master whose answers never come within a node timeout, nor within the four of a master that is near.
async fn with_a_far_master() -> (Cluster, Masters) {
    let cluster = Cluster::new(3);
    cluster.master(2).set_delay(ms(200), ms(200));
    let builder = Masters::builder().connect_timeout(ms(5000));
    let masters = cluster.connect(builder).await.expect("connects");
    sleep(ms(5000)).await;
    (cluster, masters)
}

/// A set-up is slow, too, if the master stands still for a moment.
#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_longer_for_a_master_that_was_far_when_it_was_connected() {
    let (cluster, masters) = with_a_far_master().await;
    cluster.master(2).set_delay(Duration::ZERO, Duration::ZERO);
    let _guard = masters.multi_lock("a").try_lock().await.expect("all are in time");
    cluster.master(2).freeze();
    let begun = Instant::now();
    masters.close(Closing::Release).await;
    // Four node timeouts, and one more for requests in progress.
    assert!(begun.elapsed() <= ms(250), "{:?}", begun.elapsed());
}

/// Several calls miss their deadlines before the first answer. The time without calls before them is no silence.
#[tokio::test(start_paused = true)]
async fn a_far_master_is_kept_after_a_time_without_calls() {
    let (_cluster, masters) = with_a_far_master().await;
    for n in 0..20 {
        let lock = masters.red_lock(format!("n{n}"));
        let guard = lock.try_lock().await.expect("two are in time");
        sleep(ms(60)).await;
        let status = masters.status();
        let connection = &status.nodes[2].connection;
        assert!(connection.is_ok(), "{connection:?}");
        guard.unlock().await.expect("held");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_a_master_that_was_far_away_from_the_beginning() {
    let (cluster, masters) = with_a_far_master().await;
    let _guard = masters.red_lock("a").try_lock().await.expect("two are in time");
    sleep(ms(1000)).await;
    assert_eq!(cluster.master(2).locks(), ["a"]);
    let closed = masters.close(Closing::Release).await;
    assert_eq!(closed.left, []);
    assert_eq!(cluster.master(2).locks(), [] as [&str; 0]);
}

/// One master was not asked and one is gone, so the hold is on one of three.
#[tokio::test(start_paused = true)]
async fn closing_counts_a_master_that_was_not_asked_like_one_that_has_released() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    cluster.master(2).crash();
    sleep(ms(500)).await;
    let _guard = masters.red_lock("a").try_lock().await.expect("two are there");
    cluster.master(1).crash();
    let closed = masters.close(Closing::Release).await;
    assert_eq!((closed.released, closed.unconfirmed), (1, 0));
    assert_eq!(closed.left, [("memory-1".into(), 1)]);
}

/// The watchdog, which releases lost holds, ends with the client, and may be late by a few milliseconds.
#[tokio::test(start_paused = true)]
async fn closing_releases_what_was_lost_a_moment_before() {
    for lease in (3_000..12_000).step_by(91).chain([29_999, 30_000]) {
        let cluster = Cluster::new(3);
        let builder = Masters::builder().lease(ms(lease));
        let masters = cluster.connect(builder).await.expect("connects");
        let guard = masters.multi_lock("a").lock().await.expect("free");
        cluster.master(2).crash();
        assert_eq!(guard.lost().await.cause, LossCause::Expired);
        let is_left = lease % 2 == 0;
        let closing = if is_left { Closing::Leave } else { Closing::Release };
        masters.close(closing).await;
        for place in [0, 1] {
            assert_eq!(cluster.master(place).locks(), [] as [&str; 0], "{lease} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_type_ends_no_other_release_in_its_batch() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let mut guards = Vec::new();
    for n in 0..10 {
        guards.push(masters.red_lock(format!("n{n}")).try_lock().await.expect("free"));
    }
    cluster.master(0).command(&["DEL", "n3"]).expect("deleted");
    cluster
        .master(0)
        .command(&["SET", "n3", "theirs"])
        .expect("stored");
    let closed = masters.close(Closing::Release).await;
    assert_eq!((closed.released, closed.unconfirmed), (10, 0));
    assert_eq!(cluster.master(0).locks(), ["n3"]);
}

/// A server checks the keys of a whole call, and denies it because of one name.
#[tokio::test(start_paused = true)]
async fn a_batch_that_is_denied_is_sent_again_one_by_one() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let _guards = take_many(&masters, 10, 1).await;
    cluster
        .master(0)
        .answer_with(Some("NOPERM No permissions to access a key"));
    let closing = tokio::spawn(async move { masters.close(Closing::Release).await });
    sleep(ms(5)).await;
    cluster.master(0).answer_with(None);
    let closed = closing.await.expect("closed");
    assert_eq!(closed.left, []);
    assert_eq!(cluster.master(0).locks(), [] as [&str; 0]);
    assert_eq!(releases(&cluster, 0), 10);
}

/// Every pair leaves two rounds, each to be heard until a deadline that is far away.
#[tokio::test(start_paused = true)]
async fn what_is_late_costs_nothing_until_it_comes() {
    let cluster = Cluster::new(3);
    let builder = Masters::builder().node_timeout(ms(9000));
    let masters = cluster.connect(builder).await.expect("connects");
    cluster.master(2).freeze();
    for n in 0..1000 {
        let guard = masters
            .red_lock(format!("n{n}"))
            .try_lock()
            .await
            .expect("two are well");
        guard.unlock().await.expect("held");
    }
    sleep(ms(100)).await;
    let wakes = || tokio::runtime::Handle::current().metrics().worker_park_count(0);
    let before = wakes();
    sleep(ms(5000)).await;
    assert!(
        wakes() - before < 100,
        "{} wakes in 5 idle seconds",
        wakes() - before
    );
}

/// Nothing can be awaited outside of a runtime, but the release that was sent is on its way. The test runs in real
/// time, because the clock outside of a runtime is the real one.
#[test]
fn a_release_that_is_awaited_outside_of_a_runtime_is_sent_once() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().expect("a runtime");
    let (cluster, guard) = runtime.block_on(async {
        let cluster = Cluster::new(3);
        let masters = connect_by_default(&cluster).await;
        let guard = masters.red_lock("a").lock().await.expect("free");
        sleep(ms(100)).await;
        (cluster, guard)
    });
    assert!(
        matches!(guard.unlock().now_or_never(), Some(Err(_))),
        "not confirmed"
    );
    runtime.block_on(async {
        let everywhere = || (0..3).all(|place| releases(&cluster, place) > 0);
        let arrived = async {
            while !everywhere() {
                sleep(ms(10)).await;
            }
        };
        timeout(ms(60_000), arrived).await.expect("sent");
        sleep(ms(300)).await;
        for (place, master) in cluster.iter().enumerate() {
            assert_eq!(releases(&cluster, place), 1);
            assert_eq!(master.locks(), [] as [&str; 0]);
        }
    });
}

/// Closing waits for everything on its way: an acquisition that is under way, a guard just dropped.
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

/// Nobody rolls back the attempt of a future that is not polled, so the names may stay locked for the lease.
#[tokio::test(start_paused = true)]
async fn closing_counts_a_call_that_is_not_polled() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    slow_down(&cluster, 5);
    let lock = masters.red_lock("a");
    let mut locking = Box::pin(lock.lock());
    assert!(timeout(ms(1), &mut locking).await.is_err());
    let closed = masters.close(Closing::Release).await;
    assert_eq!((closed.released, closed.unconfirmed), (0, 1));
    assert!(!cluster.master(0).locks().is_empty());
    let refused = locking.await.expect_err("the client is closed");
    assert!(matches!(refused, LockError::Closed), "{refused}");
    assert_eq!(
        masters.close(Closing::Release).await.unconfirmed,
        0,
        "it has ended"
    );
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
        Some(&2),
        "unknown once, and known when it is asked again"
    );
}

/// Delays and steps of any size are times that never come.
#[tokio::test(start_paused = true)]
async fn a_master_is_late_for_ever() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let master = cluster.master(0);
    master.set_delay(Duration::MAX, Duration::MAX);
    master.set_notice_delay(Some(Duration::MAX));
    let guard = masters.red_lock("a").lock().await.expect("two grant");
    assert_eq!(guard.votes().granted(), 2);
    guard.unlock().await.expect("held");
    assert!(masters.status().nodes[0].connection.is_ok());
    for _ in 0..3 {
        master.set_clock_forward(Duration::MAX);
        master.command(&["TIME"]).expect("a time");
    }
    for _ in 0..3 {
        master.set_clock_back(Duration::MAX);
        master.command(&["TIME"]).expect("a time");
    }
}
