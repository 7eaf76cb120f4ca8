//! Calls of guards: the hold goes on, or ends, whenever their futures are dropped.

use multilock::{Closing, LossCause, Masters, Unlocked};
use tokio::time::{Instant, sleep, timeout};

use super::scene::{
    AFTER_OUTAGE, Fault, PROMPT, Scene, WITH_MAJORITY, all_faults, everywhere, goes_to, stepped,
};
use crate::support::{executed, ms, polled};

/// Drops an extension after a number of polls. With `forgotten`, a master has forgotten the hold, and gets it again with the
/// extension. With `at_once`, the guard is dropped along with it. Returns whether the extension was done before.
async fn drop_extend(scene: &Scene, polls: usize, renewed: bool, forgotten: bool, at_once: bool) -> bool {
    let what = format!(
        "{:?} at step {polls}, renewed: {renewed}, forgotten: {forgotten}, at once: {at_once}",
        scene.faults
    );
    let name = format!("a{polls}");
    let lock = scene.own.multi_lock(&name);
    let lock = if renewed { lock } else { lock.lease(ms(5000)) };
    let other = scene.other.red_lock(&name);
    let guard = lock.try_lock().await.expect("free");
    sleep(ms(1000)).await;
    if forgotten {
        assert!(scene.cluster.master(0).evict(&name), "{what}");
    }
    let (before, begun) = (guard.validity(), Instant::now());
    scene.arrange();
    let extended = stepped(guard.extend(ms(40_000)), polls).await;
    if at_once {
        drop(guard);
        goes_to(&other, scene.bound(), &what).await;
        scene.undo();
    } else {
        let kept = before.saturating_sub(begun.elapsed());
        assert!(guard.validity() >= kept, "{what}: {:?}", guard.validity());
        if !matches!(extended, Some(Ok(()))) {
            assert_eq!(guard.validity(), kept, "{what}");
        }
        assert!(guard.is_valid(), "{what}");
        scene.undo();
        sleep(ms(500)).await;
        if scene.faults.contains(&Fault::Reset) {
            // Takes the reset, if the future was never polled.
            let _ = guard.extend(ms(30_000)).await;
            scene.undo();
            sleep(ms(200)).await;
        }
        let again = guard.extend(ms(30_000)).await;
        assert!(again.is_ok(), "{what}: {again:?}");
        assert!(guard.validity() > ms(29_000), "{what}");
        if renewed {
            sleep(ms(90_000)).await;
            assert!(guard.is_valid(), "{what}");
        }
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released), "{what}");
        goes_to(&other, PROMPT, &what).await;
    }
    scene.is_clean_soon(&what).await;
    extended.is_some()
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_dropped_leaves_the_validity() {
    let mut points = 0;
    for faults in all_faults() {
        for [renewed, forgotten, at_once] in [
            [true, false, false],
            [true, true, false],
            [false, false, false],
            [false, true, false],
            [false, true, true],
            [true, false, true],
        ] {
            let scene = Scene::new(faults).await;
            let polls =
                everywhere(async |polls| drop_extend(&scene, polls, renewed, forgotten, at_once).await).await;
            points += polls;
        }
    }
    assert!(points > 60, "only {points} await points were tried");
}

/// `lost` and `wanted` of a guard and of a set observe: after any number of dropped futures the next one resolves, and the
/// hold was renewed meanwhile.
#[tokio::test(start_paused = true)]
async fn observers_can_be_dropped_and_made_again() {
    for faults in all_faults() {
        let scene = Scene::new(faults).await;
        let guard = scene.own.multi_lock("a").lock().await.expect("free");
        let set = scene.own.multi_lock("b").and(scene.own.multi_lock("c"));
        let set = set.lock().await.expect("free");
        for polls in 0..4 {
            // A renewal is under way at some of these times.
            scene.arrange();
            let observing = async {
                tokio::join!(guard.lost(), guard.wanted(), set.lost(), set.wanted());
            };
            let observed = timeout(ms(12_000), polled(observing, polls)).await;
            assert!(
                observed.is_err() || observed == Ok(None),
                "{faults:?}: nothing has happened"
            );
            scene.undo();
            sleep(ms(12_000)).await;
            assert!(guard.is_valid() && set.is_valid(), "{faults:?} at step {polls}");
        }
        assert!(!guard.is_wanted() && !set.is_wanted());
        let other = scene.other.clone();
        let waiting = tokio::spawn(async move {
            let both = other.multi_lock("a").and(other.multi_lock("c"));
            both.lock().await
        });
        for polls in 0..3 {
            let _ = polled(guard.wanted(), polls).await;
            let _ = polled(set.wanted(), polls).await;
        }
        // A message may be lost with a connection.
        timeout(AFTER_OUTAGE, guard.wanted()).await.expect("it is wanted");
        timeout(AFTER_OUTAGE, set.wanted()).await.expect("it is wanted");
        for polls in 0..3 {
            assert!(polled(guard.lost(), polls).await.is_none());
            assert!(polled(set.lost(), polls).await.is_none());
        }
        scene.other.red_lock("a").force_release().await.expect("forced");
        scene.other.red_lock("c").force_release().await.expect("forced");
        // The next renewal shows it.
        let loss = timeout(ms(11_000), guard.lost()).await.expect("lost");
        assert_eq!(loss.cause, LossCause::TakenAway);
        assert_eq!(timeout(ms(11_000), set.lost()).await.expect("lost").index, 1);
        let got = timeout(AFTER_OUTAGE, waiting)
            .await
            .expect("granted")
            .expect("no panic");
        drop((got.expect("granted"), guard, set));
        goes_to(&scene.other.multi_lock("b"), PROMPT, "the rest of the set").await;
    }
}

