//! Fencing tokens: unique, rising with every grant of a name, and one round trip in the common case.

use std::pin::pin;
use std::time::Duration;

use crate::support::{connect, ms, settle};
use futures::poll;
use multilock::sim::{Client, Cluster, Keep, Master};
use multilock::{FencingToken, LockError, Masters, Owner, Quarantine, Vote};
use multilock_test_support::scripts::{ACQUIRE, EXTEND};
use tokio::time::{sleep, timeout};

const FENCE: &str = "multilock_fence:{a}";

/// Times of the masters' clocks at the start, and an hour later, in microseconds.
const START: u64 = 1_700_000_000_000_000;
const FAR: u64 = START + 3_600_000_000;

fn stored(master: &Master) -> u64 {
    let text = master.command(&["GET", FENCE]).expect("a string").pop();
    text.map_or(0, |digits| digits.parse().expect("digits"))
}

fn store(master: &Master, token: u64) {
    master
        .command(&["SET", FENCE, &token.to_string(), "PX", "600000"])
        .expect("stored");
}

/// Number that a master stores for a token: the last of the block of 64 that begins with it.
fn last_of_block(token: FencingToken) -> u64 {
    token.get() + 63
}

#[tokio::test(start_paused = true)]
async fn every_grant_has_a_larger_token_whoever_gets_it() {
    let cluster = Cluster::new(3);
    let clients = [connect(&cluster).await, connect(&cluster).await];
    let mut last = FencingToken::NONE;
    for turn in 0..100 {
        let lock = clients[turn % 2].red_lock("a");
        let guard = lock.lock().await.expect("free");
        assert!(guard.fencing_token() > last, "turn {turn}");
        last = guard.fencing_token();
        guard.unlock().await.expect("held");
        // Wall clocks go on.
        sleep(ms(1)).await;
    }
    for master in cluster.iter() {
        assert_eq!(stored(master), last_of_block(last), "kept after the release");
        let left = master.time_left(FENCE).expect("expires");
        assert!(left > ms(119_900) && left <= ms(120_001), "{left:?}");
        assert_eq!(
            master.executed().get("extend"),
            None,
            "one round trip is enough when they agree"
        );
        assert_eq!(master.executed()["acquire"], 100);
    }
}

/// Each name of a lock has its fence, in either order.
#[tokio::test(start_paused = true)]
async fn every_name_of_a_lock_has_its_token() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for names in [["a", "b"], ["b", "a"]] {
        let guard = masters.red_lock(names).lock().await.expect("free");
        settle().await;
        let fence = last_of_block(guard.fencing_token());
        for master in cluster.iter() {
            let other = master.command(&["GET", "multilock_fence:{b}"]).expect("a string");
            assert_eq!((stored(master), other), (fence, vec![fence.to_string()]));
        }
        guard.unlock().await.expect("held");
    }
}

/// A fence that is far ahead lives until 110 s past its token: the clock may be set back by 100 s of them.
#[tokio::test(start_paused = true)]
async fn a_fence_that_is_far_ahead_outlives_a_clock_that_is_set_back() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    cluster.iter().for_each(|master| store(master, FAR));
    for turn in 0..2 {
        let guard = masters.red_lock("a").lock().await.expect("free");
        settle().await;
        let fence = last_of_block(guard.fencing_token());
        let with_it: Vec<_> = cluster.iter().filter(|master| stored(master) == fence).collect();
        assert!(with_it.len() >= 2, "turn {turn}");
        for master in with_it {
            let left = master.time_left(FENCE).expect("expires");
            assert!(left > Duration::from_secs(3600 + 109), "turn {turn}: {left:?}");
        }
        guard.unlock().await.expect("held");
    }
}

/// A master has forgotten the name and its fence. It gets both again with the next renewal.
#[tokio::test(start_paused = true)]
async fn a_master_that_forgot_a_hold_gets_its_token_with_it() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    for key in ["a", FENCE] {
        assert!(cluster.master(2).evict(key), "{key}");
    }
    let retaken = async || {
        while stored(cluster.master(2)) == 0 {
            sleep(ms(100)).await;
        }
    };
    assert!(timeout(ms(11_000), retaken()).await.is_ok());
    assert_eq!(stored(cluster.master(2)), last_of_block(guard.fencing_token()));
    assert_eq!(cluster.master(2).executed()["acquire"], 2, "it was taken again");
}

