//! Holding: a hold is renewed until it is given up, and its loss is known at once.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{connect, connect_leasing, executed, ms, settle, slow_down};
use futures::FutureExt;
use multilock::sim::{Call, Cluster, Fate, Keep, Master, Observer};
use multilock::{
    Closing, LockError, LossCause, Masters, MultiLockGuard, Owner, Policy, Quarantine, RunError, UnlockError,
    Unlocked, Vote,
};
use tokio::time::{Instant, sleep, timeout};

const LEASE: Duration = Duration::from_secs(3);
/// The lease less one percent and two milliseconds.
const VALIDITY: Duration = Duration::from_millis(2968);

fn holders(cluster: &Cluster) -> usize {
    cluster
        .iter()
        .filter(|master| !master.fields("a").is_empty())
        .count()
}

/// Has a master forget the hold, and hold the name for another owner for this time in ms.
fn serve_another(master: &Master, lease_ms: &str) {
    for words in [
        &["DEL", "a"][..],
        &["HSET", "a", "another:1", "1"],
        &["PEXPIRE", "a", lease_ms],
    ] {
        master.command(words).expect("another's");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_lasts_for_as_long_as_its_guard() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    for _ in 0..600 {
        sleep(ms(500)).await;
        assert!(
            guard.validity() > ms(1800),
            "renewed every third: {:?}",
            guard.validity()
        );
    }
    let renewals = cluster.master(0).executed()["extend"];
    assert!(
        (290..=330).contains(&renewals),
        "{renewals} in 300 s, a third of the lease is 1 s"
    );
    guard.unlock().await.expect("held");
    sleep(ms(2000)).await;
    assert_eq!(
        cluster.master(0).executed()["extend"],
        renewals,
        "nothing is renewed any more"
    );
    assert_eq!(holders(&cluster), 0);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_is_not_renewed() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let guard = masters.red_lock("a").lease(ms(1000)).lock().await.expect("free");
    let begun = Instant::now();
    let loss = guard.lost().await;
    assert_eq!(loss.cause, LossCause::Expired);
    assert!(
        loss.to_string().contains("or it is not renewed any more"),
        "{loss}"
    );
    assert!(
        begun.elapsed() <= ms(988) && begun.elapsed() >= ms(980),
        "{:?}",
        begun.elapsed()
    );
    assert!(!guard.is_valid());
    assert!(!cluster.master(0).executed().contains_key("extend"));
}

/// Redisson stops renewing here.
#[tokio::test(start_paused = true)]
async fn an_inner_fixed_lease_does_not_stop_the_renewal_of_the_outer_hold() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let me = Owner::new();
    let outer = masters.red_lock("a").owner(&me).lock().await.expect("free");
    let inner = masters
        .red_lock("a")
        .owner(&me)
        .lease(ms(1000))
        .lock()
        .await
        .expect("entered");
    sleep(ms(10_000)).await;
    assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    sleep(ms(10_000)).await;
    assert!(outer.is_valid());
    // And the other way round: a renewed inner guard keeps a fixed outer hold alive while it lives.
    outer.unlock().await.expect("held");
    let outer = masters
        .red_lock("a")
        .owner(&me)
        .lease(ms(1000))
        .lock()
        .await
        .expect("free");
    let inner = masters.red_lock("a").owner(&me).lock().await.expect("entered");
    sleep(ms(10_000)).await;
    assert!(outer.is_valid());
    inner.unlock().await.expect("inner");
    sleep(ms(1100)).await;
    assert!(!outer.is_valid());
}

#[tokio::test(start_paused = true)]
async fn one_silent_master_changes_nothing() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    cluster.master(1).freeze();
    for _ in 0..100 {
        sleep(ms(500)).await;
        assert!(guard.validity() > ms(1800), "{:?}", guard.validity());
    }
    cluster.master(1).thaw();
    sleep(ms(3000)).await;
    assert_eq!(holders(&cluster), 3, "it holds there again");
}

