//! Locks for jobs, as their callers see them: names that are kept for a while although the job is done, and one leader
//! after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use multilock::sim::{Cluster, Keep, Master};
use multilock::{Closing, LockError, Masters, NodeState, Once, Owner, RunError, UnlockError, Unlocked};
use tokio::time::{Instant, sleep};

use crate::support::{Apart, connect, connect_leasing, executed, get_ahead, ms, queues, settle, slow_down};

const KEPT: Duration = ms(20_000);

/// Three masters a millisecond away, and two processes.
async fn two_processes() -> (Cluster, Masters, Masters) {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 1);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    (cluster, here, there)
}

#[tokio::test(start_paused = true)]
async fn names_are_kept_although_the_job_is_done() {
    let (cluster, here, there) = two_processes().await;
    let me = Owner::new();
    let lock = here.red_lock(["a", "b"]).at_least(KEPT);
    let guard = lock.clone().owner(&me).lock().await.expect("free");
    let granted = Instant::now();
    sleep(ms(5000)).await;
    let unlocked = guard.unlock().await.expect("held");
    let Unlocked::KeptFor(rest) = unlocked else {
        panic!("{unlocked:?}");
    };
    assert!(rest <= ms(15_000) && rest > ms(14_990), "{rest:?}");
    assert_eq!(executed(&cluster, "release"), 0);
    for lock in [
        there.red_lock("b"),
        here.red_lock("a"),
        here.red_lock("a").owner(&me),
    ] {
        let refused = lock.try_lock().await.expect_err("kept");
        assert!(matches!(refused, LockError::Contended { .. }), "{refused}");
    }
    let seen = there.red_lock("a").inspect().await.expect("open");
    let is_held = |state: &NodeState| matches!(state, NodeState::Held { .. });
    assert!(seen[0].nodes.iter().all(|(_, state)| is_held(state)), "{seen:?}");
    assert_eq!(seen[0].agreed, None, "nobody holds it");
    // A waiter gets the lock as soon as the time is over, in another process and in the same one.
    let waiters = [there.red_lock("a"), here.red_lock("b")];
    let waiters = waiters.map(|lock| {
        tokio::spawn(async move {
            let guard = lock.lock().await.expect("in the end");
            let at = Instant::now();
            guard.unlock().await.expect("held");
            at
        })
    });
    for waiter in waiters {
        let waited = waiter.await.expect("no panic") - granted;
        assert!(waited >= KEPT && waited < KEPT + ms(300), "{waited:?}");
    }
    settle().await;
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
    assert_eq!(queues(&cluster), 0);
}

#[tokio::test(start_paused = true)]
async fn what_lasted_longer_is_released() {
    let (cluster, here, there) = two_processes().await;
    let guard = here.multi_lock("a").at_least(ms(50)).lock().await.expect("free");
    sleep(ms(50)).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    assert_eq!(executed(&cluster, "retain"), 0);
    drop(there.multi_lock("a").try_lock().await.expect("free"));
}

