//! Clients whose leases differ, and what they have to agree upon first.
//!
//! A has leases of 5 s, B of 1 s, and 1 s is what needs no agreement.

use std::sync::Arc;
use std::time::Duration;

use multilock::sim::{Call, Client, Cluster, Direction, Fate, Keep, Network, Observer};
use multilock::{LockError, Masters, MastersBuilder, MultiLockGuard, Quarantine};
use tokio::time::sleep;

use crate::plan::ms;
use crate::scene::violated;

const LONG: Duration = ms(5000);
const SHORT: Duration = ms(1000);
/// After it a master that was started anew has a vote again, where nobody has longer leases than B.
const SHORT_QUARANTINE: Duration = ms(2100);

struct Stage {
    cluster: Cluster,
    /// What lies between the masters and A, and B.
    a: Network,
    b: Network,
}

impl Stage {
    fn new() -> Self {
        Self {
            cluster: Cluster::new(3),
            a: Network::new(3),
            b: Network::new(3),
        }
    }

    async fn connect(&self, network: &Network, builder: MastersBuilder) -> Masters {
        let client = Client::new().network(network);
        let connected = self.cluster.connect_as(&client, builder).await;
        connected.expect("a majority can be reached")
    }

    async fn a(&self) -> Masters {
        self.connect(&self.a, builder(LONG)).await
    }

    async fn b(&self) -> Masters {
        self.connect(&self.b, builder(SHORT)).await
    }

    /// A's hold on all masters but one.
    async fn held_without(&self, a: &Masters, without: usize) -> Option<MultiLockGuard> {
        self.a.cut(without, Direction::Both);
        a.red_lock("a").lease(LONG).try_lock().await.ok()
    }

    /// Starts a master again, empty, so that A does not reach it any more.
    fn forgets(&self, place: usize) {
        self.a.cut(place, Direction::Both);
        self.cluster.master(place).crash();
        self.cluster.master(place).restart(Keep::Nothing);
    }
}

fn builder(lease: Duration) -> MastersBuilder {
    Masters::builder()
        .lease(lease)
        .lease_without_charter(SHORT)
        .connect_timeout(ms(500))
}

/// B asks until it is granted, and must not be while A is valid.
async fn apart(a: Option<MultiLockGuard>, b: &Masters) {
    for _ in 0..200 {
        match b.red_lock("a").lease(SHORT).try_lock().await {
            Ok(guard) => {
                let left = a.as_ref().map_or(Duration::ZERO, MultiLockGuard::validity);
                if guard.is_valid() && !left.is_zero() {
                    violated("exclusion", &format!("A is valid for {left:?}, and so is B"));
                }
                return;
            }
            Err(LockError::Unreachable { .. } | LockError::Contended { .. }) => sleep(ms(50)).await,
            Err(other) => panic!("{other}"),
        }
    }
    violated("progress", "B was not granted after A's end");
}

/// A holds 1 and 2, with a lease that needs no agreement; 1 forgets it; B, whose own are shorter, asks 0
/// and 1.
#[tokio::test(start_paused = true)]
async fn different_leases() {
    let stage = Stage::new();
    let alike = |lease| builder(lease).lease_without_charter(LONG);
    let a = stage.connect(&stage.a, alike(LONG)).await;
    let b = stage.connect(&stage.b, alike(SHORT)).await;
    let held = stage.held_without(&a, 0).await;
    assert!(held.is_some(), "1 and 2 grant");
    stage.forgets(1);
    stage.b.cut(2, Direction::Both);
    sleep(SHORT_QUARANTINE).await;
    apart(held, &b).await;
}

/// A has written its charter to 0 and 1, and 2 is out of its reach; 1 forgets it; B meets 1 and 2.
#[tokio::test(start_paused = true)]
async fn adoption() {
    let stage = Stage::new();
    let b = stage.b().await;
    stage.a.cut(2, Direction::Both);
    let a = stage.a().await;
    let held = stage.held_without(&a, 2).await;
    stage.forgets(1);
    stage.b.cut(0, Direction::Both);
    sleep(SHORT_QUARANTINE).await;
    apart(held, &b).await;
}

/// The charter is everywhere and A holds 0 and 2; 0 forgets both; B connects to 0 first, then to 1, which
/// tells it.
#[tokio::test(start_paused = true)]
async fn judged_once() {
    let stage = Stage::new();
    let a = stage.a().await;
    let held = stage.held_without(&a, 1).await;
    assert!(held.is_some(), "0 and 2 grant");
    stage.forgets(0);
    for far in 1..3 {
        stage.b.set_distance(far, ms(100));
    }
    let b = stage.b().await;
    stage.b.set_distance(1, Duration::ZERO);
    stage.b.cut(2, Direction::Both);
    sleep(SHORT_QUARANTINE).await;
    apart(held, &b).await;
}

/// B is connected and sleeps through a raise; A holds 0 and 2; 0 forgets; B wakes with a live connection
/// to 1, and a new one to 0.
#[tokio::test(start_paused = true)]
async fn sleeper() {
    let stage = Stage::new();
    let b = stage.b().await;
    let a = stage.a().await;
    let held = stage.held_without(&a, 1).await;
    assert!(held.is_some(), "0 and 2 grant");
    stage.forgets(0);
    stage.b.cut(2, Direction::Both);
    sleep(SHORT_QUARANTINE).await;
    apart(held, &b).await;
}

