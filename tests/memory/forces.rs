//! A force is remembered: its operator, its time and its reason.

use std::time::{Duration, SystemTime};

use multilock::sim::{Client, Cluster, Direction, Network};
use multilock::{Holder, LockError, LossCause, Masters};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{connect_by_default, ms};

/// Two minutes less than a day.
const NEARLY_A_DAY: Duration = Duration::from_secs(24 * 60 * 60 - 120);

#[tokio::test(start_paused = true)]
async fn who_forced_and_why_is_told_to_the_holder_and_shown_for_a_day() {
    let cluster = Cluster::new(3);
    let holding = connect_by_default(&cluster).await;
    let builder = Masters::builder().client_label("ops@desk");
    let operator = cluster.connect(builder).await.expect("connects");
    let names = ["{eu}:a", "b"];
    let guard = holding.red_lock(names).lock().await.expect("free");
    let lock = operator.red_lock(names);
    assert_eq!(lock.inspect().await.expect("they tell")[0].last_force, None);
    let reason = "stuck, #1234";
    lock.clone()
        .force_reason(reason)
        .force_release()
        .await
        .expect("forced");

    let loss = timeout(ms(60_000), guard.lost()).await.expect("it learns of it");
    assert_eq!(loss.cause, LossCause::TakenAway);
    let force = loss.force().expect("the masters remember it");
    assert_eq!(
        (force.by.as_deref(), force.reason.as_deref()),
        (Some("ops@desk"), Some(reason))
    );
    assert!(force.at > SystemTime::UNIX_EPOCH);
    let words = loss.votes.to_string();
    assert!(
        words.contains("forced out by ops@desk at ") && words.contains(reason),
        "{words}"
    );
    for name in lock.inspect().await.expect("they tell") {
        assert_eq!(name.last_force.as_ref(), Some(force), "{}", name.name);
    }
    tokio::time::advance(NEARLY_A_DAY).await;
    assert!(lock.inspect().await.expect("they tell")[0].last_force.is_some());
    sleep(ms(120_000)).await;
    assert_eq!(lock.inspect().await.expect("they tell")[0].last_force, None);
    assert!(
        cluster
            .iter()
            .all(|master| !master.keys().iter().any(|key| key.contains("forced")))
    );
}

/// Three masters, and an operator that can be cut off from them.
async fn with_an_operator() -> (Cluster, Network, Masters) {
    let (cluster, network) = (Cluster::new(3), Network::new(3));
    let operator = Client::new().network(&network);
    let operator = cluster.connect_as(&operator, Masters::builder());
    let operator = operator.await.expect("connects");
    (cluster, network, operator)
}

/// The last force is shown also where a master knows an earlier one alone.
#[tokio::test(start_paused = true)]
async fn the_last_of_several_forces_is_shown() {
    let (cluster, network, operator) = with_an_operator().await;
    let holding = connect_by_default(&cluster).await;
    for reason in ["first", "last"] {
        holding.red_lock("a").lock().await.expect("free").leak();
        let lock = operator.red_lock("a").force_reason(reason);
        lock.force_release().await.expect("a quorum");
        sleep(ms(1000)).await;
        network.cut(2, Direction::Both);
    }
    let seen = holding.red_lock("a").inspect().await.expect("they tell");
    let force = seen[0].last_force.as_ref().expect("two were forced");
    assert_eq!(force.reason.as_deref(), Some("last"));
}

/// Without a quorum of masters that show the holders, nothing is taken away.
#[tokio::test(start_paused = true)]
async fn a_force_without_a_quorum_takes_nothing_away() {
    let (cluster, network, operator) = with_an_operator().await;
    let holding = connect_by_default(&cluster).await;
    let guard = holding.red_lock("a").lock().await.expect("free");
    network.cut(1, Direction::Both);
    network.cut(2, Direction::Both);
    let forced = operator.red_lock("a").force_release().await;
    assert!(matches!(forced, Err(LockError::Unreachable { .. })), "{forced:?}");
    assert!(cluster.iter().all(|master| !master.fields("a").is_empty()));
    guard.unlock().await.expect("held");
}

