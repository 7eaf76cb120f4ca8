//! `Redis/RedisSynchronizationCoreTestCases.cs` and `Redis/RedisExtensionTestCases.cs`: databases that fail.

use multilock::sim::{Cluster, Master};
use multilock::{LockError, Masters, NodeVote, Quarantine, UnlockError, Votes};
use tokio::time::{Instant, sleep};

use crate::memory::{connect, connect_leasing, ms, settle};
use crate::steps::{is_contended, locks, wait_in_vain, waiting};

const FAULT: &str = "BUSY a fault of this database";

/// Number of masters with an answer that tells of the fault.
fn faults(votes: &Votes) -> usize {
    let says_it = |node: &&NodeVote| node.vote.to_string().contains("a fault of this database");
    votes.iter().filter(says_it).count()
}

/// Whether masters have failed, and how many votes tell why.
fn tells_of_faults<T: std::fmt::Debug>(tried: &Result<T, LockError>, number: usize) -> bool {
    matches!(tried, Err(LockError::Unreachable { votes }) if faults(votes) == number)
}

/// `TestMajorityFaultingDatabasesCauseAcquireToThrow`: on two of three, and on the only one.
#[tokio::test(start_paused = true)]
async fn test_majority_faulting_databases_cause_acquire_to_throw() {
    for (nodes, faulty) in [(3, &[0, 2][..]), (1, &[0])] {
        let cluster = Cluster::new(nodes);
        let masters = connect(&cluster).await;
        for node in faulty {
            cluster.master(*node).answer_with(Some(FAULT));
        }
        let tried = masters.red_lock("lock").try_lock().await;
        assert!(tells_of_faults(&tried, faulty.len()), "{tried:?}");
        settle().await;
        assert!(
            locks(&cluster).is_empty(),
            "what the other one granted is given back"
        );
    }
}

/// `TestMajorityHangingDatabasesCauseAcquireToFail`: quickly, and with another error than for a lock that is held.
#[tokio::test(start_paused = true)]
async fn test_majority_hanging_databases_cause_acquire_to_fail() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    cluster.iter().skip(1).for_each(Master::freeze);
    let begun = Instant::now();
    let tried = masters.red_lock("lock").try_lock().await;
    assert!(matches!(tried, Err(LockError::Unreachable { .. })), "{tried:?}");
    assert!(begun.elapsed() < ms(200), "{:?}", begun.elapsed());
    cluster.iter().for_each(Master::thaw);
    sleep(ms(1000)).await;
    assert!(locks(&cluster).is_empty(), "late grants are given back");
}

/// `TestMajorityFaultingDatabasesCauseReleaseToThrow`: three of five. The release follows once they are well.
#[tokio::test(start_paused = true)]
async fn test_majority_faulting_databases_cause_release_to_throw() {
    let cluster = Cluster::new(5);
    let masters = connect(&cluster).await;
    let guard = masters.multi_lock("lock").lock().await.expect("free");
    for node in [1, 2, 4] {
        cluster.master(node).answer_with(Some(FAULT));
    }
    let released = guard.unlock().await;
    let Err(UnlockError::Unconfirmed { free_within, votes }) = released else {
        panic!("{released:?}")
    };
    assert!(free_within > ms(29_000), "{free_within:?}");
    assert_eq!(faults(&votes), 3, "{votes}");
    assert_eq!(locks(&cluster).len(), 3, "the others have released it");
    cluster.iter().for_each(|master| master.answer_with(None));
    sleep(ms(5000)).await;
    assert!(
        locks(&cluster).is_empty(),
        "released later, before the lease ends"
    );
}

/// `TestHalfFaultingDatabasesCauseAcquireToThrow`: one of two.
#[tokio::test(start_paused = true)]
async fn test_half_faulting_databases_cause_acquire_to_throw() {
    let cluster = Cluster::new(2);
    let masters = connect(&cluster).await;
    cluster.master(0).answer_with(Some(FAULT));
    let lock = masters.red_lock("lock");
    assert!(tells_of_faults(&lock.try_lock().await, 1));
    let begun = Instant::now();
    let waited = wait_in_vain(lock.wait(ms(10_000))).await;
    let Err(LockError::TimedOut { last: Some(last), .. }) = waited else {
        panic!("{waited:?}")
    };
    assert!(last.is_unreachable() && begun.elapsed() < ms(10_500), "{last}");
    settle().await;
    assert!(locks(&cluster).is_empty(), "the other half is given back");
}