/// `lost` fires by the end of validity, and never while any is left.
#[tokio::test(start_paused = true)]
async fn a_silent_majority_ends_the_hold_at_the_end_of_its_validity() {
    for frozen_after in [0, 500, 999, 1000, 1001, 1700] {
        let cluster = Cluster::new(3);
        let masters = connect_leasing(&cluster, LEASE).await;
        let guard = masters.red_lock("a").lock().await.expect("free");
        sleep(ms(frozen_after)).await;
        cluster.master(0).freeze();
        cluster.master(1).freeze();
        let (frozen, left) = (Instant::now(), guard.validity());
        let loss = guard.lost().await;
        assert!(!guard.is_valid(), "no validity is left when the word comes");
        assert_eq!(loss.cause, LossCause::Expired);
        assert!(
            frozen.elapsed() <= left,
            "late by {:?}",
            frozen.elapsed().checked_sub(left)
        );
        assert!(
            frozen.elapsed() + ms(3) >= left,
            "{:?} before the end",
            left.saturating_sub(frozen.elapsed())
        );
        // Nothing brings it back.
        cluster.master(0).thaw();
        cluster.master(1).thaw();
        sleep(ms(5000)).await;
        assert!(!guard.is_valid());
        assert_eq!(holders(&cluster), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_majority_that_comes_back_in_time_keeps_the_hold() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    for _ in 0..5 {
        cluster.master(0).freeze();
        cluster.master(1).freeze();
        sleep(ms(1800)).await;
        assert!(guard.is_valid());
        cluster.master(0).thaw();
        cluster.master(1).thaw();
        sleep(ms(2500)).await;
        assert!(guard.validity() > ms(1500), "{:?}", guard.validity());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_regains_the_masters_it_started_without_or_that_forgot_it() {
    let cluster = Cluster::new(5);
    let masters = connect_leasing(&cluster, LEASE).await;
    cluster.master(3).crash();
    cluster.master(4).crash();
    sleep(ms(10)).await;
    let guard = masters.red_lock("a").lock().await.expect("three are up");
    assert_eq!(holders(&cluster), 3);
    cluster.master(3).restart(Keep::Nothing);
    cluster.master(4).restart(Keep::Data);
    sleep(ms(2000)).await;
    assert_eq!(holders(&cluster), 5);
    for place in 0..5 {
        cluster.master(place).crash();
        cluster.master(place).restart(Keep::Nothing);
        sleep(ms(2500)).await;
        assert_eq!(holders(&cluster), 5, "taken again on {place}");
        assert!(guard.is_valid());
    }
    assert_eq!(guard.votes().granted(), 5);
    guard.unlock().await.expect("held");
    sleep(ms(100)).await;
    assert_eq!(holders(&cluster), 0, "also where it was taken again");
}

/// Retaking must not outrun the release.
#[tokio::test(start_paused = true)]
async fn a_retake_on_its_way_does_not_survive_the_unlock() {
    for after in 0..12 {
        let cluster = Cluster::new(3);
        let masters = connect_leasing(&cluster, LEASE).await;
        let guard = masters.red_lock("a").lock().await.expect("free");
        sleep(ms(100)).await;
        cluster.master(2).command(&["DEL", "a"]).expect("forgotten");
        for master in cluster.iter() {
            master.set_delay(ms(2), ms(2));
        }
        sleep(ms(890 + after)).await;
        guard.unlock().await.expect("held");
        sleep(ms(100)).await;
        assert_eq!(holders(&cluster), 0, "after {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn masters_that_serve_somebody_else_end_it_early() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    sleep(ms(100)).await;
    for place in [0, 1] {
        serve_another(cluster.master(place), "60000");
    }
    let begun = Instant::now();
    let loss = guard.lost().await;
    assert_eq!(loss.cause, LossCause::TakenAway);
    assert!(
        begun.elapsed() <= ms(1000),
        "at the next renewal: {:?}",
        begun.elapsed()
    );
    let refused = loss
        .votes
        .iter()
        .filter(|node| matches!(node.vote, Vote::Refused { .. }))
        .count();
    assert_eq!(refused, 2, "{}", loss.votes);
    sleep(ms(100)).await;
    assert_eq!(
        cluster.master(0).fields("a")[0],
        "another:1",
        "somebody else's hold is untouched"
    );
    assert!(cluster.master(2).fields("a").is_empty(), "the rest is released");
}

/// The other masters still have the hold of a MultiLock, so nobody else can have the name. The master that forgot it gets it
/// again once it is free there.
#[tokio::test(start_paused = true)]
async fn a_multi_lock_outlives_a_master_that_serves_somebody_else_for_a_moment() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let guard = masters.multi_lock("a").lock().await.expect("free");
    sleep(ms(100)).await;
    serve_another(cluster.master(2), "1200");
    sleep(ms(1000)).await;
    assert!(guard.is_valid(), "{:?}", guard.validity());
    assert_eq!(cluster.master(2).fields("a")[0], "another:1", "it was met");
    sleep(ms(1000)).await;
    assert_eq!(holders(&cluster), 3);
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

/// Two late answers and one master that has forgotten are no loss: the late ones may still have the hold.
#[tokio::test(start_paused = true)]
async fn a_multi_lock_outlives_a_master_that_forgot_it_while_others_are_silent() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let guard = masters.multi_lock("a").lock().await.expect("free");
    sleep(ms(900)).await;
    cluster.master(2).command(&["DEL", "a"]).expect("gone");
    cluster.master(0).freeze();
    cluster.master(1).freeze();
    sleep(ms(300)).await;
    cluster.master(0).thaw();
    cluster.master(1).thaw();
    sleep(ms(1000)).await;
    assert!(guard.is_valid(), "{:?}", guard.validity());
    assert_eq!(holders(&cluster), 3);
}

/// A release tells of a loss only if another holder may have had a quorum of the masters that had lost the hold.
#[tokio::test(start_paused = true)]
async fn a_release_is_of_a_lost_hold_where_a_majority_had_lost_it() {
    for (count, policy, forgetful, is_lost) in [
        (3, Policy::RedLock, 1, false),
        (3, Policy::RedLock, 2, true),
        (3, Policy::MultiLock, 1, false),
        (3, Policy::MultiLock, 2, true),
        (4, Policy::RedLock, 2, false),
        (4, Policy::RedLock, 3, true),
        (5, Policy::AtLeast(4), 2, false),
        (5, Policy::AtLeast(4), 3, true),
    ] {
        let cluster = Cluster::new(count);
        let masters = connect_leasing(&cluster, LEASE).await;
        let guard = masters.lock("a", policy).lock().await.expect("free");
        settle().await;
        for master in cluster.iter().take(forgetful) {
            master.command(&["DEL", "a"]).expect("gone");
        }
        let unlocked = guard.unlock().await;
        let case = format!("{policy:?} over {count}, {forgetful} forgot: {unlocked:?}");
        match unlocked {
            Ok(Unlocked::Released) => assert!(!is_lost, "{case}"),
            Err(UnlockError::WasLost { .. }) => assert!(is_lost, "{case}"),
            _ => panic!("{case}"),
        }
    }
}

/// Every master answers that it knows nothing of the hold: that is told with the next renewal, or with
/// an extension of the caller's own.
#[tokio::test(start_paused = true)]
async fn a_hold_that_all_have_forgotten_is_lost_at_once() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let (renewed, extended) = (masters.red_lock("a"), masters.red_lock("b").lease(ms(2500)));
    let renewed = renewed.lock().await.expect("free");
    let extended = extended.lock().await.expect("free");
    let begun = Instant::now();
    for master in cluster.iter() {
        master.command(&["DEL", "a", "b"]).expect("gone");
    }
    let error = extended.extend(ms(2500)).await.expect_err("nobody has it");
    assert!(matches!(error, multilock::ExtendError::Lost { .. }), "{error}");
    assert_eq!(extended.lost().await.cause, LossCause::Forgotten);
    let loss = renewed.lost().await;
    assert_eq!(loss.cause, LossCause::Forgotten, "{loss}");
    assert!(begun.elapsed() <= ms(1000), "{:?}", begun.elapsed());
    assert!(!renewed.is_valid() && !extended.is_valid());
    let next = masters.red_lock(["a", "b"]).try_lock().await;
    assert!(next.is_ok(), "{next:?}");
}

/// An extension wakes no task that waits for the end. The end is reported in time all the same.
#[tokio::test(start_paused = true)]
async fn waiting_for_the_loss_costs_a_timer_a_lease() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    let mut lost = std::pin::pin!(guard.lost());
    let mut woken = 0;
    let watching = std::future::poll_fn(|cx| {
        woken += 1;
        lost.as_mut().poll(cx).map(|_| ())
    });
    assert!(timeout(ms(60_000), watching).await.is_err(), "it is renewed");
    assert!(woken <= 35, "{woken} times in 20 leases of 3 s");
    for master in cluster.iter() {
        master.freeze();
    }
    let left = guard.validity();
    assert!(timeout(left, lost).await.is_ok(), "by the end");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_forced_out_learns_of_it_at_its_next_renewal() {
    let cluster = Cluster::new(3);
    let (masters, operator) = (
        connect_leasing(&cluster, LEASE).await,
        connect_leasing(&cluster, LEASE).await,
    );
    let guard = masters.red_lock("a").lock().await.expect("free");
    sleep(ms(100)).await;
    let forced = operator.red_lock("a").force_release().await.expect("all answer");
    assert_eq!(forced.former, vec![guard.holder()]);
    let loss = timeout(ms(1100), guard.lost())
        .await
        .expect("at the next renewal");
    assert_eq!(loss.cause, LossCause::TakenAway);
    sleep(ms(5000)).await;
    assert_eq!(holders(&cluster), 0, "its renewal does not undo the force");
}

/// No renewal brings the hold back to the master that a force has reached, so a MultiLock never has all of them again.
#[tokio::test(start_paused = true)]
async fn a_multi_lock_that_a_force_has_taken_from_one_master_ends_at_its_next_renewal() {
    /// Delivers forces to the last master alone.
    struct Halfway;
    impl Observer for Halfway {
        fn sent(&self, call: &Call) -> Fate {
            if call.script == "force" && call.master < 2 {
                Fate::RequestDelayed(ms(60_000))
            } else {
                Fate::Delivered
            }
        }
    }
    let cluster = Cluster::new(3);
    let (masters, operator) = (
        connect_leasing(&cluster, LEASE).await,
        connect_leasing(&cluster, LEASE).await,
    );
    let guard = masters.multi_lock("a").lock().await.expect("free");
    let observer: Arc<dyn Observer> = Arc::new(Halfway);
    cluster.observe(&observer);
    sleep(ms(100)).await;
    let forced = operator.multi_lock("a").force_release().await;
    assert!(forced.is_err(), "{forced:?}");
    assert_eq!(holders(&cluster), 2);
    let loss = timeout(ms(1100), guard.lost())
        .await
        .expect("at the next renewal");
    assert_eq!(loss.cause, LossCause::TakenAway);
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_renewal() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let guard = masters
        .red_lock("a")
        .max_hold(ms(10_000))
        .lock()
        .await
        .expect("free");
    let begun = Instant::now();
    guard.lost().await;
    let held = begun.elapsed();
    assert!(held >= ms(10_000) && held <= ms(10_000) + VALIDITY, "{held:?}");
    let error = masters
        .red_lock("a")
        .max_hold(ms(1))
        .try_lock()
        .await
        .expect_err("shorter than the lease");
    assert!(
        error
            .to_string()
            .starts_with("max_hold: 1ms is not allowed; allowed: 3s or more"),
        "{error}"
    );
}

/// A default of the client, before which that of the call site goes, also to have none.
#[tokio::test(start_paused = true)]
async fn a_client_bounds_the_holds_of_all_its_call_sites() {
    let cluster = Cluster::new(3);
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .lease(LEASE)
        .max_hold(ms(10_000));
    let masters = cluster.connect(builder).await.expect("connects");
    let begun = Instant::now();
    let guard = |lock: multilock::MultiLock| async move { lock.lock().await.expect("free") };
    let forgotten = guard(masters.red_lock("a")).await;
    let shorter = guard(masters.red_lock("b").max_hold(ms(5000))).await;
    let for_ever = guard(masters.red_lock("c").max_hold(Duration::MAX)).await;
    // Not renewed at all, so it may be longer than that.
    let set = masters.red_lock("d").and(masters.red_lock("e"));
    let set = set.lock().await.expect("free");
    shorter.lost().await;
    assert!(
        (ms(5000)..=ms(5000) + VALIDITY).contains(&begun.elapsed()),
        "{:?}",
        begun.elapsed()
    );
    std::mem::forget(forgotten);
    let next = masters.red_lock("a").wait(ms(60_000));
    drop(next.lock().await.expect("its renewal ends"));
    assert!(
        (ms(10_000)..=ms(10_100) + LEASE).contains(&begun.elapsed()),
        "{:?}",
        begun.elapsed()
    );
    assert!(!set.is_valid());
    sleep(ms(600_000)).await;
    assert!(for_ever.is_valid());
    let builder = Masters::builder().lease(LEASE).max_hold(ms(2999));
    let refused = cluster
        .connect(builder)
        .await
        .expect_err("shorter than the lease");
    assert!(
        refused
            .to_string()
            .starts_with("max_hold: 2s 999ms is not allowed"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn many_holds_are_renewed_in_few_calls() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let mut guards = Vec::new();
    for number in 0..2000 {
        guards.push(
            masters
                .red_lock(format!("name-{number}"))
                .try_lock()
                .await
                .expect("free"),
        );
        if number % 10 == 0 {
            sleep(ms(1)).await;
        }
    }
    sleep(ms(2000)).await;
    let before = cluster.master(0).executed()["extend"];
    sleep(ms(4000)).await;
    let calls = cluster.master(0).executed()["extend"] - before;
    // 8,000 renewals in four periods of a second, and perhaps a part of a fifth.
    assert!(calls <= 5 * 64, "{calls} calls");
    assert!(guards.iter().all(|guard| guard.validity() > ms(1800)));
}

/// Less of a lease is trusted with a large factor, so it is renewed more often, but not without a pause.
#[tokio::test(start_paused = true)]
async fn a_large_drift_factor_costs_few_renewals() {
    for (factor, most) in [(0.01, 4), (0.2, 5), (0.5, 8)] {
        let cluster = Cluster::new(3);
        slow_down(&cluster, 2);
        let masters = cluster
            .connect(Masters::builder().lease(LEASE).drift_factor(factor))
            .await;
        let masters = masters.expect("in memory");
        let guard = masters.red_lock("a").lock().await.expect("free");
        sleep(LEASE * 4 / 3).await;
        let renewals = cluster.master(0).executed()["extend"];
        assert!((3..=most).contains(&renewals), "{factor}: {renewals}");
        assert!(guard.validity() > LEASE.mul_f64((1.0 - factor) / 2.0), "{factor}");
    }
}

#[tokio::test(start_paused = true)]
async fn run_tells_the_result_and_the_fate_of_the_lock_apart() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let lock = masters.red_lock("a");
    let output = lock.run(async |guard| guard.hold_count()).await;
    assert_eq!(output, Ok(1));

    // Lost meanwhile: the body stops at its first await after the loss.
    let mut steps = 0;
    let outcome = lock
        .run(async |_| {
            loop {
                steps += 1;
                if steps == 5 {
                    cluster.master(0).freeze();
                    cluster.master(1).freeze();
                }
                sleep(ms(500)).await;
            }
        })
        .await;
    let outcome: Result<(), RunError<()>> = outcome;
    assert!(
        matches!(&outcome, Err(RunError::Lost(loss)) if loss.cause == LossCause::Expired),
        "{outcome:?}"
    );
    assert!((7..=11).contains(&steps), "{steps}");
    cluster.master(0).thaw();
    cluster.master(1).thaw();
    sleep(ms(1000)).await;

    // Came to its end, but too few masters could be told: the result is not lost.
    let outcome = lock
        .run(async |_| {
            cluster.master(0).freeze();
            cluster.master(1).freeze();
            "receipt"
        })
        .await;
    assert_eq!(outcome, Ok("receipt"));
    // Never began.
    let outcome = lock.clone().wait(ms(100)).run(async |_| "receipt").await;
    assert!(
        matches!(&outcome, Err(RunError::Lock(LockError::TimedOut { .. }))),
        "{outcome:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_are_cancelled_by_a_loss_and_not_by_an_unlock() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    let token = guard.cancellation_token();
    guard.unlock().await.expect("held");
    sleep(ms(10_000)).await;
    assert!(!token.is_cancelled(), "a manual unlock is no loss");
    let guard = masters.red_lock("a").lease(ms(1000)).lock().await.expect("free");
    let token = guard.cancellation_token();
    timeout(ms(1000), token.cancelled())
        .await
        .expect("by the end of validity");
    assert!(!guard.is_valid());
}

/// An owner that enters again during a renewal is renewed once, and not once more each time.
#[tokio::test(start_paused = true)]
async fn entering_again_during_a_renewal_does_not_double_it() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let me = Owner::new();
    let lock = masters.red_lock("a").owner(&me);
    // The outer guard needs no renewal, so only the inner guard needs it.
    let outer = lock.clone().lease(LEASE).lock().await.expect("free");
    let mut inner = lock.lock().await.expect("entered");
    for master in cluster.iter() {
        master.set_delay(ms(20), ms(20));
    }
    for _ in 0..20 {
        let before = cluster.master(0).executed().get("extend").copied();
        // A renewal has arrived there, and its answer is on the way.
        while cluster.master(0).executed().get("extend").copied() == before {
            sleep(ms(1)).await;
        }
        inner.unlock().await.expect("held");
        inner = lock.lock().await.expect("entered");
    }
    sleep(ms(100)).await;
    let before = cluster.master(0).executed()["extend"];
    sleep(ms(10_000)).await;
    let renewals = cluster.master(0).executed()["extend"] - before;
    assert!(renewals <= 12, "{renewals} in 10 s, a third of the lease is 1 s");
    inner.unlock().await.expect("held");
    outer.unlock().await.expect("held");
}

/// A hundred holds fall due together and travel in one call.
#[tokio::test(start_paused = true)]
async fn one_spoilt_hold_ends_no_other_in_its_batch() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let mut guards = Vec::new();
    for n in 0..100 {
        guards.push(masters.red_lock(format!("n{n}")).lock().await.expect("free"));
    }
    for master in [0, 1].map(|place| cluster.master(place)) {
        master.command(&["DEL", "n7"]).expect("deleted");
        let mark = ["SET", "multilock_revoked:{n7}", "no mark"];
        master.command(&mark).expect("stored");
    }
    sleep(LEASE * 3).await;
    let valid: Vec<_> = guards.iter().map(MultiLockGuard::is_valid).collect();
    assert!(!valid[7], "two masters of three cannot renew it");
    assert_eq!(valid.iter().filter(|valid| **valid).count(), 99);
    // The spoilt hold is asked for alone, so the others travel together again.
    let before = cluster.master(0).executed()["extend"];
    sleep(LEASE).await;
    let renewals = cluster.master(0).executed()["extend"] - before;
    assert!(renewals <= 24, "{renewals} calls for 99 holds in three periods");
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

/// A task that cancels its own token ends its own work alone.
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

/// A master forgets the key and the script; the retake meets NOSCRIPT after the release has been sent.
#[tokio::test(start_paused = true)]
async fn a_retake_is_not_sent_again_after_its_release() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(3000)).await;
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

/// A leaked hold is nobody's to release, and a renewal that is under way does not change that.
#[tokio::test(start_paused = true)]
async fn closing_leaves_what_was_leaked_during_a_renewal() {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 10);
    let (masters, other) = (connect(&cluster).await, connect(&cluster).await);
    let guard = masters.red_lock("a").lock().await.expect("free");
    while executed(&cluster, "extend") == 0 {
        sleep(ms(1)).await;
    }
    guard.leak();
    let closed = masters.close(Closing::Release).await;
    assert_eq!((closed.released, closed.unconfirmed), (0, 0));
    let refused = other.red_lock("a").try_lock().await;
    assert!(matches!(refused, Err(LockError::Contended { .. })), "{refused:?}");
}

/// The masters have a hold for a moment longer than it is valid. A guard that is given up then tells of the loss all the same.
#[tokio::test(start_paused = true)]
async fn an_unlock_right_behind_the_validity_tells_of_the_loss() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let guard = masters.red_lock("a").lease(LEASE).lock().await.expect("free");
    // Nothing else runs meanwhile.
    let advanced = tokio::time::advance(guard.validity()).now_or_never();
    assert_eq!(advanced, None, "it lets others run next");
    assert_eq!(holders(&cluster), 3);
    let unlocked = guard.unlock().await;
    assert!(
        matches!(unlocked, Err(UnlockError::WasLost { .. })),
        "{unlocked:?}"
    );
}

/// A crash keeps the names of a renewed hold locked for as long as it was extended to.
#[tokio::test(start_paused = true)]
async fn a_renewed_hold_keeps_the_lease_that_it_was_extended_to() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, LEASE).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    guard.extend(4 * LEASE).await.expect("extended");
    for _ in 0..20 {
        sleep(LEASE).await;
        assert!(guard.validity() > 2 * LEASE, "{:?}", guard.validity());
    }
}

/// A large drift leaves little of a lease to rely on. The holds are renewed earlier, so that a renewal that fails can be repeated.
#[tokio::test(start_paused = true)]
async fn holds_are_renewed_more_often_with_a_large_drift() {
    for (drift_factor, renewals) in [(0.01, 6), (0.17, 6), (0.5, 10)] {
        let cluster = Cluster::new(3);
        let builder = Masters::builder()
            .quarantine(Quarantine::Off)
            .drift_factor(drift_factor);
        let masters = cluster.connect(builder).await.expect("connects");
        let guard = masters.red_lock("a").lock().await.expect("free");
        sleep(Duration::from_secs(61)).await;
        assert_eq!(executed(&cluster, "extend"), 3 * renewals, "{drift_factor}");
        assert!(guard.is_valid());
    }
}
