//! Quarantine: a master that may have forgotten holds has no vote until none of them can be alive.

use std::time::Duration;

use crate::support::ms;
use multilock::sim::{Cluster, Keep};
use multilock::{LockError, Masters, MastersBuilder, Quarantine, Unfit, Vote};
use tokio::time::{Instant, sleep, timeout};

const LEASE: Duration = Duration::from_secs(3);
/// The lease, one percent and 2 ms for drift.
const QUARANTINE: Duration = Duration::from_millis(3032);

fn builder() -> MastersBuilder {
    Masters::builder().for_tests(LEASE)
}

fn restart_empty(cluster: &Cluster, place: usize) {
    cluster.master(place).crash();
    cluster.master(place).restart(Keep::Nothing);
}

/// The counter-example 5: a hold on 1 and 2; 1 restarts empty; a rival asks 0 and 1.
async fn amnesia(quarantine: Quarantine) -> (Cluster, multilock::MultiLockGuard, Masters) {
    let cluster = Cluster::new(3);
    let holder = cluster
        .connect(builder().quarantine(quarantine))
        .await
        .expect("connects");
    let rival = cluster
        .connect(builder().quarantine(quarantine))
        .await
        .expect("connects");
    cluster.master(0).freeze();
    let guard = holder
        .red_lock("a")
        .lease(LEASE)
        .try_lock()
        .await
        .expect("1 and 2 grant");
    // Requests on their way to 0 are lost with its connections.
    cluster.master(0).reset_connections();
    restart_empty(&cluster, 1);
    cluster.master(0).thaw();
    cluster.master(2).hold_requests(true);
    sleep(ms(500)).await;
    (cluster, guard, rival)
}

#[tokio::test(start_paused = true)]
async fn without_it_two_hold_at_once() {
    let (_cluster, guard, rival) = amnesia(Quarantine::Off).await;
    let second = rival.red_lock("a").try_lock().await.expect("0 and 1 grant");
    assert!(
        guard.is_valid() && second.is_valid(),
        "what the quarantine is for"
    );
    assert!(
        second.fencing_token() > guard.fencing_token(),
        "the resource still tells them apart"
    );
}

#[tokio::test(start_paused = true)]
async fn with_it_the_second_waits_until_the_first_cannot_be_valid() {
    let (cluster, guard, rival) = amnesia(Quarantine::Auto).await;
    let begun = Instant::now();
    loop {
        match rival.red_lock("a").try_lock().await {
            Ok(second) => {
                assert!(!guard.is_valid(), "never two at once");
                assert!(second.is_valid());
                break;
            }
            Err(LockError::Unreachable { votes }) => {
                let held_up = votes
                    .iter()
                    .any(|node| matches!(node.vote, Vote::Quarantined { .. }));
                assert!(held_up, "{votes}");
                assert!(
                    votes.to_string().contains("memory-1: in quarantine for "),
                    "{votes}"
                );
            }
            Err(other) => panic!("{other}"),
        }
        assert!(begun.elapsed() < QUARANTINE, "its end is fixed");
        sleep(ms(50)).await;
    }
    cluster.master(2).hold_requests(false);
}

/// Counter-example 20: a hold of 30 s on 1 and 2, and 1 restarts empty. After 12 s, a client with leases of 10 s at
/// most asks 0 and 1.
async fn different_leases(of_the_rival: MastersBuilder) -> Option<(Duration, Duration)> {
    let cluster = Cluster::new(3);
    let holder = cluster.connect(Masters::builder()).await.expect("connects");
    let rival = cluster.connect(of_the_rival).await.expect("connects");
    cluster.master(0).hold_requests(true);
    let long = Duration::from_secs(30);
    let guard = holder.red_lock("a").lease(long).try_lock().await;
    let guard = guard.expect("1 and 2 grant");
    cluster.master(0).reset_connections();
    cluster.master(0).hold_requests(false);
    restart_empty(&cluster, 1);
    cluster.master(2).hold_requests(true);
    sleep(ms(12_000)).await;
    let second = rival.red_lock("a").try_lock().await.ok()?;
    Some((guard.validity(), second.validity()))
}

#[tokio::test(start_paused = true)]
async fn a_client_with_shorter_leases_waits_out_those_of_the_others() {
    let short = Masters::builder().lease(Duration::from_secs(10));
    assert_eq!(different_leases(short).await, None);
}