/// Drops the unlock of a set after a number of polls. Others wait for each of its locks. Returns whether it was done before.
async fn drop_set_unlock(scene: &Scene, polls: usize) -> bool {
    let what = format!("{:?} at step {polls}", scene.faults);
    let (first, second) = (format!("a{polls}"), format!("b{polls}"));
    let set = scene.own.red_lock(&first).and(scene.own.multi_lock(&second));
    let set = set.lock().await.expect("free");
    let waiting = |masters: &Masters, name: &str| {
        let lock = masters.red_lock(name);
        tokio::spawn(async move { lock.lock().await.map(|_| Instant::now()) })
    };
    let waiters = [
        waiting(&scene.own, &first),
        waiting(&scene.other, &first),
        waiting(&scene.other, &second),
    ];
    sleep(ms(5)).await;
    scene.arrange();
    let unlocked = stepped(set.unlock(), polls).await;
    let within = scene.bound();
    for waiter in waiters {
        let granted = timeout(within, waiter).await;
        let granted = granted.unwrap_or_else(|_| panic!("{what}: a waiter is stuck"));
        assert!(granted.expect("no panic").is_ok(), "{what}");
    }
    goes_to(&scene.other.red_lock([first, second]), within, &what).await;
    scene.undo();
    scene.is_clean_soon(&what).await;
    unlocked.is_some()
}

#[tokio::test(start_paused = true)]
async fn the_unlock_of_a_set_goes_on() {
    for faults in all_faults() {
        let scene = Scene::new(faults).await;
        let polls = everywhere(async |polls| drop_set_unlock(&scene, polls).await).await;
        assert!(polls > 0, "{faults:?}");
    }
}

/// Drops a downgrade after a number of polls, while a reader waits, and a writer behind it. Returns whether it was done
/// before.
async fn drop_downgrade(scene: &Scene, polls: usize) -> bool {
    let what = format!("{:?} at step {polls}", scene.faults);
    let name = format!("a{polls}");
    let writing = scene.own.multi_lock(&name).write().lock().await.expect("free");
    let reader = scene.other.red_lock(&name).read();
    let reader = tokio::spawn(async move { reader.lock().await });
    sleep(ms(5)).await;
    let writer = scene.other.red_lock(&name).write();
    let writer = tokio::spawn(async move { writer.lock().await });
    sleep(ms(5)).await;
    scene.arrange();
    let downgraded = stepped(writing.downgrade(), polls).await;
    let is_done = downgraded.is_some();
    let within = scene.bound();
    let reading = timeout(within, reader).await;
    let reading = reading.unwrap_or_else(|_| panic!("{what}: the reader is stuck"));
    let reading = reading.expect("no panic").expect("granted");
    if let Some(downgraded) = &downgraded {
        assert!(downgraded.is_valid(), "{what}");
    }
    assert!(!writer.is_finished(), "{what}");
    drop(reading);
    drop(downgraded);
    let written = timeout(within, writer).await;
    let written = written.unwrap_or_else(|_| panic!("{what}: the writer is stuck"));
    drop(written.expect("no panic").expect("granted"));
    scene.undo();
    scene.is_clean_soon(&what).await;
    is_done
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_that_is_dropped_leaves_the_hold() {
    for faults in all_faults() {
        let scene = Scene::new(faults).await;
        let polls = everywhere(async |polls| drop_downgrade(&scene, polls).await).await;
        assert!(polls > 0, "{faults:?}");
    }
}

/// Drops the unlock of a sticky lock, or of one that is recalled. It stays with its client, or goes to the other.
#[tokio::test(start_paused = true)]
async fn a_sticky_lock_stays_or_goes_whenever_its_unlock_is_dropped() {
    for faults in WITH_MAJORITY {
        for polls in 0..5 {
            let what = format!("{faults:?} at step {polls}");
            let scene = Scene::new(faults).await;
            let lock = scene.own.red_lock("a").sticky();
            let guard = lock.lock().await.expect("free");
            scene.arrange();
            let _ = polled(guard.unlock(), polls).await;
            let asked = executed(&scene.cluster, "acquire");
            drop(lock.lock().await.expect("it stays"));
            assert_eq!(executed(&scene.cluster, "acquire"), asked, "{what}");
            // Another client recalls it, and gives up.
            let recalling = scene.other.red_lock("a");
            let _ = polled(recalling.try_lock(), polls).await;
            let _ = polled(recalling.lock(), polls).await;
            goes_to(&recalling, PROMPT, &what).await;
            scene.undo();
            drop(lock.lock().await.expect("free"));
            scene.own.close(Closing::Release).await;
            scene.is_clean_soon(&what).await;
        }
    }
}