/// As [`sleeper`], and B holds a name of its own: its renewal is refused, and takes the charter over.
#[tokio::test(start_paused = true)]
async fn a_renewal_is_told() {
    let stage = Stage::new();
    let b = stage.b().await;
    let mine = b.red_lock("b").try_lock().await.expect("free");
    drop(stage.a().await);
    sleep(SHORT * 3).await;
    if !mine.is_valid() {
        violated("lost_in_time", "B's hold did not outlast the raise");
    }
    let told = |master: &multilock::sim::Master| master.executed().get("extend").copied();
    if stage.cluster.iter().any(|master| told(master).is_none()) {
        violated("progress", "nobody was asked to extend");
    }
}

/// 0 comes back empty, and nobody but A knows the charter: it is put back before A's first question there.
#[tokio::test(start_paused = true)]
async fn put_back() {
    let stage = Stage::new();
    let _a = stage.a().await;
    let master = stage.cluster.master(0);
    master.crash();
    master.restart(Keep::Nothing);
    sleep(ms(600)).await;
    let stands = master.command(&["GET", "multilock_charter"]).expect("a string");
    if !stands.iter().any(|stands| stands.starts_with("5000 5000 ")) {
        violated("charter", &format!("0 has {stands:?}"));
    }
}

/// C sleeps through a raise and holds 0 and 1. D's long lease is granted on 2, which forgets it, while its
/// request to 0 is on its way; C extends by 1 and, taken again, 2, and does not reach 0. The key there ends,
/// and D gets 0.
#[tokio::test(start_paused = true)]
async fn extension_of_a_sleeper() {
    let long = ms(8000);
    let stage = Stage::new();
    let c = stage.b().await;
    stage.b.cut(2, Direction::Both);
    let held = c.red_lock("a").lease(SHORT).try_lock().await;
    let held = held.expect("0 and 1 grant");
    let patient = builder(long).node_timeout(ms(3900));
    let d = stage.connect(&stage.a, patient).await;
    stage.a.cut(0, Direction::ToMaster);
    let asking = d.red_lock("a").fenced(false).lease(long);
    let asking = tokio::spawn(async move { asking.try_lock().await });
    sleep(ms(5)).await;
    stage.forgets(2);
    stage.b.heal(2);
    let extend = async |times| {
        for _ in 0..times {
            let _ = held.extend(SHORT).await;
            sleep(ms(200)).await;
        }
    };
    extend(11).await;
    assert!(held.is_valid(), "0 and 1 continue");
    stage.b.cut(0, Direction::Both);
    let later = async {
        sleep(ms(1100)).await;
        stage.a.heal(0);
    };
    tokio::join!(extend(4), later);
    let second = asking.await.expect("no panic");
    if held.is_valid() && second.is_ok_and(|second| second.is_valid()) {
        violated("exclusion", "C is valid, and so is D");
    }
}

/// A list of three masters of five.
#[tokio::test(start_paused = true)]
async fn another_size() {
    let stage = Stage::new();
    for master in stage.cluster.iter() {
        master.command(&["SET", "multilock_masters", "5"]).expect("set");
    }
    let connected = stage.cluster.connect(builder(SHORT)).await;
    if connected.is_ok() {
        violated("exclusion", "quorums of three and of five masters need not meet");
    }
}

/// The same where nobody has a quarantine: clients of three masters of five, and of all five.
#[tokio::test(start_paused = true)]
async fn another_size_without_quarantine() {
    let cluster = Cluster::new(5);
    let off = || builder(SHORT).quarantine(Quarantine::Off);
    let some = Client::new().masters(&[0, 1, 2]);
    let three = cluster.connect_as(&some, off()).await;
    assert!(three.is_ok(), "the first");
    if cluster.connect(off()).await.is_ok() {
        violated("exclusion", "quorums of three and of five masters need not meet");
    }
}

/// The masters tell later than a client waits for.
#[derive(Debug)]
struct Late;

impl Observer for Late {
    fn sent(&self, call: &Call) -> Fate {
        if call.script == "charter" {
            Fate::ReplyDelayed(ms(1500))
        } else {
            Fate::Delivered
        }
    }
}

/// The same by a client that has begun before any master has told.
#[tokio::test(start_paused = true)]
async fn another_size_that_is_told_late() {
    let stage = Stage::new();
    for master in stage.cluster.iter() {
        master.command(&["SET", "multilock_masters", "5"]).expect("set");
    }
    let late: Arc<dyn Observer> = Arc::new(Late);
    stage.cluster.observe(&late);
    let masters = stage
        .cluster
        .connect_lazy(builder(SHORT))
        .expect("the options are fine");
    // Nothing is asked meanwhile, so the connections stand.
    sleep(ms(4000)).await;
    if masters.red_lock("a").try_lock().await.is_ok() {
        violated("exclusion", "quorums of three and of five masters need not meet");
    }
}
