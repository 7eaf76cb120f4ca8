//! Schedules that refuted weaker protocols, each by its name: with the rule in place it ends well.
//!
//! Driven with masters in memory, which run the real Lua files; some of them stand again, on real
//! servers, in `stale_sockets.rs`.

use std::pin::pin;
use std::time::Duration;

use futures::future::join_all;
use futures::poll;
use multilock::sim::{Cluster, Master};
use multilock::{ExtendError, LockError, Masters, MultiLockGuard, Owner, UnlockError};
use tokio::time::{Instant, advance, sleep, timeout};

const NODE_TIMEOUT: Duration = Duration::from_millis(50);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

async fn connect(cluster: &Cluster) -> Masters {
    let builder = Masters::builder().node_timeout(NODE_TIMEOUT);
    cluster.connect(builder).await.expect("connects")
}

/// Lets everything that is due happen.
async fn settle() {
    sleep(ms(5)).await;
}

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
    let masters = connect(&cluster).await;
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
    let masters = connect(&cluster).await;
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
    let masters = connect(&cluster).await;
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
    assert!(matches!(picky.try_lock().await, Err(LockError::TooLate { .. })));
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
    let masters = connect(&cluster).await;
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

/// 11: a re-entry that needs an extension loses the messages (or the answers) of two masters and is
/// cancelled; then inner and outer unlock, in every order.
///
/// Rule: counts belong to the client; a re-entry that fails or is cancelled rolls nothing back.
#[tokio::test(start_paused = true)]
async fn reentry_rollback() {
    for answers_lost in [false, true] {
        for inner_first in [false, true] {
            let cluster = Cluster::new(3);
            let masters = connect(&cluster).await;
            let me = Owner::new();
            let short = masters.red_lock("a").owner(&me).lease(ms(2000));
            let outer = short.try_lock().await.expect("free");
            let inner = short.try_lock().await.expect("entered");
            for place in [0, 1] {
                let master = cluster.master(place);
                if answers_lost {
                    master.hold_replies(true);
                } else {
                    master.hold_requests(true);
                }
            }
            let longer = masters.red_lock("a").owner(&me).lease(ms(20_000));
            {
                let mut entry = pin!(longer.try_lock());
                assert!(poll!(&mut entry).is_pending());
                settle().await;
                assert!(poll!(&mut entry).is_pending());
            }
            assert!(
                matches!(longer.try_lock().await, Err(LockError::Unreachable { .. })),
                "not confirmed"
            );
            for place in [0, 1] {
                cluster.master(place).hold_replies(false);
                cluster.master(place).hold_requests(false);
            }
            settle().await;
            assert_eq!(outer.hold_count(), 2);
            assert!(
                cluster.iter().all(|master| !hold_of(master).is_empty()),
                "whole on every master"
            );
            let (one, other) = if inner_first {
                (inner, outer)
            } else {
                (outer, inner)
            };
            one.unlock().await.expect("still held by the other");
            assert!(other.is_valid());
            assert!(
                cluster.iter().all(|master| !hold_of(master).is_empty()),
                "whole after one unlock"
            );
            other.unlock().await.expect("held to the end");
            sleep(ms(500)).await;
            assert!(
                cluster.iter().all(|master| master.locks().is_empty()),
                "nothing left"
            );
        }
    }
}

/// 12: the servers have forgotten the scripts; the acquisition is cancelled at every point.
///
/// Rule: NOSCRIPT is answered within the attempt, in order, and only while it lives.
#[tokio::test(start_paused = true)]
async fn noscript_cancel() {
    // Asked by hash, told NOSCRIPT, asked with the text, granted: 2 ms each.
    for after in 0..10 {
        let cluster = Cluster::new(3);
        let masters = connect(&cluster).await;
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
    let masters = connect(&cluster).await;
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
    let (holder, operator) = (connect(&cluster).await, connect(&cluster).await);
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

/// When the keys would expire, on every master.
fn expiries(cluster: &Cluster) -> Vec<Instant> {
    let left = |master: &Master| master.time_left("a").expect("held");
    cluster
        .iter()
        .map(|master| Instant::now() + left(master))
        .collect()
}

/// 16: re-entry, extension and inner unlock with a shorter lease, and a rival's refusal in between.
///
/// Rule: remaining time only ever rises.
#[tokio::test(start_paused = true)]
async fn no_shrinking() {
    let cluster = Cluster::new(3);
    let (masters, rival) = (connect(&cluster).await, connect(&cluster).await);
    let me = Owner::new();
    let outer = masters
        .red_lock("a")
        .owner(&me)
        .lease(ms(10_000))
        .try_lock()
        .await
        .expect("free");
    settle().await;
    let mut before = expiries(&cluster);
    let mut never_falls = |step: &str, validity: Duration| {
        let now = expiries(&cluster);
        for (then, now) in before.iter().zip(&now) {
            assert!(now >= then, "{step}");
        }
        assert!(
            Instant::now() + validity <= now[0],
            "{step}: trusted for longer than it is kept"
        );
        before = now;
    };
    let short = masters.red_lock("a").owner(&me).lease(ms(200));
    sleep(ms(1000)).await;
    let inner = short.try_lock().await.expect("entered");
    never_falls("re-entry", inner.validity());
    inner.extend(ms(200)).await.expect("confirmed");
    never_falls("a shorter extension", inner.validity());
    assert!(inner.validity() > ms(8000));
    assert!(matches!(
        rival.red_lock("a").lease(ms(200)).try_lock().await,
        Err(LockError::Contended { .. })
    ));
    never_falls("a rival's refusal", outer.validity());
    outer.extend(ms(20_000)).await.expect("confirmed");
    never_falls("a longer extension", outer.validity());
    assert!(outer.validity() > ms(19_000));
    inner.unlock().await.expect("inner");
    never_falls("an inner unlock", outer.validity());
    outer.unlock().await.expect("outer");
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
        let builder = Masters::builder().node_timeout(NODE_TIMEOUT);
        clients.push(
            cluster
                .connect_from(&distances, builder)
                .await
                .expect("a majority"),
        );
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

/// 3: an acquire to one master is delayed past the end of validity; an extension then finds it there.
///
/// Rule: a lapse is terminal, however many masters continue afterwards.
#[tokio::test(start_paused = true)]
async fn no_revival() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
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
    let masters = connect(&cluster).await;
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
    let masters = connect(&cluster).await;
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