/// A force of a name is remembered only if it took the name from a holder.
#[tokio::test(start_paused = true)]
async fn a_force_that_finds_nobody_leaves_nothing() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    let forced = masters.red_lock(["a", "b"]).force_release_from(|_| false).await;
    assert!(forced.expect("they answer").former.is_empty());
    assert!(
        cluster
            .iter()
            .all(|master| !master.keys().iter().any(|key| key.contains("forced")))
    );
    masters
        .red_lock(["a", "b"])
        .force_release()
        .await
        .expect("forced");
    let seen = masters.red_lock(["a", "b"]).inspect().await.expect("they tell");
    assert!(seen[0].last_force.is_some() && seen[1].last_force.is_none());
    let force = seen[0].last_force.as_ref().expect("just seen");
    assert_eq!(force.reason, None);
    assert!(force.to_string().starts_with("by "), "{force}");
    drop(guard);
}

/// The marks that keep former holders out end by themselves, also while others are forced out of the name.
#[tokio::test(start_paused = true)]
async fn the_marks_of_a_name_do_not_pile_up() {
    const MARKS: &str = "multilock_revoked:{a}";
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    for _ in 0..5 {
        let guard = masters.red_lock("a").lock().await.expect("free");
        masters.red_lock("a").force_release().await.expect("forced");
        drop(guard);
        for master in cluster.iter() {
            let marks = master.command(&["ZRANGE", MARKS, "0", "-1"]).expect("marks");
            assert!((1..=2).contains(&marks.len()), "{marks:?}");
        }
        sleep(ms(20_000)).await;
    }
}

/// Another client of another library has taken the name since the operator looked.
#[tokio::test(start_paused = true)]
async fn a_string_that_was_not_seen_is_not_taken_away() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let set = |value| {
        for master in cluster.iter() {
            let set = ["SET", "a", value, "PX", "30000"];
            master.command(&set).expect("stored");
        }
    };
    set("one");
    let replaced = |_: &Holder| {
        set("other");
        true
    };
    let forced = masters.red_lock("a").force_release_from(replaced).await;
    assert_eq!(forced.expect("they answer").former.len(), 1);
    for master in cluster.iter() {
        let value = master.command(&["GET", "a"]).expect("a string");
        assert_eq!(value, ["other"]);
    }
}

/// One of two readers is forced out, and the other one is never heard of again.
#[tokio::test(start_paused = true)]
async fn a_writer_is_told_how_long_those_read_that_are_left() {
    let cluster = Cluster::new(3);
    let (one, other) = (
        connect_by_default(&cluster).await,
        connect_by_default(&cluster).await,
    );
    let begun = Instant::now();
    let long = one.red_lock("a").read().lock().await.expect("free");
    let short = other.red_lock("a").read().lease(ms(1000));
    short.lock().await.expect("both read").leak();
    let lock = other.red_lock("a").write();
    let waiting = tokio::spawn(async move { lock.lock().await });
    sleep(ms(20)).await;
    let is_long = |holder: &Holder| *holder == long.holder();
    other
        .red_lock("a")
        .force_release_from(is_long)
        .await
        .expect("forced");
    let _writer = waiting.await.expect("no panic").expect("granted");
    assert!(begun.elapsed() < ms(1100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_reason_is_checked_before_anybody_is_asked() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let _guard = masters.red_lock("a").lock().await.expect("free");
    for (reason, value) in [
        ("", "\"\""),
        ("a\nb", "\"a\\nb\""),
        (&"x".repeat(257), "a text of 257 bytes"),
    ] {
        let refused = masters.red_lock("a").force_reason(reason).force_release().await;
        let Err(LockError::Invalid(invalid)) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(invalid.field, "force_reason");
        assert!(invalid.to_string().contains(value), "{invalid}");
    }
    assert!(
        masters.red_lock("a").inspect().await.expect("they tell")[0]
            .agreed
            .is_some()
    );
}
