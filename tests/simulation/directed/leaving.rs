//! A waiter stands in no queue once its wait has ended, regardless of the answers of masters meanwhile.

use std::time::Duration;

use multilock::Policy;
use multilock::sim::{Direction, Master};
use tokio::time::{Instant, sleep};

use crate::ask::Ask;
use crate::plan::{Class, ms};
use crate::scene::{Scene, in_time, plan, settle, violated};
use crate::stored::waiters;

/// Longer than any wait here.
const LEASE: Duration = ms(20_000);

async fn scene() -> Scene {
    Scene::open(plan(Class::Durable, LEASE)).await
}

fn places(scene: &Scene) -> Vec<usize> {
    let of = |master: &Master| waiters(master, "a").len();
    scene.masters().map(of).collect()
}

fn nobody_stands(scene: &Scene) {
    let places = places(scene);
    if places.iter().any(|waiters| *waiters > 0) {
        violated("nothing is left", &format!("waiters in the queues: {places:?}"));
    }
}

/// It has a place on a master since an earlier round. That master has forgotten the script in the round that is won.
#[tokio::test(start_paused = true)]
async fn a_place_of_an_earlier_round_is_left() {
    let scene = scene().await;
    let theirs = scene.lock(0, Ask::new().lease(LEASE)).await;
    let waiting = scene.locking(1, Ask::new().wait(LEASE));
    sleep(ms(10)).await;
    assert_eq!(places(&scene), [1, 1, 1]);
    scene.master(2).forget_script("acquire");
    scene.leave(0, theirs).await;
    let mine = waiting.await.expect("no panic");
    assert!(mine.is_some(), "by the two others");
    settle().await;
    nobody_stands(&scene);
    scene.leave(1, mine).await;
    scene.end().await;
}

/// A master has called it, and its connection ends before the acquire gets there that wins elsewhere.
#[tokio::test(start_paused = true)]
async fn a_place_is_left_although_the_connection_has_ended() {
    let scene = scene().await;
    let theirs = scene.lock(0, Ask::new().lease(LEASE)).await;
    let waiting = scene.locking(1, Ask::new().wait(LEASE));
    sleep(ms(300)).await;
    for master in scene.masters() {
        master.set_delay(ms(10), ms(10));
    }
    let resetting = async {
        sleep(ms(25)).await;
        assert_eq!(places(&scene), [1, 1, 1], "called, and on its way");
        scene.master(2).reset_connections();
    };
    tokio::join!(scene.leave(0, theirs), resetting);
    let mine = waiting.await.expect("no panic");
    assert!(mine.is_some(), "by the two others");
    sleep(ms(100)).await;
    nobody_stands(&scene);
    scene.leave(1, mine).await;
    scene.end().await;
}

/// A master is busy when a wait is dropped, and told again until it is not.
#[tokio::test(start_paused = true)]
async fn a_place_on_a_busy_master_is_left_later() {
    let scene = scene().await;
    let theirs = scene.lock(0, Ask::new().lease(LEASE)).await;
    let waiting = scene.locking(1, Ask::new().wait(LEASE).dropped_after(ms(400)));
    sleep(ms(300)).await;
    let busy = "BUSY Redis is busy running a script.";
    scene.master(2).answer_with(Some(busy));
    assert!(waiting.await.expect("no panic").is_none(), "dropped");
    let tries = scene.executed("withdraw");
    sleep(ms(1_500)).await;
    assert_eq!(places(&scene), [0, 0, 1]);
    let tries = scene.executed("withdraw") - tries;
    if tries > 12 {
        violated("pauses grow", &format!("told {tries} times"));
    }
    scene.master(2).answer_with(None);
    sleep(ms(600)).await;
    nobody_stands(&scene);
    scene.leave(0, theirs).await;
    scene.end().await;
}

