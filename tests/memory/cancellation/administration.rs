//! Calls for operators, and those that begin and end a client: they can be dropped and made again.

use std::time::Duration;

use multilock::sim::{Cluster, Keep, Master};
use multilock::{Closing, LockError, Masters, MultiLockGuard, Policy};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::scene::{
    self, AFTER_OUTAGE, Fault, PROMPT, Scene, WITH_MAJORITY, all_faults, builder, everywhere, granted,
    has_majority, stepped, undo, waiter,
};
use crate::support::{ms, polled};

/// Drops a force after a number of polls, and forces again. A waiter has the lock then, and no late
/// message of the first force ends that hold. Returns whether that was done before.
async fn drop_force(scene: &Scene, polls: usize) -> bool {
    let what = format!("{:?} at step {polls}", scene.faults);
    let name = format!("a{polls}");
    let stuck = scene.own.multi_lock(&name).lock().await.expect("free");
    let next = scene.other.red_lock(&name);
    let waiter = tokio::spawn(async move { next.lock().await });
    sleep(ms(5)).await;
    scene.arrange();
    let operator = scene.other.red_lock(&name);
    let forced = stepped(operator.force_release(), polls).await;
    if !has_majority(scene.faults) {
        scene.undo();
        sleep(ms(500)).await;
    }
    let is_stuck = |holder: &multilock::Holder| *holder == stuck.holder();
    let again = operator.force_release_from(is_stuck).await;
    assert!(again.is_ok(), "{what}: {again:?}");
    let within = if has_majority(scene.faults) {
        PROMPT
    } else {
        AFTER_OUTAGE
    };
    let granted = timeout(within, waiter).await;
    let granted = granted.unwrap_or_else(|_| panic!("{what}: the waiter is stuck"));
    let granted = granted.expect("no panic").expect("granted");
    scene.undo();
    let lost = timeout(ms(31_000), stuck.lost()).await;
    assert!(lost.is_ok(), "{what}: the holder does not learn of it");
    assert!(
        granted.is_valid(),
        "{what}: a hold after the force was forced out"
    );
    drop((stuck, granted));
    let free = timeout(PROMPT, scene.own.red_lock(&name).lock()).await;
    drop(free.unwrap_or_else(|_| panic!("{what}: not free")));
    sleep(ms(40_000)).await;
    scene.is_clean_soon(&what).await;
    forced.is_some()
}

