//! Re-entry in rare schedules: a hold that is entered again is neither shortened, nor rolled back, nor contended for.

use std::time::Duration;

use crate::support::{connect, connect_by_default, connect_leasing, executed, ms, queues, settle, slow_down};
use multilock::sim::{Cluster, Master};
use multilock::{ExtendError, LockError, NodeState, Owner, UnlockError, Unlocked};
use tokio::time::{Instant, sleep, timeout};

/// An owner's hold has less left than a re-entry wants: it is extended, by the lease of the call if its own
/// cannot give as much.
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
    let inner = lock
        .clone()
        .min_validity(ms(9000))
        .lock()
        .await
        .expect("extended");
    assert!(inner.validity() > ms(9000) && inner.validity() < ms(10_000));
    let greedy = lock.min_validity(ms(25_000));
    let inner = timeout(ms(1000), greedy.lock())
        .await
        .expect("soon")
        .expect("extended");
    assert!(inner.validity() > ms(25_000) && outer.hold_count() == 3);
    assert_eq!(
        executed(&cluster, "acquire"),
        before,
        "its own hold is not contended for"
    );
}

/// A hold that has reached its bound is not extended by its owner's entries, however many, and has its end.
#[tokio::test(start_paused = true)]
async fn entering_again_and_again_does_not_outlast_the_bound() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(3000)).await;
    let me = Owner::new();
    let lock = masters.red_lock("a").owner(&me);
    let begun = Instant::now();
    let outer = lock.clone().max_hold(ms(3000)).lock().await.expect("free");
    while outer.is_valid() {
        let inner = lock.try_lock().await.expect("entered");
        assert_eq!(inner.hold_count(), 2);
        inner.unlock().await.expect("inside");
        sleep(ms(500)).await;
        assert!(begun.elapsed() < ms(6500), "{:?}", begun.elapsed());
    }
    // A validity that only an extension could give is refused, without a word to the masters.
    let outer = lock.clone().max_hold(ms(3000)).lock().await.expect("free");
    sleep(ms(4000)).await;
    let before = executed(&cluster, "extend");
    let greedy = lock.min_validity(ms(2900)).try_lock().await;
    assert!(matches!(greedy, Err(LockError::TooLate { .. })), "{greedy:?}");
    assert_eq!(executed(&cluster, "extend"), before);
    outer.lost().await;
}

/// The masters have the number of an owner's entries with the next renewal.
#[tokio::test(start_paused = true)]
async fn the_count_that_masters_show_follows_the_entries() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let me = Owner::new();
    let lock = masters.red_lock("a").owner(&me);
    let shown = async || {
        sleep(ms(11_000)).await;
        let seen = masters.red_lock("a").inspect().await.expect("all answer");
        let counts = seen[0].nodes.iter().map(|(_, state)| match state {
            NodeState::Held { count, .. } => *count,
            _ => 0,
        });
        counts.collect::<Vec<_>>()
    };
    let _outer = lock.lock().await.expect("free");
    let inner = lock.lock().await.expect("its own");
    assert_eq!(shown().await, [2; 3]);
    inner.unlock().await.expect("held");
    assert_eq!(shown().await, [1; 3]);
}

/// A longer lease that was asked for counts in what an unlock says, though its answer is missing.
#[tokio::test(start_paused = true)]
async fn an_unconfirmed_unlock_knows_the_longest_lease_that_was_asked_for() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let guard = masters.red_lock("a").lease(ms(5000)).lock().await.expect("free");
    cluster.iter().for_each(|master| master.hold_replies(true));
    let extended = guard.extend(ms(25_000)).await;
    assert!(
        matches!(extended, Err(ExtendError::NotExtended { .. })),
        "{extended:?}"
    );
    cluster.iter().for_each(Master::freeze);
    let Err(UnlockError::Unconfirmed { free_within, .. }) = guard.unlock().await else {
        panic!("nobody answers");
    };
    assert_eq!(free_within, ms(25_000));
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

/// No watcher would be told of the entry.
#[tokio::test(start_paused = true)]
async fn an_announced_reentry_into_a_hold_that_is_not_is_refused() {
    let masters = connect(&Cluster::new(3)).await;
    let me = Owner::new();
    let lock = masters.red_lock("a").owner(&me);
    let outer = lock.clone().about("a text").lock().await.expect("free");
    let error = lock
        .clone()
        .announced()
        .lock()
        .await
        .expect_err("nobody would see it");
    assert_eq!(
        error.to_string(),
        "announced: true is not allowed; allowed: false, as the owner holds a without an announcement"
    );
    outer.unlock().await.expect("held");
    let _outer = lock.clone().announced().lock().await.expect("free");
    let _inner = lock.lock().await.expect("entered");
}

/// Nobody of this process gets a hold with leaked guards alone, so the next task of its line waits as those of others do.
#[tokio::test(start_paused = true)]
async fn the_task_behind_a_leaked_hold_is_in_the_queues() {
    for has_left in [false, true] {
        let cluster = Cluster::new(3);
        let masters = connect(&cluster).await;
        let lock = masters.red_lock("a");
        let owned = lock.clone().owner(&Owner::new());
        let guard = owned.lock().await.expect("free");
        let outer = if has_left {
            Some(owned.lock().await.expect("its own"))
        } else {
            None
        };
        let waiter = tokio::spawn(async move { lock.lock().await.expect("in the end") });
        settle().await;
        assert_eq!(queues(&cluster), 0, "its process holds");
        guard.leak();
        if let Some(outer) = outer {
            assert_eq!(outer.unlock().await, Ok(Unlocked::StillHeld(1)));
        }
        settle().await;
        assert_ne!(queues(&cluster), 0, "with another guard: {has_left}");
        let waiter = timeout(ms(31_000), waiter)
            .await
            .expect("at the end of the lease");
        drop(waiter);
    }
}

/// The owner of a leaked guard is shut out, also while a token of the hold is out.
#[tokio::test(start_paused = true)]
async fn a_leaked_hold_shuts_its_owner_out_until_its_lease_ends() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(3000)).await;
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

/// A guard of a lost hold is no inner guard: each of them tells of the loss.
#[tokio::test(start_paused = true)]
async fn every_guard_of_a_lost_hold_tells_of_the_loss() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = masters.red_lock("a").owner(&Owner::new());
    let (outer, inner) = (
        lock.lock().await.expect("free"),
        lock.lock().await.expect("its own"),
    );
    lock.force_release().await.expect("forced");
    outer.lost().await;
    for guard in [inner, outer] {
        assert!(guard.cancellation_token().is_cancelled());
        let unlocked = guard.unlock().await;
        assert!(
            matches!(unlocked, Err(UnlockError::WasLost { .. })),
            "{unlocked:?}"
        );
    }
}

/// Two tasks of an owner ask at once, with kinds that share no line. The second meets the hold of the first.
#[tokio::test(start_paused = true)]
async fn an_owner_that_gets_in_during_a_round_lets_its_other_task_in() {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 1);
    let masters = connect(&cluster).await;
    let me = Owner::new();
    let writing = masters.red_lock("a").write().owner(&me);
    let reading = masters.red_lock("a").read().owner(&me);
    let begun = Instant::now();
    let (first, other) = tokio::join!(writing.lock(), reading.lock());
    let _guards = (first.expect("free"), other.expect("the owner is inside"));
    assert!(begun.elapsed() < ms(100), "{:?}", begun.elapsed());
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
    let (masters, rival) = (
        connect_by_default(&cluster).await,
        connect_by_default(&cluster).await,
    );
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
