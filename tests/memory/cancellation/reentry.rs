//! Owners that enter their hold again: the hold counts the guards that are there, whichever future is dropped.

use std::time::Duration;

use multilock::{Masters, Mode, MultiLock, MultiLockGuard, Owner, Unlocked};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::acquiring::{Acquiring, Verb};
use super::scene::{
    AFTER_OUTAGE, Scene, assert_waiting, goes_to, granted, has_majority, next_granted, stepped, waiter,
    with_all_faults,
};
use crate::support::ms;

/// Lease of the outer guard.
const LEASE: Duration = ms(20_000);
/// Time for which an entry of the kind [`Entry::Kept`] locks the names.
const KEPT: Duration = ms(25_000);
/// Time for which another client holds the lock before the owner has it.
const HELD_FOR: Duration = ms(30);
/// Steps without a majority after which the futures only wait for the end of the outage.
const MOST_STEPS: usize = 8;

/// An entry into a hold.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    /// At once.
    Plain,
    /// After an extension to a longer lease.
    Longer,
    /// After an extension, as the names are to stay locked for longer than the hold has left.
    Kept,
    /// To read within a write lock, after an extension.
    Read,
}

impl Entry {
    /// The lock of the outer guard and of those that wait behind it.
    fn lock(self, masters: &Masters, name: &str) -> MultiLock {
        let lock = masters.red_lock(name);
        if self == Self::Read { lock.write() } else { lock }
    }

    fn call(self, verb: Verb, lock: MultiLock) -> Acquiring {
        match self {
            Self::Plain => verb.of_lock(lock),
            Self::Longer => verb.of_lock(lock.lease(2 * LEASE)),
            Self::Kept => verb.of_lock(lock.at_least(KEPT)),
            Self::Read => verb.of_lock(lock.read().lease(2 * LEASE)),
        }
    }

