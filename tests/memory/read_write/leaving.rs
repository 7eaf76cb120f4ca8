//! Read/write locks that are given up before their turn, at it and after it; and very many that wait.

use super::{is_clean, is_contended, reading, writing};
use crate::support::{connect, executed, ms, polled, queues, settle, slow_down};
use multilock::sim::{Cluster, Keep};
use multilock::{
    Closing, ExtendError, LockError, LossCause, MultiLockGuard, RunError, UnlockError, Unlocked,
};
use tokio::time::{Instant, sleep, timeout};

const NODES: usize = 3;

/// A waiting reader or writer that is dropped at any await point leaves nothing behind. It lets in the waiters that
/// it has kept back.
#[tokio::test(start_paused = true)]
async fn a_wait_may_be_dropped_anywhere() {
    for writes in [false, true] {
        let mut points = 0;
        loop {
            let cluster = Cluster::new(NODES);
            slow_down(&cluster, 1);
            let (here, there) = (connect(&cluster).await, connect(&cluster).await);
            let holder = writing(&here).lease(ms(150)).lock().await.expect("free");
            let done = if writes {
                polled(writing(&there).lock(), points).await.map(drop)
            } else {
                polled(reading(&there).lock(), points).await.map(drop)
            };
            drop(holder);
            sleep(ms(300)).await;
            assert!(is_clean(&cluster), "after {points} polls");
            assert_eq!(queues(&cluster), 0, "after {points} polls");
            writing(&here)
                .try_lock()
                .await
                .expect("free")
                .unlock()
                .await
                .expect("held");
            if done.is_some() {
                break;
            }
            points += 1;
            assert!(points < 200, "never done");
        }
        assert!(points > 2, "only {points} await points were tried");
    }
}

/// No reader is told that it is wanted: not for the readers that are let in beside it, nor for a writer behind.
#[tokio::test(start_paused = true)]
async fn a_reader_is_never_told_that_it_is_wanted() {
    let cluster = Cluster::new(NODES);
    slow_down(&cluster, 1);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect(&cluster).await);
    }
    let writer = writing(&clients[0]).lock().await.expect("free");
    let readers = clients[1..3].iter().chain([&clients[1]]).map(|client| {
        let lock = reading(client);
        tokio::spawn(async move { lock.lock().await })
    });
    let readers: Vec<_> = readers.collect();
    sleep(ms(50)).await;
    let behind = writing(&clients[3]);
    let behind = tokio::spawn(async move { behind.lock().await });
    sleep(ms(50)).await;
    writer.unlock().await.expect("held");
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(reader.await.expect("no panic").expect("its turn"));
    }
    sleep(ms(50)).await;
    assert!(guards.iter().all(|guard| !guard.is_wanted()));
    drop(guards);
    drop(behind.await.expect("no panic").expect("its turn"));
}

/// A downgrade that is dropped half-way is sent all the same, and the hold is left.
#[tokio::test(start_paused = true)]
async fn a_downgrade_may_be_dropped_anywhere() {
    for points in 0..6 {
        let cluster = Cluster::new(NODES);
        slow_down(&cluster, 1);
        let (here, there) = (connect(&cluster).await, connect(&cluster).await);
        let writer = writing(&here).lock().await.expect("free");
        let downgraded = polled(writer.downgrade(), points).await;
        if let Some(reader) = downgraded {
            assert!(reader.is_valid());
            drop(reader);
        }
        sleep(ms(20)).await;
        assert!(is_clean(&cluster), "after {points} polls");
        assert!(writing(&there).try_lock().await.is_ok());
    }
}

