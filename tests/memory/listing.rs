//! Every lock that is held or waited for.

use futures::TryStreamExt;
use multilock::sim::{Client, Cluster, Direction, Network};
use multilock::{Inspection, LockError, Masters, NodeState, Quarantine};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::support::{connect, connect_by_default, ms, settle};

async fn held(masters: &Masters, pattern: &str) -> Vec<Inspection> {
    masters
        .held(pattern)
        .try_collect()
        .await
        .expect("a majority tells")
}

async fn names(masters: &Masters, pattern: &str) -> Vec<String> {
    held(masters, pattern)
        .await
        .into_iter()
        .map(|seen| seen.name)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_held_or_waited_for_is_listed_and_nothing_else() {
    let cluster = Cluster::new(3);
    let here = connect_by_default(&cluster).await;
    let labelled = Masters::builder()
        .client_label("waiting@there")
        .quarantine(Quarantine::Off);
    let there = cluster.connect(labelled).await.expect("connects");
    let plain = here.red_lock("plain").lock().await.expect("free");
    let read = here.red_lock("read").read().lock().await.expect("free");
    let written = here.red_lock("written").write().lock().await.expect("free");
    let seat = here.permits("gpu", 2).lock().await.expect("free");
    let tagged = here.red_lock("{eu}:a").lock().await.expect("free");
    let waiting = tokio::spawn(async move {
        there
            .red_lock(["plain", "{eu}:a"])
            .wait(ms(5000))
            .lock()
            .await
            .map(drop)
    });
    settle().await;
    sleep(ms(700)).await;
    for master in cluster.iter() {
        master.command(&["HSET", "user:1", "name", "Ada"]).expect("set");
        master
            .command(&["HSET", "user:2", "name", "Ada", "age", "36"])
            .expect("set");
        master.command(&["SET", "theirs", "1"]).expect("set");
    }
    let seat_name = format!("gpu:seat:{}", seat.seat());
    let seen = held(&here, "*").await;
    let listed: Vec<_> = seen.iter().map(|seen| seen.name.as_str()).collect();
    let mut expected = [seat_name.as_str(), "plain", "read", "written", "{eu}:a"];
    expected.sort_unstable();
    assert_eq!(listed, expected);
    let of = |name: &str| seen.iter().find(|seen| seen.name == name).expect("listed");
    assert_eq!(of("plain").agreed, Some(plain.holder()));
    // The last token of the hold's block.
    let fence = of("plain").fence.expect("a token");
    assert!(
        (0..64).contains(&(fence.get() - plain.fencing_token().get())),
        "{fence}"
    );
    assert_eq!(of("read").readers, [read.holder()]);
    assert!(matches!(of("written").nodes[0].1, NodeState::Write { .. }));
    for name in ["plain", "{eu}:a"] {
        assert_eq!(of(name).waiting, 1, "{name}");
        let first = of(name).first_waiting.as_ref().expect("a waiter");
        assert_eq!(first.client_label(), Some("waiting@there"), "{name}");
        let waits = of(name).first_waits.expect("a waiter");
        assert!((ms(700)..ms(1500)).contains(&waits), "{waits:?}");
    }
    assert_eq!(names(&here, "{eu}*").await, ["{eu}:a"]);
    assert_eq!(names(&here, "plai[m-o]").await, ["plain"]);
    for guard in [plain, tagged, written] {
        guard.unlock().await.expect("held");
    }
    waiting.await.expect("no panic").expect("granted");
    drop((read, seat));
    settle().await;
    assert_eq!(names(&here, "*").await, [""; 0]);
}

/// A writer of Redisson's that reads as well has two fields under the name.
#[tokio::test(start_paused = true)]
async fn a_writer_of_redissons_that_reads_is_shown_as_a_writer() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let fields = ["mode", "write", "7d1e2c3b:1:write", "2", "7d1e2c3b:1", "1"];
    for master in cluster.iter() {
        let words = [&["HSET", "a"], &fields[..]].concat();
        master.command(&words).expect("a hash");
    }
    let seen = held(&masters, "*").await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].agreed.is_some(), "{seen:?}");
    for (_, state) in &seen[0].nodes {
        assert!(matches!(state, NodeState::Write { count: 2, .. }), "{state:?}");
    }
}

/// A name between two holders is waited for.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_only_waited_for_is_listed() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    for master in cluster.iter() {
        let clock = master.command(&["TIME"]).expect("a clock")[0]
            .parse::<u64>()
            .expect("seconds");
        let until = (clock * 1000 + 60_000).to_string();
        for (name, waiter) in [("{a}", "w:1"), (":b{c}", "w:2")] {
            let queue = format!("multilock_queue:{name}");
            let deadlines = format!("multilock_deadlines:{name}");
            master.command(&["ZADD", &queue, "1", waiter]).expect("added");
            master
                .command(&["ZADD", &deadlines, &until, waiter])
                .expect("added");
        }
    }
    assert_eq!(names(&masters, "*").await, ["a", "b{c}"]);
}

