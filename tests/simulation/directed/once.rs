//! Jobs that are done once: their marks, and the events that may take marks away.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use multilock::sim::{Client, Cluster, Direction, Keep, Master, Network};
use multilock::{
    Closing, LockError, Masters, MastersBuilder, MultiLockGuard, Once, OnceError, OnceJob, Owner, Quarantine,
    Rounds, RunError,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::plan::ms;

const LEASE: Duration = ms(3000);
const KEEP: Duration = ms(60_000);
/// Node timeout, by which the time of a mark may be late.
const TIMEOUT: Duration = ms(50);

async fn connect(cluster: &Cluster, label: &str) -> Masters {
    connect_by(cluster, label, Masters::builder()).await
}

/// Connects a client whose random pauses are the same in each run.
async fn connect_by(cluster: &Cluster, label: &str, builder: MastersBuilder) -> Masters {
    let client = Client::new().seed(label.bytes().map(u64::from).sum());
    let builder = builder
        .client_label(label)
        .quarantine(Quarantine::Off)
        .lease(LEASE);
    cluster.connect_as(&client, builder).await.expect("connects")
}

async fn connect_over(cluster: &Cluster, network: &Network) -> Masters {
    let builder = Masters::builder().client_label("one");
    let builder = builder.quarantine(Quarantine::Off).lease(LEASE);
    let client = Client::new().network(network);
    cluster.connect_as(&client, builder).await.expect("connects")
}

fn job(masters: &Masters) -> OnceJob {
    masters.red_lock("report").once(KEEP)
}

/// Runs the job, and returns its outcome and the number of times that its body began.
async fn run(masters: &Masters) -> (Result<Once<u32>, OnceError<&'static str>>, u32) {
    let begun = Cell::new(0);
    let outcome = job(masters)
        .run(async |_guard| {
            begun.set(begun.get() + 1);
            sleep(ms(10)).await;
            Ok(7)
        })
        .await;
    (outcome, begun.get())
}

/// Number of masters with a mark of the job, and not with the note that it is forgotten.
fn marks(cluster: &Cluster) -> usize {
    let has = |master: &&Master| {
        let text = master
            .command(&["GET", "multilock_done:{report}"])
            .unwrap_or_default();
        text.iter()
            .any(|text| text.starts_with(|first: char| first.is_ascii_digit()))
    };
    cluster.iter().filter(has).count()
}

#[track_caller]
fn is_done(outcome: (Result<Once<u32>, OnceError<&'static str>>, u32), is_confirmed: bool, by: &str) {
    match outcome {
        (Ok(Once::Done { label, confirmed, .. }), 0) => {
            assert_eq!((label.as_deref(), confirmed), (Some(by), is_confirmed));
        }
        other => panic!("{other:?}"),
    }
}

/// With `strict` an answer without the master's record is taken for a wiped memory.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_done_costs_no_master_its_vote() {
    let cluster = Cluster::new(3);
    let strict = || Masters::builder().strict(true);
    let one = connect_by(&cluster, "one", strict()).await;
    let other = connect_by(&cluster, "other", strict()).await;
    assert_eq!(run(&one).await, (Ok(Once::Ran(7)), 1));
    for masters in [&one, &other] {
        is_done(run(masters).await, true, "one");
        let guard = masters.multi_lock("a").try_lock().await;
        guard
            .expect("every master has a vote")
            .unlock()
            .await
            .expect("held");
    }
}

/// It is not begun again for its time, and then it is.
#[tokio::test(start_paused = true)]
async fn a_job_is_done_once() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster, "one").await, connect(&cluster, "other").await);
    let begun = Instant::now();
    assert_eq!(run(&one).await, (Ok(Once::Ran(7)), 1));
    assert_eq!(marks(&cluster), 3);
    is_done(run(&one).await, true, "one");
    is_done(run(&other).await, true, "one");
    // Readers of the mark do not make it last longer.
    sleep(KEEP.saturating_sub(begun.elapsed() + ms(100))).await;
    is_done(run(&other).await, true, "one");
    sleep(ms(200)).await;
    assert_eq!(marks(&cluster), 0);
    assert_eq!(run(&other).await, (Ok(Once::Ran(7)), 1));
}

fn executed(cluster: &Cluster, script: &str) -> Vec<u64> {
    let of = |master: &Master| master.executed().get(script).copied().unwrap_or(0);
    cluster.iter().map(of).collect()
}

/// The mark comes with the release: a job costs the masters no call more than a lock.
#[tokio::test(start_paused = true)]
async fn a_job_ends_with_one_call_to_each_master() {
    let cluster = Cluster::new(3);
    let one = connect(&cluster, "one").await;
    assert_eq!(run(&one).await, (Ok(Once::Ran(7)), 1));
    sleep(ms(100)).await;
    assert_eq!(
        (
            marks(&cluster),
            executed(&cluster, "release"),
            executed(&cluster, "mark")
        ),
        (3, vec![0; 3], vec![1; 3])
    );
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
}