/// A waiter that gives up has kept others back: readers behind a writer, or a writer behind readers.
#[tokio::test(start_paused = true)]
async fn who_gives_up_lets_in_whom_it_kept_back() {
    let cluster = Cluster::new(NODES);
    slow_down(&cluster, 1);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect(&cluster).await);
    }
    let first = reading(&clients[0]).lock().await.expect("free");
    let writer = tokio::spawn({
        let lock = writing(&clients[1]).wait(ms(500));
        async move { lock.lock().await }
    });
    sleep(ms(20)).await;
    let readers = [&clients[2], &clients[3], &clients[0]].map(|masters| {
        let lock = reading(masters);
        tokio::spawn(async move { (lock.lock().await.expect("in the end"), Instant::now()) })
    });
    sleep(ms(20)).await;
    assert!(
        readers.iter().all(|reader| !reader.is_finished()),
        "behind a writer"
    );
    let error = writer.await.expect("no panic").expect_err("read all the time");
    let gave_up = Instant::now();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
    let mut guards = Vec::new();
    for reader in readers {
        let (guard, at) = timeout(ms(100), reader).await.expect("called").expect("no panic");
        assert!(at - gave_up <= ms(10), "{:?}", at - gave_up);
        guards.push(guard);
    }
    assert!(
        first.is_valid() && guards.iter().all(MultiLockGuard::is_valid),
        "all at once"
    );
    drop((first, guards));
    sleep(ms(20)).await;
    assert!(is_clean(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_in_time() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let writer = writing(&here).lock().await.expect("free");
    let begun = Instant::now();
    let read = reading(&there).wait(ms(700)).lock().await.expect_err("written");
    assert!(matches!(read, LockError::TimedOut { .. }), "{read}");
    assert!(begun.elapsed() <= ms(701), "{:?}", begun.elapsed());
    let read = reading(&there).wait(ms(0)).lock().await.expect_err("written");
    assert!(matches!(read, LockError::TimedOut { .. }), "{read}");
    settle().await;
    assert_eq!(queues(&cluster), 0);
    drop(writer);
}

#[tokio::test(start_paused = true)]
async fn run_reads_and_writes() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let lock = reading(&here);
    let read = lock.run(async |guard| {
        assert!(guard.is_valid());
        let beside = reading(&there).run(async |beside| beside.is_valid()).await;
        let refused = writing(&there).try_lock().await;
        (beside, is_contended(&refused))
    });
    assert_eq!(read.await, Ok((Ok(true), true)));
    let written = writing(&here)
        .run(async |_| is_contended(&reading(&there).try_lock().await))
        .await;
    assert_eq!(written, Ok(true));
    // The body is dropped when the hold is lost.
    let ended = reading(&here)
        .run(async |_| {
            writing(&there).force_release().await.expect("all answer");
            sleep(ms(60_000)).await;
        })
        .await;
    assert!(
        matches!(&ended, Err(RunError::Lost(loss)) if loss.cause == LossCause::TakenAway),
        "{ended:?}"
    );
    settle().await;
    let left: Vec<_> = cluster.iter().flat_map(multilock::sim::Master::locks).collect();
    assert!(
        left.iter().all(|key| key.starts_with("multilock_revoked")),
        "{left:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_reader_and_a_writer() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let reader = reading(&here).max_hold(ms(60_000)).lock().await.expect("free");
    let beside = reading(&there).lock().await.expect("only read");
    let begun = Instant::now();
    let loss = reader.lost().await;
    let lasted = begun.elapsed();
    assert_eq!(loss.cause, LossCause::Expired);
    assert!((ms(60_000)..=ms(90_000)).contains(&lasted), "{lasted:?}");
    assert!(beside.is_valid());
    beside.unlock().await.expect("held");
    let writer = writing(&here).max_hold(ms(60_000)).lock().await.expect("free");
    let reader = writer.downgrade().await;
    let begun = Instant::now();
    assert_eq!(reader.lost().await.cause, LossCause::Expired);
    let lasted = begun.elapsed();
    assert!((ms(59_000)..=ms(90_000)).contains(&lasted), "{lasted:?}");
    settle().await;
    assert!(is_clean(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_closed_pool_gives_its_readers_up() {
    for closing in [Closing::Release, Closing::Leave] {
        let cluster = Cluster::new(NODES);
        let (here, there) = (connect(&cluster).await, connect(&cluster).await);
        let readers = [
            reading(&here).lock().await.expect("free"),
            reading(&here).lock().await.expect("only read"),
        ];
        let staying = reading(&there).lock().await.expect("only read");
        let waiting = tokio::spawn({
            let lock = writing(&here);
            async move { lock.lock().await }
        });
        settle().await;
        let closed = here.close(closing).await;
        assert!(matches!(waiting.await.expect("no panic"), Err(LockError::Closed)));
        let given_up = closing == Closing::Release;
        assert_eq!(closed.released, if given_up { 2 } else { 0 });
        assert!(readers.iter().all(|reader| reader.is_valid() != given_up));
        assert!(staying.is_valid() && is_contended(&writing(&there).try_lock().await));
        assert_eq!(staying.unlock().await, Ok(Unlocked::Released));
        let begun = Instant::now();
        let writer = writing(&there).lock().await.expect("in the end");
        let waited = begun.elapsed();
        let allowed = if given_up {
            ms(0)..=ms(10)
        } else {
            ms(29_000)..=ms(30_010)
        };
        assert!(allowed.contains(&waited), "{closing:?}: {waited:?}");
        writer.unlock().await.expect("held");
        drop(readers);
        settle().await;
        assert!(is_clean(&cluster));
    }
}

/// A leaked reader lasts for its lease, and others come and leave meanwhile.
#[tokio::test(start_paused = true)]
async fn a_leaked_reader_lasts_for_its_lease() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let begun = Instant::now();
    reading(&here).lock().await.expect("free").leak();
    for _ in 0..5 {
        sleep(ms(4_000)).await;
        let beside = reading(&there).lock().await.expect("only read");
        assert_eq!(beside.unlock().await, Ok(Unlocked::Released));
        assert!(is_contended(&writing(&there).try_lock().await));
    }
    let writer = writing(&there).lock().await.expect("when the lease has ended");
    let waited = begun.elapsed();
    assert!((ms(29_900)..=ms(30_010)).contains(&waited), "{waited:?}");
    // A leaked writer that was downgraded does the same.
    writer.downgrade().await.leak();
    let begun = Instant::now();
    let beside = reading(&here).try_lock().await.expect("only read");
    drop(beside);
    let writer = writing(&here).lock().await.expect("when the lease has ended");
    let waited = begun.elapsed();
    assert!((ms(29_900)..=ms(30_010)).contains(&waited), "{waited:?}");
    drop(writer);
    settle().await;
    assert!(is_clean(&cluster));
}

/// A thousand tasks of one process that wait to read stand in the queues as one, and go in together.
#[tokio::test(start_paused = true)]
async fn a_thousand_readers_of_a_process_wait_as_one() {
    const READERS: u64 = 1_000;
    let cluster = Cluster::new(NODES);
    slow_down(&cluster, 1);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let writer = writing(&here).lock().await.expect("free");
    let spawn = || {
        let lock = reading(&there);
        tokio::spawn(async move { (lock.lock().await.expect("in the end"), Instant::now()) })
    };
    // A reader that comes before the first one has been refused asks as well.
    let mut waiting = vec![spawn()];
    sleep(ms(10)).await;
    let before = executed(&cluster, "acquire");
    waiting.extend((1..READERS).map(|_| spawn()));
    sleep(ms(4_000)).await;
    let asked = executed(&cluster, "acquire") - before;
    assert!(asked <= 2 * NODES as u64, "{asked} questions");
    let seen = &reading(&here).inspect().await.expect("looks")[0];
    assert_eq!((seen.waiting, seen.waiting_to_read), (1, 1));
    let released = Instant::now();
    writer.unlock().await.expect("held");
    let mut guards = Vec::new();
    for reader in waiting {
        let (guard, at) = timeout(ms(1_000), reader)
            .await
            .expect("called")
            .expect("no panic");
        assert!(at - released <= ms(20), "{:?}", at - released);
        guards.push(guard);
    }
    assert!(guards.iter().all(MultiLockGuard::is_valid), "together");
    let asked = executed(&cluster, "acquire") - before;
    assert!(
        asked <= (READERS + 4) * NODES as u64,
        "{asked} questions: one of each"
    );
    drop(guards);
    sleep(ms(50)).await;
    assert!(is_clean(&cluster));
    assert_eq!(queues(&cluster), 0);
}

/// A downgraded hold is lost like any other: where the masters forget it, or give it to somebody else.
#[tokio::test(start_paused = true)]
async fn a_downgraded_hold_may_be_lost() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let reader = writing(&here).lock().await.expect("free").downgrade().await;
    settle().await;
    for master in cluster.iter() {
        assert!(master.evict("a"));
    }
    let writer = writing(&there).lock().await.expect("forgotten");
    let loss = timeout(ms(11_000), reader.lost()).await.expect("noticed");
    assert!(!reader.is_valid(), "{loss:?}");
    assert!(matches!(reader.unlock().await, Err(UnlockError::WasLost { .. })));
    assert!(writer.is_valid());
    writer.extend(ms(30_000)).await.expect("it is this one's");
    // A hold that was lost stays lost.
    writing(&here).force_release().await.expect("all answer");
    timeout(ms(11_000), writer.lost()).await.expect("noticed");
    let downgraded = writer.downgrade().await;
    assert!(!downgraded.is_valid() && is_free(&cluster).await);
    assert!(matches!(
        downgraded.extend(ms(30_000)).await,
        Err(ExtendError::Lost { .. })
    ));
    assert!(matches!(
        downgraded.unlock().await,
        Err(UnlockError::WasLost { .. })
    ));
}

/// Nobody holds: a lost hold's downgrade has put nothing there.
async fn is_free(cluster: &Cluster) -> bool {
    settle().await;
    cluster.iter().all(|master| master.fields("a").is_empty())
}

/// A hold that some masters have forgotten is taken again there, in the mode that it has by now.
#[tokio::test(start_paused = true)]
async fn a_downgraded_hold_is_taken_again_where_it_was_forgotten() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let reader = writing(&here).lock().await.expect("free").downgrade().await;
    settle().await;
    cluster.master(0).restart(Keep::Nothing);
    sleep(ms(15_000)).await;
    assert!(reader.is_valid());
    let fields = cluster.master(0).fields("a");
    assert!(
        fields.iter().any(|field| field == "multilock"),
        "to read: {fields:?}"
    );
    let beside = reading(&there).try_lock().await.expect("only read");
    assert!(is_contended(&writing(&there).try_lock().await));
    beside.unlock().await.expect("held");
    reader.unlock().await.expect("held");
    settle().await;
    assert!(is_clean(&cluster));
}

/// A downgrade that does not get to some masters is told them by the next renewal.
#[tokio::test(start_paused = true)]
async fn a_downgrade_that_was_missed_is_made_good() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let writer = writing(&here).lock().await.expect("free");
    settle().await;
    for node in 0..2 {
        cluster.master(node).freeze();
    }
    let reader = writer.downgrade().await;
    for node in 0..2 {
        cluster.master(node).reset_connections();
        cluster.master(node).thaw();
    }
    sleep(ms(1_000)).await;
    assert!(reader.is_valid());
    let begun = Instant::now();
    let beside = reading(&there)
        .lock()
        .await
        .expect("after the renewal at the latest");
    assert!(begun.elapsed() <= ms(15_000), "{:?}", begun.elapsed());
    assert!(reader.is_valid() && beside.is_valid());
    drop((reader, beside));
    sleep(ms(100)).await;
    assert!(is_clean(&cluster));
}

