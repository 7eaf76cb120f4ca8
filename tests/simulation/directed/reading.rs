//! The calls of read/write locks on one master: the stored leases and tokens, and the cases that the beginnings of the scripts
//! leave to the rest of them.

use std::time::Duration;

use multilock::sim::{Cluster, Master};
use multilock_test_support::scripts::{ACQUIRE, RELEASE};
use tokio::time::sleep;

use crate::plan::ms;
use crate::scene::FENCE;
use crate::world::clock_us;

const SECOND: u64 = 1_000_000;
const READERS: &str = "multilock_readers:{a}";
const REVOKED: &str = "multilock_revoked:{a}";
const DEADLINES: &str = "multilock_deadlines:{a}";
const KEYS: [&str; 5] = ["a", REVOKED, DEADLINES, FENCE, READERS];
/// The name `b` behind `a`.
const TWO: [&str; 10] = [
    "a",
    REVOKED,
    DEADLINES,
    "b",
    "multilock_revoked:{b}",
    "multilock_deadlines:{b}",
    FENCE,
    "multilock_fence:{b}",
    READERS,
    "multilock_readers:{b}",
];

/// Answer to an owner that asks for some ms, behind the stamp. Without a token, an empty word takes its place.
fn ask(master: &Master, owner: &str, ms: u64, token: &str, options: &str) -> Result<Vec<String>, String> {
    let args = [owner, &ms.to_string(), token, options];
    let is_plain = !options.starts_with(['r', 'w']);
    let reply = master.eval(ACQUIRE, &KEYS[..if is_plain { 4 } else { 5 }], &args);
    reply.map(|reply| reply[1..].to_vec())
}

fn release(master: &Master, owner: &str) -> Result<Vec<String>, String> {
    master.eval(RELEASE, &["a", DEADLINES, READERS], &["rw", owner])
}

fn run(master: &Master, words: &[&str]) -> String {
    master.command(words).expect("an answer").concat()
}

/// Keys of the name, without its fence.
fn left(master: &Master) -> Vec<String> {
    master
        .keys()
        .into_iter()
        .filter(|key| !key.contains("fence"))
        .collect()
}

/// A call may arrive twice, the second time with another lease.
#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_again_reads_for_the_longer_time() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    for (owner, lease) in [("me:1", 2000), ("me:2", 1000), ("me:2", 9000), ("me:2", 500)] {
        assert_eq!(ask(master, owner, lease, "", "r"), Ok(Vec::new()));
    }
    assert_eq!(master.time_left("a"), Some(ms(9000)));
    assert_eq!(release(master, "me:1"), Ok(vec!["1".into()]));
    assert_eq!(master.time_left("a"), Some(ms(9000)));
    assert_eq!(release(master, "me:2"), Ok(vec!["1".into()]));
    assert_eq!(left(master), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_comes_in_beside_a_set_of_another_type() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    assert_eq!(ask(master, "me:1", 2000, "", "r"), Ok(Vec::new()));
    run(master, &["DEL", READERS]);
    run(master, &["SET", READERS, "text"]);
    assert_eq!(ask(master, "me:2", 1000, "", "r"), Ok(Vec::new()));
    assert_eq!(run(master, &["ZRANGE", READERS, "0", "-1"]), "me:2lost:0");
    assert_eq!(release(master, "me:2"), Ok(vec!["1".into()]));
    assert_eq!(
        master.time_left("a"),
        Some(ms(2000)),
        "the one that was lost still reads"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_was_forced_out_does_not_come_in() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    assert_eq!(ask(master, "me:1", 2000, "", "r"), Ok(Vec::new()));
    let until = (clock_us(master) / 1000 + 5000).to_string();
    run(master, &["ZADD", REVOKED, &until, "me:2"]);
    assert_eq!(ask(master, "me:2", 1000, "", "r"), Ok(vec!["-1".into()]));
    assert_eq!(
        ask(master, "me:3", 1000, "", "r"),
        Ok(Vec::new()),
        "another one does"
    );
    assert_eq!(run(master, &["ZRANGE", READERS, "0", "-1"]), "me:3me:1");
}

#[tokio::test(start_paused = true)]
async fn a_reader_without_a_token_is_refused_beside_readers_with_tokens() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    let token = clock_us(master).to_string();
    assert_eq!(
        ask(master, "me:1", 2000, &token, "r").map(|told| told[0].clone()),
        Ok("3".into())
    );
    let refused = ask(master, "me:2", 1000, "", "r").expect_err("refused");
    assert!(refused.contains("FENCED"), "{refused}");
    assert_eq!(run(master, &["ZCARD", READERS]), "1");
}