/// The hold of a thrifty round is taken on the third master when it is 10 ms old, but not behind the call that ends it.
#[tokio::test(start_paused = true)]
async fn no_master_is_taken_behind_the_end_of_a_job() {
    let cluster = Cluster::new(3);
    let apart = Client::new().distances(&[ms(1), ms(20), ms(30)]);
    let builder = Masters::builder().node_timeout(ms(200)).rounds(Rounds::Thrifty);
    let builder = builder.quarantine(Quarantine::Off).lease(LEASE);
    let masters = cluster.connect_as(&apart, builder).await.expect("connects");
    for length in 0..30 {
        let job = masters.red_lock(format!("job:{length}")).once(KEEP);
        let ran = job.run(async |_guard| {
            sleep(ms(length)).await;
            Ok::<_, ()>(7)
        });
        assert_eq!(ran.await, Ok(Once::Ran(7)));
        sleep(ms(100)).await;
        let held: Vec<_> = cluster.iter().flat_map(Master::locks).collect();
        assert!(held.is_empty(), "{held:?}");
    }
}

/// The same for a renewal that is under way when the job ends, and that finds a master without the hold.
#[tokio::test(start_paused = true)]
async fn no_renewal_takes_a_master_behind_the_end_of_a_job() {
    let cluster = Cluster::new(3);
    let apart = Client::new().distances(&[ms(5), ms(5), ms(5)]);
    let builder = Masters::builder().node_timeout(ms(200)).lease(LEASE);
    let builder = builder.quarantine(Quarantine::Off);
    let masters = cluster.connect_as(&apart, builder).await.expect("connects");
    for length in 960..1030 {
        let name = format!("job:{length}");
        let job = masters.red_lock(&name).once(KEEP);
        let ran = job.run(async |_guard| {
            sleep(ms(500)).await;
            cluster.master(2).evict(&name);
            sleep(ms(length - 500)).await;
            Ok::<_, ()>(7)
        });
        assert_eq!(ran.await, Ok(Once::Ran(7)));
        sleep(ms(100)).await;
        let held: Vec<_> = cluster.iter().flat_map(Master::locks).collect();
        assert!(held.is_empty(), "{length}: {held:?}");
    }
}

/// The body leaves another guard of its hold behind.
#[tokio::test(start_paused = true)]
async fn the_hold_of_a_job_stands_while_others_are_in_it() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster, "one").await, connect(&cluster, "other").await);
    let inside = RefCell::new(None);
    let job = job(&one);
    let ran = job.run(async |guard| {
        let again = one.red_lock("report").owner(guard.owner()).try_lock().await;
        inside.replace(Some(again.expect("its own")));
        Ok::<_, ()>(7)
    });
    assert_eq!(ran.await, Ok(Once::Ran(7)));
    let inner = inside.take().expect("it was left there");
    sleep(2 * LEASE).await;
    assert!(inner.is_valid(), "it is renewed");
    other.red_lock("report").try_lock().await.expect_err("held");
    // Another client cannot tell this hold from an attempt that was let in before the mark.
    is_done(run(&other).await, false, "one");
    inner.unlock().await.expect("held");
    is_done(run(&other).await, true, "one");
    drop(other.red_lock("report").try_lock().await.expect("free"));
}

/// A task that has the owner enters at any moment of the end.
#[tokio::test(start_paused = true)]
async fn nobody_enters_the_hold_of_a_job_that_is_released() {
    for after in 0..25 {
        let cluster = Cluster::new(3);
        let apart = Client::new().distances(&[ms(10), ms(10), ms(10)]);
        let builder = Masters::builder().node_timeout(ms(200)).lease(LEASE);
        let builder = builder.quarantine(Quarantine::Off);
        let one = cluster.connect_as(&apart, builder).await.expect("connects");
        let other = connect(&cluster, "other").await;
        let entering = RefCell::new(None);
        let job = job(&one);
        let ran = job.run(async |guard| {
            let lock = one.red_lock("report").owner(guard.owner());
            entering.replace(Some(tokio::spawn(async move {
                sleep(ms(after)).await;
                lock.try_lock().await
            })));
            Ok::<_, ()>(7)
        });
        assert_eq!(ran.await, Ok(Once::Ran(7)));
        let entered = entering.take().expect("begun").await.expect("no panic");
        sleep(ms(100)).await;
        let theirs = other.red_lock("report").try_lock().await;
        let is_valid = entered.as_ref().is_ok_and(MultiLockGuard::is_valid);
        assert!(!(is_valid && theirs.is_ok()), "two hold it: {after} ms");
    }
}

/// The end of a job has released it on all masters, and two answers were lost. Its owner lives on.
#[tokio::test(start_paused = true)]
async fn nobody_enters_the_hold_of_a_job_that_may_be_released() {
    let cluster = Cluster::new(3);
    let network = Network::new(3);
    let one = connect_over(&cluster, &network).await;
    let other = connect(&cluster, "other").await;
    // From then on the masters have the script.
    let before = one.red_lock("before").once(KEEP);
    assert_eq!(before.run(async |_guard| Ok::<_, ()>(7)).await, Ok(Once::Ran(7)));
    let owner = RefCell::new(None);
    let job = job(&one);
    let ran = job.run(async |guard| {
        owner.replace(Some(guard.owner().clone()));
        network.cut(1, Direction::ToClient);
        network.cut(2, Direction::ToClient);
        Ok::<_, ()>(7)
    });
    let meanwhile = async {
        // The node timeout has passed.
        sleep(ms(80)).await;
        let theirs = other.red_lock("report").try_lock().await.expect("it is released");
        let owner = owner.take().expect("the body has ended");
        let mine = one.red_lock("report").owner(&owner).try_lock().await;
        assert!(mine.is_err() && theirs.is_valid(), "two hold it");
        network.heal(1);
        network.heal(2);
    };
    let (ran, ()) = tokio::join!(ran, meanwhile);
    assert_eq!(ran, Ok(Once::Ran(7)));
}

