//! Hand-offs inside a process to tasks that are dropped before they take the hold: it goes on to the next one.

use std::time::Duration;

use multilock::{Masters, MultiLock, Owner, Unlocked};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::scene::{Fault, PROMPT, Scene, all_faults, goes_to, granted, waiter};
use crate::support::{executed, ms, woken};

/// Option of the task that is dropped. The line is the same with each.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dropped {
    Plain,
    Owned,
    Kept,
    Sticky,
    /// A wait that would end soon.
    Brief,
    /// A hold that would not be renewed for long.
    Bounded,
}

const ALL: [Dropped; 6] = [
    Dropped::Plain,
    Dropped::Owned,
    Dropped::Kept,
    Dropped::Sticky,
    Dropped::Brief,
    Dropped::Bounded,
];

impl Dropped {
    fn lock(self, masters: &Masters, name: &str, owner: &Owner) -> MultiLock {
        let lock = masters.red_lock(name);
        match self {
            Self::Plain => lock,
            Self::Owned => lock.owner(owner),
            Self::Kept => lock.at_least(ms(10_000)),
            Self::Sticky => lock.sticky(),
            Self::Brief => lock.wait(ms(1000)),
            Self::Bounded => lock.max_hold(ms(30_000)),
        }
    }
}

/// Scripts that the masters have run for locks.
fn asked(scene: &Scene) -> u64 {
    let scripts = ["acquire", "extend", "release", "retain", "withdraw"];
    scripts
        .map(|script| executed(&scene.cluster, script))
        .iter()
        .sum()
}

/// Drops this number of tasks one after the other, each when it is woken with the hold. With a next task, it has the hold then.
async fn dropped(scene: &Scene, option: Dropped, number: usize, has_next: bool) {
    let what = format!("{number} {option:?} with {:?}, next: {has_next}", scene.faults);
    let name = format!("{option:?}{number}{has_next}");
    let lock = scene.own.red_lock(&name);
    let holder = lock.lock().await.expect("free");
    let token = holder.fencing_token();
    let owner = Owner::new();
    let mut tasks = Vec::new();
    for _ in 0..number {
        let call = option.lock(&scene.own, &name, &owner);
        // The second poll would take the hold.
        tasks.push(tokio::spawn(async move { woken(call.lock(), 1).await.is_none() }));
        yield_now().await;
    }
    let next = has_next.then(|| waiter(lock.clone()));
    yield_now().await;
    sleep(ms(5)).await;
    scene.arrange();
    let (before, begun) = (asked(scene), Instant::now());
    assert_eq!(holder.unlock().await, Ok(Unlocked::HandedOn), "{what}");
    for task in tasks {
        assert!(task.await.expect("no panic"), "{what}: it was not dropped");
    }
    let other = scene.other.red_lock(&name);
    if let Some(next) = next {
        let guard = granted(next, ms(1), &what).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "{what}");
        assert_eq!(asked(scene), before, "{what}: the masters were asked");
        assert!(guard.fencing_token() > token && guard.hold_count() == 1, "{what}");
        let refused = option.lock(&scene.own, &name, &owner).try_lock().await;
        assert!(refused.is_err(), "{what}: {refused:?}");
        let within = scene.bound();
        scene.undo();
        if number == 3 {
            // It is renewed.
            sleep(ms(65_000)).await;
            assert!(guard.is_valid(), "{what}");
        }
        let waiting = waiter(other.clone());
        sleep(ms(5)).await;
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released), "{what}");
        drop(granted(waiting, within, &what).await);
    } else {
        let within = scene.bound();
        goes_to(&other, within, &what).await;
        scene.undo();
    }
    goes_to(&lock.owner(&owner), PROMPT, &what).await;
    scene.is_clean_soon(&what).await;
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_handed_to_a_dropped_task_goes_on() {
    for faults in all_faults() {
        let scene = Scene::new(faults).await;
        for option in ALL {
            // A hand-off sends nothing, so the faults concern the release behind the tasks alone.
            let number = if faults == [Fault::None; 3] { 3 } else { 1 };
            for (number, has_next) in [(number, true), (1, false)] {
                dropped(&scene, option, number, has_next).await;
            }
        }
    }
}
