//! Locks that are given up, and must not be found on a master afterwards.

use std::time::Duration;

use multilock::sim::Direction;
use multilock::{Owner, Policy};
use tokio::time::sleep;

use crate::ask::{Ask, force};
use crate::history::Kind;
use crate::plan::Class;
use crate::plan::ms;
use crate::scene::{Scene, plan, settle};

/// Longer than the time after which nothing may be left.
const LEASE: Duration = ms(20_000);

async fn scene() -> Scene {
    Scene::open(plan(Class::Durable, LEASE)).await
}

/// An extension is delivered from a broken connection after the unlock.
#[tokio::test(start_paused = true)]
async fn extend_after_unlock() {
    let scene = scene().await;
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await.expect("free");
    settle().await;
    scene.master(0).keep_abandoned(true);
    scene.master(0).deny_client_kill(true);
    scene.master(0).hold_requests(true);
    mine.guard.extend(LEASE).await.expect("1 and 2 continue");
    scene.master(0).reset_connections();
    settle().await;
    scene.master(0).hold_requests(false);
    sleep(ms(500)).await;
    scene.leave(0, Some(mine)).await;
    settle().await;
    assert!(scene.master(0).deliver_abandoned() > 0, "a late extension");
    scene.end().await;
}

/// A hold that was extended is gone after one unlock.
#[tokio::test(start_paused = true)]
async fn an_extension_counts_nothing() {
    let scene = scene().await;
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await.expect("free");
    settle().await;
    mine.guard.extend(LEASE).await.expect("all continue");
    settle().await;
    scene.leave(0, Some(mine)).await;
    scene.end().await;
}

/// Two masters grant, and are never heard.
#[tokio::test(start_paused = true)]
async fn unheard_grants() {
    let scene = scene().await;
    scene.cut(0, 0, Direction::ToClient);
    scene.cut(0, 1, Direction::ToClient);
    assert!(scene.lock(0, Ask::new().lease(LEASE)).await.is_none());
    scene.heal(0, 0);
    scene.heal(0, 1);
    scene.end().await;
}

/// A master is busy when its release comes.
#[tokio::test(start_paused = true)]
async fn a_release_is_owed() {
    let scene = scene().await;
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    settle().await;
    let busy = "BUSY Redis is busy running a script.";
    scene.master(0).answer_with(Some(busy));
    scene.leave(0, mine).await;
    sleep(ms(100)).await;
    scene.master(0).answer_with(None);
    scene.end().await;
}

/// A master denies a command of the release. Asking again brings the same answer, so the lease frees the name there.
#[tokio::test(start_paused = true)]
async fn a_denied_release_is_not_asked_for_again() {
    let scene = scene().await;
    let mine = scene.lock(0, Ask::new().lease(ms(2000))).await;
    settle().await;
    let denied = "ERR The user executing the script can't run this command or subcommand script: 66, on \
                  @user_script:3.";
    scene.master(0).answer_with(Some(denied));
    scene.leave(0, mine).await;
    sleep(ms(3000)).await;
    scene.master(0).answer_with(None);
    let asked = scene.world.history.with(|record| {
        let denied = record.events.iter().filter(|event| {
            let at_0 = |kind: &Kind| {
                matches!(
                    kind,
                    Kind::Executed {
                        master: 0,
                        script: "release",
                        failed: true,
                        ..
                    }
                )
            };
            at_0(&event.kind)
        });
        denied.count()
    });
    assert_eq!(asked, 1);
    scene.end().await;
}

/// A hold is released when it is found lost, and its guard is given up after that.
#[tokio::test(start_paused = true)]
async fn a_lost_hold_is_released_once() {
    let scene = scene().await;
    for unlocks in [false, true] {
        let mine = scene.lock(0, Ask::new().lease(ms(300))).await.expect("free");
        sleep(ms(400)).await;
        assert!(!mine.guard.is_valid(), "it has lapsed");
        if unlocks {
            scene.leave(0, Some(mine)).await;
        } else {
            drop(scene.world.give_up(0, mine, "drop"));
        }
        settle().await;
    }
    assert_eq!(scene.executed("release"), 2 * 3);
    scene.end().await;
}