#[tokio::test(start_paused = true)]
async fn entering_again_gives_the_same_token() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = masters.red_lock("a").owner(&Owner::new());
    let (outer, inner) = (
        lock.lock().await.expect("free"),
        lock.lock().await.expect("entered"),
    );
    assert_eq!(outer.fencing_token(), inner.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn off_costs_nothing_and_gives_the_smallest() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let guard = masters.red_lock("a").fenced(false).lock().await.expect("free");
    assert_eq!(guard.fencing_token(), FencingToken::NONE);
    assert!(cluster.iter().all(|master| master.keys() == ["a"]));
    guard.extend(ms(30_000)).await.expect("continued");
    guard.unlock().await.expect("held");
    sleep(ms(10)).await;
    assert!(cluster.iter().all(|master| master.keys().is_empty()));
}

/// A hold without a token could not be ordered behind a hold with one.
#[tokio::test(start_paused = true)]
async fn one_without_a_token_is_refused_where_others_take_the_name_with_tokens() {
    let cluster = Cluster::new(3);
    let (masters, other) = (connect(&cluster).await, connect(&cluster).await);
    let fenced = masters.red_lock("a").lock().await.expect("free");
    let plain = other.red_lock("a").fenced(false);
    for lock in [
        plain.clone(),
        plain.clone().wait(ms(60_000)),
        other.red_lock(["b", "a"]).fenced(false),
    ] {
        let refused = lock.lock().await.expect_err("others fence it");
        assert!(matches!(refused, LockError::Misconfigured { .. }), "{refused:?}");
        assert!(refused.to_string().contains("with fencing tokens"), "{refused}");
    }
    drop(other.red_lock("b").fenced(false).lock().await.expect("no fence"));
    fenced.unlock().await.expect("held");
    assert!(plain.try_lock().await.is_err(), "the fence stays");
    // A fence lasts for two minutes.
    sleep(ms(121_000)).await;
    drop(plain.lock().await.expect("nobody fences it any more"));
    settle().await;
    assert!(cluster.iter().all(|master| master.keys().is_empty()));
}

/// A fence that is an hour ahead of the clocks.
#[tokio::test(start_paused = true)]
async fn a_larger_one_on_some_masters_costs_one_more_round() {
    for ahead in [vec![0], vec![0, 1], vec![0, 1, 2]] {
        let cluster = Cluster::new(3);
        let masters = connect(&cluster).await;
        let far = FAR;
        for place in &ahead {
            store(cluster.master(*place), far);
        }
        let guard = masters.red_lock("a").lock().await.expect("free");
        assert!(
            guard.fencing_token().get() > far || ahead.len() == 1,
            "{}",
            guard.fencing_token()
        );
        let raises = cluster
            .iter()
            .map(|master| master.executed().get("extend").copied().unwrap_or(0));
        assert!(raises.max() <= Some(1), "one raise suffices");
        let quorum = cluster
            .iter()
            .filter(|master| stored(master) == last_of_block(guard.fencing_token()))
            .count();
        assert!(quorum >= 2, "a quorum stores it");
        let first = guard.fencing_token();
        guard.unlock().await.expect("held");
        // Refusals and grants have reported the stored fence, so there is no further raise.
        let before: Vec<_> = cluster
            .iter()
            .map(|master| master.executed().get("extend").copied())
            .collect();
        let guard = masters.red_lock("a").lock().await.expect("free");
        assert!(guard.fencing_token() > first);
        let after: Vec<_> = cluster
            .iter()
            .map(|master| master.executed().get("extend").copied())
            .collect();
        assert_eq!(before, after);
    }
}

