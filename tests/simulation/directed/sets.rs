//! Sets of locks that wait beside others: each gets in, and all stand in one order on all masters.

use std::time::Duration;

use multilock::sim::{Client, Cluster, Master};
use multilock::{LockSet, Masters, MastersBuilder, Owner, Quarantine};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::directed::busy::{busy, connect, near};
use crate::plan::ms;
use crate::scene::{in_time, violated};

/// Three processes take one lock for longer than a place is kept for the sake of another, and three a busy one.
#[tokio::test(start_paused = true)]
async fn one_gets_in_where_one_lock_is_busy_and_another_is_held_for_long() {
    for (short, long) in [(50, 1500), (50, 3000), (300, 3000), (900, 3000)] {
        let cluster = near();
        let mut tasks = Vec::new();
        for seed in 1..4 {
            let masters = connect(&cluster, seed).await;
            tasks.push(busy(&masters, "short", ms(short)));
            tasks.push(busy(&masters, "long", ms(long)));
        }
        let masters = connect(&cluster, 4).await;
        sleep(ms(5000)).await;
        let both = masters.red_lock("short").and(masters.red_lock("long"));
        // Each of the three ahead has the long one once, twice over.
        let bound = ms(2 * 4 * long);
        match timeout(bound, both.lock()).await {
            Ok(got) => drop(got.expect("granted")),
            Err(_) => violated(
                "progress",
                &format!("beside {short} and {long} ms it waits for more than {bound:?}"),
            ),
        }
        assert!(tasks.iter().all(|task| !task.is_finished()), "the crowd goes on");
        tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Masters here, and others to which a question and its answer take the time `distance`.
async fn near_and_far(
    here: MastersBuilder,
    there: MastersBuilder,
    distance: Duration,
) -> ([Cluster; 2], [Masters; 2]) {
    let (near, far) = (Cluster::new(3), Cluster::new(3));
    let apart = Client::new().distances(&[distance; 3]);
    let here = near
        .connect_as(&Client::new(), here.quarantine(Quarantine::Off))
        .await;
    let there = far.connect_as(&apart, there.quarantine(Quarantine::Off)).await;
    ([near, far], [here.expect("connects"), there.expect("connects")])
}

/// The masters of one lock take long to answer, and so little is left of the other lock's lease.
#[tokio::test(start_paused = true)]
async fn no_set_is_handed_out_with_less_validity_than_was_asked_for() {
    let builder = || Masters::builder().node_timeout(ms(400));
    let ([near, far], [here, there]) = near_and_far(builder(), builder(), ms(150)).await;
    let short = here.red_lock("a").lease(ms(900)).min_validity(ms(800));
    let set = short.and(there.red_lock("b"));
    let tried = set.try_lock().await;
    assert!(tried.is_err(), "a try says that it is too late");
    if let Ok(locked) = timeout(ms(3000), set.lock()).await {
        panic!("{:?} are left", locked.expect("granted").validity());
    }
    sleep(ms(1000)).await;
    let held: Vec<_> = near.iter().chain(far.iter()).flat_map(Master::locks).collect();
    assert!(held.is_empty(), "{held:?}");
}

/// A set that is no longer polled has one of its locks, while the masters of the other take long to answer. Nobody knows of the
/// hold yet, so it is renewed only for as long as a round may take.
#[tokio::test(start_paused = true)]
async fn a_set_that_is_not_polled_keeps_its_locks_for_a_bounded_time() {
    let lease = ms(2000);
    let builder = || Masters::builder().node_timeout(ms(400)).lease(lease);
    let ([near, _far], [here, there]) = near_and_far(builder(), builder(), ms(150)).await;
    let set = here.red_lock("a").and(there.red_lock("b"));
    let rival = connect(&near, 5).await.red_lock("a");
    let gets_in = async || {
        assert!(rival.try_lock().await.is_err(), "the set has the lock");
        let begun = Instant::now();
        match timeout(4 * lease, rival.lock()).await {
            Ok(got) => drop(got.expect("granted")),
            Err(_) => violated("progress", "a set that is not polled keeps a lock"),
        }
        in_time(begun, ms(8 * 400) + lease + ms(100));
    };
    let mut tried = Box::pin(set.try_lock());
    assert!(
        timeout(ms(50), &mut tried).await.is_err(),
        "the other lock is far away"
    );
    gets_in().await;
    assert!(tried.await.is_err(), "one of its holds has ended meanwhile");
    let mut waiting = Box::pin(set.lock());
    assert!(
        timeout(ms(50), &mut waiting).await.is_err(),
        "the other lock is far away"
    );
    gets_in().await;
    let locked = timeout(ms(3000), waiting).await;
    drop(locked.expect("in time").expect("granted"));
    let locked = timeout(ms(3000), set.lock()).await;
    let locked = locked.expect("in time").expect("granted");
    sleep(4 * lease).await;
    assert!(
        locked.validity() > Duration::ZERO,
        "the holds of a set are renewed"
    );
}

/// Another task of the owner enters the hold before the set is complete. It keeps the hold when the set gives up.
#[tokio::test(start_paused = true)]
async fn who_enters_the_hold_of_an_incomplete_set_keeps_it() {
    let lease = ms(2000);
    let builder = || Masters::builder().lease(lease);
    let slow = builder().node_timeout(ms(400));
    let (_clusters, [here, there]) = near_and_far(builder(), slow, ms(150)).await;
    let owner = Owner::new();
    let set = here.red_lock("a").and(there.red_lock("b")).owner(&owner);
    let mut waiting = Box::pin(set.lock());
    assert!(
        timeout(ms(50), &mut waiting).await.is_err(),
        "the other lock is far away"
    );
    let lock = here.red_lock("a").owner(&owner);
    let inside = lock.lock().await.expect("the owner has it");
    drop(waiting);
    sleep(ms(8 * 400) + 3 * lease).await;
    if inside.validity().is_zero() {
        violated(
            "renewal",
            "a hold of an incomplete set is lost to the task that entered it",
        );
    }
}

/// The task of a set is not polled for so long that a renewal is left out. It completes the set while all holds are valid, and
/// from then on they are renewed.
#[tokio::test(start_paused = true)]
async fn the_holds_of_a_set_that_is_completed_late_are_renewed() {
    let lease = ms(10_000);
    let builder = || Masters::builder().lease(lease);
    let slow = builder().node_timeout(ms(400));
    let (_clusters, [here, there]) = near_and_far(builder(), slow, ms(150)).await;
    let set = here.red_lock("a").and(there.red_lock("b"));
    let mut waiting = Box::pin(set.lock());
    assert!(
        timeout(ms(50), &mut waiting).await.is_err(),
        "the other lock is far away"
    );
    sleep(ms(5000)).await;
    let locked = timeout(ms(1000), waiting)
        .await
        .expect("in time")
        .expect("granted");
    sleep(2 * lease).await;
    if locked.validity().is_zero() {
        violated("renewal", "a hold of a set that was completed late is lost");
    }
}

/// The lease of one lock is shorter than the round at the masters of the other, so it is renewed meanwhile.
#[tokio::test(start_paused = true)]
async fn one_is_granted_where_a_lease_is_shorter_than_the_round_of_another_lock() {
    let short = Masters::builder().lease(ms(300));
    let slow = Masters::builder().node_timeout(ms(1000));
    let (_clusters, [here, there]) = near_and_far(short, slow, ms(350)).await;
    let set = here.red_lock("a").and(there.red_lock("b"));
    drop(set.try_lock().await.expect("granted"));
    match timeout(ms(1000), set.lock()).await {
        Ok(locked) => drop(locked.expect("granted")),
        Err(_) => violated("progress", "a lease ends before the set is complete"),
    }
}

/// A permit asks for up to four seats in a row, each in a round of its own. The other lock is renewed for as long.
#[tokio::test(start_paused = true)]
async fn one_is_granted_where_a_permit_asks_for_four_seats_in_a_row() {
    let short = Masters::builder().lease(ms(300));
    let slow = Masters::builder().node_timeout(ms(1000));
    let ([_near, far], [here, there]) = near_and_far(short, slow, ms(900)).await;
    let gpu = || there.permits("gpu", 4);
    // The client asks first for the seat that it gave up last.
    let given_up = gpu().lock().await.expect("free");
    let first = given_up.seat();
    given_up.unlock().await.expect("held");
    let seats = |free: u32| {
        for master in far.iter() {
            for seat in 1..=4 {
                let name = format!("gpu:seat:{seat}");
                let words = ["HSET", &name, "somebody", "1"];
                let words = if seat == free {
                    &["DEL", &name][..]
                } else {
                    &words[..]
                };
                master.command(words).expect("done");
            }
        }
    };
    let mut others = (1..=4).filter(|seat| *seat != first);
    seats(others.next().expect("a second"));
    let set = here.red_lock("a").and(gpu());
    let tried = tokio::spawn(async move { set.try_lock().await });
    sleep(ms(100)).await;
    // Between two questions the seat is taken that the last answer has named, and another one is given up.
    for free in others {
        sleep(ms(900)).await;
        seats(free);
    }
    let locked = tried.await.expect("no panic");
    if locked.is_err() {
        violated(
            "progress",
            &format!("a lease ends before the set is complete: {locked:?}"),
        );
    }
}

/// The tickets in the queue of a master, the smallest first.
fn tickets(master: &Master) -> Vec<String> {
    let queue = master.command(&["ZRANGE", "multilock_queue:{a}", "0", "-1", "WITHSCORES"]);
    let told = queue.expect("a list");
    told.into_iter().skip(1).step_by(2).collect()
}

/// Two sets over the same two clusters begin to wait at the same moment. Equal tickets are ordered by the ids of clients,
/// which are others in each cluster: either set could be first in one queue and wait for a second in the other one.
#[tokio::test(start_paused = true)]
async fn two_that_begin_at_once_stand_in_one_order() {
    for seed in 0..8 {
        let clusters = [near(), near()];
        let mut sets = Vec::new();
        for process in 0..3 {
            let seeds = [0, 1].map(|place| 100 + 6 * seed + 2 * process + place);
            let here = connect(&clusters[0], seeds[0]).await;
            let there = connect(&clusters[1], seeds[1]).await;
            sets.push(here.red_lock("a").and(there.red_lock("a")));
        }
        let held = sets[0].lock().await.expect("free");
        let waiting: Vec<_> = sets.drain(1..).map(wait_for).collect();
        sleep(ms(100)).await;
        let [here, there] = clusters.each_ref().map(|cluster| tickets(cluster.master(0)));
        assert_eq!(here.len(), 2, "both wait");
        if here != there || here[0] == here[1] {
            violated("order", &format!("tickets {here:?} and {there:?}"));
        }
        let begun = Instant::now();
        held.unlock().await.expect("held");
        for waiter in waiting {
            waiter.await.expect("no panic");
        }
        // A call and a round for each, and the time that the first one is inside.
        in_time(begun, ms(50));
    }
}

/// Waits for a set in a task of its own, and holds it for a moment.
fn wait_for(set: LockSet) -> JoinHandle<()> {
    tokio::spawn(async move {
        let guard = set.lock().await.expect("granted");
        sleep(ms(5)).await;
        guard.unlock().await.expect("held");
    })
}
