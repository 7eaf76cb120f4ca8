//! Messages that come late, twice, never or out of order: schedules that refuted weaker protocols, each by its
//! name. With the rule in place it ends well.
//!
//! Some of them stand again on real servers, in `tests/real/stale_sockets.rs`.

use std::pin::pin;
use std::time::Duration;

use crate::support::{connect_by_default, ms, settle};
use futures::poll;
use multilock::sim::{Cluster, Master};
use multilock::{ExtendError, LockError, Masters, Owner, UnlockError};
use tokio::time::{Instant, advance, sleep, timeout};

/// The default.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

fn hold_of(master: &Master) -> Vec<String> {
    master.fields("a")
}

/// 1: attempt 1 is rolled back, but the link to one master breaks before the rollback is read there.
/// Attempt 2 wins with that master. Then the old socket delivers attempt 1's release after all.
///
/// Rule: a fresh owner field for every attempt.
#[tokio::test(start_paused = true)]
async fn stale_rollback() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let me = Owner::new();
    // Killing the predecessor's connection would close this way; an ACL may deny it.
    cluster.master(2).deny_client_kill(true);
    cluster.master(2).keep_abandoned(true);

    // Attempt 1 needs all three; master 1 is taken, so it is lost and rolled back.
    cluster
        .master(1)
        .command(&["SET", "a", "theirs", "PX", "60000"])
        .expect("a foreign key");
    cluster.master(1).set_delay(ms(10), Duration::ZERO);
    let lock = masters.multi_lock("a").owner(&me);
    let mut attempt = pin!(lock.try_lock());
    assert!(poll!(&mut attempt).is_pending());
    settle().await;
    assert_eq!(hold_of(cluster.master(2)).len(), 2, "granted there");
    cluster.master(2).hold_requests(true);
    assert!(matches!(attempt.await, Err(LockError::Contended { .. })));
    settle().await;
    cluster.master(2).reset_connections();
    settle().await;
    cluster.master(2).hold_requests(false);
    cluster.master(1).command(&["DEL", "a"]).expect("freed");
    cluster.master(1).set_delay(Duration::ZERO, Duration::ZERO);
    // The new connection has paid what was owed, so the master is free again.
    sleep(ms(500)).await;

    cluster.master(0).crash();
    let guard = masters
        .red_lock("a")
        .owner(&me)
        .try_lock()
        .await
        .expect("1 and 2 grant");
    let before = hold_of(cluster.master(2));
    assert!(
        cluster.master(2).deliver_abandoned() > 0,
        "the schedule needs a late release"
    );
    assert_eq!(hold_of(cluster.master(2)), before, "attempt 2 still stands");
    assert!(guard.is_valid());
    guard.unlock().await.expect("held to the end");
}

/// 2: a guard lapses, its owner locks again, and then the first guard is dropped.
///
/// Rule: a fresh owner field for every attempt; a lapsed hold is not entered again.
#[tokio::test(start_paused = true)]
async fn late_guard_drop() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let me = Owner::new();
    let lock = masters.red_lock("a").owner(&me).lease(ms(200));
    let first = lock.try_lock().await.expect("free");
    sleep(ms(250)).await;
    assert!(!first.is_valid());
    let second = lock.try_lock().await.expect("free again");
    let before: Vec<_> = cluster.iter().map(hold_of).collect();
    assert_eq!(second.hold_count(), 1);
    drop(first);
    settle().await;
    let after: Vec<_> = cluster.iter().map(hold_of).collect();
    assert_eq!(before, after, "the second hold is untouched on every master");
    assert!(second.is_valid());
}

/// 4: both grants are read only after the lease, because the client did not run meanwhile.
///
/// Rule: validity is checked after the last needed answer.
#[tokio::test(start_paused = true)]
async fn late_answers() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let lock = masters.red_lock("a").lease(ms(200));
    let mut attempt = pin!(lock.try_lock());
    assert!(poll!(&mut attempt).is_pending());
    // Every master grants at once and answers; the client is paused beyond the lease.
    settle().await;
    assert!(cluster.iter().all(|master| !hold_of(master).is_empty()));
    advance(ms(250)).await;
    match attempt.await {
        Err(LockError::TooLate { validity, votes }) => {
            assert_eq!(validity, Duration::ZERO);
            assert!(votes.granted() >= 2, "{votes}");
        }
        other => panic!("{other:?}"),
    }
    // And a hold that would begin with too little is none, either.
    for master in cluster.iter() {
        master.set_delay(ms(20), ms(20));
    }
    let picky = masters.red_lock("a").lease(ms(200)).min_validity(ms(190));
    let refused = picky.try_lock().await;
    assert!(matches!(refused, Err(LockError::TooLate { .. })), "{refused:?}");
    sleep(ms(100)).await;
    assert!(
        cluster.iter().all(|master| master.locks().is_empty()),
        "rolled back"
    );
}