/// A fence that is far ahead of the clock, or no number at all, is an error at once. The error says how to repair it.
#[tokio::test(start_paused = true)]
async fn a_spoilt_fence_is_an_error_of_its_name_alone() {
    let tomorrow = (START + 25 * 3_600_000_000).to_string();
    for spoilt in [
        "9007199254740991",
        "not a number",
        "-5",
        "nan",
        "1e300",
        &*tomorrow,
        "inf",
    ] {
        let cluster = Cluster::new(3);
        let masters = connect(&cluster).await;
        for master in cluster.iter() {
            master.command(&["SET", FENCE, spoilt]).expect("stored");
        }
        // The call does not wait, because only an operator can repair the fence.
        let error = masters
            .red_lock("a")
            .lock()
            .await
            .expect_err("no token is larger");
        assert!(
            matches!(error, LockError::Misconfigured { .. }),
            "{spoilt}: {error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("FENCE multilock_fence:{a} holds no token") && text.contains("; DEL it"),
            "{text}"
        );
        sleep(ms(100)).await;
        assert!(
            cluster.iter().all(|master| master.fields("a").is_empty()),
            "rolled back"
        );
        let other = masters.red_lock("b").try_lock().await.expect("another name");
        assert!(other.fencing_token() > FencingToken::NONE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_on_several_names_is_above_all_of_their_fences() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let far = FAR;
    for master in cluster.iter() {
        store(master, far);
    }
    let guard = masters.red_lock(["a", "b", "c"]).lock().await.expect("free");
    assert!(guard.fencing_token().get() > far);
    let last = last_of_block(guard.fencing_token()).to_string();
    for name in ["a", "b", "c"] {
        let key = format!("multilock_fence:{{{name}}}");
        let kept = cluster
            .iter()
            .filter(|master| master.command(&["GET", &key]) == Ok(vec![last.clone()]));
        assert!(kept.count() >= 2, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_keeps_the_fence_up_where_it_was_forgotten() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    cluster.master(1).command(&["DEL", FENCE]).expect("forgotten");
    cluster.master(2).crash();
    cluster.master(2).restart(Keep::Nothing);
    sleep(Duration::from_secs(25)).await;
    assert!(
        cluster
            .iter()
            .all(|master| stored(master) == last_of_block(guard.fencing_token()))
    );
}

/// Operators see by the fence since when a name is held, and a lock without tokens is refused for as long.
#[tokio::test(start_paused = true)]
async fn a_fence_lasts_for_two_minutes_longer_than_its_hold() {
    let cluster = Cluster::new(3);
    let (masters, other) = (connect(&cluster).await, connect(&cluster).await);
    let guard = masters.red_lock("a").lock().await.expect("free");
    sleep(Duration::from_secs(600)).await;
    let seen = other.red_lock("a").inspect().await.expect("masters that answer");
    let fence = seen[0].fence.map(FencingToken::get);
    assert_eq!(fence, Some(last_of_block(guard.fencing_token())));
    let plain = other.red_lock("a").fenced(false);
    let refused = plain.try_lock().await.expect_err("it is held with a token");
    assert!(matches!(refused, LockError::Misconfigured { .. }), "{refused:?}");
    guard.unlock().await.expect("held");
    sleep(ms(121_000)).await;
    assert!(cluster.iter().all(|master| master.keys().is_empty()));
}

/// Cancelled during the second round, nothing is left but the fences.
#[tokio::test(start_paused = true)]
async fn cancelled_while_raising_leaves_no_hold() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for master in cluster.iter() {
        store(master, FAR);
        master.set_delay(ms(2), ms(2));
    }
    for after in 0..10 {
        let lock = masters.red_lock("a");
        {
            let mut attempt = pin!(lock.try_lock());
            assert!(poll!(&mut attempt).is_pending());
            tokio::select! {
                _ = attempt => {}
                () = sleep(ms(after)) => {}
            }
        }
        sleep(ms(100)).await;
        assert!(
            cluster.iter().all(|master| master.fields("a").is_empty()),
            "after {after} ms"
        );
    }
}

fn fields(cluster: &Cluster) -> Vec<Vec<String>> {
    cluster.iter().map(|master| master.fields("a")).collect()
}

/// Answer of a script after its stamp.
fn answer(reply: Result<Vec<String>, String>) -> Result<Vec<String>, String> {
    reply.map(|parts| parts[1..].to_vec())
}

/// The keys of an acquire of `a`.
const ACQUIRED: [&str; 4] = ["a", "multilock_revoked:{a}", "multilock_deadlines:{a}", FENCE];

/// Counter-example 9, *lost reply, same token*: the acquire was executed, its answer lost, and it is
/// executed once more.
///
/// Rule: the token must be strictly above the stored one, so the second answer is "granted, not accepted".
#[tokio::test(start_paused = true)]
async fn lost_reply_same_token() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    let keys = ACQUIRED;
    // Each with the last token of its block.
    let once = |token: &str| answer(master.eval(ACQUIRE, &keys, &["me:1", "30000", token]));
    let [seven, eight, nine] = [70, 80, 90].map(|token| (START + token).to_string());
    assert_eq!(once(&seven), Ok(vec![]), "granted and accepted");
    assert_eq!(
        once(&seven),
        Ok(vec!["3".into(), seven.clone()]),
        "granted, not accepted"
    );
    assert_eq!(fields(&cluster), [["me:1", "1"]], "and counted once");
    let extended = ["a", "multilock_revoked:{a}", FENCE];
    let raise = |token: &str| {
        answer(master.eval(
            EXTEND,
            &extended,
            &["0", "me:1", "1", "30000", "1", token, token, "1"],
        ))
    };
    assert_eq!(raise(&seven), Ok(vec!["3".into()]), "not above itself");
    assert_eq!(raise(&eight), Ok(vec!["1".into()]));
    assert_eq!(stored(master), START + 80);
    let stranger = master.eval(
        EXTEND,
        &extended,
        &["0", "you:1", "1", "30000", "1", &nine, &nine, "1"],
    );
    assert_eq!(answer(stranger).expect("refused")[0], "0");
    assert_eq!(stored(master), START + 80, "only its holder moves a fence");
    master.command(&["DEL", "a"]).expect("released");
    assert_eq!(raise(&nine), Ok(vec!["2".into()]), "absent");
    assert_eq!(stored(master), START + 80, "nor does anybody on a free name");
}

/// Numbers in the middle of 2^53 keep their digits on their way through Lua.
#[tokio::test(start_paused = true)]
async fn digits_survive_up_to_the_largest() {
    let cluster = Cluster::new(1);
    let keys = ACQUIRED;
    let largest = (START + 24 * 3_600_000_000 - 1).to_string();
    let args = ["me:1", "30000", &largest];
    let accepted = answer(cluster.master(0).eval(ACQUIRE, &keys, &args));
    assert_eq!(accepted, Ok(vec![]));
    assert_eq!(
        answer(cluster.master(0).eval(ACQUIRE, &keys, &args)),
        Ok(vec!["3".into(), largest.clone()])
    );
}

/// A resource that checks tokens.
struct Resource {
    highest: FencingToken,
    accepted: Vec<FencingToken>,
}

impl Resource {
    fn write(&mut self, token: FencingToken) -> bool {
        let fresh = token >= self.highest;
        if fresh {
            self.highest = token;
            self.accepted.push(token);
        }
        fresh
    }
}

/// Counter-example 18, *paused client*: the process stops, once after the last answer that was needed
/// and past the lease before `lock()` returns, and once after it looked at `validity()`.
///
/// Rule: no guard with validity left comes of the first; the second is for the resource, which the
/// token tells.
#[tokio::test(start_paused = true)]
async fn paused_client() {
    let cluster = Cluster::new(3);
    let (paused, other) = (connect(&cluster).await, connect(&cluster).await);
    let lease = ms(500);
    let lock = paused.red_lock("a").lease(lease).wait(ms(100));
    let mut attempt = pin!(lock.lock());
    assert!(poll!(&mut attempt).is_pending());
    // All grant and all answers arrive; the task does not run meanwhile.
    sleep(ms(1)).await;
    assert!(cluster.iter().all(|master| master.fields("a").len() == 2));
    sleep(lease * 2).await;
    let guard = other
        .red_lock("a")
        .lease(lease)
        .try_lock()
        .await
        .expect("expired");
    let error = attempt.await.expect_err("too late");
    assert!(guard.is_valid(), "{error}");
    guard.unlock().await.expect("held");

    let mut resource = Resource {
        highest: FencingToken::NONE,
        accepted: Vec::new(),
    };
    let stale = lock.lock().await.expect("free");
    assert!(!stale.validity().is_zero(), "it looks, and then stops");
    sleep(lease * 2).await;
    let newer = other.red_lock("a").lock().await.expect("expired");
    assert!(resource.write(newer.fencing_token()));
    assert!(!resource.write(stale.fencing_token()), "rejected by the token");
    assert_eq!(resource.accepted, [newer.fencing_token()]);
    assert!(!stale.is_valid(), "had it looked again");
}

/// `a` and `{a}` are two names, though Redisson has one channel for both.
#[tokio::test(start_paused = true)]
async fn names_that_differ_by_braces_have_fences_of_their_own() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for master in cluster.iter() {
        store(master, FAR);
    }
    // The largest token of `a` would be above all that is proposed for the other, once for each name.
    let guard = masters.red_lock("{a}").try_lock().await.expect("free");
    assert!(u64::from(guard.fencing_token()) < FAR);
    let both = masters
        .red_lock(["a", "{b}", "b"])
        .try_lock()
        .await
        .expect("free");
    assert!(u64::from(both.fencing_token()) > FAR);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_a_key_of_ours_is_refused() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let error = masters.red_lock(FENCE).try_lock().await.expect_err("a fence");
    let LockError::Invalid(invalid) = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (invalid.field, &*invalid.value),
        ("name", "\"multilock_fence:{a}\"")
    );
    let guard = masters.red_lock("a").try_lock().await;
    drop(guard.expect("its fence is a number"));
}