/// Readers that never released pile up for a while only.
#[tokio::test(start_paused = true)]
async fn readers_with_leases_that_have_ended_are_deleted_while_others_read_on() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    for n in 0..500 {
        assert_eq!(ask(master, &format!("me:{n}"), 100, "", "r"), Ok(Vec::new()));
        sleep(ms(7)).await;
    }
    let kept: usize = run(master, &["ZCARD", READERS]).parse().expect("a number");
    assert!(kept < 60, "{kept} of some 15 that read");
}

/// The token of the first reader is that of the others, or the smallest that the master accepts. Its fence outlives it also if it
/// is far ahead of the clock.
#[tokio::test(start_paused = true)]
async fn the_first_reader_stores_a_token() {
    for (ahead, stored, life) in [(0, 0, 120_001), (-20, -10, 120_001), (60, 60, 170_001)] {
        let cluster = Cluster::new(1);
        let master = cluster.master(0);
        let clock = clock_us(master);
        let token = clock.saturating_add_signed(ahead * 1_000_000);
        let expected = clock.saturating_add_signed(stored * 1_000_000) + u64::from(stored < 0);
        let told = vec!["3".to_owned(), expected.to_string()];
        assert_eq!(
            ask(master, "me:1", 2000, &token.to_string(), "r"),
            Ok(told.clone())
        );
        assert_eq!(run(master, &["GET", FENCE]), expected.to_string());
        assert_eq!(master.time_left(FENCE), Some(ms(life)), "{ahead}");
        let larger = (token + 100 * SECOND).to_string();
        assert_eq!(ask(master, "me:2", 2000, &larger, "r"), Ok(told), "shared");
    }
}

/// A token that a quorum has accepted is stored as it is. The answer does not repeat it.
#[tokio::test(start_paused = true)]
async fn a_reader_that_is_taken_again_declares_its_token() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    let token = clock_us(master).to_string();
    assert_eq!(ask(master, "me:1", 2000, &token, "rd"), Ok(Vec::new()));
    assert_eq!(ask(master, "me:2", 2000, &token, "rd"), Ok(Vec::new()));
    assert_eq!(run(master, &["GET", FENCE]), token);
}

/// A value that is no token refuses new holds, and stays as it is beside those that a quorum has accepted.
#[tokio::test(start_paused = true)]
async fn a_spoilt_fence_refuses_new_holds_and_stays() {
    for options in ["", "r", "w"] {
        for is_read in [false, true] {
            if is_read && options != "r" {
                continue;
            }
            let cluster = Cluster::new(1);
            let master = cluster.master(0);
            if is_read {
                assert_eq!(ask(master, "me:1", 2000, "", "r"), Ok(Vec::new()));
            }
            run(master, &["SET", FENCE, "spoilt"]);
            let before = left(master);
            let token = (clock_us(master) + 63).to_string();
            let refused = ask(master, "me:2", 1000, &token, options).expect_err("spoilt");
            assert!(refused.contains("FENCE "), "{refused}");
            assert_eq!(left(master), before, "nothing was written");
            let again = ask(master, "me:2", 1000, &token, &format!("{options}d"));
            assert_eq!(again, Ok(Vec::new()), "{options:?}");
            assert_eq!(run(master, &["GET", FENCE]), "spoilt");
        }
    }
}

/// The caption of a reader is stored, whether it is the first one or not.
#[tokio::test(start_paused = true)]
async fn a_reader_with_a_text_is_shown_with_it() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    for owner in ["me:1c", "me:2c"] {
        let args = [owner, "1000", "", "r", "1", "0", "", "monthly"];
        assert_eq!(master.eval(ACQUIRE, &KEYS, &args).map(|reply| reply.len()), Ok(1));
        let caption = format!("multilock_about:{owner}");
        assert_eq!(run(master, &["HGET", &caption, "about"]), "monthly");
        assert_eq!(release(master, owner), Ok(vec!["1".into()]));
        assert_eq!(run(master, &["EXISTS", &caption]), "0");
    }
}