/// Two of three masters have done both, and the third is out of reach for a while. The policy needs it.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_released_in_part_is_not_lost() {
    let cluster = Cluster::new(3);
    let network = Network::new(3);
    let one = connect_over(&cluster, &network).await;
    let job = one.multi_lock("report").once(KEEP);
    let ran = job.run(async |_guard| {
        sleep(ms(900)).await;
        network.cut(2, Direction::Both);
        Ok::<_, ()>(7)
    });
    let meanwhile = async {
        sleep(ms(1600)).await;
        network.heal(2);
    };
    let (ran, ()) = tokio::join!(ran, meanwhile);
    assert_eq!(ran, Ok(Once::Ran(7)));
    assert_eq!(marks(&cluster), 3);
}

/// The body has entered its hold again, and wants the names to stay locked.
#[tokio::test(start_paused = true)]
async fn what_an_inner_entry_of_a_job_keeps_is_kept() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster, "one").await, connect(&cluster, "other").await);
    let begun = Instant::now();
    let job = job(&one);
    let ran = job.run(async |guard| {
        let inner = one.red_lock("report").owner(guard.owner());
        drop(inner.at_least(ms(2000)).lock().await.expect("its own"));
        Ok::<_, ()>(7)
    });
    assert_eq!(ran.await, Ok(Once::Ran(7)));
    while begun.elapsed() < ms(1990) {
        other.red_lock("report").try_lock().await.expect_err("kept");
        sleep(ms(50)).await;
    }
    sleep(ms(100)).await;
    drop(other.red_lock("report").try_lock().await.expect("free"));
}

/// The job has the turn of a line in which its process waits for the plain lock, because its body has entered the hold
/// again as one of that line.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_done_hands_nothing_on() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster, "one").await, connect(&cluster, "other").await);
    let lock = one.red_lock("report");
    let waiting = RefCell::new(None);
    let at_once = lock.clone().wait(Duration::ZERO).once(KEEP);
    let ran = at_once.run(async |guard| {
        let again = lock.clone().owner(guard.owner());
        drop(again.lock().await.expect("its own"));
        let lock = lock.clone();
        waiting.replace(Some(tokio::spawn(async move { lock.lock().await })));
        sleep(ms(10)).await;
        Ok::<_, ()>(7)
    });
    assert_eq!(ran.await, Ok(Once::Ran(7)));
    let waiting = waiting.take().expect("begun").await.expect("no panic");
    let guard = waiting.expect("free after the job");
    other.red_lock("report").try_lock().await.expect_err("held");
    guard.unlock().await.expect("held");
}

/// A master is far away, and does not know the script yet.
#[tokio::test(start_paused = true)]
async fn closing_right_after_a_job_leaves_nothing() {
    for is_away in [false, true] {
        let cluster = Cluster::new(3);
        let network = Network::new(3);
        network.set_distance(2, ms(20));
        let builder = Masters::builder().node_timeout(ms(200)).lease(LEASE);
        let builder = builder.quarantine(Quarantine::Off).rounds(Rounds::All);
        let client = Client::new().network(&network);
        let one = cluster.connect_as(&client, builder).await.expect("connects");
        let job = job(&one);
        let ran = job.run(async |_guard| {
            sleep(ms(100)).await;
            if is_away {
                network.cut(2, Direction::Both);
            }
            Ok::<_, ()>(7)
        });
        assert_eq!(ran.await, Ok(Once::Ran(7)));
        let closed = one.close(Closing::Release).await;
        let left: Vec<u64> = closed.left.iter().map(|(_, count)| *count).collect();
        let held = cluster.iter().filter(|master| !master.locks().is_empty()).count();
        let expected = if is_away { (vec![1], 1) } else { (vec![], 0) };
        assert_eq!((left, held), expected, "away: {is_away}");
    }
}

/// The client is closed while the masters are told that the job is done. One of them answers late, and is told once to release
/// the hold.
#[tokio::test(start_paused = true)]
async fn closing_beside_the_end_of_a_job_releases_once() {
    let cluster = Cluster::new(3);
    let apart = Client::new().distances(&[ms(10), ms(10), ms(10)]);
    let builder = Masters::builder().node_timeout(ms(50)).lease(LEASE);
    let builder = builder.quarantine(Quarantine::Off).rounds(Rounds::All);
    let one = cluster.connect_as(&apart, builder).await.expect("connects");
    let job = job(&one);
    let ran = job.run(async |_guard| {
        sleep(ms(100)).await;
        cluster.master(2).hold_requests(true);
        Ok::<_, ()>(7)
    });
    let closed = async {
        // The body ended at 110 ms. No master knew the script of the end, so the end is sent twice, until 130 ms.
        sleep(ms(125)).await;
        one.close(Closing::Release).await;
    };
    let answered = async {
        sleep(ms(200)).await;
        cluster.master(2).hold_requests(false);
    };
    let (ran, (), ()) = futures::join!(ran, closed, answered);
    assert_eq!(ran, Ok(Once::Unconfirmed(7)));
    sleep(LEASE / 2).await;
    assert_eq!(executed(&cluster, "release")[2], 1);
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
}