/// 9 (counts): a master grants, its answer is lost, and the acquire is executed there once more.
///
/// Rule: counts in messages are absolute, never increments.
#[tokio::test(start_paused = true)]
async fn lost_reply_same_token() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    // Executed, but the connection breaks before the answer; the next attempt is made at once.
    cluster.master(0).lose_replies(1);
    cluster.master(1).lose_replies(1);
    let me = Owner::new();
    let lock = masters.red_lock("a").owner(&me).wait(ms(500));
    let guard = lock.lock().await.expect("the second round");
    let again = lock.try_lock().await.expect("entered");
    assert_eq!(again.hold_count(), 2);
    for master in cluster.iter() {
        let fields = hold_of(master);
        assert_eq!((fields.len(), fields[1].as_str()), (2, "1"), "{fields:?}");
    }
    again.unlock().await.expect("inner");
    guard.unlock().await.expect("outer");
    settle().await;
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
}

/// 12: the servers have forgotten the scripts; the acquisition is cancelled at every point.
///
/// Rule: NOSCRIPT is answered within the attempt, in order, and only while it lives.
#[tokio::test(start_paused = true)]
async fn noscript_cancel() {
    // Asked by hash, told NOSCRIPT, asked with the text, granted: 2 ms each.
    for after in 0..10 {
        let cluster = Cluster::new(3);
        let masters = connect_by_default(&cluster).await;
        for master in cluster.iter() {
            master.flush_scripts();
            master.set_delay(ms(2), ms(2));
        }
        let lock = masters.red_lock("a");
        let _ = timeout(ms(after), lock.try_lock()).await;
        sleep(NODE_TIMEOUT).await;
        assert!(
            cluster.iter().all(|master| master.locks().is_empty()),
            "cancelled after {after} ms"
        );
        // And undisturbed it simply works.
        lock.try_lock().await.expect("free").unlock().await.expect("held");
    }
    // Only a straggler has forgotten it, and says so after the hold has been given up.
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    cluster.master(2).forget_script("acquire");
    cluster.master(2).set_delay(ms(10), ms(10));
    masters
        .red_lock("a")
        .try_lock()
        .await
        .expect("0 and 1 grant")
        .unlock()
        .await
        .expect("held");
    sleep(NODE_TIMEOUT).await;
    assert!(
        cluster.master(2).locks().is_empty(),
        "a late acquire must not follow its release"
    );
}

/// 15 (without renewal): an operator forces a holder out while it extends and while an acquire of
/// its straggles towards a master.
///
/// Rule: the force leaves a mark that keeps that owner out.
#[tokio::test(start_paused = true)]
async fn force_undone() {
    let cluster = Cluster::new(3);
    let (holder, operator) = (
        connect_by_default(&cluster).await,
        connect_by_default(&cluster).await,
    );
    cluster.master(2).set_delay(ms(30), Duration::ZERO);
    let guard = holder.red_lock("a").try_lock().await.expect("0 and 1 grant");
    assert!(
        hold_of(cluster.master(2)).is_empty(),
        "its acquire is still on its way"
    );
    cluster.master(2).set_delay(Duration::ZERO, Duration::ZERO);
    cluster.master(2).hold_requests(true);
    let forced = operator
        .red_lock("a")
        .force_release()
        .await
        .expect("a majority answers");
    assert_eq!(forced.former.len(), 1);
    cluster.master(2).hold_requests(false);
    assert!(matches!(
        guard.extend(ms(1000)).await,
        Err(ExtendError::Lost { .. })
    ));
    settle().await;
    assert!(!guard.is_valid());
    assert!(
        cluster.iter().take(2).all(|master| hold_of(master).is_empty()),
        "stays free"
    );
    let next = operator.red_lock("a").try_lock().await.expect("free for others");
    assert!(matches!(guard.unlock().await, Err(UnlockError::WasLost { .. })));
    assert!(next.is_valid() && next.votes().granted() >= 2);
    next.unlock().await.expect("untouched by the former holder");
}