/// A call renews two holds, and two masters have forgotten its script: they get it once more, behind the downgrade of one
/// of the holds. The third master refuses the call before that, and is asked for each hold apart, as it is by then.
/// Nothing of this says that the downgraded hold is gone.
#[tokio::test(start_paused = true)]
async fn a_downgrade_during_a_renewal_that_is_asked_apart_loses_nothing() {
    let mut behind = 0;
    for after in (9_980..10_060).step_by(2) {
        let cluster = Cluster::new(NODES);
        let here = connect(&cluster).await;
        let (first, second) = (writing(&here), here.red_lock("b"));
        let (writer, other) = tokio::join!(first.lock(), second.lock());
        let (writer, other) = (writer.expect("free"), other.expect("free"));
        settle().await;
        for node in 0..2 {
            cluster.master(node).forget_script("extend");
            cluster.master(node).set_delay(ms(1), ms(15));
        }
        cluster.master(2).set_delay(ms(1), ms(5));
        cluster.master(2).answer_with(Some("ERR unforeseen"));
        sleep(ms(after)).await;
        let before = executed(&cluster, "extend");
        let reader = writer.downgrade().await;
        sleep(ms(200)).await;
        behind += usize::from(executed(&cluster, "extend") > before);
        assert!(reader.is_valid(), "after {after} ms");
        cluster.master(2).answer_with(None);
        // Longer than the lease.
        sleep(ms(40_000)).await;
        assert!(reader.is_valid() && other.is_valid(), "after {after} ms");
    }
    assert!(behind > 0, "no renewal came behind a downgrade");
}
