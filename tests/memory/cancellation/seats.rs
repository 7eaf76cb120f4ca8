//! Several permits of one name: none is lost with a call or an unlock that is dropped, and none is given out twice.

use std::time::Duration;

use multilock::{Masters, MultiLock, Permit};
use tokio::time::sleep;

use super::acquiring::Verb;
use super::scene::{Scene, Waiter, assert_waiting, next_granted, stepped, waiter, with_all_faults};
use crate::support::ms;

const SEATS: u32 = 3;
/// Time for which the seats are held before the call has one.
const HELD_FOR: Duration = ms(30);
const MOST_STEPS: usize = 7;

fn permits(masters: &Masters, name: &str) -> MultiLock<Permit> {
    masters.permits(name, SEATS)
}

/// As many waiters as there are seats have one each at the same time, and nobody else has.
async fn all_are_given_out(
    mut waiters: Vec<Waiter<Permit>>,
    within: Duration,
    scene: &Scene,
    name: &str,
    what: &str,
) {
    let mut guards = Vec::new();
    while !waiters.is_empty() {
        guards.push(next_granted(&mut waiters, within, what).await);
    }
    let mut seats: Vec<_> = guards.iter().map(multilock::MultiLockGuard::seat).collect();
    seats.sort_unstable();
    assert!(seats.into_iter().eq(1..=SEATS), "{what}: a seat twice");
    assert!(guards.iter().all(multilock::MultiLockGuard::is_valid), "{what}");
    let more = permits(&scene.other, name).try_lock().await;
    assert!(more.is_err(), "{what}: {more:?}");
}

/// Drops a call for a seat at this step, while all are held. Returns whether it was done before.
async fn drop_call(scene: &Scene, step: usize) -> bool {
    let what = format!("{:?} at step {step}", scene.faults);
    let name = format!("a{step}");
    let mut held = Vec::new();
    for masters in [&scene.own, &scene.other, &scene.own] {
        held.push(permits(masters, &name).lock().await.expect("free"));
    }
    scene.arrange();
    tokio::spawn(async move {
        sleep(HELD_FOR).await;
        drop(held);
    });
    let waiters = [&scene.own, &scene.other, &scene.other].map(|masters| {
        let lock = permits(masters, &name);
        tokio::spawn(async move {
            sleep(ms(5)).await;
            lock.lock().await
        })
    });
    let ended = stepped(Verb::Wait.of_lock(permits(&scene.own, &name)), step).await;
    let is_done = ended.is_some();
    drop(ended);
    let within = HELD_FOR + scene.bound();
    all_are_given_out(waiters.into(), within, scene, &name, &what).await;
    scene.undo();
    scene.is_clean_soon(&what).await;
    is_done
}

#[tokio::test(start_paused = true)]
async fn no_seat_is_lost_with_a_call() {
    let steps = with_all_faults(MOST_STEPS, async |scene, step| drop_call(scene, step).await).await;
    assert!(steps > 80, "only {steps} await points were tried");
}

/// Drops the unlock of one seat of three at this step. One waiter gets in, and not two. Returns whether it was done before.
async fn drop_unlock(scene: &Scene, step: usize) -> bool {
    let what = format!("{:?} at step {step}", scene.faults);
    let name = format!("a{step}");
    let mut held = Vec::new();
    for masters in [&scene.own, &scene.own, &scene.other] {
        held.push(permits(masters, &name).lock().await.expect("free"));
    }
    let waiters = [&scene.own, &scene.other].map(|masters| waiter(permits(masters, &name)));
    let mut waiters = Vec::from(waiters);
    sleep(ms(5)).await;
    scene.arrange();
    let guard = held.remove(0);
    let seat = guard.seat();
    let unlocked = stepped(guard.unlock(), step).await;
    let is_done = unlocked.is_some();
    let within = scene.bound();
    let first = next_granted(&mut waiters, within, &what).await;
    assert_eq!(first.seat(), seat, "{what}");
    sleep(ms(20)).await;
    assert_waiting(&waiters, &what);
    assert!(held.iter().all(multilock::MultiLockGuard::is_valid), "{what}");
    drop(held.pop());
    let second = next_granted(&mut waiters, within, &what).await;
    assert!(
        second.seat() != first.seat() && second.seat() != held[0].seat(),
        "{what}"
    );
    drop((held, first, second));
    scene.undo();
    scene.is_clean_soon(&what).await;
    is_done
}

#[tokio::test(start_paused = true)]
async fn a_seat_goes_to_one_waiter_whenever_its_unlock_is_dropped() {
    let steps = with_all_faults(MOST_STEPS, async |scene, step| drop_unlock(scene, step).await).await;
    assert!(steps > 35, "only {steps} await points were tried");
}
