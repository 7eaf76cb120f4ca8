//! A fence leaves nothing on a master once the clock is far enough past it, and no token falls because of that.

use std::time::Duration;

use multilock::sim::{Cluster, Direction, Master};
use multilock_test_support::scripts::ACQUIRE;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use crate::ask::Ask;
use crate::plan::Class;
use crate::plan::ms;
use crate::scene::{FENCE, Scene, plan};
use crate::world::clock_us;

const SECOND: u64 = 1_000_000;

/// Answer of a master to an acquire, without its stamp. It is empty if the token was accepted.
fn ask(master: &Master, token: u64, options: &str) -> Vec<String> {
    ask_block(master, token + 63, options)
}

/// The same for a block that ends with `last`. Its size is among the options.
fn ask_block(master: &Master, last: u64, options: &str) -> Vec<String> {
    let keys = ["a", "multilock_revoked:{a}", "multilock_deadlines:{a}", FENCE];
    let last = last.to_string();
    let args = ["me:1", "1000", &last, options];
    let reply = master.eval(ACQUIRE, &keys, &args).expect("an answer");
    master.command(&["DEL", "a"]).expect("released");
    reply[1..].to_vec()
}

/// Proposals at random, some by clocks that are far off. Tokens that were accepted are declared again, at any time. The
/// master's clock goes on, and with `back` it is set back once by so much.
async fn propose_at_random(back: Option<u64>) {
    for seed in 0..2_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let cluster = Cluster::new(1);
        let master = cluster.master(0);
        let mut back = back;
        // The first and the last token of each block.
        let mut accepted: Vec<(u64, u64)> = Vec::new();
        for step in 0..16 {
            match random.random_range(0..8) {
                0..3 => {
                    let token = clock_us(master) + random.random_range(0..80 * SECOND) - 20 * SECOND;
                    let size = 64 << random.random_range(0..7);
                    let options = if size == 64 {
                        String::new()
                    } else {
                        size.to_string()
                    };
                    let last = token + size - 1;
                    if ask_block(master, last, &options).is_empty() {
                        let before = accepted.last().map_or(0, |(_, last)| *last);
                        assert!(token > before, "seed {seed}, step {step}: {token} after {before}");
                        accepted.push((token, last));
                    }
                }
                3 => sleep(Duration::from_micros(random.random_range(0..20 * SECOND))).await,
                4 => {
                    sleep(Duration::from_micros(
                        random.random_range(100 * SECOND..170 * SECOND),
                    ))
                    .await;
                }
                5 | 6 => {
                    let earlier = accepted.get(random.random_range(0..8));
                    let told = earlier.map(|(_, last)| ask_block(master, *last, "d"));
                    assert!(told.is_none_or(|told| told.is_empty()), "compared with nothing");
                }
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

/// Set back by 100 s, as much as a fence tolerates.
#[tokio::test(start_paused = true)]
async fn no_token_falls() {
    propose_at_random(Some(100 * SECOND)).await;
}

/// The fence refuses a smaller token while the clock may be set back, and the clock does once the fence is gone.
#[tokio::test(start_paused = true)]
async fn a_smaller_token_is_refused_with_and_without_a_fence() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    // Not so far ahead that its fence lives longer.
    let token = clock_us(master) + 10 * SECOND - SECOND / 10;
    let ask_smaller = || ask(master, token - SECOND / 4, "");
    let fences = || master.command(&["EXISTS", FENCE]).expect("a number").concat();
    assert!(ask(master, token, "").is_empty(), "accepted");
    sleep(Duration::from_secs(119)).await;
    assert_eq!(fences(), "1");
    master.set_clock_back(Duration::from_secs(100));
    assert_eq!(ask_smaller(), ["3".to_owned(), (token + 63).to_string()]);
    sleep(Duration::from_secs(102)).await;
    assert_eq!(fences(), "0");
    assert_eq!(ask_smaller()[0], "3", "far behind the clock");
}

/// A clock that is set back by more makes a token fall. `model: fences that are forgotten` has the exact bound.
#[tokio::test(start_paused = true)]
#[should_panic(expected = " after ")]
async fn more_than_a_hundred_seconds_back_is_too_much() {
    propose_at_random(Some(180 * SECOND)).await;
}

/// A block that begins inside another one is not accepted, however large it is.
#[tokio::test(start_paused = true)]
async fn a_large_block_begins_above_the_last_one() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    let first = clock_us(master);
    assert!(ask_block(master, first + 63, "").is_empty());
    for size in [128, 4096] {
        let begins_at = |token: u64| ask_block(master, token + size - 1, &size.to_string());
        assert_eq!(begins_at(first + 63)[0], "3", "{size}");
    }
    assert!(ask_block(master, first + 64 + 127, "128").is_empty());
}

/// A fence is forgotten, the clock is set back, and a token that was accepted earlier is declared.
#[tokio::test(start_paused = true)]
async fn what_is_declared_late_lets_no_smaller_token_in() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    let accepts = |token: u64, options| ask(master, token, options).is_empty();
    let earlier = clock_us(master);
    assert!(accepts(earlier, ""));
    sleep(Duration::from_secs(5)).await;
    let later = clock_us(master);
    assert!(accepts(later, ""));
    sleep(Duration::from_secs(121)).await;
    assert!(!master.keys().contains(&FENCE.to_owned()), "forgotten");
    master.set_clock_back(Duration::from_secs(100));
    assert!(accepts(earlier, "d"), "declared");
    assert!(
        !accepts(later - SECOND, ""),
        "it is smaller than one that was accepted"
    );
}

/// Two masters forget an old hold and its fence, and are given the hold again, although its token would not be accepted there.
/// If both refused the token, the hold would end.
#[tokio::test(start_paused = true)]
async fn an_old_hold_is_taken_again() {
    let scene = Scene::open(plan(Class::Reckless, ms(3000))).await;
    let mine = scene.lock(0, Ask::new()).await.expect("free");
    sleep(Duration::from_secs(3 * 60)).await;
    for place in [0, 1] {
        scene.forgets(place, "loses two keys");
        assert!(scene.master(place).evict("a") && scene.master(place).evict(FENCE));
    }
    sleep(ms(3000)).await;
    for place in [0, 1] {
        assert_eq!(scene.master(place).fields("a").len(), 2, "given again");
    }
    // So the hold bears the loss of another.
    scene.cut(0, 2, Direction::Both);
    sleep(ms(6000)).await;
    assert!(mine.guard.is_valid());
    scene.heal(0, 2);
    scene.leave(0, Some(mine)).await;
    scene.end().await;
}