/// Two masters do not answer any more when the job ends. Its mark is over before the lease of its hold, and then nobody
/// waits for it.
#[tokio::test(start_paused = true)]
async fn a_mark_is_not_waited_for_beyond_its_time() {
    let cluster = Cluster::new(3);
    let one = connect(&cluster, "one").await;
    let begun = Instant::now();
    let job = one.red_lock("report").once(ms(1000));
    let ran = job.run(async |_| {
        cluster.iter().take(2).for_each(Master::freeze);
        Ok::<_, ()>(7)
    });
    assert_eq!(ran.await, Ok(Once::Unconfirmed(7)));
    assert!(begun.elapsed() < ms(2500), "{:?}", begun.elapsed());
}

/// A master that comes back after the time of the mark is not asked again and again to store it. One question may be due.
#[tokio::test(start_paused = true)]
async fn a_master_is_owed_no_mark_beyond_its_time() {
    let cluster = Cluster::new(3);
    let one = connect(&cluster, "one").await;
    cluster.master(2).crash();
    assert_eq!(run(&one).await, (Ok(Once::Ran(7)), 1));
    sleep(KEEP).await;
    cluster.master(2).restart(Keep::Data);
    sleep(KEEP).await;
    let asked = executed(&cluster, "mark")[2];
    assert!(asked <= 1, "{asked} times");
}

/// Masters without memory forget a job, and have no room for the note. A client that has read the mark before finds none any
/// more, and stores none.
#[tokio::test(start_paused = true)]
async fn whoever_looks_stores_no_mark_where_none_is_left() {
    for after in 0..30 {
        let cluster = Cluster::new(3);
        let reader = Client::new().distances(&[ms(10); 3]);
        let builder = Masters::builder().quarantine(Quarantine::Off).lease(LEASE);
        let reader = cluster.connect_as(&reader, builder).await.expect("connects");
        let one = connect(&cluster, "one").await;
        assert_eq!(run(&one).await, (Ok(Once::Ran(7)), 1));
        sleep(TIMEOUT).await;
        let looks = async |_guard: &MultiLockGuard| Err::<u32, _>("it looks only");
        let looking = tokio::spawn(async move { drop(job(&reader).run(looks).await) });
        sleep(ms(after)).await;
        cluster.iter().for_each(|master| master.out_of_memory(true));
        job(&one).forget().await.expect("all answer");
        cluster.iter().for_each(|master| master.out_of_memory(false));
        looking.await.expect("no panic");
        sleep(ms(200)).await;
        assert_eq!(marks(&cluster), 0, "{after} ms");
    }
}

/// A mark ends after its time, also on a master whose clock is far behind those that the mark is made from.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_behind_does_not_lengthen_a_mark() {
    let cluster = Cluster::new(3);
    cluster.master(0).set_clock_back(KEEP * 10);
    let (one, other) = (connect(&cluster, "one").await, connect(&cluster, "other").await);
    assert_eq!(run(&one).await, (Ok(Once::Ran(7)), 1));
    assert_eq!(marks(&cluster), 3);
    sleep(KEEP + ms(200)).await;
    assert_eq!(run(&other).await, (Ok(Once::Ran(7)), 1));
}

/// A master that is out of memory has no room for the note that the job is forgotten, and forgets it all the same.
#[tokio::test(start_paused = true)]
async fn a_master_that_is_out_of_memory_forgets() {
    let cluster = Cluster::new(3);
    let one = connect(&cluster, "one").await;
    assert_eq!(run(&one).await, (Ok(Once::Ran(7)), 1));
    cluster.master(0).out_of_memory(true);
    job(&one).forget().await.expect("all answer");
    assert_eq!(marks(&cluster), 0);
    cluster.master(0).out_of_memory(false);
    assert_eq!(run(&one).await, (Ok(Once::Ran(7)), 1));
}

/// The time of the mark is over while two masters are out of memory. The lock is free at once, not after a lease.
#[tokio::test(start_paused = true)]
async fn a_time_that_is_over_on_the_way_keeps_nobody_waiting() {
    let cluster = Cluster::new(3);
    let apart = Client::new().distances(&[ms(10), ms(10), ms(10)]);
    let builder = Masters::builder().node_timeout(ms(200)).lease(LEASE);
    let builder = builder.quarantine(Quarantine::Off);
    let one = cluster.connect_as(&apart, builder).await.expect("connects");
    let begun = Instant::now();
    let job = one.red_lock("report").once(ms(1));
    let ran = job.run(async |_| {
        cluster.master(0).out_of_memory(true);
        cluster.master(1).out_of_memory(true);
        Ok::<_, ()>(7)
    });
    assert_eq!(ran.await, Ok(Once::Unconfirmed(7)));
    assert!(begun.elapsed() < ms(500), "{:?}", begun.elapsed());
    cluster.master(0).out_of_memory(false);
    cluster.master(1).out_of_memory(false);
    let guard = one.red_lock("report").try_lock().await.expect("free");
    guard.unlock().await.expect("held");
}