#[tokio::test(start_paused = true)]
async fn a_force_that_was_dropped_is_completed_by_the_next() {
    for faults in all_faults() {
        let scene = Scene::new(faults).await;
        let polls = everywhere(async |polls| drop_force(&scene, polls).await).await;
        assert!(polls > 1, "{faults:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_inspection_that_is_dropped_changes_nothing() {
    for faults in all_faults() {
        let scene = Scene::new(faults).await;
        let guard = scene.own.red_lock("a").lock().await.expect("free");
        sleep(ms(100)).await;
        let keys: Vec<_> = scene.cluster.iter().map(Master::keys).collect();
        for polls in 0..6 {
            scene.arrange();
            let lock = scene.other.red_lock("a");
            let _ = polled(lock.inspect(), polls).await;
            let _ = polled(lock.force_release_from(|_| false), polls).await;
            scene.undo();
            sleep(ms(300)).await;
            let now: Vec<_> = scene.cluster.iter().map(Master::keys).collect();
            assert_eq!(now, keys, "{faults:?} at step {polls}");
        }
        let seen = scene.own.red_lock("a").inspect().await.expect("they tell");
        assert_eq!(seen[0].agreed, Some(guard.holder()), "{faults:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_readiness_can_be_dropped_and_made_again() {
    let cluster = Cluster::new(3);
    cluster.iter().for_each(|master| master.restart(Keep::Nothing));
    let masters = cluster.connect_lazy(builder()).expect("options");
    for polls in 0..4 {
        let ready = timeout(ms(1000), polled(masters.ready(Policy::MultiLock), polls)).await;
        assert!(ready.is_err() || ready == Ok(None), "the quarantine is not over");
    }
    let ready = timeout(ms(40_000), masters.ready(Policy::MultiLock)).await;
    assert_eq!(ready, Ok(Ok(())));
    assert!(masters.multi_lock("a").try_lock().await.is_ok());
}

/// Connections that are open: each listens to the channel of its client.
fn open_connections(cluster: &Cluster) -> Vec<String> {
    cluster.iter().flat_map(Master::channels).collect()
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_is_dropped_leaves_no_connection() {
    for faults in all_faults() {
        for polls in 0..100 {
            let what = format!("{faults:?} at step {polls}");
            let cluster = Cluster::new(3);
            for (fault, master) in faults.into_iter().zip(cluster.iter()) {
                fault.arrange(master);
            }
            let builder = builder().client_label("checkout");
            let connected = stepped(cluster.connect(builder), polls).await;
            let is_done = connected.is_some();
            drop(connected);
            cluster.iter().for_each(undo);
            sleep(ms(1000)).await;
            assert_eq!(open_connections(&cluster), Vec::<String>::new(), "{what}");
            // The address can be used at once.
            let masters = cluster.connect(scene::builder()).await.expect("connects");
            assert!(masters.multi_lock("a").lock().await.is_ok(), "{what}");
            if is_done {
                break;
            }
            assert!(polls < 99, "never done");
        }
    }
}

/// Three holds with their guards, and a grant that stays with its client.
async fn four_holds(masters: &Masters) -> Vec<MultiLockGuard> {
    let mut guards = Vec::new();
    for name in ["a", "b", "c"] {
        guards.push(masters.multi_lock(name).lock().await.expect("free"));
    }
    drop(masters.multi_lock("d").sticky().lock().await.expect("free"));
    guards
}

/// Drops a close after a number of polls, and closes again. Returns whether the first close was done.
async fn drop_close(faults: [Fault; 3], polls: usize, first: Closing, second: Closing) -> bool {
    let what = format!("{first:?}, then {second:?}, with {faults:?} at step {polls}");
    let scene = Scene::new(faults).await;
    let guards = four_holds(&scene.own).await;
    let [own, other] = [&scene.own, &scene.other].map(|masters| {
        let waiting = masters.red_lock("a");
        tokio::spawn(async move { waiting.lock().await })
    });
    sleep(ms(5)).await;
    scene.arrange();
    let closed = polled(scene.own.close(first), polls).await;
    let is_done = closed.is_some();
    if polls > 0 {
        let refused = scene.own.red_lock("e").lock().await;
        assert!(matches!(refused, Err(LockError::Closed)), "{what}");
    }
    scene.undo();
    sleep(ms(100)).await;
    let closed = timeout(ms(1000), scene.own.close(second)).await;
    let closed = closed.unwrap_or_else(|_| panic!("{what}: never closed"));
    let own = timeout(ms(1), own)
        .await
        .expect("its wait has ended")
        .expect("no panic");
    assert!(matches!(own, Err(LockError::Closed)), "{what}");
    let is_released = second == Closing::Release || first == Closing::Release && polls > 0;
    assert_eq!(
        guards.iter().any(MultiLockGuard::is_valid),
        !is_released,
        "{what}"
    );
    if is_released {
        // A grant that stays with its client is released in any case, and then it does not count.
        let holds = if first == Closing::Leave && polls > 0 {
            3
        } else {
            4
        };
        assert_eq!(closed.released + closed.unconfirmed, holds, "{what}: {closed:?}");
    }
    if faults == [Fault::None; 3] {
        assert_eq!(closed.unconfirmed, 0, "{what}: {closed:?}");
    }
    if closed.unconfirmed > 0 || !is_released {
        sleep(ms(30_000)).await;
    }
    let granted = timeout(AFTER_OUTAGE, other).await;
    let granted = granted.unwrap_or_else(|_| panic!("{what}: the waiter is stuck"));
    drop(granted.expect("no panic").expect("granted"));
    // A waiter of the closed client counts for 15 s at most on a master that did not let it withdraw.
    sleep(ms(15_000)).await;
    scene.is_clean_soon(&what).await;
    drop(guards);
    scene.other.close(Closing::Release).await;
    assert_eq!(open_connections(&scene.cluster), Vec::<String>::new(), "{what}");
    is_done
}

#[tokio::test(start_paused = true)]
async fn a_close_that_was_dropped_is_completed_by_the_next() {
    let (release, leave) = (Closing::Release, Closing::Leave);
    for (number, faults) in all_faults().enumerate() {
        let ways = [
            (release, release),
            (leave, leave),
            (release, leave),
            (leave, release),
        ];
        for (_, (first, second)) in ways
            .into_iter()
            .enumerate()
            .filter(|(way, _)| (way + number) % 2 == 0)
        {
            let mut polls = 0;
            while !drop_close(faults, polls, first, second).await {
                // Later ones differ in the time alone.
                polls += if polls < 12 { 1 } else { 5 };
                assert!(polls < 100, "never done");
            }
            assert!(polls > 0, "{faults:?}");
        }
    }
}

/// Time for which a name stays locked, and for which its hold lasts.
const KEPT: Duration = ms(1000);
const LEASE: Duration = ms(2000);

/// Two closes at once, of which one is dropped at this step. Returns whether that one was done before.
async fn drop_one_of_two_closes(
    faults: [Fault; 3],
    step: usize,
    is_first: bool,
    dropped: Closing,
    stays: Closing,
) -> bool {
    let what = format!("{dropped:?} beside {stays:?}, first: {is_first}, with {faults:?} at step {step}");
    let scene = Scene::new(faults).await;
    let guards = four_holds(&scene.own).await;
    let kept = scene.own.red_lock("e").lease(LEASE).at_least(KEPT);
    let kept = kept.lock().await.expect("free");
    let kept_until = Instant::now() + KEPT;
    let waiting = ["a", "b", "e"].map(|name| waiter(scene.other.red_lock(name)));
    sleep(ms(5)).await;
    scene.arrange();
    let own = scene.own.clone();
    let closing = tokio::spawn(async move { own.close(stays).await });
    if !is_first {
        yield_now().await;
    }
    // Each connection that is left is of the other client.
    let are_closed = || open_connections(&scene.cluster).len() <= scene.cluster.iter().count();
    let ended = stepped(scene.own.close(dropped), step).await;
    assert!(ended.is_none() || are_closed(), "{what}");
    let closed = timeout(ms(1500), closing).await;
    let closed = closed.unwrap_or_else(|_| panic!("{what}: never closed"));
    let closed = closed.expect("no panic");
    assert!(are_closed(), "{what}");
    let is_released = stays == Closing::Release || dropped == Closing::Release && step > 0;
    assert_eq!(
        guards.iter().any(MultiLockGuard::is_valid),
        !is_released,
        "{what}"
    );
    let holds = closed.released + closed.unconfirmed;
    if (dropped, stays) == (Closing::Release, Closing::Release) {
        assert_eq!((holds, closed.kept), (4, 1), "{what}: {closed:?}");
        assert!(
            faults != [Fault::None; 3] || closed.unconfirmed == 0,
            "{what}: {closed:?}"
        );
        assert!(
            ended.as_ref().is_none_or(|ended| *ended == closed),
            "{what}: {ended:?} is not {closed:?}"
        );
    } else if !is_released {
        assert_eq!((holds, closed.kept), (0, 0), "{what}: {closed:?}");
    }
    scene.undo();
    // Neither way shortens the least time.
    let [first, second, kept_from] = waiting;
    sleep_until(kept_until - ms(1)).await;
    assert!(!kept_from.is_finished(), "{what}: a name is free too early");
    drop(granted(kept_from, LEASE + AFTER_OUTAGE, &what).await);
    // The leases free the other names at the latest.
    let are_free = (holds, closed.unconfirmed) == (4, 0);
    let lease = if are_free { Duration::ZERO } else { ms(30_000) };
    for waiter in [first, second] {
        drop(granted(waiter, lease + AFTER_OUTAGE, &what).await);
    }
    sleep(lease).await;
    scene.is_clean_soon(&what).await;
    drop((guards, kept));
    ended.is_some()
}

#[tokio::test(start_paused = true)]
async fn one_of_two_closes_is_dropped() {
    let (release, leave) = (Closing::Release, Closing::Leave);
    let mut steps = 0;
    for (number, faults) in all_faults().enumerate() {
        let others = [(release, leave), (leave, release), (leave, leave)];
        let both = [(release, release), others[number / 2 % others.len()]];
        for (dropped, stays) in both.into_iter().take(1 + number % 2) {
            let is_first = number % 4 < 2;
            let mut step = 0;
            while !drop_one_of_two_closes(faults, step, is_first, dropped, stays).await {
                // Later ones differ in the time alone.
                step += if step < 5 { 1 } else { 40 };
                assert!(step < 200, "never done");
            }
            steps += step.min(5);
        }
    }
    assert!(steps > 50, "only {steps} await points were tried");
}

/// A close after another one has the same result, pending releases included.
#[tokio::test(start_paused = true)]
async fn each_close_reports_the_pending_releases() {
    let scene = Scene::new([Fault::Error, Fault::None, Fault::None]).await;
    let guards = four_holds(&scene.own).await;
    scene.arrange();
    let first = scene.own.close(Closing::Release).await;
    assert_eq!(first.left, [("memory-0".into(), 4)], "{first:?}");
    assert_eq!(scene.own.close(Closing::Release).await, first);
    drop(guards);
}

/// The first poll begins all releases.
#[tokio::test(start_paused = true)]
async fn a_close_that_is_never_completed_releases_the_holds() {
    for faults in WITH_MAJORITY {
        for polls in 1..6 {
            let what = format!("{faults:?} at step {polls}");
            let scene = Scene::new(faults).await;
            let guard = scene.own.red_lock("a").lock().await.expect("free");
            let stays = scene.own.red_lock("b").sticky();
            drop(stays.lock().await.expect("free"));
            scene.arrange();
            let _ = polled(scene.own.close(Closing::Release), polls).await;
            let both = scene.other.red_lock(["a", "b"]);
            let granted = timeout(PROMPT, both.lock()).await;
            drop(granted.unwrap_or_else(|_| panic!("{what}: nobody else has the locks")));
            assert!(!guard.is_valid(), "{what}");
            scene.undo();
            scene.is_clean_soon(&what).await;
        }
    }
}

/// Servers that accept and never answer.
#[tokio::test]
async fn connections_to_servers_end_with_the_call() {
    let mut listeners = Vec::new();
    let mut urls = Vec::new();
    for _ in 0..3 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        urls.push(format!("redis://{address}"));
        listeners.push(listener);
    }
    let builder = || Masters::builder().nodes(urls.clone());
    for call in ["examine", "clients", "connect"] {
        let mut accepted = Vec::new();
        let accepting = async {
            for listener in &listeners {
                accepted.push(listener.accept().await.expect("a connection").0);
            }
            sleep(ms(20)).await;
        };
        tokio::select! {
            () = accepting => {}
            _ = async { builder().examine().await.map(drop) }, if call == "examine" => panic!("no answer"),
            _ = async { builder().clients().await.map(drop) }, if call == "clients" => panic!("no answer"),
            _ = async { builder().connect().await.map(drop) }, if call == "connect" => panic!("no answer"),
        }
        for mut connection in accepted {
            let mut sent = Vec::new();
            let ended = timeout(ms(5000), connection.read_to_end(&mut sent)).await;
            assert!(ended.is_ok(), "{call}: a connection is open");
        }
        // No further connection is made.
        sleep(ms(200)).await;
        for listener in &listeners {
            let further = timeout(ms(1), listener.accept()).await;
            assert!(further.is_err(), "{call}: another connection");
        }
    }
}