/// A client proposes tokens by the masters' clocks, so its own date has no effect.
#[tokio::test(start_paused = true)]
async fn a_client_with_a_wrong_date_spoils_no_fence() {
    let cluster = Cluster::new(3);
    let year = Duration::from_secs(365 * 24 * 3600);
    let builder = || Masters::builder().quarantine(Quarantine::Off);
    let clients = [
        Client::new().clock_ahead(year),
        Client::new().clock_behind(year),
        Client::new(),
    ];
    let mut last = FencingToken::NONE;
    for client in &clients {
        let masters = cluster.connect_as(client, builder()).await.expect("connects");
        let guard = masters.red_lock("a").lock().await.expect("free");
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
        assert!(last.get() < START + 60_000_000, "{last}");
        guard.unlock().await.expect("held");
        sleep(ms(10)).await;
    }
    for master in cluster.iter() {
        assert_eq!(master.executed().get("extend"), None, "one round each");
    }
}

/// Every fence that it keeps would live for as long as it is ahead.
#[tokio::test(start_paused = true)]
async fn a_master_that_is_far_ahead_has_no_vote_where_tokens_are_wanted() {
    let cluster = Cluster::new(3);
    cluster.master(1).set_clock_forward(Duration::from_secs(6 * 60));
    let masters = connect(&cluster).await;
    let guard = masters.red_lock("a").lock().await.expect("a majority is right");
    let votes = guard.votes();
    let vote = &votes.iter().nth(1).expect("three votes").vote;
    let Vote::Failed { error } = vote else {
        panic!("{votes}");
    };
    assert!(error.starts_with("its clock is 6m"), "{error}");
    assert!(cluster.master(1).keys().is_empty(), "it was not asked");
    guard.unlock().await.expect("held");
    let all = masters
        .multi_lock("a")
        .try_lock()
        .await
        .expect_err("one has no vote");
    assert!(matches!(all, LockError::Unreachable { .. }), "{all}");
    let unfenced = masters.multi_lock("plain").fenced(false).try_lock().await;
    drop(unfenced.expect("no token is wanted"));
    // By less than that it costs nothing.
    cluster.master(1).set_clock_back(Duration::from_secs(2 * 60));
    sleep(Duration::from_secs(60)).await;
    for _ in 0..2 {
        // The first one hears of it.
        let _ = masters.red_lock("b").try_lock().await;
        sleep(Duration::from_secs(60)).await;
    }
    masters.multi_lock("b").try_lock().await.expect("all vote").leak();
}

/// A service that locks a name for each of its orders leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_name_two_minutes_after_its_last_use() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for n in 0..500 {
        let guard = masters.red_lock(format!("order:{n}")).lock().await.expect("free");
        guard.unlock().await.expect("held");
    }
    sleep(ms(110_000)).await;
    assert!(
        cluster.iter().all(|master| master.keys().len() == 500),
        "until then its tokens are known"
    );
    sleep(ms(15_000)).await;
    assert!(cluster.iter().all(|master| master.keys().is_empty()));
}