/// One master has the mark and has released the hold, and the others are out of reach of this client for a while. They
/// go on refusing other clients, and the first master tells these clients that the job is done.
#[tokio::test(start_paused = true)]
async fn nobody_begins_a_job_that_is_marked_on_one_master() {
    let cluster = Cluster::new(3);
    let network = Network::new(3);
    let one = connect_over(&cluster, &network).await;
    let other = connect(&cluster, "other").await;
    let (job, again) = (job(&one), job(&other));
    let outcome = job.run(async |_guard| {
        network.cut(1, Direction::Both);
        network.cut(2, Direction::Both);
        Ok::<_, ()>(7)
    });
    let meanwhile = async {
        sleep(ms(300)).await;
        assert_eq!(marks(&cluster), 1);
        assert_eq!(
            cluster.iter().filter(|master| !master.locks().is_empty()).count(),
            2
        );
        cluster.master(0).crash();
        let refused = again.run(async |_guard| Ok::<_, ()>(8));
        timeout(ms(500), refused).await.expect_err("two masters refuse");
        cluster.master(0).restart(Keep::Data);
        network.heal(1);
        network.heal(2);
    };
    let (outcome, ()) = tokio::join!(outcome, meanwhile);
    assert_eq!(outcome, Ok(Once::Ran(7)));
    is_done(run(&other).await, true, "one");
    sleep(ms(1000)).await;
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
}

/// The shorter time counts.
#[tokio::test(start_paused = true)]
async fn a_mark_counts_for_the_shorter_time() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, "one").await;
    assert_eq!(run(&masters).await, (Ok(Once::Ran(7)), 1));
    sleep(ms(2000)).await;
    let sooner = masters.red_lock("report").once(ms(1000));
    let ran = sooner.run(async |_| Ok::<_, ()>(8)).await;
    assert_eq!(ran, Ok(Once::Ran(8)));
    // The mark of the longer time is still there.
    sleep(ms(5000)).await;
    is_done(run(&masters).await, true, "one");
}

/// A mark of a longer time counts no more for a caller that asks for a shorter one, and does not hide that the job was
/// done again.
#[tokio::test(start_paused = true)]
async fn a_mark_of_a_longer_time_hides_no_later_one() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, "one").await;
    let begun = Instant::now();
    assert_eq!(run(&masters).await, (Ok(Once::Ran(7)), 1));
    let sooner = async || {
        let job = masters.red_lock("report").once(ms(1000));
        job.run(async |_| Ok::<_, ()>(8)).await
    };
    for _ in 0..3 {
        sleep(ms(1100)).await;
        assert_eq!(sooner().await, Ok(Once::Ran(8)));
        let again = sooner().await;
        assert!(
            matches!(again, Ok(Once::Done { confirmed: true, .. })),
            "{again:?}"
        );
    }
    // The end of the longer time has not changed.
    sleep(KEEP.saturating_sub(begun.elapsed() + ms(100))).await;
    is_done(run(&masters).await, true, "one");
    sleep(ms(200)).await;
    assert_eq!(run(&masters).await, (Ok(Once::Ran(7)), 1));
}

/// A master that was away gets the marks that it missed in any order.
#[tokio::test(start_paused = true)]
async fn a_longer_mark_that_comes_late_hides_no_later_one() {
    for first_to_heal in [0, 1] {
        let cluster = Cluster::new(3);
        let networks = [Network::new(3), Network::new(3)];
        let mut clients = Vec::new();
        for network in &networks {
            let builder = Masters::builder().quarantine(Quarantine::Off).lease(LEASE);
            let client = Client::new().network(network);
            clients.push(cluster.connect_as(&client, builder).await.expect("connects"));
            network.cut(2, Direction::Both);
        }
        assert_eq!(run(&clients[0]).await, (Ok(Once::Ran(7)), 1));
        let sooner = clients[1].red_lock("report").once(ms(20_000));
        sleep(ms(21_000)).await;
        let ran = sooner.run(async |_| Ok::<_, ()>(8)).await;
        assert_eq!(ran, Ok(Once::Ran(8)));
        for network in [first_to_heal, 1 - first_to_heal] {
            networks[network].heal(2);
            sleep(ms(6000)).await;
        }
        assert_eq!(marks(&cluster), 3);
        // Only the third master is left to tell that the job was done.
        cluster.master(0).crash();
        cluster.master(1).crash();
        let again = clients[1].red_lock("report").once(ms(20_000));
        let outcome = timeout(ms(5000), again.run(async |_| Ok::<_, ()>(9))).await;
        assert!(matches!(outcome, Ok(Ok(Once::Done { .. }))), "{outcome:?}");
    }
}

/// Of many tasks of one process one does it: they pass no hold on, although nobody else waits.
#[tokio::test(start_paused = true)]
async fn of_many_in_a_process_one_does_it() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, "one").await;
    let all: Vec<_> = (0..8)
        .map(|_| {
            let job = job(&masters);
            tokio::spawn(async move {
                let ran = job.run(async |_guard| {
                    sleep(ms(10)).await;
                    Ok::<_, ()>(())
                });
                u32::from(ran.await == Ok(Once::Ran(())))
            })
        })
        .collect();
    let mut ran = 0;
    for one in all {
        ran += one.await.expect("no panic");
    }
    assert_eq!(ran, 1);
}

/// Of many that begin at once one does it.
#[tokio::test(start_paused = true)]
async fn of_many_one_does_it() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster, "one").await, connect(&cluster, "other").await);
    let begun = Instant::now();
    let all = (0..20).map(|number| {
        let masters = if number % 2 == 0 {
            one.clone()
        } else {
            other.clone()
        };
        tokio::spawn(async move {
            let job = masters.red_lock("report").once(KEEP);
            let outcome = job.run(async |_guard| {
                sleep(ms(50)).await;
                Ok::<_, ()>(())
            });
            outcome.await.expect("granted")
        })
    });
    let all: Vec<_> = all.collect();
    let mut ran = 0;
    for one in all {
        ran += u32::from(matches!(one.await.expect("no panic"), Once::Ran(())));
    }
    assert_eq!(ran, 1);
    // A waiter that learns that the job is done lets the next one in.
    assert!(begun.elapsed() < ms(500), "{:?}", begun.elapsed());
    one.close(Closing::Release).await;
    other.close(Closing::Release).await;
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
}

