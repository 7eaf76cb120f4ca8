//! Holders, by the labels of their clients.

use std::time::Duration;

use multilock::sim::{Cluster, Master};
use multilock::{Closing, ConnectError, Holder, LockError, Masters, NodeState, Unlocked};
use tokio::time::sleep;

use super::support::{ms, settle};

/// The keys under which a master keeps labels.
fn keys(master: &Master) -> Vec<String> {
    let mut keys = master.command(&["KEYS", "*"]).expect("keys");
    keys.retain(|key| key.starts_with("multilock_client:"));
    keys
}

async fn labelled(cluster: &Cluster, label: &str) -> Masters {
    let builder = Masters::builder().client_label(label);
    let masters = cluster.connect(builder).await.expect("connects");
    settle().await;
    masters
}

/// The labels that a master keeps, each with the time that it has left.
fn kept(cluster: &Cluster, node: usize) -> Vec<(String, Duration)> {
    let master = cluster.master(node);
    let keys = keys(master).into_iter();
    keys.map(|key| {
        let label = master.command(&["GET", &key]).expect("a text").remove(0);
        (label, master.time_left(&key).expect("an end"))
    })
    .collect()
}

fn holder_of(refused: LockError) -> Option<String> {
    match refused {
        LockError::Contended { holder, .. } => holder.map(|holder| holder.to_string()),
        LockError::TimedOut { last: Some(last), .. } => holder_of(*last),
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_refused_or_looks_is_told_who_holds() {
    let cluster = Cluster::new(3);
    let billing = labelled(&cluster, "billing@host:1").await;
    let other = labelled(&cluster, "report@host:2").await;
    let guard = billing.red_lock(["a", "b"]).try_lock().await.expect("free");
    assert_eq!(guard.holder().client_label(), Some("billing@host:1"));

    let refused = other.red_lock("a").try_lock().await.expect_err("held");
    assert!(
        refused
            .to_string()
            .starts_with("held by billing@host:1, worth trying again in"),
        "{refused}"
    );
    assert_eq!(holder_of(refused).as_deref(), Some("billing@host:1"));
    let both = other.red_lock(["0", "b"]).try_lock().await.expect_err("held");
    assert_eq!(holder_of(both).as_deref(), Some("billing@host:1"));
    let timed_out = other.red_lock("a").wait(ms(300)).lock().await.expect_err("held");
    assert_eq!(holder_of(timed_out).as_deref(), Some("billing@host:1"));

    let seen = other.red_lock("a").inspect().await.expect("seen").remove(0);
    assert_eq!(seen.agreed, Some(guard.holder()));
    assert_eq!(
        seen.agreed.as_ref().map(Holder::to_string).as_deref(),
        Some("billing@host:1")
    );
    for (_, state) in &seen.nodes {
        let NodeState::Held { holder, .. } = state else {
            panic!("{state:?}");
        };
        assert_eq!(holder.client_label(), Some("billing@host:1"));
    }
    let forced = other.red_lock(["a", "b"]).force_release().await.expect("forced");
    assert_eq!(forced.former, [guard.holder()]);
    assert_eq!(forced.former[0].client_label(), Some("billing@host:1"));
}

#[tokio::test(start_paused = true)]
async fn readers_are_told_apart() {
    let cluster = Cluster::new(3);
    let one = labelled(&cluster, "one").await;
    let other = labelled(&cluster, "other").await;
    let _first = one.red_lock("a").read().try_lock().await.expect("free");
    let _second = other.red_lock("a").read().try_lock().await.expect("read");
    let seen = one.red_lock("a").inspect().await.expect("seen").remove(0);
    let mut readers: Vec<_> = seen.readers.iter().filter_map(Holder::client_label).collect();
    readers.sort_unstable();
    assert_eq!(readers, ["one", "other"]);
    let refused = other.red_lock("a").write().try_lock().await.expect_err("read");
    let told = holder_of(refused).expect("one of them");
    assert!(readers.contains(&told.as_str()), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_force_takes_from_those_alone_that_are_meant() {
    let cluster = Cluster::new(3);
    let one = labelled(&cluster, "one@host:1").await;
    let longer = labelled(&cluster, "one@host:12").await;
    let is_one = |holder: &Holder| holder.client_label() == Some("one@host:1");
    let guard = longer.red_lock("a").try_lock().await.expect("free");
    let forced = one
        .red_lock("a")
        .force_release_from(is_one)
        .await
        .expect("all answer");
    assert!(forced.former.is_empty(), "{forced:?}");
    guard.extend(ms(20_000)).await.expect("left alone");
    guard.unlock().await.expect("left alone");
    // One reader of two. It reads one of the two names.
    let meant = one.red_lock("b").read().try_lock().await.expect("free");
    let other = longer.red_lock(["a", "b"]).read().try_lock().await.expect("read");
    let forcing = one.red_lock(["a", "b"]).write();
    let forced = forcing.force_release_from(is_one).await.expect("all answer");
    assert_eq!(forced.former, [meant.holder()]);
    meant.extend(ms(20_000)).await.expect_err("taken away");
    other.extend(ms(20_000)).await.expect("left alone");
    let seen = one.red_lock("b").inspect().await.expect("seen").remove(0);
    assert_eq!(seen.readers, [other.holder()]);
}

#[tokio::test(start_paused = true)]
async fn a_force_spares_what_comes_after_the_hold_that_is_meant() {
    let cluster = Cluster::new(3);
    let masters = labelled(&cluster, "billing").await;
    let lock = masters.red_lock("a");
    let first = lock.try_lock().await.expect("free");
    let first_hold = first.holder().redacted_owner().to_string();
    let is_first = |holder: &Holder| holder.redacted_owner().to_string() == first_hold;
    first.unlock().await.expect("held");
    let second = lock.try_lock().await.expect("free");
    let forced = lock.force_release_from(is_first).await.expect("all answer");
    assert!(forced.former.is_empty(), "{forced:?}");
    second.extend(ms(20_000)).await.expect("left alone");

    // Between the look and the script, on every master.
    let owner = |master: &Master| master.command(&["HKEYS", "a"]).expect("a hash").remove(0);
    let replace = |_: &Holder| {
        for master in cluster.iter() {
            let (client, _) = owner(master)
                .rsplit_once(':')
                .map(|(client, n)| (client.to_owned(), n.to_owned()))
                .expect("an owner");
            master.command(&["DEL", "a"]).expect("deleted");
            master
                .command(&["HSET", "a", &format!("{client}:999"), "1"])
                .expect("written");
        }
        true
    };
    lock.force_release_from(replace).await.expect("all answer");
    for master in cluster.iter() {
        assert!(owner(master).ends_with(":999"), "the newer hold stands");
    }
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_label_that_one_master_knows_is_shown() {
    let cluster = Cluster::new(3);
    let billing = labelled(&cluster, "billing").await;
    let guard = billing.red_lock("a").try_lock().await.expect("free");
    for node in [0, 1] {
        let master = cluster.master(node);
        for key in keys(master) {
            master.command(&["DEL", &key]).expect("deleted");
        }
    }
    let seen = billing.red_lock("a").inspect().await.expect("seen").remove(0);
    assert_eq!(seen.agreed.expect("held").client_label(), Some("billing"));
    let forced = billing.red_lock("a").force_release().await.expect("forced");
    assert_eq!(forced.former[0].client_label(), Some("billing"));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn other_libraries_have_no_label() {
    let cluster = Cluster::new(3);
    let masters = labelled(&cluster, "ours").await;
    // Ids of Redisson are of another version. A label that somebody stores for such an id is not believed.
    let id = "5f0c2a1b-0000-4000-8000-000000000000";
    for master in cluster.iter() {
        master
            .command(&["HSET", "a", &format!("{id}:1"), "1"])
            .expect("written");
        master
            .command(&["SET", &format!("multilock_client:{id}"), "redisson"])
            .expect("written");
        master.command(&["HSET", "b", "nobody:1", "1"]).expect("written");
        master.command(&["SET", "c", "token"]).expect("written");
    }
    for name in ["a", "b", "c"] {
        let refused = masters.red_lock(name).try_lock().await.expect_err("held");
        assert!(refused.to_string().starts_with("held by another, "), "{refused}");
        let seen = masters.red_lock(name).inspect().await.expect("seen").remove(0);
        assert_eq!(
            seen.agreed
                .and_then(|holder| holder.client_label().map(str::to_owned)),
            None
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_client_calls_itself_is_not_shown() {
    let cluster = Cluster::new(1);
    let masters = labelled(&cluster, "ours").await;
    let _guard = masters.red_lock("a").try_lock().await.expect("free");
    let key = keys(cluster.master(0)).remove(0);
    let long = "x".repeat(129);
    for odd in [
        &["SET", &key, "a\nb"][..],
        &["SET", &key, &long],
        &["DEL", &key],
        &["HSET", &key, "a", "1"],
    ] {
        cluster.master(0).command(odd).expect("written");
        let refused = masters.red_lock("a").try_lock().await.expect_err("held");
        assert_eq!(holder_of(refused), None, "{odd:?}");
        let seen = masters.red_lock("a").inspect().await.expect("seen").remove(0);
        assert_eq!(seen.agreed.expect("held").client_label(), None, "{odd:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_label_outlives_every_hold_of_its_client_and_then_ends() {
    let cluster = Cluster::new(3);
    let masters = labelled(&cluster, "billing").await;
    sleep(Duration::from_secs(600)).await;
    let [(label, left)] = &kept(&cluster, 0)[..] else {
        panic!("{:?}", kept(&cluster, 0));
    };
    assert_eq!(label, "billing");
    // The longest lease, and the time of two reports that a master may miss.
    assert!(*left >= Duration::from_secs(30 + 120), "{left:?}");
    // A master that has forgotten is told again.
    cluster.master(1).command(&["FLUSHALL"]).expect("wiped");
    assert!(kept(&cluster, 1).is_empty());
    sleep(Duration::from_secs(61)).await;
    assert_eq!(kept(&cluster, 1).len(), 1);
    drop(masters);
    sleep(Duration::from_secs(211)).await;
    assert!((0..3).all(|node| kept(&cluster, node).is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_master_that_comes_back_is_told() {
    let cluster = Cluster::new(3);
    let _masters = labelled(&cluster, "billing").await;
    cluster.master(2).crash();
    cluster.master(2).restart(multilock::sim::Keep::Nothing);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(kept(&cluster, 2).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn closing_takes_the_label_back_unless_something_is_left() {
    let cluster = Cluster::new(3);
    let masters = labelled(&cluster, "billing").await;
    let guard = masters.red_lock("a").try_lock().await.expect("free");
    masters.close(Closing::Release).await;
    assert!((0..3).all(|node| kept(&cluster, node).is_empty()));
    drop(guard);

    let leaves = labelled(&cluster, "leaves").await;
    let _guard = leaves.red_lock("a").try_lock().await.expect("free");
    leaves.close(Closing::Leave).await;
    let other = labelled(&cluster, "other").await;
    let refused = other.red_lock("a").try_lock().await.expect_err("left");
    assert_eq!(holder_of(refused).as_deref(), Some("leaves"));

    let keeps = labelled(&cluster, "keeps").await;
    let _kept = keeps
        .red_lock("b")
        .at_least(Duration::from_secs(20))
        .try_lock()
        .await
        .expect("free");
    assert_eq!(keeps.close(Closing::Release).await.kept, 1);
    let refused = other.red_lock("b").try_lock().await.expect_err("kept");
    assert_eq!(holder_of(refused).as_deref(), Some("keeps"));

    // Names that were left locked before the close are left, too.
    let kept_before = labelled(&cluster, "kept before").await;
    let lock = kept_before.red_lock("c").at_least(Duration::from_secs(20));
    let unlocked = lock.try_lock().await.expect("free").unlock().await;
    assert!(matches!(unlocked, Ok(Unlocked::KeptFor(_))), "{unlocked:?}");
    kept_before.close(Closing::Release).await;
    let refused = other.red_lock("c").try_lock().await.expect_err("kept");
    assert_eq!(holder_of(refused).as_deref(), Some("kept before"));

    let leaked_before = labelled(&cluster, "leaked before").await;
    leaked_before.red_lock("d").try_lock().await.expect("free").leak();
    leaked_before.close(Closing::Release).await;
    let refused = other.red_lock("d").try_lock().await.expect_err("leaked");
    assert_eq!(holder_of(refused).as_deref(), Some("leaked before"));
}

#[tokio::test(start_paused = true)]
async fn an_uncontended_pair_asks_for_no_label() {
    let cluster = Cluster::new(3);
    let masters = labelled(&cluster, "billing").await;
    let before = cluster.master(0).executed();
    for _ in 0..50 {
        let guard = masters.red_lock("a").try_lock().await.expect("free");
        guard.unlock().await.expect("released");
    }
    assert_eq!(cluster.master(0).executed().get("label"), before.get("label"));
}

#[tokio::test(start_paused = true)]
async fn a_label_that_cannot_be_shown_is_refused() {
    let cluster = Cluster::new(1);
    for (label, value) in [
        ("", "\"\""),
        ("a\tb", "\"a\\tb\""),
        (&"x".repeat(129), "a label of 129 bytes"),
    ] {
        let refused = cluster.connect(Masters::builder().client_label(label)).await;
        let Err(ConnectError::Invalid(invalid)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((invalid.field, invalid.value.as_str()), ("client_label", value));
    }
}
