//! Several locks at once, each on masters of its own, as their callers see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use multilock::sim::{Cluster, Master};
use multilock::{
    Closing, Exclusive, FencingToken, LockError, LockSet, LockSetError, LossCause, Masters, MultiLock, Owner,
    Policy, RunSetError, Unlocked,
};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{connect, connect_leasing, ms, queues, settle, slow_down};

/// Three clusters a millisecond away, one of them of a single master.
fn clusters() -> [Cluster; 3] {
    let clusters = [Cluster::new(3), Cluster::new(1), Cluster::new(5)];
    for cluster in &clusters {
        slow_down(cluster, 1);
    }
    clusters
}

/// One process.
async fn process(clusters: &[Cluster]) -> Vec<Masters> {
    let mut masters = Vec::new();
    for cluster in clusters {
        masters.push(connect(cluster).await);
    }
    masters
}

fn set(masters: &[Masters]) -> LockSet {
    MultiLock::all_of(masters.iter().map(|masters| masters.red_lock("a")))
}

fn held(cluster: &Cluster) -> usize {
    cluster
        .iter()
        .filter(|master| !master.fields("a").is_empty())
        .count()
}

fn nothing_is_left(clusters: &[Cluster]) {
    for cluster in clusters {
        assert!(cluster.iter().all(|master| master.locks().is_empty()));
        assert_eq!(queues(cluster), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn all_are_held_in_the_time_of_one() {
    let clusters = clusters();
    let masters = process(&clusters).await;
    let begun = Instant::now();
    let guard = set(&masters).lock().await.expect("free");
    assert_eq!(begun.elapsed(), ms(2), "one round trip");
    assert!(guard.validity() > ms(29_000) && guard.is_valid());
    assert_eq!(guard.ensure_valid(), Ok(()));
    settle().await;
    assert_eq!(clusters.each_ref().map(held), [3, 1, 5]);
    let tokens = guard.fencing_tokens();
    assert!(tokens.len() == 3 && tokens.iter().all(|token| *token > FencingToken::NONE));
    let begun = Instant::now();
    assert_eq!(guard.unlock().await, Ok(vec![Unlocked::Released; 3]));
    assert_eq!(begun.elapsed(), ms(2));
    settle().await;
    nothing_is_left(&clusters);
}

#[tokio::test(start_paused = true)]
async fn a_try_is_all_or_nothing() {
    let clusters = clusters();
    let (here, there) = (process(&clusters).await, process(&clusters).await);
    let other = there[1].red_lock("a").lock().await.expect("free");
    let refused = set(&here).try_lock().await.expect_err("one is held");
    assert_eq!(refused.index, 1);
    assert!(matches!(refused.error, LockError::Contended { .. }), "{refused}");
    assert!(
        refused
            .to_string()
            .starts_with("lock 2 of the set: held by memory-"),
        "{refused}"
    );
    settle().await;
    assert_eq!(
        clusters.each_ref().map(held),
        [0, 1, 0],
        "the others were given back"
    );
    other.unlock().await.expect("held");
    let guard = set(&here).try_lock().await.expect("free");
    drop(guard);
    settle().await;
    nothing_is_left(&clusters);
}

/// The guards are in the order of the locks, not in that of the answers.
#[tokio::test(start_paused = true)]
async fn a_try_gives_each_lock_its_own_guard() {
    let clusters = [Cluster::new(1), Cluster::new(1)];
    clusters[1].master(0).set_clock_forward(Duration::from_secs(100));
    let masters = process(&clusters).await;
    slow_down(&clusters[0], 5);
    let guard = set(&masters).try_lock().await.expect("free");
    let tokens: Vec<u64> = guard.fencing_tokens().iter().map(|token| token.get()).collect();
    assert!(tokens[0] + 50_000_000 < tokens[1], "{tokens:?}");
    guard.unlock().await.expect("held");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_held_while_one_is_waited_for() {
    let clusters = clusters();
    let (here, there) = (process(&clusters).await, process(&clusters).await);
    let other = there[2].red_lock("a").lock().await.expect("free");
    let waiter = tokio::spawn({
        let set = set(&here);
        async move { set.lock().await.expect("in the end") }
    });
    let mut seen = 0;
    for _ in 0..10_000 {
        sleep(ms(2)).await;
        seen += held(&clusters[0]) + held(&clusters[1]);
    }
    // The set asks every five seconds, and gives its grants back at once.
    assert!(seen <= 40, "{seen}");
    // Clients that want the other locks alone get them meanwhile.
    let begun = Instant::now();
    for _ in 0..10 {
        drop(there[0].red_lock("a").lock().await.expect("in the end"));
    }
    assert!(begun.elapsed() < ms(1500), "{:?}", begun.elapsed());
    let begun = Instant::now();
    other.unlock().await.expect("held");
    let guard = waiter.await.expect("no panic");
    assert!(begun.elapsed() < ms(50), "{:?}", begun.elapsed());
    guard.unlock().await.expect("held");
    settle().await;
    nothing_is_left(&clusters);
}

/// Tasks that take neighbours' locks in every order, and how often each had them.
async fn philosophers(tables: &[Cluster], rounds: usize) -> Vec<usize> {
    let seats = tables.len();
    let inside: Arc<Vec<AtomicUsize>> = Arc::new((0..seats).map(|_| AtomicUsize::new(0)).collect());
    let mut tasks = Vec::new();
    for seat in 0..seats {
        let masters = process(tables).await;
        let (left, right) = if seat % 2 == 0 {
            (seat, (seat + 1) % seats)
        } else {
            ((seat + 1) % seats, seat)
        };
        let inside = Arc::clone(&inside);
        tasks.push(tokio::spawn(async move {
            let set = masters[left].red_lock("a").and(masters[right].multi_lock("a"));
            let mut longest = Duration::ZERO;
            for _ in 0..rounds {
                let begun = Instant::now();
                let guard = set.lock().await.expect("in the end");
                longest = longest.max(begun.elapsed());
                for fork in [left, right] {
                    assert_eq!(inside[fork].fetch_add(1, Ordering::SeqCst), 0, "two at once");
                }
                sleep(ms(5)).await;
                for fork in [left, right] {
                    inside[fork].fetch_sub(1, Ordering::SeqCst);
                }
                guard.unlock().await.expect("held");
            }
            usize::try_from(longest.as_millis()).expect("short")
        }));
    }
    let mut longest = Vec::new();
    for task in tasks {
        longest.push(task.await.expect("no panic"));
    }
    longest
}

#[tokio::test(start_paused = true)]
async fn sets_that_overlap_in_every_order_all_get_in() {
    let tables: Vec<Cluster> = (0..5).map(|_| Cluster::new(3)).collect();
    for cluster in &tables {
        slow_down(cluster, 1);
    }
    let begun = Instant::now();
    let longest = philosophers(&tables, 40).await;
    // Two of five can eat at a time, in 5 ms and a few round trips each.
    assert!(begun.elapsed() < ms(8_000), "{:?}", begun.elapsed());
    assert!(longest.iter().all(|longest| *longest < 1000), "{longest:?}");
    settle().await;
    nothing_is_left(&tables);
}

#[tokio::test(start_paused = true)]
async fn clocks_that_are_far_apart_cost_the_order_and_not_the_progress() {
    let tables: Vec<Cluster> = (0..3).map(|_| Cluster::new(3)).collect();
    for (table, cluster) in tables.iter().enumerate() {
        slow_down(cluster, 1);
        cluster
            .iter()
            .for_each(|master| master.set_clock_forward(ms(60_000 * table as u64)));
    }
    let begun = Instant::now();
    philosophers(&tables, 20).await;
    assert!(begun.elapsed() < ms(60_000), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_set_gets_in_where_each_of_its_locks_is_busy() {
    let clusters = clusters();
    let mut crowd = Vec::new();
    for n in 0..6 {
        let masters = process(&clusters).await;
        crowd.push(tokio::spawn(async move {
            loop {
                let guard = masters[n % 3].red_lock("a").lock().await.expect("in the end");
                sleep(ms(20)).await;
                guard.unlock().await.expect("held");
            }
        }));
    }
    let here = process(&clusters).await;
    sleep(ms(100)).await;
    let begun = Instant::now();
    for _ in 0..10 {
        let guard = set(&here).lock().await.expect("in the end");
        sleep(ms(20)).await;
        guard.unlock().await.expect("held");
    }
    assert!(begun.elapsed() < ms(3000), "{:?}", begun.elapsed());
    assert!(crowd.iter().all(|task| !task.is_finished()), "the crowd goes on");
    crowd.iter().for_each(tokio::task::JoinHandle::abort);
}

/// While one lock is in the way, the set keeps its place at the others for a second: at a permit as at any lock.
#[tokio::test(start_paused = true)]
async fn a_set_keeps_its_place_at_a_permit() {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 1);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let _held = here.red_lock("a").lock().await.expect("free");
    let set = there
        .red_lock("a")
        .and(there.red_lock("b"))
        .and(there.permits("p", 1));
    let waiting = tokio::spawn(async move { set.lock().await.map(drop) });
    let tries = async || {
        let lock = here.red_lock("b").try_lock().await.is_ok();
        (lock, here.permits("p", 1).try_lock().await.is_ok())
    };
    sleep(ms(500)).await;
    assert_eq!(tries().await, (false, false));
    sleep(ms(1000)).await;
    assert_eq!(tries().await, (true, true));
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_is_the_loss_of_all() {
    let clusters = clusters();
    let mut masters = process(&clusters).await;
    masters[1] = connect_leasing(&clusters[1], ms(1000)).await;
    let guard = set(&masters).lock().await.expect("free");
    let token = guard.cancellation_token();
    clusters[1].master(0).freeze();
    let loss = guard.lost().await;
    tokio::task::yield_now().await;
    assert!(token.is_cancelled());
    assert_eq!((loss.index, loss.loss.cause), (1, LossCause::Expired));
    assert!(!guard.is_valid() && guard.ensure_valid().is_err());
    assert!(guard.guards()[0].is_valid(), "the others are held until it goes");
    let error = guard.unlock().await.expect_err("one was lost");
    assert_eq!(
        error.outcomes.iter().filter(|outcome| outcome.is_ok()).count(),
        2,
        "{error}"
    );
    assert!(error.to_string().starts_with("lock 2 of the set: "), "{error}");
    clusters[1].master(0).thaw();
    sleep(ms(2000)).await;
    nothing_is_left(&clusters);
}

#[tokio::test(start_paused = true)]
async fn no_token_is_cancelled_by_giving_up() {
    let clusters = clusters();
    let masters = process(&clusters).await;
    let guard = set(&masters).lock().await.expect("free");
    let token = guard.cancellation_token();
    guard.unlock().await.expect("held");
    sleep(ms(100)).await;
    assert!(!token.is_cancelled());
}

/// The guards of a set that was taken apart go one by one, and the token watches those that are left.
#[tokio::test(start_paused = true)]
async fn a_token_tells_of_a_loss_after_another_guard_was_given_up() {
    for is_downgraded in [false, true] {
        let cluster = Cluster::new(3);
        let masters = connect(&cluster).await;
        let set = masters.red_lock("a").write().and(masters.red_lock("b"));
        let guard = set.lock().await.expect("free");
        let token = guard.cancellation_token();
        let mut guards = guard.into_guards();
        let (second, first) = (guards.pop().expect("two"), guards.pop().expect("two"));
        if is_downgraded {
            drop(first.exclusive().expect("it writes").downgrade().await);
        } else {
            first.unlock().await.expect("held");
        }
        sleep(ms(100)).await;
        assert!(!token.is_cancelled(), "nothing is lost");
        masters.red_lock("b").force_release().await.expect("all answer");
        assert_eq!(second.lost().await.cause, LossCause::TakenAway);
        sleep(ms(100)).await;
        assert!(token.is_cancelled());
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_enters_what_it_holds() {
    let clusters = clusters();
    let masters = process(&clusters).await;
    let me = Owner::new();
    let outer = masters[0].red_lock("a").owner(&me).lock().await.expect("free");
    let guard = set(&masters).owner(&me).lock().await.expect("its own, and free");
    assert_eq!(guard.guards()[0].hold_count(), 2);
    let unlocked = guard.unlock().await;
    assert_eq!(
        unlocked,
        Ok(vec![
            Unlocked::StillHeld(1),
            Unlocked::Released,
            Unlocked::Released
        ])
    );
    assert_eq!(outer.unlock().await, Ok(Unlocked::Released));
}

/// The hold that the owner has entered has another name beside that of the set's lock. The set does not wait for it.
#[tokio::test(start_paused = true)]
async fn a_set_waits_for_its_own_names_alone() {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 2);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let _busy = there.red_lock("c").lock().await.expect("free");
    let owner = Owner::new();
    let outer = here
        .red_lock(["a", "b"])
        .owner(&owner)
        .lock()
        .await
        .expect("free");
    settle().await;
    let set = here.red_lock("b").and(here.red_lock("c")).owner(&owner);
    let waiting = tokio::spawn(async move { set.lock().await.map(drop) });
    sleep(ms(2)).await;
    drop(outer);
    sleep(ms(20)).await;
    let seen = there.red_lock("a").inspect().await.expect("they tell");
    assert_eq!(seen[0].waiting, 0);
    drop(there.red_lock("a").try_lock().await.expect("nobody wants it"));
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_body_runs_under_all_of_them() {
    let clusters = clusters();
    let (masters, there) = (process(&clusters).await, process(&clusters).await);
    let ran = set(&masters).run(async |guard| guard.guards().len()).await;
    assert_eq!(ran, Ok(3));
    let _other = there[2].red_lock("a").lock().await.expect("free");
    let ran = set(&masters).wait(ms(100)).run(async |_| ()).await;
    let Err(RunSetError::Lock(LockSetError { index: 2, error, .. })) = ran else {
        panic!("{ran:?}");
    };
    let LockError::TimedOut { waited, last } = error else {
        panic!("{error}");
    };
    assert_eq!(waited, ms(100));
    assert!(
        matches!(last.as_deref(), Some(LockError::Contended { .. })),
        "{last:?}"
    );
    let once = set(&masters).wait(Duration::ZERO).lock().await.expect_err("held");
    assert!(matches!(once.error, LockError::TimedOut { .. }), "{once}");
    settle().await;
    assert_eq!(clusters.each_ref().map(held), [0, 0, 5]);
}

#[tokio::test(start_paused = true)]
async fn dropped_at_any_moment_it_leaves_nothing() {
    for other_for in [None, Some(ms(3)), Some(ms(7))] {
        let clusters = clusters();
        let (here, there) = (process(&clusters).await, process(&clusters).await);
        for after in 0..14 {
            let other = match other_for {
                Some(section) => {
                    let guard = there[1].red_lock("a").lock().await.expect("free");
                    Some(tokio::spawn(async move {
                        sleep(section).await;
                        guard.unlock().await.expect("held");
                    }))
                }
                None => None,
            };
            let _ = timeout(ms(after), set(&here).lock()).await;
            if let Some(other) = other {
                other.await.expect("no panic");
            }
            sleep(ms(60)).await;
            nothing_is_left(&clusters);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closing_ends_the_wait() {
    // That of the lock which is refused, and of one which is not.
    for closed in [2, 0] {
        let clusters = clusters();
        let (here, there) = (process(&clusters).await, process(&clusters).await);
        let _other = there[2].red_lock("a").lock().await.expect("free");
        let waiter = tokio::spawn({
            let set = set(&here);
            async move { set.lock().await }
        });
        sleep(ms(100)).await;
        let begun = Instant::now();
        here[closed].close(Closing::Release).await;
        let ended = waiter.await.expect("no panic").expect_err("closed");
        assert_eq!((ended.index, ended.error), (closed, LockError::Closed));
        assert!(begun.elapsed() < ms(100), "{:?}", begun.elapsed());
        settle().await;
        assert_eq!(clusters.each_ref().map(held), [0, 0, 5]);
    }
}

async fn invalid(set: LockSet) -> (usize, &'static str, String) {
    let refused = set.lock().await.expect_err("it cannot be");
    let tried = set.try_lock().await.expect_err("nor tried");
    assert_eq!(refused, tried);
    let text = refused.to_string();
    let LockError::Invalid(invalid) = refused.error else {
        panic!("{refused}");
    };
    let names_a_lock = text.starts_with(&format!("lock {} of the set: ", refused.index + 1));
    assert_eq!(names_a_lock, invalid.field != "locks", "{text}");
    (refused.index, invalid.field, invalid.to_string())
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_told_before_anybody_is_asked() {
    let clusters = clusters();
    let (masters, again) = (process(&clusters).await, process(&clusters).await);
    let (here, there) = (&masters[0], &masters[2]);
    let one = || here.red_lock(["a", "b"]);
    let told = invalid(MultiLock::<Exclusive>::all_of([])).await;
    assert_eq!(told.2, "locks: 0 is not allowed; allowed: one or more");
    for (lock, field) in [
        (there.red_lock("a").wait(ms(1)), "wait"),
        (there.red_lock("a").owner(&Owner::new()), "owner"),
        (there.red_lock("a").at_least(ms(1)), "at_least"),
        (there.red_lock("a").lease(ms(1)), "lease"),
        (there.lock("a", Policy::AtLeast(1)), "policy"),
    ] {
        let told = invalid(one().and(lock)).await;
        assert_eq!((told.0, told.1), (1, field), "{}", told.2);
    }
    let told = invalid(one().and(there.red_lock("a")).and(here.multi_lock(["b", "c"]))).await;
    assert_eq!((told.0, told.1), (2, "names"));
    assert_eq!(
        told.2,
        "names: b is not allowed; allowed: names that lock 1 of the set does not want on the same masters"
    );
    let told = invalid(here.permits("gpu", 4).and(here.permits("gpu", 4))).await;
    assert_eq!((told.0, told.1), (1, "names"));
    assert!(told.2.starts_with("names: gpu is not allowed"), "{}", told.2);
    // Another list of the same servers.
    assert_eq!(invalid(one().and(again[0].red_lock("b"))).await.1, "names");
    assert_eq!(
        invalid(one().wait(ms(1)).and(there.red_lock("a"))).await.1,
        "wait"
    );
    let asked = clusters.iter().flat_map(Cluster::iter);
    assert!(
        asked
            .map(Master::executed)
            .all(|executed| !executed.contains_key("acquire"))
    );
    // Different names on the same masters are no mistake.
    let guard = one().and(here.red_lock("c")).lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(vec![Unlocked::Released; 2]));
}

/// Which servers two clients have in common is known once these are connected.
#[tokio::test(start_paused = true)]
async fn two_that_share_a_server_are_told_as_soon_as_it_is_connected() {
    let cluster = Cluster::new(3);
    cluster.iter().for_each(Master::crash);
    let lazy = || {
        cluster
            .connect_lazy(Masters::builder())
            .expect("the options are fine")
    };
    let (here, there) = (lazy(), lazy());
    let set = here
        .red_lock("a")
        .and(there.red_lock("b"))
        .and(there.red_lock("a"));
    let waiting = tokio::spawn(async move { set.lock().await.map(drop) });
    sleep(ms(10_000)).await;
    assert!(!waiting.is_finished(), "nobody knows it yet");
    cluster
        .iter()
        .for_each(|master| master.restart(multilock::sim::Keep::Data));
    let told = timeout(ms(5000), waiting).await.expect("told").expect("no panic");
    let LockSetError { index, error, .. } = told.expect_err("it waits for itself");
    assert_eq!(index, 2);
    assert!(
        matches!(&error, LockError::Invalid(invalid) if invalid.field == "names"),
        "{error}"
    );
}