/// A master is out of reach when a wait is dropped, and told once it is not.
#[tokio::test(start_paused = true)]
async fn a_place_on_a_master_out_of_reach_is_left_later() {
    let scene = scene().await;
    let theirs = scene.lock(0, Ask::new().lease(LEASE)).await;
    let waiting = scene.locking(1, Ask::new().wait(LEASE).dropped_after(ms(400)));
    sleep(ms(300)).await;
    scene.cut(1, 2, Direction::Both);
    scene.master(2).reset_connections();
    assert!(waiting.await.expect("no panic").is_none(), "dropped");
    settle().await;
    assert_eq!(places(&scene), [0, 0, 1]);
    scene.heal(1, 2);
    sleep(ms(1_000)).await;
    nobody_stands(&scene);
    scene.leave(0, theirs).await;
    scene.end().await;
}

/// A master that is late refuses after the decision and after the deadline, and its connection ends before it has heard
/// that the waiter leaves.
#[tokio::test(start_paused = true)]
async fn a_place_that_was_got_late_is_left() {
    for is_cut in [false, true] {
        let scene = scene().await;
        let key = scene.master(2).command(&["SET", "a", "theirs"]);
        key.expect("another library's");
        scene.master(2).set_delay(ms(120), Duration::ZERO);
        let mine = scene.lock(1, Ask::new().wait(LEASE)).await;
        assert!(mine.is_some(), "by the two others");
        // The acquire has arrived there, and requests from after the deadline have not.
        sleep(ms(130)).await;
        assert_eq!(places(&scene), [0, 0, 1]);
        if is_cut {
            scene.master(2).reset_connections();
        }
        sleep(ms(1_000)).await;
        nobody_stands(&scene);
        scene.master(2).command(&["DEL", "a"]).expect("deleted");
        scene.leave(1, mine).await;
        scene.end().await;
    }
}

/// The rollback of a wait that was dropped finds its script forgotten. It is sent again, behind the withdrawal of the
/// waiter.
#[tokio::test(start_paused = true)]
async fn a_rollback_that_is_sent_again_leaves_nobody() {
    let scene = scene().await;
    for master in scene.masters() {
        master.set_delay(ms(10), ms(10));
    }
    // The acquires have got there, and their answers are on the way.
    let waiting = scene.locking(1, Ask::new().wait(LEASE).dropped_after(ms(15)));
    sleep(ms(12)).await;
    scene.master(2).forget_script("release");
    assert!(waiting.await.expect("no panic").is_none(), "dropped");
    sleep(ms(200)).await;
    nobody_stands(&scene);
    scene.end().await;
}

/// A waiter withdraws and asks again, and a master without the script of the withdrawal gets it once more behind the question.
#[tokio::test(start_paused = true)]
async fn a_withdrawal_that_is_sent_again_does_not_keep_its_waiter_out() {
    let scene = scene().await;
    let all = Ask::new().policy(Policy::MultiLock);
    let theirs = scene.lock(0, all.lease(LEASE)).await;
    for master in scene.masters() {
        master.set_delay(ms(1), ms(1));
    }
    scene.master(0).set_delay(ms(4), ms(4));
    // A waiter that cannot win withdraws, and asks again at once.
    scene.master(0).forget_script("withdraw");
    scene.master(2).forget_script("acquire");
    let waiting = scene.locking(1, all.wait(LEASE));
    sleep(ms(200)).await;
    assert_eq!(places(&scene), [1, 1, 1]);
    scene.leave(0, theirs).await;
    let begun = Instant::now();
    let mine = waiting.await.expect("no panic");
    in_time(begun, ms(60));
    assert!(mine.is_some(), "its turn");
    scene.leave(1, mine).await;
    scene.end().await;
}

/// The next task of the process asks right behind the release. Masters without its script get the release once more, behind the
/// question.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_sent_again_does_not_keep_the_next_task_out() {
    for without_script in 1..=3 {
        let scene = scene().await;
        for master in scene.masters() {
            master.set_delay(ms(1), ms(1));
        }
        let same = Ask::new().wait(LEASE);
        let first = scene.lock(0, same).await;
        let waiting = scene.locking(0, same);
        // A grant that is older than a second is not handed on.
        sleep(ms(1500)).await;
        for master in scene.masters().take(without_script) {
            master.forget_script("release");
        }
        let begun = Instant::now();
        scene.leave(0, first).await;
        let next = waiting.await.expect("no panic");
        in_time(begun, ms(20));
        assert!(next.is_some(), "its turn");
        scene.leave(0, next).await;
        scene.end().await;
    }
}