/// Masters that know less than others hide nothing of the name.
#[tokio::test(start_paused = true)]
async fn what_some_masters_know_is_shown() {
    let (cluster, network) = (Cluster::new(3), Network::new(3));
    let builder = || Masters::builder().quarantine(Quarantine::Off);
    let cut_off = Client::new().network(&network);
    let cut_off = cluster.connect_as(&cut_off, builder().client_label("cut off"));
    let (cut_off, masters) = (cut_off.await.expect("connects"), connect(&cluster).await);
    drop(masters.red_lock("a").lock().await.expect("free"));
    sleep(ms(100)).await;
    network.cut(0, Direction::Both);
    let guard = cut_off.red_lock("a").lock().await.expect("two are there");
    let inspect = async || {
        masters
            .red_lock("a")
            .inspect()
            .await
            .expect("they tell")
            .remove(0)
    };
    assert!(inspect().await.fence >= Some(guard.fencing_token()));
    let mut waiting = Vec::new();
    for masters in [&cut_off, &masters] {
        let lock = masters.red_lock("a").fair();
        waiting.push(tokio::spawn(async move { lock.lock().await }));
        sleep(ms(200)).await;
    }
    let seen = inspect().await;
    assert_eq!(seen.waiting, 2);
    let first = seen.first_waiting.expect("two wait");
    assert_eq!(first.client_label(), Some("cut off"));
    waiting.iter().for_each(JoinHandle::abort);
}

/// A hash of another program may have the field of readers.
#[tokio::test(start_paused = true)]
async fn a_mode_without_owners_is_no_lock() {
    let cluster = Cluster::new(1);
    let masters = connect(&cluster).await;
    for fields in [&["mode", "read"][..], &["mode", "read", "colour", "red"]] {
        let hash = [&["HSET", "a"], fields].concat();
        cluster.master(0).command(&hash).expect("written");
        let seen = masters.red_lock("a").inspect().await.expect("it tells").remove(0);
        let state = &seen.nodes[0].1;
        assert!(matches!(state, NodeState::Foreign { .. }), "{state:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_lists_its_own() {
    let cluster = Cluster::new(3);
    // Characters of a pattern in it stand for themselves.
    let ours = cluster
        .connect(Masters::builder().namespace("team*"))
        .await
        .expect("connects");
    let theirs = cluster
        .connect(Masters::builder().namespace("teams"))
        .await
        .expect("connects");
    let _held = (
        ours.red_lock("a").lock().await.expect("free"),
        theirs.red_lock("b").lock().await.expect("free"),
    );
    assert_eq!(names(&ours, "*").await, ["a"]);
    assert_eq!(names(&theirs, "*").await, ["b"]);
}

/// More keys than one look takes, and more names than one inspection.
#[tokio::test(start_paused = true)]
async fn a_long_list_is_whole() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let mut guards = Vec::new();
    for number in 0..1000 {
        let lock = masters.red_lock(format!("n{number:04}"));
        guards.push(lock.lock().await.expect("free"));
    }
    let listed = names(&masters, "*").await;
    assert_eq!(listed.len(), 1000);
    assert!(listed.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn a_minority_does_not_list() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let _guard = masters.red_lock("a").lock().await.expect("free");
    cluster.master(0).freeze();
    assert_eq!(names(&masters, "*").await, ["a"]);
    cluster.master(1).freeze();
    let refused = masters.held("*").try_collect::<Vec<_>>().await;
    assert!(
        matches!(refused, Err(LockError::Unreachable { .. })),
        "{refused:?}"
    );
}

/// A long list has hundreds of pages. One that is late would otherwise leave a master out.
#[tokio::test(start_paused = true)]
async fn a_page_that_is_late_is_asked_for_again() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let _guard = masters.red_lock("a").lock().await.expect("free");
    for number in 0..2 {
        cluster.master(number).freeze();
    }
    let listing = tokio::spawn(async move { names(&masters, "*").await });
    sleep(ms(80)).await;
    for number in 0..2 {
        cluster.master(number).thaw();
    }
    assert_eq!(listing.await.expect("no panic"), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn masters_that_deny_it_are_told_from_those_out_of_reach() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for number in 0..2 {
        let listed = masters.held("*").try_collect::<Vec<_>>().await;
        assert!(listed.is_ok(), "{number} deny it: {listed:?}");
        let denied =
            "NOPERM User app has no permissions to run the 'scan' command script: list, on @user_script:1.";
        cluster.master(number).answer_with(Some(denied));
    }
    let refused = masters.held("*").try_collect::<Vec<_>>().await;
    let Err(error @ LockError::Misconfigured { .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(format!("{error:?}").contains("'scan'"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_pattern_is_refused() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let refused = masters.held("").try_collect::<Vec<_>>().await;
    let error = refused.expect_err("it matches nothing").to_string();
    assert!(error.starts_with("pattern: "), "{error}");
    masters.close(multilock::Closing::Release).await;
    let refused = masters.held("*").try_collect::<Vec<_>>().await;
    assert!(matches!(refused, Err(LockError::Closed)), "{refused:?}");
}

/// A namespace stands before the name, so a name is reserved only by what stands before both.
#[tokio::test(start_paused = true)]
async fn in_a_namespace_a_name_like_a_key_of_the_crate_is_listed() {
    let cluster = Cluster::new(3);
    let prod = Masters::builder().namespace("prod").quarantine(Quarantine::Off);
    let prod = cluster.connect(prod).await.expect("connects");
    let guard = prod.red_lock("multilock_job").lock().await.expect("free");
    settle().await;
    assert_eq!(names(&prod, "*").await, ["multilock_job"]);
    // A name that is as long as it may be without the namespace can be no lock in it.
    let long = format!("prod:{}", "x".repeat(4096));
    for master in cluster.iter() {
        master.command(&["HSET", &long, "another:1", "1"]).expect("set");
    }
    assert_eq!(names(&prod, "*").await, ["multilock_job"]);
    drop(guard);
}