/// Somebody's first run, against masters that were just started.
#[tokio::test(start_paused = true)]
async fn a_first_run_is_told_how_long_it_takes_and_how_to_try_at_once() {
    let cluster = Cluster::new(3);
    for place in 0..3 {
        restart_empty(&cluster, place);
    }
    let masters = cluster.connect(Masters::builder()).await.expect("connects");
    sleep(ms(1234)).await;
    let error = masters
        .red_lock("a")
        .try_lock()
        .await
        .expect_err("no master has a vote");
    let text = error.to_string();
    assert!(
        text.starts_with("too many masters are in quarantine, the last one for 29.1s"),
        "{text}"
    );
    assert!(
        text.contains("MastersBuilder::for_tests")
            && text.ends_with(": memory-0, memory-1, memory-2: in quarantine for 29.1s"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hold_lives_through_the_restart_of_a_minority() {
    let cluster = Cluster::new(3);
    let masters = cluster.connect(builder()).await.expect("connects");
    let guard = masters.red_lock("a").lock().await.expect("free");
    for turn in 0..6 {
        restart_empty(&cluster, turn % 3);
        sleep(QUARANTINE + ms(2000)).await;
        assert!(guard.validity() > ms(1500), "turn {turn}");
    }
}

/// All must grant, so any other holder's majority meets some master that remembers.
#[tokio::test(start_paused = true)]
async fn a_multi_lock_bears_some_that_forgot() {
    let cluster = Cluster::new(5);
    let masters = cluster.connect(builder()).await.expect("connects");
    restart_empty(&cluster, 0);
    restart_empty(&cluster, 1);
    sleep(ms(300)).await;
    let _guard = masters
        .multi_lock("a")
        .try_lock()
        .await
        .expect("two of five may have forgotten");
    restart_empty(&cluster, 2);
    sleep(ms(300)).await;
    let error = masters
        .multi_lock("b")
        .try_lock()
        .await
        .expect_err("three may not");
    assert!(matches!(error, LockError::Unreachable { .. }), "{error}");
    sleep(QUARANTINE).await;
    let _guard = masters
        .multi_lock("b")
        .try_lock()
        .await
        .expect("all have their votes back");
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_no_restart() {
    let cluster = Cluster::new(3);
    let masters = cluster.connect(builder()).await.expect("connects");
    for master in cluster.iter() {
        master.reset_connections();
    }
    sleep(ms(300)).await;
    let guard = masters
        .multi_lock("a")
        .try_lock()
        .await
        .expect("nobody has forgotten anything");
    guard.unlock().await.expect("held");
}

/// It may have missed the last grants of the master before it.
#[tokio::test(start_paused = true)]
async fn a_replica_that_became_the_master_waits() {
    let cluster = Cluster::new(3);
    let masters = cluster.connect(builder()).await.expect("connects");
    let quarantined = || {
        let status = masters.status();
        status.nodes[0]
            .connection
            .as_ref()
            .map(|connection| !connection.quarantine.is_zero())
            .ok()
    };
    sleep(QUARANTINE).await;
    assert_eq!(quarantined(), Some(false));
    cluster.master(0).set_unfit(Some(Unfit::Replica));
    cluster.master(0).reset_connections();
    sleep(ms(1000)).await;
    assert_eq!(quarantined(), None);
    cluster.master(0).set_unfit(None);
    let connected = || async {
        while quarantined().is_none() {
            sleep(ms(100)).await;
        }
    };
    timeout(ms(30_000), connected()).await.expect("it connects");
    assert_eq!(quarantined(), Some(true));
    cluster.master(0).reset_connections();
    sleep(ms(500)).await;
    timeout(ms(30_000), connected()).await.expect("it connects again");
    assert_eq!(quarantined(), Some(true), "once, from its promotion on");
    sleep(QUARANTINE).await;
    assert_eq!(quarantined(), Some(false));
}

/// Counter-example 10: one fence key is gone with a restart, and the next client's clock is behind.
#[tokio::test(start_paused = true)]
async fn tokens_of_masters_in_quarantine_are_ignored() {
    let cluster = Cluster::new(3);
    let masters = cluster.connect(builder()).await.expect("connects");
    restart_empty(&cluster, 0);
    cluster
        .master(0)
        .command(&["SET", "multilock_fence:{a}", "1700003600000000"])
        .expect("stored");
    sleep(ms(300)).await;
    let guard = masters.red_lock("a").try_lock().await.expect("1 and 2 vote");
    assert!(guard.fencing_token().get() < 1_700_003_600_000_000);
}

/// Grants of masters in quarantine are no votes. So such a master may decide a round as a fault does: before the
/// others' deadline.
#[tokio::test(start_paused = true)]
async fn a_round_that_is_lost_by_it_ends_at_once() {
    let cluster = Cluster::new(5);
    restart_empty(&cluster, 1);
    restart_empty(&cluster, 2);
    let masters = cluster.connect(builder()).await.expect("connects");
    cluster.master(0).crash();
    sleep(ms(100)).await;
    for place in [1, 2] {
        cluster.master(place).set_delay(ms(1), ms(1));
    }
    for place in [3, 4] {
        cluster.master(place).hold_replies(true);
    }
    let begun = Instant::now();
    let error = masters.red_lock("a").try_lock().await.expect_err("two may grant");
    assert!(matches!(error, LockError::Unreachable { .. }), "{error}");
    assert!(begun.elapsed() < ms(10), "{:?}", begun.elapsed());
}

/// Masters that no client has met yet may have been in another set until a moment ago, however long they have run.
#[tokio::test(start_paused = true)]
async fn the_first_client_of_a_new_set_waits_and_later_ones_do_not() {
    let cluster = Cluster::new(3);
    cluster.iter().for_each(multilock::sim::Master::flush_all);
    let first = cluster.connect(builder()).await.expect("connects");
    let refused = first.red_lock("a").try_lock().await.expect_err("no vote");
    assert!(matches!(refused, LockError::Unreachable { .. }), "{refused}");
    sleep(QUARANTINE).await;
    for masters in [first, cluster.connect(builder()).await.expect("connects")] {
        let guard = masters.red_lock("a").try_lock().await.expect("free");
        guard.unlock().await.expect("held");
    }
}