/// The caller is gone before any master has answered.
#[tokio::test(start_paused = true)]
async fn dropped_on_the_way() {
    let scene = scene().await;
    for master in scene.masters() {
        master.set_delay(ms(5), ms(5));
    }
    let dropped = Ask::new().lease(LEASE).dropped_after(ms(2));
    assert!(scene.lock(0, dropped).await.is_none());
    scene.end().await;
}

/// Only a straggler has forgotten the script, and says so after the hold has been given up.
#[tokio::test(start_paused = true)]
async fn noscript_overtakes() {
    let scene = scene().await;
    scene.master(2).forget_script("acquire");
    scene.master(2).set_delay(ms(10), ms(10));
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    assert!(mine.is_some(), "0 and 1 grant");
    scene.leave(0, mine).await;
    scene.end().await;
}

/// A master answers an extension that it has nothing of the hold, and is heard after the unlock.
#[tokio::test(start_paused = true)]
async fn absence_heard_after_unlock() {
    let scene = scene().await;
    scene.master(2).keep_abandoned(false);
    scene.cut(0, 2, Direction::ToMaster);
    let mine = scene
        .lock(0, Ask::new().lease(LEASE))
        .await
        .expect("0 and 1 grant");
    // Messages that were on their way are lost with the connection.
    scene.master(2).reset_connections();
    scene.heal(0, 2);
    sleep(ms(500)).await;
    scene.cut(0, 2, Direction::ToClient);
    mine.guard.extend(LEASE).await.expect("0 and 1 continue");
    scene.leave(0, Some(mine)).await;
    settle().await;
    scene.heal(0, 2);
    scene.end().await;
}

/// Attempt 1 is rolled back, but the link to 2 breaks before the rollback is read there; attempt 2 wins
/// with 2, and then the old socket delivers.
#[tokio::test(start_paused = true)]
async fn stale_rollback() {
    let me = Owner::new();
    let scene = scene().await;
    scene.master(2).deny_client_kill(true);
    scene.master(2).keep_abandoned(true);
    let other = ["SET", "a", "theirs", "PX", "60000"];
    scene.master(1).command(&other).expect("stored");
    scene.master(1).set_delay(ms(10), Duration::ZERO);
    let ask = Ask::new().owner(&me).lease(LEASE);
    let all = ask.policy(Policy::MultiLock);
    let meanwhile = async {
        settle().await;
        scene.master(2).hold_requests(true);
    };
    let (first, ()) = tokio::join!(scene.lock(0, all), meanwhile);
    assert!(first.is_none(), "1 refuses");
    settle().await;
    scene.master(2).reset_connections();
    settle().await;
    scene.master(2).hold_requests(false);
    scene.master(1).command(&["DEL", "a"]).expect("deleted");
    sleep(ms(500)).await;
    scene.cut(0, 0, Direction::ToMaster);
    let second = scene.lock(0, ask).await;
    assert!(second.is_some(), "1 and 2 grant");
    assert!(scene.master(2).deliver_abandoned() > 0, "a late release");
    settle().await;
    scene.world.look(None);
    scene.leave(0, second).await;
    scene.end().await;
}

/// A guard lapses, its owner locks again, and then the first guard is dropped.
#[tokio::test(start_paused = true)]
async fn late_guard_drop() {
    let me = Owner::new();
    let scene = scene().await;
    let short = Ask::new().owner(&me).lease(ms(300));
    let first = scene.lock(0, short).await;
    assert!(first.is_some(), "free");
    sleep(ms(350)).await;
    let second = scene.lock(0, Ask::new().owner(&me).lease(LEASE)).await;
    assert!(second.is_some(), "the first hold has lapsed");
    scene.leave(0, first).await;
    sleep(ms(50)).await;
    scene.leave(0, second).await;
    scene.end().await;
}

/// A rival never hears that it is refused, and releases all that it may have been granted.
#[tokio::test(start_paused = true)]
async fn unheard_refusals() {
    let scene = scene().await;
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    assert!(mine.is_some(), "free");
    for place in 0..3 {
        scene.cut(1, place, Direction::ToClient);
    }
    assert!(scene.lock(1, Ask::new().lease(LEASE)).await.is_none());
    sleep(ms(100)).await;
    scene.leave(0, mine).await;
    scene.end().await;
}