    /// Drops an entry at this step. Returns whether it was done before.
    async fn dropped_at(self, step: usize, verb: Verb, scene: &Scene) -> bool {
        let what = format!("{verb:?} of {self:?} with {:?} at step {step}", scene.faults);
        let name = format!("a{step}");
        let lock = self.lock(&scene.own, &name).owner(&Owner::new());
        let outer = lock.clone().lease(LEASE).lock().await.expect("free");
        let behind = [&scene.own, &scene.other].map(|masters| waiter(self.lock(masters, &name)));
        let mut behind = Vec::from(behind);
        sleep(ms(5)).await;
        let (validity, begun) = (outer.validity(), Instant::now());
        scene.arrange();
        let ended = stepped(self.call(verb, lock.clone()), step).await;
        let is_done = ended.is_some();
        let is_entered = ended.as_ref().is_some_and(Option::is_some);
        let entered_at = Instant::now();
        assert_eq!(outer.hold_count(), 1 + u64::from(is_entered), "{what}");
        drop(ended);
        assert_eq!(outer.hold_count(), 1, "{what}");
        let least = validity.saturating_sub(begun.elapsed());
        assert!(outer.validity() >= least, "{what}: {:?}", outer.validity());
        let mut within = scene.bound();
        sleep(ms(5)).await;
        assert_waiting(&behind, &what);
        let unlocked = outer.unlock().await;
        if is_entered && self == Self::Kept {
            assert!(
                !matches!(unlocked, Ok(Unlocked::Released)),
                "{what}: {unlocked:?}"
            );
            sleep_until(entered_at + KEPT - ms(1)).await;
            assert_waiting(&behind, &what);
            // Nobody calls the waiters at the end of the time.
            within = AFTER_OUTAGE;
        } else {
            // An entry that is dropped asks for nothing.
            assert!(
                !matches!(unlocked, Ok(Unlocked::KeptFor(_))),
                "{what}: {unlocked:?}"
            );
            assert!(
                !has_majority(scene.faults) || unlocked == Ok(Unlocked::Released),
                "{what}: {unlocked:?}"
            );
        }
        while !behind.is_empty() {
            let guard = next_granted(&mut behind, within, &what).await;
            // The owner is outside.
            assert!(lock.try_lock().await.is_err(), "{what}");
            drop(guard);
        }
        scene.undo();
        let again = timeout(within, lock.lock()).await;
        let again = again.unwrap_or_else(|_| panic!("{what}: the owner is kept out"));
        assert_eq!(again.expect("granted").hold_count(), 1, "{what}");
        if within == AFTER_OUTAGE {
            // A master that was not told locks the names until the lease ends.
            sleep(2 * LEASE).await;
        }
        scene.is_clean_soon(&what).await;
        is_done
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_is_dropped_leaves_the_hold_as_it_was() {
    let mut steps = 0;
    for (entry, verb) in [
        (Entry::Plain, Verb::Wait),
        (Entry::Longer, Verb::Wait),
        (Entry::Kept, Verb::Try),
        (Entry::Read, Verb::Try),
    ] {
        steps += with_all_faults(MOST_STEPS, async |scene, step| {
            entry.dropped_at(step, verb, scene).await
        })
        .await;
    }
    assert!(steps > 70, "only {steps} await points were tried");
}

/// Two tasks of an owner wait for the lock. One is dropped at this step, and the other one gets in. Returns whether the
/// first was done before.
async fn drop_one_of_two(scene: &Scene, step: usize, is_first: bool) -> bool {
    let what = format!("{:?} at step {step}, first: {is_first}", scene.faults);
    let name = format!("a{step}");
    let blocker = scene.other.red_lock(&name).lock().await.expect("free");
    let lock = scene.own.red_lock(&name).owner(&Owner::new());
    scene.arrange();
    tokio::spawn(async move {
        sleep(HELD_FOR).await;
        drop(blocker);
    });
    let stays = waiter(lock.clone());
    if !is_first {
        yield_now().await;
    }
    let ended = stepped(lock.lock(), step).await;
    let is_done = ended.is_some();
    let within = scene.bound();
    let stays = granted(stays, HELD_FOR + within, &what).await;
    let is_entered = matches!(ended, Some(Ok(_)));
    assert_eq!(stays.hold_count(), 1 + u64::from(is_entered), "{what}");
    drop(ended);
    assert_eq!(stays.hold_count(), 1, "{what}");
    let behind = waiter(scene.other.red_lock(&name));
    sleep(ms(5)).await;
    assert!(!behind.is_finished() && stays.is_valid(), "{what}");
    drop(stays);
    drop(granted(behind, within, &what).await);
    goes_to(&lock, within, &what).await;
    scene.undo();
    scene.is_clean_soon(&what).await;
    is_done
}

#[tokio::test(start_paused = true)]
async fn one_of_two_waits_of_an_owner_is_dropped() {
    let mut steps = 0;
    for is_first in [true, false] {
        // Behind another task of the process it is woken seldom while there is no majority.
        steps += with_all_faults(6, async |scene, step| {
            drop_one_of_two(scene, step, is_first).await
        })
        .await;
    }
    assert!(steps > 100, "only {steps} await points were tried");
}

/// Drops the unlock of one of two guards of a hold at this step. The other one stays, and a waiter gets the lock after it.
/// Returns whether the unlock was done before.
async fn drop_unlock<A: Mode, B: Mode>(
    [unlocked, stays]: [&str; 2],
    (leaving, staying): (MultiLockGuard<A>, MultiLockGuard<B>),
    step: usize,
    scene: &Scene,
) -> bool {
    let what = format!("{unlocked} before {stays} with {:?} at step {step}", scene.faults);
    let name = leaving.names().to_string();
    let is_downgraded = [unlocked, stays] == ["write", "read"];
    let reader = is_downgraded.then(|| waiter(scene.other.red_lock(&name).read()));
    sleep(ms(5)).await;
    let behind = [&scene.own, &scene.other].map(|masters| waiter(masters.red_lock(&name).write()));
    let mut behind = Vec::from(behind);
    sleep(ms(5)).await;
    scene.arrange();
    let ended = stepped(leaving.unlock(), step).await;
    assert_eq!(staying.hold_count(), 1, "{what}");
    let is_done = ended.is_some();
    if let Some(ended) = ended {
        let expected = if is_downgraded {
            Unlocked::Downgraded
        } else {
            Unlocked::StillHeld(1)
        };
        assert_eq!(ended, Ok(expected), "{what}");
    }
    let within = scene.bound();
    if let Some(reader) = reader {
        drop(granted(reader, within, &what).await);
    }
    sleep(ms(40)).await;
    assert_waiting(&behind, &what);
    assert!(staying.is_valid(), "{what}");
    assert_eq!(staying.hold_count(), 1, "{what}");
    drop(staying);
    while !behind.is_empty() {
        drop(next_granted(&mut behind, within, &what).await);
    }
    scene.undo();
    scene.is_clean_soon(&what).await;
    is_done
}

/// Enters a free lock twice.
async fn twice(scene: &Scene, step: usize) -> (MultiLock, MultiLockGuard, MultiLockGuard) {
    let lock = scene
        .own
        .red_lock(format!("a{step}"))
        .write()
        .owner(&Owner::new());
    let outer = lock.lock().await.expect("free");
    let inner = lock.lock().await.expect("entered");
    assert_eq!(outer.hold_count(), 2);
    (lock, outer, inner)
}

#[tokio::test(start_paused = true)]
async fn an_unlock_inside_a_hold_leaves_it_to_the_other_guard() {
    let mut steps = 0;
    steps += with_all_faults(MOST_STEPS, async |scene, step| {
        let (_, outer, inner) = twice(scene, step).await;
        drop_unlock(["inner", "outer"], (inner, outer), step, scene).await
    })
    .await;
    steps += with_all_faults(MOST_STEPS, async |scene, step| {
        let (_, outer, inner) = twice(scene, step).await;
        drop_unlock(["outer", "inner"], (outer, inner), step, scene).await
    })
    .await;
    steps += with_all_faults(MOST_STEPS, async |scene, step| {
        let (lock, outer, inner) = twice(scene, step).await;
        let reading = lock.read().lock().await.expect("entered");
        drop(inner);
        drop_unlock(["write", "read"], (outer, reading), step, scene).await
    })
    .await;
    steps += with_all_faults(MOST_STEPS, async |scene, step| {
        let (lock, outer, inner) = twice(scene, step).await;
        let reading = lock.read().lock().await.expect("entered");
        drop(inner);
        drop_unlock(["read", "write"], (reading, outer), step, scene).await
    })
    .await;
    assert!(steps > 60, "only {steps} await points were tried");
}