/// Two names share the largest token, and are given up together.
#[tokio::test(start_paused = true)]
async fn two_names_are_read_and_written_by_one_call() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    let clock = clock_us(master);
    let fence = (clock + SECOND).to_string();
    run(master, &["SET", FENCE, &clock.to_string()]);
    run(master, &["SET", "multilock_fence:{b}", &fence]);
    let token = clock.to_string();
    let told = master.eval(ACQUIRE, &TWO, &["me:1", "1000", &token, "r"]);
    assert_eq!(
        told.map(|told| told[1..].to_vec()),
        Ok(vec!["3".into(), fence.clone()])
    );
    for key in [FENCE, "multilock_fence:{b}"] {
        assert_eq!(run(master, &["GET", key]), fence, "{key}");
    }
    let released = [
        "a",
        DEADLINES,
        "b",
        "multilock_deadlines:{b}",
        READERS,
        "multilock_readers:{b}",
    ];
    assert_eq!(
        master.eval(RELEASE, &released, &["rw", "me:1"]),
        Ok(vec!["1".into()])
    );
    assert_eq!(left(master), [""; 0]);
    let last = (clock + 2 * SECOND + 63).to_string();
    let granted = master.eval(ACQUIRE, &TWO, &["me:2", "1000", &last, "w"]);
    assert_eq!(granted.map(|granted| granted.len()), Ok(1));
    assert_eq!(left(master), ["a", "b"]);
    assert_eq!(
        master.eval(RELEASE, &released, &["rw", "me:2"]),
        Ok(vec!["1".into()])
    );
    assert_eq!(left(master), [""; 0]);
}

/// One call that reads several names takes another way than a call that reads one.
#[tokio::test(start_paused = true)]
async fn lost_readers_of_two_names_read_on() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    for (owner, lease) in [("me:1", "2000"), ("me:2", "1000")] {
        let told = master.eval(ACQUIRE, &TWO, &[owner, lease, "", "r"]);
        assert_eq!(told.map(|told| told.len()), Ok(1));
        run(master, &["DEL", READERS]);
    }
    assert_eq!(
        master
            .eval(ACQUIRE, &TWO, &["me:3", "1000", "", "r"])
            .map(|told| told.len()),
        Ok(1)
    );
    assert_eq!(run(master, &["ZRANGE", READERS, "0", "-1"]), "me:3lost:0");
    assert_eq!(release(master, "me:3"), Ok(vec!["1".into()]));
    assert_eq!(master.time_left("a"), Some(ms(2000)));
}

/// The set of readers may outlive the name if an operator deletes that.
#[tokio::test(start_paused = true)]
async fn a_writer_deletes_the_readers_of_before() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    assert_eq!(ask(master, "me:1", 9000, "", "r"), Ok(Vec::new()));
    run(master, &["DEL", "a"]);
    assert_eq!(ask(master, "me:2", 1000, "", "w"), Ok(Vec::new()));
    assert_eq!(left(master), ["a"]);
    assert_eq!(run(master, &["HGETALL", "a"]), "modewriteme:21");
    assert_eq!(release(master, "me:2"), Ok(vec!["1".into()]));
    assert_eq!(left(master), [""; 0]);
}

/// The rollback of a lost round puts its waiter into the readers' queue.
#[tokio::test(start_paused = true)]
async fn a_rollback_of_a_reader_gives_its_waiter_a_place() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    assert_eq!(ask(master, "me:1", 2000, "", "r"), Ok(Vec::new()));
    let args = ["rw", "me:1", "7r:1000", "99"];
    let rolled_back = master.eval(RELEASE, &["a", DEADLINES, READERS], &args);
    assert_eq!(rolled_back, Ok(vec!["1".into()]));
    assert_eq!(run(master, &["ZCARD", "multilock_readers_queue:{a}"]), "1");
    assert_eq!(master.time_left("a"), None);
    assert!(master.time_left(DEADLINES) > Some(Duration::ZERO));
}
