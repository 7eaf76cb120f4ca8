//! Locks with a least time: the names stay locked for that time after a grant that was given out, and never without one.

use std::time::Duration;

use multilock::{Masters, MultiLock, Unlocked};
use tokio::time::{Instant, sleep, sleep_until};

use super::acquiring::{Party, Verb};
use super::scene::{
    AFTER_OUTAGE, Scene, assert_waiting, goes_to, has_majority, next_granted, stepped, waiter,
    with_all_faults,
};
use crate::support::ms;

const KEPT: Duration = ms(1000);
/// The names stay locked until its end on masters that were not told.
const LEASE: Duration = ms(2000);
/// Time for which another task holds the lock before the call has it.
const HELD_FOR: Duration = ms(30);
const MOST_STEPS: usize = 8;

fn lock(masters: &Masters, name: &str) -> MultiLock {
    masters.red_lock(name).lease(LEASE)
}

/// Nobody has the lock before the least time after the grant is over, and others have it then.
async fn is_kept(scene: &Scene, name: &str, granted_at: Instant, what: &str) {
    let waiters = [&scene.own, &scene.other].map(|masters| waiter(lock(masters, name)));
    let mut waiters = Vec::from(waiters);
    let ends = granted_at + KEPT;
    sleep_until(ends - ms(1)).await;
    assert_waiting(&waiters, what);
    scene.bound();
    // Nobody calls the waiters at the end of the time. And without a majority the lease may keep the names.
    let within = LEASE + AFTER_OUTAGE;
    while !waiters.is_empty() {
        drop(next_granted(&mut waiters, within, what).await);
    }
    goes_to(&lock(&scene.other, name), within, what).await;
    scene.undo();
    sleep_until(granted_at + LEASE + ms(100)).await;
    scene.is_clean_soon(what).await;
}

/// Drops the unlock at this step. Returns whether it was done before.
async fn drop_unlock(scene: &Scene, step: usize) -> bool {
    let what = format!("{:?} at step {step}", scene.faults);
    let name = format!("a{step}");
    let guard = lock(&scene.own, &name).at_least(KEPT).lock().await.expect("free");
    let granted_at = Instant::now();
    sleep(ms(5)).await;
    scene.arrange();
    let unlocked = stepped(guard.unlock(), step).await;
    if has_majority(scene.faults)
        && let Some(unlocked) = &unlocked
    {
        assert!(
            matches!(unlocked, Ok(Unlocked::KeptFor(_))),
            "{what}: {unlocked:?}"
        );
    }
    is_kept(scene, &name, granted_at, &what).await;
    unlocked.is_some()
}

#[tokio::test(start_paused = true)]
async fn the_names_stay_locked_whenever_the_unlock_is_dropped() {
    let steps = with_all_faults(MOST_STEPS, async |scene, step| drop_unlock(scene, step).await).await;
    assert!(steps > 30, "only {steps} await points were tried");
}

/// Drops the call for the lock at this step, while nobody or somebody holds it. Returns whether it was done before.
async fn drop_lock(scene: &Scene, step: usize, held: Party) -> bool {
    let what = format!("held by {held:?} with {:?} at step {step}", scene.faults);
    let name = format!("a{step}");
    // Its hold can be handed on to the call: a least time sets the same least validity.
    let blocker = match held.of(scene) {
        Some(masters) => lock(masters, &name).min_validity(KEPT).lock().await.ok(),
        None => None,
    };
    let verb = if blocker.is_some() { Verb::Wait } else { Verb::Try };
    scene.arrange();
    tokio::spawn(async move {
        sleep(HELD_FOR).await;
        drop(blocker);
    });
    let call = verb.of_lock(lock(&scene.own, &name).at_least(KEPT));
    let ended = stepped(call, step).await;
    let is_done = ended.is_some();
    let granted_at = Instant::now();
    if matches!(ended, Some(Some(_))) {
        drop(ended);
        is_kept(scene, &name, granted_at, &what).await;
    } else {
        // No guard was given out, so nothing is kept.
        let within = HELD_FOR + scene.bound();
        goes_to(&lock(&scene.other, &name), within, &what).await;
        goes_to(&lock(&scene.own, &name), within, &what).await;
        scene.undo();
        scene.is_clean_soon(&what).await;
    }
    is_done
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_keeps_no_name() {
    let mut steps = 0;
    for held in [Party::Nobody, Party::Other, Party::Own] {
        steps += with_all_faults(MOST_STEPS, async |scene, step| drop_lock(scene, step, held).await).await;
    }
    assert!(steps > 100, "only {steps} await points were tried");
}