/// An operator takes the name away while an acquire of its holder is on its way, and the holder extends.
#[tokio::test(start_paused = true)]
async fn force_undone() {
    let scene = Scene::open(plan(Class::Forced, LEASE)).await;
    scene.cut(0, 2, Direction::ToMaster);
    let mine = scene
        .lock(0, Ask::new().lease(LEASE))
        .await
        .expect("0 and 1 grant");
    force(&scene.world, &scene.seats[1], "a").await;
    scene.heal(0, 2);
    settle().await;
    drop(mine.guard.extend(LEASE).await);
    settle().await;
    scene.leave(0, Some(mine)).await;
    scene.end().await;
}

/// Every answer of one master comes after the node deadline: a release that was sent is not sent again.
#[tokio::test(start_paused = true)]
async fn late_master_releases() {
    let scene = scene().await;
    scene.master(2).set_delay(ms(40), ms(40));
    let pairs = 50;
    for _ in 0..pairs {
        let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
        assert!(mine.is_some(), "free");
        scene.leave(0, mine).await;
    }
    sleep(ms(3000)).await;
    let releases = scene.master(2).executed()["release"];
    assert_eq!(releases, pairs, "one a pair, and none after the last");
    scene.end().await;
}

/// The connection ends when the answer to a release is overdue already.
#[tokio::test(start_paused = true)]
async fn a_late_release_outlives_its_connection() {
    let scene = scene().await;
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    assert!(mine.is_some(), "free");
    settle().await;
    scene.master(2).hold_requests(true);
    scene.leave(0, mine).await;
    sleep(ms(60)).await;
    scene.master(2).reset_connections();
    scene.master(2).hold_requests(false);
    sleep(ms(1000)).await;
    scene.end().await;
}

/// Lets an operator look at all masters, and holds up the messages that it sends to 1 and 2 after that.
async fn force_stuck_on_two(scene: &Scene) {
    for master in scene.masters() {
        master.set_delay(ms(5), ms(5));
    }
    let meanwhile = async {
        sleep(ms(7)).await;
        scene.cut(1, 1, Direction::ToMaster);
        scene.cut(1, 2, Direction::ToMaster);
    };
    tokio::join!(force(&scene.world, &scene.seats[1], "a"), meanwhile);
    for master in scene.masters() {
        master.set_delay(Duration::ZERO, Duration::ZERO);
    }
}

/// The messages of a force arrive when the holder has left and a newer hold has begun.
#[tokio::test(start_paused = true)]
async fn late_force() {
    let scene = Scene::open(plan(Class::Forced, LEASE)).await;
    let first = scene.lock(0, Ask::new().lease(LEASE)).await;
    settle().await;
    force_stuck_on_two(&scene).await;
    scene.leave(0, first).await;
    let next = scene.lock(0, Ask::new().lease(LEASE)).await;
    assert!(next.is_some(), "the name is free");
    let before = scene.executed("force");
    scene.heal(1, 1);
    scene.heal(1, 2);
    settle().await;
    assert_eq!(scene.executed("force"), before + 2, "what was stuck arrives");
    let rival = scene.lock(1, Ask::new().lease(LEASE)).await;
    assert!(rival.is_none(), "the newer hold is whole");
    scene.leave(0, next).await;
    scene.end().await;
}

/// The same, and the newer holder uses the same field again, as a thread in Java does.
#[tokio::test(start_paused = true)]
async fn late_force_on_a_field_used_again() {
    let scene = Scene::open(plan(Class::Forced, LEASE)).await;
    let field = "6c0c2a4e-1111-4222-8333-944455556666:7";
    let hold = |scene: &Scene| {
        for master in scene.masters() {
            master.command(&["HSET", "a", field, "1"]).expect("a hash");
            master.command(&["PEXPIRE", "a", "5000"]).expect("there");
        }
    };
    hold(&scene);
    force_stuck_on_two(&scene).await;
    hold(&scene);
    sleep(ms(100)).await;
    scene.heal(1, 1);
    scene.heal(1, 2);
    settle().await;
    for master in scene.masters() {
        assert_eq!(master.fields("a"), [field, "1"], "it came too late");
        master.command(&["DEL", "a"]).expect("deleted");
    }
    scene.end().await;
}