#[tokio::test(start_paused = true)]
async fn it_matters_not_how_the_guard_goes() {
    for how in ["dropped", "body", "closed"] {
        let (cluster, here, there) = two_processes().await;
        let lock = here.red_lock("a").lease(ms(30_000)).at_least(KEPT);
        let begun = Instant::now();
        match how {
            "dropped" => drop(lock.lock().await.expect("free")),
            "body" => lock.run(async |_| ()).await.expect("done"),
            _ => {
                let guard = lock.lock().await.expect("free");
                let closed = here.close(Closing::Release).await;
                assert_eq!((closed.released, closed.unconfirmed, closed.kept), (0, 0, 1));
                drop(guard);
            }
        }
        settle().await;
        let refused = there.red_lock("a").try_lock().await.expect_err(how);
        let LockError::Contended { retry_after, .. } = refused else {
            panic!("{how}: {refused}");
        };
        assert!(retry_after < KEPT + ms(500), "{how}: {retry_after:?}");
        drop(there.red_lock("a").lock().await.expect("in the end"));
        assert!(begun.elapsed() >= KEPT, "{how}: {:?}", begun.elapsed());
        assert_eq!(executed(&cluster, "retain"), 3, "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_leaves_the_names_to_the_lease() {
    let cluster = Cluster::new(3);
    get_ahead().await;
    let begun = Instant::now();
    let crashed = Apart::after(&cluster, |masters| async move {
        let me = Owner::new();
        let lock = masters.red_lock("a").owner(&me);
        std::mem::forget(lock.clone().lease(ms(2000)).lock().await.expect("free"));
        sleep(ms(1500)).await;
        // The rest of the outer hold would not do.
        std::mem::forget(lock.at_least(ms(3000)).lock().await.expect("its own"));
    });
    crashed.kill();
    let there = connect(&cluster).await;
    drop(there.red_lock("a").lock().await.expect("in the end"));
    assert!(begun.elapsed() >= ms(4500), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn tasks_of_the_same_process_wait_as_well() {
    let (cluster, here, _) = two_processes().await;
    let lock = here.red_lock("a").at_least(ms(10));
    let first = lock.lock().await.expect("free");
    let begun = Instant::now();
    let next = |lock: multilock::MultiLock| {
        tokio::spawn(async move { (lock.lock().await.expect("in the end"), Instant::now()) })
    };
    let (second, third) = (next(lock.clone()), next(lock));
    settle().await;
    assert!(matches!(first.unlock().await, Ok(Unlocked::KeptFor(_))));
    let (second, at) = second.await.expect("no panic");
    assert!(at - begun >= ms(10), "{:?}", at - begun);
    assert_eq!(executed(&cluster, "retain"), 3);
    // Its time is over; so it goes to the next at once, which counts its own.
    sleep(ms(10)).await;
    assert_eq!(second.unlock().await, Ok(Unlocked::HandedOn));
    let (third, _) = third.await.expect("no panic");
    assert!(matches!(third.unlock().await, Ok(Unlocked::KeptFor(rest)) if rest > ms(9)));
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_was_lost_keeps_nothing() {
    let cluster = Cluster::new(3);
    let here = connect_leasing(&cluster, ms(1000)).await;
    let guard = here.red_lock("a").at_least(ms(1000)).lock().await.expect("free");
    for master in cluster.iter() {
        master.freeze();
    }
    guard.lost().await;
    for master in cluster.iter() {
        master.thaw();
    }
    let unlocked = guard.unlock().await;
    assert!(
        matches!(unlocked, Err(UnlockError::WasLost { .. })),
        "{unlocked:?}"
    );
    sleep(ms(100)).await;
    assert_eq!(executed(&cluster, "retain"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_master_that_cannot_be_told_keeps_them_for_the_lease() {
    let (cluster, here, there) = two_processes().await;
    let lock = here.red_lock("a").at_least(ms(5000));
    let guard = lock.lock().await.expect("free");
    let begun = Instant::now();
    cluster.master(0).crash();
    cluster.master(1).freeze();
    let unlocked = guard.unlock().await;
    assert!(
        matches!(unlocked, Err(UnlockError::Unconfirmed { .. })),
        "{unlocked:?}"
    );
    cluster.master(0).restart(multilock::sim::Keep::Data);
    cluster.master(1).thaw();
    // Connected again, nothing of it is released there before its time.
    sleep(ms(2000)).await;
    assert_eq!(executed(&cluster, "release"), 0);
    there.red_lock("a").try_lock().await.expect_err("kept");
    drop(there.red_lock("a").lock().await.expect("in the end"));
    assert!(begun.elapsed() >= ms(5000), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_longest_of_an_owners_entries_counts() {
    let (_, here, there) = two_processes().await;
    let me = Owner::new();
    let lock = here.red_lock("a").lease(ms(2000)).owner(&me);
    let outer = lock.lock().await.expect("free");
    sleep(ms(1000)).await;
    let inner = here.red_lock("a").owner(&me).at_least(ms(3000));
    let inner = inner.lock().await.expect("its own");
    let begun = Instant::now();
    assert!(
        inner.validity() >= ms(3000),
        "a crash must not free it before its time"
    );
    assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    assert!(matches!(outer.unlock().await, Ok(Unlocked::KeptFor(rest)) if rest > ms(2900)));
    drop(there.red_lock("a").lock().await.expect("in the end"));
    assert!(begun.elapsed() >= ms(3000), "{:?}", begun.elapsed());
}

/// A request that names stay locked gets lost with its connection. A release in its place would free them too early.
#[tokio::test(start_paused = true)]
async fn names_are_kept_although_no_master_hears_of_it() {
    let (cluster, here, there) = two_processes().await;
    let guard = here.red_lock("a").at_least(KEPT).lock().await.expect("free");
    cluster.iter().for_each(Master::reset_connections);
    let unlocked = guard.unlock().await;
    assert!(
        matches!(unlocked, Err(UnlockError::Unconfirmed { .. })),
        "{unlocked:?}"
    );
    sleep(ms(5000)).await;
    let refused = there.red_lock("a").try_lock().await;
    assert!(matches!(refused, Err(LockError::Contended { .. })), "{refused:?}");
}

/// A hold with less left than an entry is to keep the names for is extended before it is entered.
#[tokio::test(start_paused = true)]
async fn an_entry_keeps_the_names_even_if_its_process_ends() {
    let (cluster, here, _) = two_processes().await;
    let lock = here.red_lock("a").owner(&Owner::new());
    let _outer = lock.clone().lease(KEPT).lock().await.expect("free");
    sleep(KEPT / 2).await;
    let _inner = lock.at_least(KEPT * 3 / 4).lock().await.expect("its own");
    for master in cluster.iter() {
        let left = master.time_left("a");
        assert!(left > Some(KEPT * 3 / 4), "{left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_ends_it() {
    let (_, here, there) = two_processes().await;
    drop(here.red_lock("a").at_least(KEPT).lock().await.expect("free"));
    settle().await;
    there.red_lock("a").force_release().await.expect("a quorum");
    drop(there.red_lock("a").try_lock().await.expect("free"));
}

#[tokio::test(start_paused = true)]
async fn it_cannot_be_longer_than_the_lease() {
    let cluster = Cluster::new(1);
    let masters = connect(&cluster).await;
    let lock = masters.red_lock("a");
    for (lock, value, allowed) in [
        (lock.clone().at_least(ms(30_001)), "30s 1ms", "0s to 30s"),
        // A hold with a lease of its own is lost before the lease ends.
        (
            lock.lease(ms(2000)).at_least(ms(1978)),
            "1s 978ms",
            "less than 1s 978ms, the lease minus drift",
        ),
    ] {
        let LockError::Invalid(invalid) = lock.lock().await.expect_err("too long") else {
            panic!("another error");
        };
        assert_eq!((invalid.field, &*invalid.value), ("at_least", value));
        assert_eq!(&*invalid.allowed, allowed);
    }
    assert_eq!(executed(&cluster, "acquire"), 0, "no master was asked");
}

/// Nor is a hold given out whose validity ends before that time.
#[tokio::test(start_paused = true)]
async fn a_hold_that_cannot_keep_its_names_is_too_late() {
    let (cluster, here, there) = two_processes().await;
    slow_down(&cluster, 20);
    let lock = here.red_lock("a").lease(ms(2000));
    let late = lock.clone().at_least(ms(1950)).try_lock().await;
    assert!(matches!(late, Err(LockError::TooLate { .. })), "{late:?}");
    let begun = Instant::now();
    let guard = lock.at_least(ms(1930)).lock().await.expect("in time");
    assert!(begun.elapsed() < ms(100));
    let granted = Instant::now();
    drop(there.red_lock("a").lock().await.expect("in the end"));
    assert!(granted.elapsed() >= ms(1930), "{:?}", granted.elapsed());
    drop(guard);
}

/// Counts its terms, and ends at the third.
async fn lead(masters: Masters, terms: Arc<AtomicU64>) -> Result<u64, RunError<u64>> {
    let last = AtomicU64::new(0);
    let lock = masters.red_lock("leader");
    let leading = lock.lead(async |leadership| {
        let token = leadership.fencing_token().get();
        assert!(
            last.swap(token, Ordering::Relaxed) < token,
            "every term has a larger token"
        );
        let term = terms.fetch_add(1, Ordering::Relaxed) + 1;
        if term < 3 {
            std::future::pending::<()>().await;
        }
        term
    });
    leading.await
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_lost_its_lock_stands_again() {
    let cluster = Cluster::new(3);
    let (here, there) = (
        connect_leasing(&cluster, ms(1000)).await,
        connect_leasing(&cluster, ms(1000)).await,
    );
    let terms = Arc::new(AtomicU64::new(0));
    let leaders = [&here, &there].map(|masters| tokio::spawn(lead(masters.clone(), Arc::clone(&terms))));
    for term in 1..3 {
        sleep(ms(5000)).await;
        assert_eq!(terms.load(Ordering::Relaxed), term, "one leads, the other waits");
        for master in cluster.iter().take(2) {
            master.freeze();
        }
        sleep(ms(1100)).await;
        for master in cluster.iter() {
            master.thaw();
        }
    }
    let mut last = Vec::new();
    for leader in leaders {
        last.push(leader.await.expect("no panic").expect("its body ended"));
    }
    last.sort_unstable();
    assert_eq!(last, [3, 4], "who waited leads after the other's end");
    settle().await;
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
}

/// They wait in one line, and all of them learn at once that the job is done. A mark that is too old for a task's own time
/// says nothing to it: it does the job again.
#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_process_learn_together_that_a_job_is_done() {
    const TASKS: u64 = 60;
    let cluster = Cluster::new(3);
    slow_down(&cluster, 20);
    let masters = connect(&cluster).await;
    let (begun, busy) = (AtomicU64::new(0), AtomicU64::new(0));
    let run = async |wait: Duration, keep: Duration, takes: Duration| {
        let job = masters.red_lock("report").wait(wait).once(keep);
        job.run(async |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            assert_eq!(busy.fetch_add(1, Ordering::Relaxed), 0, "one after the other");
            sleep(takes).await;
            busy.fetch_sub(1, Ordering::Relaxed);
            Ok::<_, ()>(())
        })
        .await
    };
    let first = run(ms(1500), KEPT, ms(1000));
    let brief = (0..3).map(|_| run(ms(5000), ms(50), ms(100)));
    // Time for the first job and for the brief ones, and less than so many rounds one after the other.
    let others = (0..TASKS).map(|_| run(ms(2500), KEPT, ms(1000)));
    let (first, others, brief) = tokio::join!(first, join_all(others), join_all(brief));
    assert_eq!(first, Ok(Once::Ran(())));
    for other in others {
        assert!(matches!(other, Ok(Once::Done { .. })), "{other:?}");
    }
    // A mark may count for a node timeout longer, which is as long as these keep it: one of them may learn of the one before.
    let again = brief.iter().filter(|brief| **brief == Ok(Once::Ran(()))).count();
    assert!(again >= 2 && brief.iter().all(Result::is_ok), "{brief:?}");
    assert_eq!(begun.into_inner(), 1 + again as u64);
}

/// A master without the mark of a job is asked again, by a task for each job. However many jobs are done while it is away, the
/// tasks are bounded, and the first ones do their work once it is back.
#[tokio::test(start_paused = true)]
async fn jobs_that_are_done_while_a_master_is_away_take_a_bounded_number_of_tasks() {
    const JOBS: usize = 300;
    const MOST: usize = 256;
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    cluster.master(2).crash();
    settle().await;
    let before = alive();
    for job in 0..JOBS {
        let job = masters
            .red_lock(format!("job-{job}"))
            .once(Duration::from_secs(3600));
        let done = job.run(async |_| Ok::<_, ()>(())).await.expect("granted");
        assert_eq!(done, Once::Ran(()));
    }
    sleep(ms(1000)).await;
    let tasks = alive() - before;
    assert!((MOST..MOST + 20).contains(&tasks), "{tasks} tasks");
    cluster.master(2).restart(Keep::Data);
    sleep(ms(20_000)).await;
    let marks = |master: &Master| {
        master
            .keys()
            .iter()
            .filter(|key| key.starts_with("multilock_done:"))
            .count()
    };
    assert_eq!(cluster.iter().map(marks).collect::<Vec<_>>(), [JOBS, JOBS, MOST]);
    assert!(alive() < before + 20, "{}", alive());
}

/// A client that is closed and leaves its holds stores no mark any more, so nobody waits for one.
#[tokio::test(start_paused = true)]
async fn a_job_during_which_the_client_is_closed_is_unconfirmed_at_once() {
    let (_cluster, here, _) = two_processes().await;
    let job = here.red_lock("a").once(ms(60_000));
    let running = tokio::spawn(async move {
        job.run(async |_| {
            sleep(ms(1000)).await;
            Ok::<_, ()>(Instant::now())
        })
        .await
    });
    sleep(ms(500)).await;
    here.close(Closing::Leave).await;
    let Ok(Once::Unconfirmed(ended)) = running.await.expect("no panic") else {
        panic!("it was marked");
    };
    assert!(ended.elapsed() < ms(200), "{:?}", ended.elapsed());
}

/// The mark's time is over by the clock of one master, which never stores it.
#[tokio::test(start_paused = true)]
async fn a_mark_that_a_master_lacks_is_not_sent_beyond_its_time() {
    let cluster = Cluster::new(3);
    cluster.master(2).set_clock_forward(ms(60_000));
    let masters = connect(&cluster).await;
    let job = masters.red_lock("job").once(ms(5000));
    let ran = job.run(async |_| Ok::<_, ()>(())).await;
    assert_eq!(ran, Ok(Once::Ran(())));
    // The pause before the last call may end after the mark.
    sleep(ms(20_000)).await;
    let sent = executed(&cluster, "mark");
    assert!(sent > 0, "it was sent again");
    sleep(ms(60_000)).await;
    assert_eq!(executed(&cluster, "mark"), sent);
}