/// 3: an acquire to one master is delayed past the end of validity; an extension then finds it there.
///
/// Rule: a lapse is terminal, however many masters continue afterwards.
#[tokio::test(start_paused = true)]
async fn no_revival() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    cluster.master(0).hold_requests(true);
    let guard = masters
        .red_lock("a")
        .lease(ms(300))
        .try_lock()
        .await
        .expect("1 and 2 grant");
    // The extension reaches 1 at once, 2 and the straggling acquire reach theirs too late.
    cluster.master(2).hold_replies(true);
    sleep(ms(270)).await;
    let extension = tokio::spawn(async move {
        let extended = guard.extend(ms(300)).await;
        (guard, extended)
    });
    settle().await;
    sleep(ms(40)).await;
    cluster.master(0).hold_requests(false);
    cluster.master(2).hold_replies(false);
    let (guard, extended) = extension.await.expect("no panic");
    assert!(matches!(extended, Err(ExtendError::Lost { .. })), "{extended:?}");
    assert!(!guard.is_valid());
    assert!(matches!(
        guard.extend(ms(300)).await,
        Err(ExtendError::Lost { .. })
    ));
    settle().await;
    assert!(
        cluster.iter().all(|master| master.locks().is_empty()),
        "released everywhere"
    );
    assert!(!guard.is_valid(), "never valid again");
}

/// 13: answers to commands take long, notices do not: the notice of a release overtakes the refusal
/// of an acquire that was sent before it.
///
/// Rule: notices count from the moment of sending; subscribe, have the acknowledgement, ask once more.
#[tokio::test(start_paused = true)]
async fn notice_overtakes() {
    let cluster = Cluster::new(3);
    let builder = || Masters::builder().node_timeout(ms(500));
    let holder = cluster.connect(builder()).await.expect("connects");
    let waiter = cluster.connect(builder()).await.expect("connects");
    let guard = holder
        .red_lock("a")
        .lease(ms(20_000))
        .try_lock()
        .await
        .expect("free");
    for master in cluster.iter() {
        master.set_delay(Duration::ZERO, ms(200));
        master.set_notice_delay(Some(Duration::ZERO));
    }
    let waiting = tokio::spawn(async move {
        let guard = waiter.red_lock("a").lock().await.expect("its turn comes");
        (Instant::now(), guard)
    });
    // First refusal at 200 ms, subscribed at 400 ms, the second attempt is executed at 400 ms and its
    // refusal is on its way when the release is announced.
    sleep(ms(500)).await;
    guard.unlock().await.expect("held");
    let released = Instant::now() - ms(200);
    let (won, second) = waiting.await.expect("no panic");
    assert!(won - released < ms(600), "woken after {:?}", won - released);
    second.unlock().await.expect("held");
}

/// 14: an extension is delayed beyond the unlock.
///
/// Rule: extension creates nothing.
#[tokio::test(start_paused = true)]
async fn extend_after_unlock() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let guard = masters
        .red_lock("a")
        .lease(ms(5000))
        .try_lock()
        .await
        .expect("free");
    settle().await;
    // It leaves over a connection that breaks, and is delivered from there after everything else.
    cluster.master(0).keep_abandoned(true);
    cluster.master(0).deny_client_kill(true);
    cluster.master(0).hold_requests(true);
    guard.extend(ms(5000)).await.expect("1 and 2 continue");
    cluster.master(0).reset_connections();
    settle().await;
    cluster.master(0).hold_requests(false);
    sleep(ms(500)).await;
    guard.unlock().await.expect("held");
    settle().await;
    assert!(
        cluster.master(0).deliver_abandoned() > 0,
        "the schedule needs a late extension"
    );
    assert!(
        cluster.iter().all(|master| master.locks().is_empty()),
        "nothing was created"
    );
}

/// A master is frozen for longer than the lease while an acquire is on its way to it; when it thaws it
/// executes what it was sent, although nobody has wanted it for long.
///
/// Rule: what is owed to a master stays owed until it has been told, whatever the time.
#[tokio::test(start_paused = true)]
async fn orphan_after_thaw() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    cluster.master(0).keep_abandoned(true);
    cluster.master(0).freeze();
    for _ in 0..4 {
        let guard = masters
            .red_lock("a")
            .lease(ms(1000))
            .try_lock()
            .await
            .expect("1 and 2 grant");
        guard.unlock().await.expect("held");
        sleep(ms(60)).await;
    }
    sleep(ms(5000)).await;
    // The old socket is read before anything that arrives later.
    assert!(
        cluster.master(0).deliver_abandoned() > 0,
        "the schedule needs a late acquire"
    );
    cluster.master(0).thaw();
    sleep(ms(600)).await;
    assert_eq!(cluster.master(0).locks(), Vec::<String>::new());
}
