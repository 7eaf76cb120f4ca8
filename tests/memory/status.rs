//! `Masters::status()` and `watch_status()`: a client's knowledge of its masters, without a question to them.

use std::sync::Arc;
use std::time::Duration;

use multilock::sim::{Cluster, Keep};
use multilock::{Closing, Masters, NodeConnection, NodeError, Policy, Status};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::support::{connect, connect_by_default, executed, ms, pair, settle, slow_down};

fn connection(status: &Status, node: usize) -> &NodeConnection {
    status.nodes[node].connection.as_ref().expect("connected")
}

/// Waits for such a status, like a task that watches it.
async fn until(watched: &mut watch::Receiver<Status>, within: Duration, is_so: impl FnMut(&Status) -> bool) {
    let told = timeout(within, watched.wait_for(is_so)).await;
    told.expect("told in time").expect("still told");
}

/// Whether anything is told within a while.
async fn is_told(watched: &mut watch::Receiver<Status>, within: Duration) -> bool {
    timeout(within, watched.changed()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn it_tells_what_is_known_and_asks_nobody() {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 2);
    let masters = connect_by_default(&cluster).await;
    let others = connect_by_default(&cluster).await;
    let _held = masters.red_lock("a").lock().await.expect("free");
    let reading = masters.red_lock("b").read().lock().await.expect("free");
    let waits = others.red_lock("a");
    let waits = tokio::spawn(async move { waits.lock().await });
    settle().await;
    let asked: u64 = ["acquire", "inspect", "extend"]
        .map(|script| executed(&cluster, script))
        .iter()
        .sum();
    let status = masters.status();
    assert_eq!((status.holds, status.waiters, status.closed), (2, 0, false));
    assert_eq!(others.status().waiters, 1);
    assert_eq!((status.nodes.len(), status.voting()), (3, 3));
    for (node, its) in status.nodes.iter().enumerate() {
        let known = connection(&status, node);
        assert!(!known.version.is_empty(), "{known:?}");
        assert!(
            known.capabilities.resp3 && known.capabilities.run_known,
            "{known:?}"
        );
        assert!((ms(4)..ms(6)).contains(&known.round_trip), "{known:?}");
        assert!(known.quarantine.is_zero() && !known.is_silent, "{known:?}");
        assert!(known.clock_offset_us.abs() < 10_000, "{known:?}");
        assert!(its.has_vote() && its.pending_releases == 0 && !its.is_overloaded);
    }
    assert!(status.is_ready(Policy::RedLock) && status.is_ready(Policy::MultiLock));
    settle().await;
    let now: u64 = ["acquire", "inspect", "extend"]
        .map(|script| executed(&cluster, script))
        .iter()
        .sum();
    assert_eq!(asked, now, "nobody was asked");
    reading.unlock().await.expect("held");
    assert_eq!(masters.status().holds, 1);
    waits.abort();
    assert!(waits.await.is_err_and(|ended| ended.is_cancelled()));
    assert_eq!(others.status().waiters, 0);
}

/// A loop that only waits for changes hears of a change that comes before it, and of the status if none comes.
#[tokio::test(start_paused = true)]
async fn a_watch_shows_its_first_status_as_new() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for _ in 0..2 {
        let mut watched = masters.watch_status();
        assert!(is_told(&mut watched, Duration::ZERO).await, "the present status");
        assert_eq!(watched.borrow_and_update().voting(), 3);
        assert!(!is_told(&mut watched, ms(60_000)).await, "{:?}", watched.borrow());
    }
    let before = masters.status();
    cluster.master(1).crash();
    settle().await;
    assert_eq!(before.voting(), 3);
    let mut watched = masters.watch_status();
    assert!(
        is_told(&mut watched, Duration::ZERO).await,
        "what came in between"
    );
    assert_eq!(watched.borrow_and_update().voting(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_master_that_is_killed_is_told_with_the_reason_and_again_when_it_is_back() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let mut watched = masters.watch_status();
    watched.mark_unchanged();
    cluster.master(1).crash();
    until(&mut watched, ms(100), |status| status.voting() == 2).await;
    let status = masters.status();
    assert!(
        matches!(&status.nodes[1].connection, Err(NodeError::Unavailable(_))),
        "{status:?}"
    );
    assert!(status.is_ready(Policy::RedLock) && !status.is_ready(Policy::MultiLock));
    cluster.master(1).restart(Keep::Nothing);
    until(&mut watched, ms(5000), |status| {
        status.nodes[1].connection.is_ok()
    })
    .await;
    let begun = Instant::now();
    let quarantine = connection(&masters.status(), 1).quarantine;
    assert!((ms(25_000)..ms(32_000)).contains(&quarantine), "{quarantine:?}");
    assert_eq!(masters.status().voting(), 2);
    // A majority of three cannot spare the memory of one, so its vote does not count. If all three must grant, the
    // others remember.
    assert!(masters.status().is_ready(Policy::MultiLock));
    until(&mut watched, ms(40_000), |status| status.voting() == 3).await;
    let over = begun.elapsed();
    assert!(
        over >= quarantine && over < quarantine + ms(50),
        "{over:?} of {quarantine:?}"
    );
    assert!(connection(&masters.status(), 1).quarantine.is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_master_without_memory_has_no_vote_for_ten_seconds() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let mut watched = masters.watch_status();
    let has_vote = |status: &Status| status.nodes[2].has_vote();
    cluster.master(2).out_of_memory(true);
    assert!(masters.multi_lock("a").try_lock().await.is_err());
    until(&mut watched, ms(100), |status| !has_vote(status)).await;
    let status = masters.status();
    assert!(connection(&status, 2).is_refusing);
    assert!(status.is_ready(Policy::RedLock) && !status.is_ready(Policy::MultiLock));
    // The next question tells that the master has room again.
    cluster.master(2).out_of_memory(false);
    pair(&masters.red_lock("a")).await;
    until(&mut watched, ms(100), has_vote).await;
    // Without a question, it may have room again.
    cluster.master(2).out_of_memory(true);
    pair(&masters.red_lock("a")).await;
    settle().await;
    assert!(!masters.status().is_ready(Policy::MultiLock));
    until(&mut watched, Duration::from_secs(12), has_vote).await;
}

/// An operator took a command from the user of a live connection. A key that the user may not touch tells nothing about
/// other names.
#[tokio::test(start_paused = true)]
async fn masters_that_deny_a_command_are_not_ready_until_they_grant_again() {
    for (error, denies_all) in [
        (
            "NOPERM User app has no permissions to run the 'evalsha' command",
            true,
        ),
        (
            "ERR ACL failure in script: User app has no permissions to run the 'hset' command",
            true,
        ),
        ("NOPERM No permissions to access a key", false),
        (
            "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
            false,
        ),
    ] {
        let cluster = Cluster::new(3);
        let masters = connect(&cluster).await;
        let mut watched = masters.watch_status();
        cluster.iter().for_each(|master| master.answer_with(Some(error)));
        assert!(masters.red_lock("a").try_lock().await.is_err());
        settle().await;
        let status = masters.status();
        assert_eq!(status.voting(), if denies_all { 0 } else { 3 }, "{error}");
        assert_eq!(status.is_ready(Policy::RedLock), !denies_all, "{error}");
        cluster.iter().for_each(|master| master.answer_with(None));
        pair(&masters.red_lock("a")).await;
        until(&mut watched, ms(100), |status| status.voting() == 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_master_is_silent_and_has_no_vote() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let mut watched = masters.watch_status();
    watched.mark_unchanged();
    cluster.master(2).freeze();
    assert!(!is_told(&mut watched, ms(500)).await, "nobody has asked it");
    masters
        .red_lock("a")
        .lock()
        .await
        .expect("two are well")
        .unlock()
        .await
        .expect("held");
    until(&mut watched, ms(200), |status| status.voting() == 2).await;
    let status = masters.status();
    assert!(!status.nodes[2].has_vote() && !status.is_ready(Policy::MultiLock));
    cluster.master(2).thaw();
    until(&mut watched, ms(5000), |status| status.voting() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn releases_that_are_owed_are_told_and_wake_nobody() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let mut guards = Vec::new();
    for name in 0..7 {
        guards.push(masters.red_lock(format!("n{name}")).lock().await.expect("free"));
    }
    settle().await;
    cluster.master(0).crash();
    settle().await;
    let mut watched = masters.watch_status();
    watched.mark_unchanged();
    drop(guards);
    settle().await;
    let status = masters.status();
    let owed: Vec<_> = status.nodes.iter().map(|node| node.pending_releases).collect();
    assert_eq!((owed, status.holds), (vec![7, 0, 0], 0));
    assert!(!watched.has_changed().expect("told"));
    cluster.master(0).restart(Keep::Data);
    until(&mut watched, ms(5000), |status| status.voting() == 3).await;
    settle().await;
    assert_eq!(masters.status().nodes[0].pending_releases, 0);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stepped_is_told_with_what_it_costs() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    pair(&masters.red_lock("a")).await;
    settle().await;
    let mut watched = masters.watch_status();
    cluster.master(1).set_clock_forward(ms(5000));
    pair(&masters.red_lock("a")).await;
    until(&mut watched, ms(100), |status| status.voting() == 2).await;
    let status = masters.status();
    let known = connection(&status, 1);
    assert!(
        (4_990_000..5_010_000).contains(&known.clock_offset_us),
        "{known:?}"
    );
    assert!(known.quarantine > ms(20_000), "{known:?}");
    assert!(connection(&status, 0).clock_offset_us.abs() < 10_000);
    until(&mut watched, ms(40_000), |status| status.voting() == 3).await;
    cluster.master(0).set_clock_back(ms(3000));
    pair(&masters.red_lock("a")).await;
    settle().await;
    assert!(connection(&masters.status(), 0).clock_offset_us < -2_990_000);
}

#[tokio::test(start_paused = true)]
async fn whoever_locks_wakes_no_watcher() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let mut watched = masters.watch_status();
    watched.mark_unchanged();
    for name in 0..100 {
        let guard = masters.red_lock(format!("n{name}")).lock().await.expect("free");
        guard.unlock().await.expect("held");
    }
    assert!(!is_told(&mut watched, ms(60_000)).await, "{:?}", watched.borrow());
}

#[tokio::test(start_paused = true)]
async fn closing_is_told_and_the_watch_keeps_nothing_alive() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let mut watched = masters.watch_status();
    let guard = masters.red_lock("a").lock().await.expect("free");
    masters.close(Closing::Release).await;
    until(&mut watched, ms(100), |status| status.closed).await;
    let status = masters.status();
    assert_eq!(
        (status.voting(), status.holds, status.is_ready(Policy::RedLock)),
        (0, 0, false)
    );
    assert!(status.nodes.iter().all(|node| node.connection.is_err()));
    drop((guard, masters));

    let masters = connect(&cluster).await;
    let mut watched = masters.watch_status();
    drop(masters);
    let ended = timeout(ms(1000), async { while watched.changed().await.is_ok() {} });
    ended.await.expect("the receiver ends with the masters");
}

#[tokio::test(start_paused = true)]
async fn many_may_watch() {
    let cluster = Cluster::new(3);
    let masters = Arc::new(connect(&cluster).await);
    let mut watches: Vec<_> = (0..50).map(|_| masters.watch_status()).collect();
    cluster.master(0).crash();
    for watched in &mut watches {
        until(watched, ms(100), |status| status.voting() == 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_password_and_no_owner_field_is_in_it() {
    let cluster = Cluster::new(3);
    let masters: Masters = connect(&cluster).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    let fields = cluster.master(0).fields("a");
    let field = fields.first().expect("held there");
    let (client, _) = field.split_once(':').expect("client:number");
    assert!(!format!("{:?}", masters.status()).contains(client));
    drop(guard);
}