/// An error of the body marks nothing.
#[tokio::test(start_paused = true)]
async fn a_job_that_fails_is_begun_again() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, "one").await;
    let failed = job(&masters).run(async |_| Err::<u32, _>("no paper")).await;
    assert_eq!(failed, Err(OnceError::Body("no paper")));
    assert_eq!(marks(&cluster), 0);
    assert_eq!(run(&masters).await, (Ok(Once::Ran(7)), 1));
}

/// A process of another one's lock, and an idle grant of the same client, do not pass for the job.
#[tokio::test(start_paused = true)]
async fn an_idle_grant_does_not_hide_the_mark() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster, "one").await, connect(&cluster, "other").await);
    assert_eq!(run(&other).await, (Ok(Once::Ran(7)), 1));
    let guard = one.red_lock("report").sticky().lock().await.expect("free");
    guard.unlock().await.expect("held");
    assert_eq!(one.status().idle, 1);
    is_done(run(&one).await, true, "other");
}

/// The validity ends before a quorum has the mark.
#[tokio::test(start_paused = true)]
async fn without_a_quorum_it_is_unconfirmed() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, "one").await;
    let outcome = job(&masters)
        .run(async |_guard| {
            cluster.master(0).freeze();
            cluster.master(1).freeze();
            Ok::<_, ()>(7)
        })
        .await;
    assert_eq!(outcome, Ok(Once::Unconfirmed(7)));
    cluster.master(0).thaw();
    cluster.master(1).thaw();
}

/// One master has the mark: it is written to the others, and only then confirmed.
#[tokio::test(start_paused = true)]
async fn whoever_reads_a_mark_stores_it_everywhere() {
    let cluster = Cluster::new(3);
    let one = connect(&cluster, "one").await;
    // The master that keeps the mark is the first to answer.
    let near = Client::new().distances(&[ms(5), ms(5), ms(1)]);
    let builder = Masters::builder().quarantine(Quarantine::Off).lease(LEASE);
    let other = cluster.connect_as(&near, builder).await.expect("connects");
    assert_eq!(run(&one).await, (Ok(Once::Ran(7)), 1));
    for node in 0..2 {
        assert!(cluster.master(node).evict("multilock_done:{report}"));
    }
    sleep(KEEP / 2).await;
    is_done(run(&other).await, true, "one");
    assert_eq!(marks(&cluster), 3);
    for master in cluster.iter() {
        let left = master.time_left("multilock_done:{report}").expect("it ends");
        assert!(
            left <= KEEP / 2 + TIMEOUT,
            "{left:?}: it is kept for what is left of its time"
        );
    }
    for node in 0..2 {
        cluster.master(node).evict("multilock_done:{report}");
        cluster.master(node).crash();
    }
    let outcome = timeout(ms(3000), run(&other)).await;
    is_done(outcome.expect("one master tells"), false, "one");
}

/// A master that was away gets the mark when it is back.
#[tokio::test(start_paused = true)]
async fn a_master_that_was_away_is_owed_the_mark() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, "one").await;
    cluster.master(2).crash();
    sleep(ms(100)).await;
    assert_eq!(run(&masters).await, (Ok(Once::Ran(7)), 1));
    assert_eq!(marks(&cluster), 2);
    // It never had the hold. A release for each job would go on for as long as the master is away.
    sleep(ms(100)).await;
    assert_eq!(masters.status().nodes[2].pending_releases, 0);
    cluster.master(2).restart(Keep::Nothing);
    sleep(ms(6000)).await;
    assert_eq!(marks(&cluster), 3);
}

/// A job is done again after an operator has forgotten it.
#[tokio::test(start_paused = true)]
async fn a_forgotten_job_is_done_again() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, "one").await;
    assert_eq!(run(&masters).await, (Ok(Once::Ran(7)), 1));
    let votes = job(&masters).forget().await.expect("all answer");
    assert_eq!((votes.granted(), marks(&cluster)), (3, 0));
    assert_eq!(run(&masters).await, (Ok(Once::Ran(7)), 1));
    cluster.master(0).crash();
    let left = job(&masters).forget().await;
    assert!(matches!(left, Err(LockError::Unreachable { .. })), "{left:?}");
}

/// Hosts that only look whether the job is done, at any moment around the one at which an operator forgets it.
#[tokio::test(start_paused = true)]
async fn whoever_looks_brings_no_forgotten_job_back() {
    for distances in [
        [ms(5); 3],
        [ms(20); 3],
        [ms(1), ms(20), ms(40)],
        [ms(30), ms(3), ms(45)],
    ] {
        for after in 0..80 {
            let cluster = Cluster::new(3);
            let far = Client::new().distances(&distances);
            let builder = Masters::builder().quarantine(Quarantine::Off).lease(LEASE);
            let reader = cluster.connect_as(&far, builder).await.expect("connects");
            let one = connect(&cluster, "one").await;
            assert_eq!(run(&one).await, (Ok(Once::Ran(7)), 1));
            sleep(TIMEOUT).await;
            let looking = tokio::spawn(async move {
                drop(
                    job(&reader)
                        .run(async |_guard| Err::<u32, _>("it looks only"))
                        .await,
                );
            });
            sleep(ms(after)).await;
            let votes = job(&one).forget().await.expect("all answer");
            looking.await.expect("no panic");
            sleep(ms(200)).await;
            assert_eq!(
                (votes.granted(), marks(&cluster)),
                (3, 0),
                "{distances:?}, {after} ms"
            );
        }
    }
}

