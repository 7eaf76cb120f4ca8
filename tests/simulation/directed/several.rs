//! Several locks at once: all of them or none, and none is held while another is waited for.

use std::sync::Arc;
use std::time::Duration;

use multilock::sim::Direction;
use multilock::{Either, MultiLockGuard, Owner, Unlocked};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::ask::Ask;
use crate::guard::LockKind;
use crate::history::Kind;
use crate::plan::{Class, Plan, ms};
use crate::scene::{Scene, in_time, plan, violated};
use crate::world::{Mine, Terms};

const LEASE: Duration = ms(3000);
const PATIENCE: Duration = ms(20_000);

/// Three clients that are a millisecond away from every master, and two names.
async fn open() -> Scene {
    let two_names = Plan {
        names: vec!["a", "b"],
        clients: 3,
        ..plan(Class::Calm, LEASE)
    };
    let scene = Scene::open(two_names).await;
    for master in scene.masters() {
        master.set_delay(ms(1), ms(1));
    }
    scene
}

/// Waits for two names as a set of two locks.
fn both(scene: &Scene, client: usize, names: [&'static str; 2]) -> JoinHandle<Vec<Mine>> {
    let (world, seat) = (Arc::clone(&scene.world), Arc::clone(&scene.seats[client]));
    tokio::spawn(async move {
        let op = world.next_op();
        let what = format!("lock {} and {}", names[0], names[1]);
        let began = world.history.note(Some(client), Kind::Begun { op, what });
        let masters = seat.masters();
        let locks = masters.red_lock(names[0]).and(masters.multi_lock(names[1]));
        let guards = match locks.wait(PATIENCE).lock().await {
            Ok(guard) => guard.into_guards(),
            Err(error) => violated("progress", &error.to_string()),
        };
        let needed = [2, 3];
        let grant = |((guard, name), needed): ((MultiLockGuard<Either>, &str), usize)| {
            let terms = Terms {
                kind: LockKind::Plain,
                op,
                needed,
                fenced: true,
                min_validity: Duration::ZERO,
                renews: true,
                at_least: Duration::ZERO,
                began,
            };
            world.granted(client, terms, &[name.to_owned()], guard)
        };
        guards.into_iter().zip(names).zip(needed).map(grant).collect()
    })
}

async fn leave(scene: &Scene, client: usize, mine: Vec<Mine>) {
    for mine in mine {
        scene.leave(client, Some(mine)).await;
    }
}

/// Two sets over the same locks, put together in opposite orders, begin at the same moment, again and again.
#[tokio::test(start_paused = true)]
async fn opposite_orders_do_not_lock_each_other_out() {
    let scene = open().await;
    for _ in 0..20 {
        let begun = Instant::now();
        let waiters = [both(&scene, 0, ["a", "b"]), both(&scene, 1, ["b", "a"])];
        for (client, waiter) in waiters.into_iter().enumerate() {
            let mine = waiter.await.expect("no panic");
            leave(&scene, client, mine).await;
        }
        in_time(begun, ms(60));
    }
    scene.end().await;
}

/// One lock of the set is held for long. A client that wants the other lock has it soon, again and again. It makes no
/// difference whether that lock is free when the set begins.
#[tokio::test(start_paused = true)]
async fn it_holds_none_while_it_waits() {
    for is_held in [false, true] {
        one_is_in_the_way(is_held).await;
    }
}

async fn one_is_in_the_way(other_is_held: bool) {
    let scene = open().await;
    let long = scene.lock(1, Ask::new().names(&["b"])).await;
    let short = if other_is_held {
        scene.lock(1, Ask::new()).await
    } else {
        None
    };
    let waiter = both(&scene, 0, ["a", "b"]);
    sleep(ms(20)).await;
    let begun = Instant::now();
    let next = scene.locking(2, Ask::new().wait(PATIENCE));
    sleep(ms(20)).await;
    if other_is_held {
        scene.leave(1, short).await;
    }
    let other = next.await.expect("no panic");
    in_time(begun, ms(1500));
    scene.leave(2, other).await;
    sleep(ms(6000)).await;
    for _ in 0..10 {
        let begun = Instant::now();
        let other = scene.lock(2, Ask::new().wait(PATIENCE)).await;
        in_time(begun, ms(300));
        sleep(ms(700)).await;
        scene.leave(2, other).await;
    }
    let begun = Instant::now();
    scene.leave(1, long).await;
    let mine = waiter.await.expect("no panic");
    in_time(begun, ms(50));
    leave(&scene, 0, mine).await;
    scene.end().await;
}

/// Both names of a lock are held for so long that the waiter stays in the queue of one alone. Whichever is free first, the
/// waiter is called for the other.
#[tokio::test(start_paused = true)]
async fn of_two_names_that_are_held_for_long_each_calls_the_waiter() {
    for order in [["a", "b"], ["b", "a"]] {
        let scene = open().await;
        let of = |name| {
            if name == "a" {
                Ask::new().names(&["a"])
            } else {
                Ask::new().names(&["b"])
            }
        };
        let [first, second] = order.map(of);
        let first = scene.lock(1, first).await;
        let second = scene.lock(2, second).await;
        let waiter = scene.locking(0, Ask::new().names(&["a", "b"]).wait(PATIENCE));
        sleep(ms(6400)).await;
        scene.leave(1, first).await;
        sleep(ms(100)).await;
        let begun = Instant::now();
        scene.leave(2, second).await;
        let mine = waiter.await.expect("no panic");
        in_time(begun, ms(50));
        scene.leave(0, mine).await;
        scene.end().await;
    }
}

/// An owner has one of the locks, and leaves it while a set of its enters it; the other one is refused.
#[tokio::test(start_paused = true)]
async fn what_an_outer_entry_keeps_is_kept() {
    let scene = open().await;
    scene.cut(0, 2, Direction::ToClient);
    let (me, begun) = (Owner::new(), Instant::now());
    let outer = scene.lock(0, Ask::new().owner(&me).at_least(ms(1000))).await;
    let masters = scene.seats[0].masters();
    let set = masters.red_lock("a").and(masters.multi_lock("b")).owner(&me);
    let entering = tokio::spawn(async move { set.wait(ms(200)).lock().await.map(drop) });
    // The master behind the cut line answers the other's round only at its deadline.
    sleep(ms(10)).await;
    let left = scene.leave(0, outer).await;
    assert!(matches!(left, Some(Ok(Unlocked::StillHeld(1)))), "{left:?}");
    entering
        .await
        .expect("no panic")
        .expect_err("one master is silent");
    scene.heal(0, 2);
    let other = scene.lock(1, Ask::new().wait(PATIENCE)).await;
    if begun.elapsed() < ms(1000) {
        violated("mutual exclusion", "its names are not kept");
    }
    scene.leave(1, other).await;
    scene.end().await;
}

/// Other clients want both locks of the set all the time. They hold them for times that never fall together.
#[tokio::test(start_paused = true)]
async fn what_it_could_have_had_is_left_to_it() {
    let scene = open().await;
    let crowd = [(1, "a", 30), (1, "a", 31), (2, "b", 43), (2, "b", 47)].map(|(client, name, section)| {
        let (world, seat) = (Arc::clone(&scene.world), Arc::clone(&scene.seats[client]));
        let names: &'static [&'static str] = if name == "a" { &["a"] } else { &["b"] };
        tokio::spawn(async move {
            for _ in 0..60 {
                let ask = Ask::new().names(names).fair().wait(PATIENCE);
                let mine = ask.of(&world, &seat).await;
                sleep(ms(section)).await;
                crate::ask::leave(&world, client, mine).await;
            }
        })
    });
    for _ in 0..5 {
        sleep(ms(100)).await;
        let begun = Instant::now();
        let mine = both(&scene, 0, ["a", "b"]).await.expect("no panic");
        // The holder of each lock, and one waiter that came before the set.
        in_time(begun, ms(150));
        leave(&scene, 0, mine).await;
    }
    for task in crowd {
        task.await.expect("no panic");
    }
    scene.end().await;
}
