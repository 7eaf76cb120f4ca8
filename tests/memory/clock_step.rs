//! Masters that forget while they go on running: a clock set forward expires keys early, and `FLUSHALL` deletes them.
//! The client notices it by the facts in every answer, and takes such a master's vote away.

use std::time::Duration;

use crate::support::ms;
use multilock::sim::{Client, Cluster, Direction, Keep, Network};
use multilock::{LockError, Masters, MastersBuilder, MultiLockGuard, Quarantine, Vote};
use tokio::time::{Instant, sleep};

const LEASE: Duration = Duration::from_secs(10);
/// The lease, one percent and 2 ms for drift.
const QUARANTINE: Duration = Duration::from_millis(10_102);

/// The masters have been up for long, so only an event that is noticed takes their vote.
fn builder() -> MastersBuilder {
    Masters::builder().for_tests(LEASE)
}

fn over(network: &Network) -> Client {
    Client::new().network(network)
}

/// A hold on masters 1 and 2 alone, without renewal. A rival has spoken to every master before, and reaches only 0
/// and 1 from now on.
async fn hold_on_two(rival: MastersBuilder) -> (Cluster, MultiLockGuard, Masters) {
    let cluster = Cluster::new(3);
    let (near, far) = (Network::new(3), Network::new(3));
    let holder = cluster
        .connect_as(&over(&near), builder())
        .await
        .expect("connects");
    let rival = cluster.connect_as(&over(&far), rival).await.expect("connects");
    near.cut(0, Direction::ToMaster);
    let guard = holder
        .red_lock("a")
        .lease(LEASE)
        .try_lock()
        .await
        .expect("1 and 2 grant");
    far.cut(2, Direction::Both);
    // Wall clocks go on.
    sleep(ms(5)).await;
    (cluster, guard, rival)
}

fn quarantined(error: &LockError) -> Vec<Duration> {
    let LockError::Unreachable { votes } = error else {
        panic!("unreachable: {error}");
    };
    let remaining = votes.iter().filter_map(|node| match &node.vote {
        Vote::Quarantined { remaining, .. } => Some(*remaining),
        _ => None,
    });
    remaining.collect()
}

/// Tries until it is granted; how long after `begun` that was.
async fn granted_after(rival: &Masters, begun: Instant) -> Duration {
    for _ in 0..200 {
        if rival.red_lock("a").try_lock().await.is_ok() {
            return begun.elapsed();
        }
        sleep(ms(100)).await;
    }
    panic!("never granted");
}

/// The counter-example 19.
#[tokio::test(start_paused = true)]
async fn clock_step() {
    let (cluster, guard, rival) = hold_on_two(builder()).await;
    cluster.master(1).set_clock_forward(LEASE + ms(500));
    let begun = Instant::now();
    let error = rival
        .red_lock("a")
        .try_lock()
        .await
        .expect_err("1 has forgotten, and shows it");
    assert_eq!(quarantined(&error), [LEASE], "{error}");
    assert!(guard.is_valid());
    let inspection = rival.red_lock("a").inspect().await.expect("looks").remove(0);
    assert_eq!(inspection.quarantined.len(), 1, "{inspection:?}");
    assert!(
        error.to_string().contains("memory-1: in quarantine for 10s"),
        "{error}"
    );
    let after = granted_after(&rival, begun).await;
    assert!(!guard.is_valid(), "never two at once");
    assert!(after >= LEASE && after < LEASE + ms(300), "{after:?}");
}

