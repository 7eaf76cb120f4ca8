//! Announced locks: watchers are shown the holder after a call that is dropped, and no other.

use std::time::Duration;

use multilock::{FencingToken, Leader, Masters, MultiLock};
use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};

use super::scene::{PROMPT, Scene, granted, stepped, waiter, with_all_faults};
use crate::support::ms;

/// Time for which another client holds the lock before the call has it.
const HELD_FOR: Duration = ms(30);
/// Time after which a watcher looks again if its messages are lost.
const HALF_LEASE: Duration = ms(15_000);

fn lock(masters: &Masters, name: &str) -> MultiLock {
    masters.red_lock(name).announced().about("a text")
}

/// The watcher is shown this term, or nobody, within the time.
async fn is_shown(
    watched: &mut Receiver<Option<Leader>>,
    token: Option<FencingToken>,
    within: Duration,
    what: &str,
) {
    let is_it = |leader: &Option<Leader>| leader.as_ref().map(|leader| leader.token) == token;
    let is_shown = timeout(within, watched.wait_for(is_it)).await.is_ok();
    assert!(is_shown, "{what}: {:?} is shown", *watched.borrow());
}

/// Drops an unlock at this step, and then a call for the lock that another client has got. Returns whether both were done.
async fn dropped_at(scene: &Scene, step: usize) -> bool {
    let what = format!("{:?} at step {step}", scene.faults);
    let name = format!("a{step}");
    let mut watched = scene.other.watch_leader(&name).expect("a name");
    let guard = lock(&scene.own, &name).lock().await.expect("free");
    is_shown(&mut watched, Some(guard.fencing_token()), PROMPT, &what).await;
    let next = waiter(lock(&scene.other, &name));
    sleep(ms(5)).await;
    scene.arrange();
    let unlocked = stepped(guard.unlock(), step).await;
    let within = scene.bound();
    let shown_within = if within == PROMPT {
        2 * PROMPT
    } else {
        HALF_LEASE + PROMPT
    };
    let next = granted(next, within, &what).await;
    is_shown(&mut watched, Some(next.fencing_token()), shown_within, &what).await;
    let ends = tokio::spawn(async move {
        sleep(HELD_FOR).await;
        drop(next);
    });
    let locked = stepped(lock(&scene.own, &name).lock(), step).await;
    let is_done = unlocked.is_some() && locked.is_some();
    drop(locked);
    ends.await.expect("no panic");
    is_shown(&mut watched, None, shown_within, &what).await;
    scene.undo();
    scene.is_clean_soon(&what).await;
    is_done
}

#[tokio::test(start_paused = true)]
async fn watchers_are_shown_who_holds_it() {
    let steps = with_all_faults(8, async |scene, step| dropped_at(scene, step).await).await;
    assert!(steps > 70, "only {steps} await points were tried");
}