/// A master that was away gets no mark of a job that was forgotten meanwhile. One that is done again is marked.
#[tokio::test(start_paused = true)]
async fn a_mark_that_a_master_is_owed_is_not_stored_once_it_is_forgotten() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, "one").await;
    let operator = connect(&cluster, "operator").await;
    cluster.master(2).crash();
    sleep(ms(100)).await;
    assert_eq!(run(&masters).await, (Ok(Once::Ran(7)), 1));
    sleep(ms(3000)).await;
    cluster.master(2).restart(Keep::Nothing);
    // The client of the job waits longer than that for its next try.
    sleep(ms(600)).await;
    assert_eq!(marks(&cluster), 2, "the mark is still owed");
    let votes = job(&operator).forget().await.expect("all answer");
    assert_eq!((votes.granted(), marks(&cluster)), (3, 0));
    sleep(ms(12_000)).await;
    assert_eq!(marks(&cluster), 0);
    assert_eq!(run(&masters).await, (Ok(Once::Ran(7)), 1));
    sleep(ms(100)).await;
    assert_eq!(marks(&cluster), 3);
}

/// A holder of the plain lock keeps the job waiting, and the other way round.
#[tokio::test(start_paused = true)]
async fn a_job_excludes_other_holders() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, "one").await;
    let outcome = job(&masters)
        .run(async |_guard| {
            let beside = masters.red_lock("report").try_lock().await;
            assert!(matches!(beside, Err(LockError::Contended { .. })));
            let within = masters.red_lock("report").wait(ms(50)).run(async |_| ()).await;
            assert!(matches!(within, Err(RunError::Lock(_))));
            Ok::<_, ()>(7)
        })
        .await;
    assert_eq!(outcome, Ok(Once::Ran(7)));
}

/// Masters go on renewing the hold and store no mark, as they are out of memory.
#[tokio::test(start_paused = true)]
async fn masters_that_store_no_mark_end_the_wait() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, "one").await;
    let begun = Instant::now();
    let job = job(&masters);
    let outcome = job.run(async |_guard| {
        cluster.master(0).out_of_memory(true);
        cluster.master(1).out_of_memory(true);
        Ok::<_, ()>(7)
    });
    let outcome = timeout(LEASE * 10, outcome).await.expect("within a lease");
    assert_eq!(outcome, Ok(Once::Unconfirmed(7)));
    assert!(begun.elapsed() < LEASE * 2, "{:?}", begun.elapsed());
    cluster.master(0).out_of_memory(false);
    cluster.master(1).out_of_memory(false);
    sleep(ms(100)).await;
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
}

/// By one master's clock the time of the mark is over when it comes. All are needed. The caller learns it at once, as that
/// cannot change.
#[tokio::test(start_paused = true)]
async fn a_mark_that_a_clock_has_passed_does_not_count() {
    let cluster = Cluster::new(3);
    cluster.master(2).set_clock_forward(ms(5000));
    let masters = connect(&cluster, "one").await;
    let job = masters.multi_lock("report").once(ms(1000));
    let outcome = timeout(ms(500), job.run(async |_guard| Ok::<_, ()>(7))).await;
    assert_eq!(outcome.expect("at once"), Ok(Once::Unconfirmed(7)));
}

/// One of three masters is down while the job ends, and the clock of another is behind.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_behind_does_not_shorten_the_time() {
    let cluster = Cluster::new(3);
    cluster.master(2).set_clock_back(ms(50_000));
    let masters = connect(&cluster, "one").await;
    cluster.master(0).crash();
    sleep(ms(100)).await;
    assert_eq!(run(&masters).await, (Ok(Once::Ran(7)), 1));
    let done = Instant::now();
    sleep(ms(1000)).await;
    cluster.master(0).restart(Keep::Data);
    while done.elapsed() + ms(1000) < KEEP {
        sleep(ms(1000)).await;
        let (outcome, begun) = run(&masters).await;
        assert_eq!(begun, 0, "{outcome:?} after {:?}", done.elapsed());
    }
}

/// The answers of the masters, by which their clocks are known, are long under way.
#[tokio::test(start_paused = true)]
async fn the_way_of_an_answer_does_not_shorten_the_time() {
    const BACK: Duration = ms(40);
    let cluster = Cluster::new(3);
    for master in cluster.iter() {
        master.set_delay(ms(1), BACK);
    }
    let masters = connect(&cluster, "one").await;
    let (job, ended, begun) = (job(&masters), Cell::new(Instant::now()), Cell::new(false));
    let outcome = job.run(async |_guard| {
        ended.set(Instant::now());
        Ok::<_, ()>(7)
    });
    assert_eq!(outcome.await, Ok(Once::Ran(7)));
    for (after, is_begun) in [(KEEP.saturating_sub(ms(2)), false), (KEEP + 2 * TIMEOUT, true)] {
        sleep_until(ended.get() + after).await;
        let looked = job.run(async |_guard| {
            begun.set(true);
            Err::<u32, _>("it looks only")
        });
        drop(looked.await);
        assert_eq!(begun.get(), is_begun, "after {after:?}");
    }
}