/// Purpose of the witness. A client that heard nothing from the master before the step cannot know of it, and only
/// the fencing token orders the two.
#[tokio::test(start_paused = true)]
async fn a_client_that_comes_after_the_step_makes_two_holders_whose_tokens_rise() {
    let (cluster, guard, _rival) = hold_on_two(builder()).await;
    cluster.master(1).set_clock_forward(LEASE + ms(500));
    let network = Network::new(3);
    network.cut(2, Direction::Both);
    let newcomer = cluster
        .connect_as(&over(&network), builder().connect_timeout(ms(100)))
        .await
        .expect("connects");
    let second = newcomer.red_lock("a").try_lock().await.expect("0 and 1 grant");
    assert!(guard.is_valid() && second.is_valid());
    assert!(second.fencing_token() > guard.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn what_the_rates_may_have_added_costs_no_vote() {
    let (cluster, guard, rival) = hold_on_two(builder()).await;
    sleep(Duration::from_secs(5)).await;
    cluster.master(1).set_clock_forward(ms(24));
    let error = rival.red_lock("a").try_lock().await.expect_err("1 remembers");
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
    assert!(guard.is_valid());
}

/// A step that harms leases of up to four seconds, although it is within the drift of those of ten.
#[tokio::test(start_paused = true)]
async fn a_step_costs_the_vote_for_as_long_as_what_it_harms_can_live() {
    let (cluster, guard, rival) = hold_on_two(builder()).await;
    cluster.master(1).set_clock_forward(ms(21));
    let begun = Instant::now();
    let error = rival.red_lock("b").try_lock().await.expect_err("only 0 counts");
    let [left] = quarantined(&error)[..] else {
        panic!("one in doubt: {error}");
    };
    assert!(left > ms(3900) && left <= ms(4000), "{left:?}");
    sleep(left).await;
    drop(rival.red_lock("b").try_lock().await.expect("0 and 1 count"));
    let error = rival.red_lock("a").try_lock().await.expect_err("1 remembers");
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
    assert!(guard.is_valid() && begun.elapsed() < Duration::from_secs(5));
}

/// Counter-example 23: a majority's clocks step by a little, again and again. A long hold is kept, and nothing stops
/// for longer than the suspicion lasts.
#[tokio::test(start_paused = true)]
async fn small_step() {
    let cluster = Cluster::new(3);
    let masters = cluster.connect(Masters::builder()).await.expect("connects");
    let rival = cluster.connect(Masters::builder()).await.expect("connects");
    let held = masters.red_lock("held").lock().await.expect("free");
    let begun = Instant::now();
    let (mut stopped, mut since) = (Duration::ZERO, None);
    for round in 0..2000 {
        if round % 500 == 200 {
            for master in [0, 1] {
                cluster.master(master).set_clock_forward(ms(5));
            }
        }
        let short = masters.red_lock("busy").lease(ms(200)).try_lock().await;
        if round % 20 == 0 {
            let second = rival.red_lock("busy").try_lock().await;
            let first = short.as_ref().is_ok_and(MultiLockGuard::is_valid);
            assert!(!(first && second.is_ok()), "never two");
        }
        match short {
            Ok(guard) => {
                since = None;
                drop(guard);
            }
            Err(_) => stopped = stopped.max(since.get_or_insert_with(Instant::now).elapsed()),
        }
        assert!(held.is_valid(), "after {:?}", begun.elapsed());
        sleep(ms(5)).await;
    }
    sleep(Duration::from_secs(60)).await;
    assert!(held.is_valid());
    // Five milliseconds exceed half the drift of leases of up to 0.8 s.
    assert!(stopped > ms(700) && stopped <= ms(820), "{stopped:?}");
}

/// A renewal by masters that show by it that they stepped: they have kept the hold all the same.
#[tokio::test(start_paused = true)]
async fn a_step_that_is_small_against_what_is_left_costs_no_renewal() {
    let cluster = Cluster::new(3);
    let masters = cluster.connect(Masters::builder()).await.expect("connects");
    let held = masters.red_lock("held").lock().await.expect("free");
    sleep(Duration::from_secs(5)).await;
    for master in [0, 1] {
        cluster.master(master).set_clock_forward(ms(150));
    }
    for _ in 0..100 {
        sleep(Duration::from_secs(1)).await;
        assert!(held.validity() > Duration::from_secs(15), "{:?}", held.validity());
    }
}

/// No master answers a renewal after such a step. The hold is still the same on each of them, so later renewals count.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_not_answered_after_a_step_costs_no_hold() {
    let (cluster, network) = (Cluster::new(3), Network::new(3));
    let client = over(&network);
    let connecting = cluster.connect_as(&client, Masters::builder());
    let masters = connecting.await.expect("connects");
    let held = masters.red_lock("held").lock().await.expect("free");
    sleep(Duration::from_secs(5)).await;
    for master in [0, 1] {
        cluster.master(master).set_clock_forward(ms(150));
    }
    sleep(Duration::from_secs(14)).await;
    (0..3).for_each(|master| network.cut(master, Direction::ToMaster));
    sleep(Duration::from_secs(4)).await;
    (0..3).for_each(|master| network.heal(master));
    for _ in 0..100 {
        sleep(Duration::from_secs(1)).await;
        assert!(held.validity() > Duration::from_secs(10), "{:?}", held.validity());
    }
}

/// Two holds on all three masters.
async fn two_holds(lease: Duration) -> (Cluster, Masters, [MultiLockGuard; 2]) {
    let cluster = Cluster::new(3);
    let masters = cluster.connect(Masters::builder()).await.expect("connects");
    let lock = |name: &'static str| masters.red_lock(name).lease(lease);
    let guards = [
        lock("a").try_lock().await.expect("free"),
        lock("b").try_lock().await.expect("free"),
    ];
    sleep(ms(5)).await;
    (cluster, masters, guards)
}

/// The host sleeps, and its clock with it.
fn falls_asleep(cluster: &Cluster, time: Duration) {
    for master in cluster.iter() {
        master.set_clock_forward(time);
    }
}

/// The counter-example 24: the host sleeps for longer than the lease. A single answer says nothing of the
/// other two masters, on which the hold may stand; at the second nothing is left, and that is told.
#[tokio::test(start_paused = true)]
async fn paused_host() {
    let lease = Duration::from_secs(10);
    let (cluster, masters, [guard, other]) = two_holds(lease).await;
    falls_asleep(&cluster, lease + ms(500));
    let newcomer = cluster.connect(Masters::builder()).await.expect("connects");
    let rival = newcomer.red_lock("a").try_lock().await.expect("expired");
    cluster.master(1).hold_requests(true);
    cluster.master(2).hold_requests(true);
    let looks = async {
        sleep(ms(10)).await;
        assert!(guard.is_valid(), "one answer");
        cluster.master(1).hold_requests(false);
        sleep(ms(1)).await;
        assert!(!guard.is_valid() && !other.is_valid(), "two answers");
    };
    let begun = Instant::now();
    let asks = masters.red_lock("c");
    let (asked, (), _, _) = tokio::join!(asks.try_lock(), looks, guard.lost(), other.lost());
    assert!(asked.is_err(), "they may have forgotten others' leases");
    assert!(begun.elapsed() < ms(100), "told at once");
    assert!(rival.is_valid());
}

/// A hold that is asked for while a step is noticed has lost it, too.
#[tokio::test(start_paused = true)]
async fn a_step_during_an_attempt() {
    let cluster = Cluster::new(3);
    let network = Network::new(3);
    let masters = cluster
        .connect_as(&over(&network), Masters::builder())
        .await
        .expect("connects");
    network.cut(2, Direction::Both);
    cluster.master(1).hold_requests(true);
    let lock = |name: &'static str| masters.red_lock(name);
    let (first, second) = (lock("a"), lock("b"));
    let steps = async {
        sleep(ms(10)).await;
        cluster.master(0).set_clock_forward(Duration::from_secs(25));
        let second = second.try_lock();
        let wakes = async {
            sleep(ms(10)).await;
            cluster.master(1).hold_requests(false);
        };
        let (second, ()) = tokio::join!(second, wakes);
        assert!(second.is_err(), "0 is in doubt");
    };
    let (first, ()) = tokio::join!(first.try_lock(), steps);
    let left = first.expect("0 granted before").validity();
    assert!(left > ms(4500) && left < ms(4700), "{left:?}");
}

/// The step is noticed although the connection on which the clock was heard before is gone.
#[tokio::test(start_paused = true)]
async fn a_new_connection_does_not_forgive_a_step() {
    let (cluster, guard, rival) = hold_on_two(builder()).await;
    cluster.master(1).set_clock_forward(LEASE + ms(500));
    cluster.master(1).reset_connections();
    sleep(ms(300)).await;
    let error = rival.red_lock("a").try_lock().await.expect_err("1 has forgotten");
    assert_eq!(quarantined(&error).len(), 1, "{error}");
    // Its client has connected again, too, and it stands on 1 and 2 alone.
    assert!(!guard.is_valid());
}

/// A clock that steps while the answer is under way is noticed by that very answer.
#[tokio::test(start_paused = true)]
async fn a_step_shown_by_an_answer_voids_what_was_asked_together_with_it() {
    let (cluster, guard, rival) = hold_on_two(builder()).await;
    cluster.master(1).hold_requests(true);
    let (first, second) = (rival.red_lock("a"), rival.multi_lock("a"));
    let step = async {
        sleep(ms(10)).await;
        cluster.master(1).set_clock_forward(LEASE + ms(500));
        cluster.master(1).hold_requests(false);
    };
    let (first, second, ()) = tokio::join!(first.try_lock(), second.try_lock(), step);
    assert!(first.is_err() && second.is_err());
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn flushall_under_a_connected_client_makes_two_holders_unless_it_is_strict() {
    let (cluster, guard, rival) = hold_on_two(builder()).await;
    cluster.master(1).flush_all();
    let second = rival.red_lock("a").try_lock().await.expect("1 has forgotten");
    assert!(guard.is_valid() && second.is_valid(), "not covered, and said so");
    assert!(second.fencing_token() > guard.fencing_token());
}

/// Clients that look at the masters' records with each vote.
async fn strict_hold_on_two() -> (Cluster, MultiLockGuard, Masters) {
    let strict = || builder().strict(true);
    let cluster = Cluster::new(3);
    let (near, far) = (Network::new(3), Network::new(3));
    let holder = cluster
        .connect_as(&over(&near), strict())
        .await
        .expect("connects");
    let rival = cluster.connect_as(&over(&far), strict()).await.expect("connects");
    near.cut(0, Direction::ToMaster);
    let guard = holder
        .red_lock("a")
        .lease(LEASE)
        .try_lock()
        .await
        .expect("1 and 2 grant");
    far.cut(2, Direction::Both);
    (cluster, guard, rival)
}

#[tokio::test(start_paused = true)]
async fn a_wiped_memory_has_no_vote_for_strict_clients() {
    waits_for_what_was_wiped(builder().strict(true)).await;
}

/// The new connection to the master is in no quarantine then. The wipe alone takes its vote.
#[tokio::test(start_paused = true)]
async fn a_wiped_memory_has_no_vote_with_the_quarantine_off() {
    waits_for_what_was_wiped(builder().strict(true).quarantine(Quarantine::Off)).await;
}

async fn waits_for_what_was_wiped(rival: MastersBuilder) {
    let (cluster, guard, rival) = hold_on_two(rival).await;
    cluster.master(1).flush_all();
    let begun = Instant::now();
    let error = rival
        .red_lock("a")
        .try_lock()
        .await
        .expect_err("1 has forgotten, and shows it");
    assert_eq!(quarantined(&error).len(), 1, "{error}");
    let after = granted_after(&rival, begun).await;
    assert!(!guard.is_valid(), "never two at once");
    assert!(after >= LEASE && after < QUARANTINE + ms(500), "{after:?}");
}

/// Another client has noticed it first and had a new record stored. A client that knew the old record still sees that
/// it is another one.
#[tokio::test(start_paused = true)]
async fn a_new_record_by_another_client_forgives_nothing() {
    let (cluster, guard, rival) = strict_hold_on_two().await;
    cluster.master(1).flush_all();
    let strict = builder().strict(true);
    let newcomer = cluster.connect(strict).await.expect("connects");
    let recorded = cluster.master(1).command(&["EXISTS", "multilock_set"]);
    assert_eq!(recorded.expect("a number"), ["1"]);
    for client in [&rival, &newcomer] {
        let error = client
            .red_lock("a")
            .try_lock()
            .await
            .expect_err("1 has forgotten");
        assert!(guard.is_valid(), "{error}");
    }
}

/// A restart with its data is noticed by the run that the record names.
#[tokio::test(start_paused = true)]
async fn a_record_of_another_run_is_made_anew() {
    let (cluster, guard, rival) = strict_hold_on_two().await;
    cluster.master(1).crash();
    cluster.master(1).restart(Keep::Data);
    sleep(ms(300)).await;
    let error = rival
        .red_lock("a")
        .try_lock()
        .await
        .expect_err("1 holds it still");
    assert!(guard.is_valid(), "{error}");
}

/// The witness stands also where restarts are trusted.
#[tokio::test(start_paused = true)]
async fn a_step_is_noticed_with_the_quarantine_off() {
    let (cluster, guard, rival) = hold_on_two(builder().quarantine(Quarantine::Off)).await;
    cluster.master(1).set_clock_forward(LEASE + ms(500));
    let error = rival.red_lock("a").try_lock().await.expect_err("1 has forgotten");
    assert_eq!(quarantined(&error).len(), 1, "{error}");
    assert!(guard.is_valid());
}