/// `TestAcquireFailsIfItTakesTooLong`: 50 ms, where 10 ms of the lease may be used up.
#[tokio::test(start_paused = true)]
async fn test_acquire_fails_if_it_takes_too_long() {
    let cluster = Cluster::new(1);
    let builder = Masters::builder().quarantine(Quarantine::Off);
    let connecting = cluster.connect(builder.node_timeout(ms(500)));
    let lock = connecting.await.expect("connects").red_lock("lock");
    let whole = lock.try_lock().await.expect("free").validity();
    let hasty = lock.min_validity(whole.saturating_sub(ms(10)));
    drop(hasty.try_lock().await.expect("soon enough"));
    cluster.master(0).set_delay(ms(25), ms(25));
    let tried = hasty.try_lock().await;
    assert!(matches!(tried, Err(LockError::TooLate { .. })), "{tried:?}");
    sleep(ms(200)).await;
    assert!(
        locks(&cluster).is_empty(),
        "what was granted too late is given back"
    );
}

/// `TestFailedAcquireReleasesWhatHasAlreadyBeenAcquired`: one of two is slow, then refuses.
#[tokio::test(start_paused = true)]
async fn test_failed_acquire_releases_what_has_already_been_acquired() {
    let cluster = Cluster::new(2);
    let masters = connect(&cluster).await;
    let other = ["SET", "lock", "another holder", "PX", "60000"];
    cluster.master(1).command(&other).expect("stored");
    cluster.master(1).set_delay(ms(20), ms(20));
    let lock = masters.red_lock("lock");
    let mut trying = tokio::spawn(async move { lock.try_lock().await });
    assert!(
        tokio::time::timeout(ms(30), &mut trying).await.is_err(),
        "it is not decided"
    );
    assert_eq!(cluster.master(0).locks(), ["lock"], "one has granted it");
    assert!(is_contended(&trying.await.expect("no panic")));
    settle().await;
    assert!(cluster.master(0).locks().is_empty(), "it is given back there");
}

/// `TestAcquireWithLockPrefix`: a namespace and a name are one key.
#[tokio::test(start_paused = true)]
async fn test_acquire_with_lock_prefix() {
    let cluster = Cluster::new(3);
    let builder = Masters::builder().quarantine(Quarantine::Off);
    let prefixed = cluster.connect(builder.namespace("P")).await.expect("connects");
    let masters = connect(&cluster).await;
    let _implicit = prefixed.red_lock("N").try_lock().await.expect("free");
    let _other = masters.red_lock("N").try_lock().await.expect("another lock");
    let stored = cluster.master(0).locks();
    let [explicit] = &stored.iter().filter(|key| *key != "N").collect::<Vec<_>>()[..] else {
        panic!("{stored:?}")
    };
    assert!(explicit.starts_with('P') && explicit.ends_with('N'), "{explicit}");
    assert!(is_contended(
        &masters.red_lock(explicit.as_str()).try_lock().await
    ));
}

/// `TestCanExtendLock`: a waiter waits for longer than the lease, because the hold is renewed.
#[tokio::test(start_paused = true)]
async fn test_can_extend_lock() {
    let cluster = Cluster::new(3);
    let (here, there) = (
        connect_leasing(&cluster, ms(1000)).await,
        connect_leasing(&cluster, ms(1000)).await,
    );
    let guard = here.red_lock("lock").lock().await.expect("free");
    let second = waiting(there.red_lock("lock"));
    sleep(ms(2000)).await;
    assert!(!second.is_finished() && guard.is_valid());
    guard.unlock().await.expect("held");
    let begun = Instant::now();
    drop(second.await.expect("no panic").expect("free"));
    assert!(begun.elapsed() < ms(5), "it is called, and does not poll");
}