/// One of three masters is down, and the clocks of the others are further apart than the job's time.
#[tokio::test(start_paused = true)]
async fn a_job_is_confirmed_where_two_clocks_are_far_apart() {
    for is_ahead in [false, true] {
        let cluster = Cluster::new(3);
        if is_ahead {
            cluster.master(2).set_clock_forward(2 * KEEP);
        } else {
            cluster.master(2).set_clock_back(2 * KEEP);
        }
        let masters = connect(&cluster, "one").await;
        cluster.master(0).crash();
        sleep(ms(100)).await;
        let outcome = timeout(ms(500), run(&masters)).await;
        assert_eq!(outcome, Ok((Ok(Once::Ran(7)), 1)));
        assert_eq!(marks(&cluster), 2);
        is_done(run(&masters).await, true, "one");
    }
}

/// Options that no job can have are refused before a master is asked.
#[tokio::test(start_paused = true)]
async fn what_no_job_can_have_is_refused() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster, "one").await;
    let lock = || masters.red_lock("report");
    let refused = [
        (lock().once(Duration::ZERO), "once: 0s"),
        (lock().once(ms(8 * 24 * 3_600_000)), "once: 8days"),
        (masters.red_lock(["a", "b"]).once(KEEP), "names: "),
        (masters.red_lock("").once(KEEP), "name: "),
        (lock().lease(LEASE).once(KEEP), "lease: "),
        (lock().at_least(ms(100)).once(KEEP), "at_least: "),
        (lock().sticky().once(KEEP), "sticky: "),
        (lock().write().once(KEEP), "write: "),
        (lock().owner(&Owner::new()).once(KEEP), "owner: "),
    ];
    let executed = || -> u64 {
        let all = cluster.iter().map(Master::executed);
        all.map(|scripts| scripts.values().sum::<u64>()).sum()
    };
    let before = executed();
    for (job, field) in refused {
        let ran = job.run(async |_guard| Ok::<_, ()>(())).await;
        let error = match ran {
            Err(OnceError::Lock(error @ LockError::Invalid(_))) => error.to_string(),
            other => panic!("{field}: {other:?}"),
        };
        assert!(error.starts_with(field), "{error}");
        let forgot = job.forget().await.expect_err("refused likewise");
        assert_eq!(forgot.to_string(), error);
    }
    assert_eq!(executed(), before);
    masters.close(Closing::Release).await;
    assert_eq!(lock().once(KEEP).forget().await, Err(LockError::Closed));
}

/// A job is held by two of three masters, and the connection to one of them is away when the job ends. The third master lets
/// another client's attempt in before it gets the mark. The first connection is back soon: the release goes over it before
/// the mark, and the attempt comes between them.
#[tokio::test(start_paused = true)]
async fn a_master_with_another_attempt_does_not_count_for_the_mark() {
    let (mut ran, mut done) = (0, 0);
    for distance in (10..250).step_by(5) {
        let cluster = Cluster::new(3);
        let (near, far) = (Network::new(3), Network::new(3));
        let one = connect_over(&cluster, &near).await;
        let builder = Masters::builder().node_timeout(ms(1_000)).client_label("other");
        let builder = builder.quarantine(Quarantine::Off).lease(LEASE);
        let client = Client::new().network(&far);
        let other = cluster.connect_as(&client, builder).await.expect("connects");
        far.set_distance(1, ms(distance));
        cluster.master(2).crash();
        sleep(ms(1)).await;
        let (job, is_away) = (job(&one), Notify::new());
        let first = job.run(async |_guard| {
            cluster.master(2).restart(Keep::Data);
            near.cut(1, Direction::Both);
            // Until the client gives the connection up.
            while one.status().nodes[1].connection.is_ok() {
                drop(one.red_lock("beside").try_lock().await);
                sleep(ms(60)).await;
            }
            is_away.notify_one();
            sleep(ms(10)).await;
            Ok::<_, ()>(7)
        });
        let second = async {
            is_away.notified().await;
            let back = async {
                sleep(ms(30)).await;
                near.heal(1);
            };
            tokio::join!(run(&other), back).0
        };
        let (first, (second, begun)) = tokio::join!(first, second);
        if first == Ok(Once::Ran(7)) {
            ran += 1;
            assert_eq!(begun, 0, "the job began again, {distance} ms away: {second:?}");
            done += usize::from(matches!(second, Ok(Once::Done { .. })));
        }
    }
    assert!(ran > 0 && done > 0, "{ran} ran, and {done} were told");
}

/// One master has the mark of a job, and its reader finds another client's attempt on the second.
#[tokio::test(start_paused = true)]
async fn a_mark_beside_another_attempt_is_not_confirmed() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster, "one").await, connect(&cluster, "other").await);
    assert_eq!(run(&one).await, (Ok(Once::Ran(7)), 1));
    cluster.master(2).crash();
    for node in 1..3 {
        cluster.master(node).evict("multilock_done:{report}");
    }
    let attempt = &["HSET", "report", "another:1", "1"];
    cluster.master(1).command(attempt).expect("free there");
    is_done(run(&other).await, false, "one");
    cluster
        .master(1)
        .command(&["DEL", "report"])
        .expect("it is there");
    is_done(run(&other).await, true, "one");
}
