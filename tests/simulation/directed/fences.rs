//! What a fence leaves on a master: nothing, once the clock is far enough past it, and no token falls for it.

use std::time::Duration;

use multilock::sim::{Cluster, Direction, Master};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use crate::ask::Ask;
use crate::plan::Class;
use crate::plan::ms;
use crate::scene::{FENCE, Scene, ahead, plan, violated};
use crate::world::clock_us;

const MINUTE: u64 = 60_000_000;

/// Whether a master accepts a token, from whomever it comes and whenever it was made.
fn accepts(master: &Master, token: u64) -> bool {
    let keys = [
        "a",
        "multilock_revoked:{a}",
        "multilock_deadlines:{a}",
        FENCE,
        "multilock_queue:{a}",
    ];
    let token = token.to_string();
    let args = ["me:1", "1", "1000", "0", "", "1", &token, &token, "0"];
    let acquire = concat!(
        include_str!("../../../lua/labels.lua"),
        include_str!("../../../lua/queue.lua"),
        include_str!("../../../lua/readers.lua"),
        include_str!("../../../lua/acquire.lua")
    );
    let reply = master.eval(acquire, &keys, &args).expect("an answer");
    master.command(&["DEL", "a"]).expect("released");
    reply.len() == 1
}

/// Proposals at random, some by clocks that are far off; a master's clock goes on, and where `back` is set it is
/// once set back by so much.
async fn propose_at_random(back: Option<u64>) {
    for seed in 0..600 {
        let mut random = StdRng::seed_from_u64(seed);
        let cluster = Cluster::new(1);
        let master = cluster.master(0);
        let mut back = back;
        let mut last = 0;
        for step in 0..12 {
            match random.random_range(0..6) {
                0..3 => {
                    let token = clock_us(master) + random.random_range(0..25 * MINUTE) - 20 * MINUTE;
                    if accepts(master, token) {
                        assert!(token > last, "seed {seed}, step {step}: {token} after {last}");
                        last = token;
                    }
                }
                3 => sleep(Duration::from_micros(random.random_range(0..2 * MINUTE))).await,
                4 => sleep(Duration::from_micros(random.random_range(0..13 * MINUTE))).await,
                _ => {
                    if let Some(by) = back.take() {
                        master.set_clock_back(Duration::from_micros(by));
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_token_falls_while_clocks_go_on() {
    propose_at_random(None).await;
}

/// Set back by five minutes, as much as a fence bears.
#[tokio::test(start_paused = true)]
async fn no_token_falls() {
    propose_at_random(Some(5 * MINUTE)).await;
}

/// The bound is what it is said to be: a clock that is set back by more makes a token fall.
#[tokio::test(start_paused = true)]
#[should_panic(expected = " after ")]
async fn more_than_five_minutes_back_is_too_much() {
    propose_at_random(Some(8 * MINUTE)).await;
}

/// A hold is older than its fence; then a master forgets it, and is given it again.
#[tokio::test(start_paused = true)]
async fn an_old_hold_is_taken_again() {
    let scene = Scene::open(plan(Class::Reckless, ms(3000))).await;
    let mine = scene.lock(0, Ask::new()).await.expect("free");
    sleep(Duration::from_secs(11 * 60)).await;
    for master in scene.masters() {
        assert!(
            !master.keys().contains(&FENCE.to_owned()),
            "the floor is above it"
        );
    }
    scene.forgets(1, "loses a key");
    scene.master(1).evict("a");
    sleep(ms(3000)).await;
    assert_eq!(scene.master(1).fields("a").len(), 2, "given again");
    // So the hold bears the loss of another.
    scene.cut(0, 2, Direction::Both);
    sleep(ms(6000)).await;
    assert!(mine.guard.is_valid());
    scene.heal(0, 2);
    scene.leave(0, Some(mine)).await;
    scene.end().await;
}

/// A token is raised on the masters that granted first; the last one has a smaller token beside the field.
#[tokio::test(start_paused = true)]
async fn a_raised_token_is_left_everywhere() {
    let scene = Scene::open(plan(Class::Calm, ms(3000))).await;
    for place in [0, 1] {
        let token = ahead(&scene, place, Duration::from_secs(60));
        scene
            .master(place)
            .command(&["SET", FENCE, &token])
            .expect("written");
    }
    let mine = scene.lock(0, Ask::new()).await.expect("free");
    // The last one of its block.
    let token = (mine.guard.fencing_token().get() + 63).to_string();
    scene.leave(0, Some(mine)).await;
    sleep(ms(20)).await;
    for (place, master) in scene.masters().enumerate() {
        let left = master.command(&["GET", FENCE]).expect("an answer");
        if left != [token.clone()] {
            violated("tokens rise", &format!("m{place} has {left:?}, not {token}"));
        }
    }
    scene.end().await;
}
