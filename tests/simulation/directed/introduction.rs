//! Masters that are new to their set, or that have missed something, and clients that introduce themselves to them.
//!
//! The longest lease is 3 s. A holds the name on two of three masters, where one of them loses it; B, which has only started,
//! reaches that one and the third.

use std::sync::Arc;
use std::time::Duration;

use multilock::sim::{Call, Client, Cluster, Direction, Fate, Keep, Master, Network, Observer};
use multilock::{ConnectError, LockError, Masters, MastersBuilder, MultiLockGuard, Quarantine, Unfit};
use tokio::time::{Instant, sleep};

use crate::plan::ms;
use crate::scene::violated;

const LEASE: Duration = ms(3000);
/// The lease and its drift.
const QUARANTINE: Duration = ms(3032);
const SET: &str = "multilock_set";

struct Stage {
    cluster: Cluster,
    /// Networks between the masters and A, and B.
    a: Network,
    b: Network,
}

fn builder() -> MastersBuilder {
    Masters::builder().for_tests(LEASE).connect_timeout(ms(500))
}

fn record(master: &Master) -> Option<String> {
    master.command(&["GET", SET]).expect("a string").pop()
}

impl Stage {
    fn new(nodes: usize) -> Self {
        Self {
            cluster: Cluster::new(nodes),
            a: Network::new(nodes),
            b: Network::new(nodes),
        }
    }

    /// Stage with masters that have nothing recorded.
    fn fresh(nodes: usize) -> Self {
        let stage = Self::new(nodes);
        stage.cluster.iter().for_each(Master::flush_all);
        stage
    }

    async fn connect(&self, network: &Network) -> Masters {
        let client = Client::new().network(network);
        let connected = self.cluster.connect_as(&client, builder()).await;
        connected.expect("a majority can be reached")
    }

    /// A's hold on 1 and 2, after which it hears no more of 1.
    async fn held_on_1_and_2(&self) -> (Masters, MultiLockGuard) {
        let a = self.connect(&self.a).await;
        self.a.cut(0, Direction::Both);
        let held = a.red_lock("a").lease(LEASE).try_lock().await;
        let held = held.expect("1 and 2 grant");
        self.a.cut(1, Direction::Both);
        (a, held)
    }

    /// B, which reaches 0 and 1 alone.
    async fn b(&self) -> Masters {
        self.b.cut(2, Direction::Both);
        self.connect(&self.b).await
    }
}

/// The client asks until it is granted, and must not be while A is valid.
async fn apart(a: &MultiLockGuard, b: &Masters) {
    let begun = Instant::now();
    while begun.elapsed() < QUARANTINE * 2 {
        match b.red_lock("a").try_lock().await {
            Ok(guard) => {
                if guard.is_valid() && a.is_valid() {
                    let left = a.validity();
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

/// B meets 1 after 1 has lost its grant to A.
async fn meets(loses: impl AsyncFnOnce(&Stage)) {
    let stage = Stage::new(3);
    let (_a, held) = stage.held_on_1_and_2().await;
    loses(&stage).await;
    apart(&held, &stage.b().await).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_without_data() {
    meets(async |stage| stage.cluster.master(1).restart(Keep::Nothing)).await;
}

/// The master has lost acknowledged data, and kept its record.
#[tokio::test(start_paused = true)]
async fn a_restart_with_some_of_its_data() {
    meets(async |stage| {
        stage.cluster.master(1).restart(Keep::Data);
        stage.cluster.master(1).evict("a");
    })
    .await;
}

/// Its clock is behind when it starts, and is set right before any client comes: by that clock it has been up for so long.
#[tokio::test(start_paused = true)]
async fn a_restart_before_its_clock_is_set() {
    for behind in [20, 240, 3600] {
        meets(async |stage| {
            let (master, behind) = (stage.cluster.master(1), Duration::from_secs(behind));
            master.set_clock_back(behind);
            master.restart(Keep::Nothing);
            master.set_clock_forward(behind);
        })
        .await;
    }
}

/// A server that has run for as long as the others, and was in no set.
#[tokio::test(start_paused = true)]
async fn a_warm_spare() {
    let spare = Cluster::new(1);
    spare.master(0).flush_all();
    meets(async |stage| stage.cluster.master(1).change_places(spare.master(0))).await;
}

/// A server that was loaded from an old snapshot of the master, or has replicated it.
#[tokio::test(start_paused = true)]
async fn a_spare_from_a_snapshot() {
    let spare = Cluster::new(1);
    meets(async |stage| {
        let snapshot = record(stage.cluster.master(1)).expect("recorded");
        spare.master(0).command(&["SET", SET, &snapshot]).expect("set");
        stage.cluster.master(1).change_places(spare.master(0));
    })
    .await;
}

/// The master is restored from a snapshot that is older than the lock.
#[tokio::test(start_paused = true)]
async fn a_restart_from_a_snapshot() {
    meets(async |stage| {
        let master = stage.cluster.master(1);
        let held = master.fields("a");
        master.evict("a");
        master.save();
        assert!(
            !held.is_empty(),
            "the snapshot has no lock, and it has the record"
        );
        master.restart(Keep::Saved);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_flush_between_two_introductions() {
    meets(async |stage| stage.cluster.master(1).flush_all()).await;
}

/// A client that comes later still. The record of another client counts for it.
#[tokio::test(start_paused = true)]
async fn a_flush_that_another_client_has_met() {
    let stage = Stage::new(3);
    let (_a, held) = stage.held_on_1_and_2().await;
    stage.cluster.master(1).flush_all();
    drop(stage.b().await);
    sleep(ms(500)).await;
    apart(&held, &stage.b().await).await;
}

/// All masters lose their data, so they look like a new set.
#[tokio::test(start_paused = true)]
async fn a_flush_of_all() {
    meets(async |stage| stage.cluster.iter().for_each(Master::flush_all)).await;
}

/// A record that says nothing of a longer time than there was.
#[tokio::test(start_paused = true)]
async fn a_record_from_the_future() {
    let stage = Stage::new(3);
    for master in stage.cluster.iter() {
        master.set_clock_forward(Duration::from_secs(3600));
        master.flush_all();
    }
    drop(stage.connect(&stage.a).await);
    for master in stage.cluster.iter() {
        master.set_clock_back(Duration::from_secs(3600));
    }
    let first = stage.connect(&stage.b).await;
    let refused = first.red_lock("a").try_lock().await;
    assert!(
        matches!(refused, Err(LockError::Unreachable { .. })),
        "{refused:?}"
    );
    sleep(QUARANTINE).await;
    let later = stage.connect(&Network::new(3)).await;
    if later.red_lock("a").try_lock().await.is_err() {
        violated(
            "progress",
            "each client has the master's memory count from its own introduction",
        );
    }
}

/// A spare takes the place of 0, which comes back later with its data. It has missed the grants of the time between. A
/// client that was connected sees another server there, and has that recorded for later clients.
#[tokio::test(start_paused = true)]
async fn the_old_server_put_back() {
    let stage = Stage::new(3);
    let spare = Cluster::new(1);
    let watching = stage.connect(&stage.a).await;
    let (old, seconds) = (stage.cluster.master(0), Duration::from_secs);
    old.change_places(spare.master(0));
    sleep(QUARANTINE + seconds(1)).await;
    stage.a.cut(2, Direction::Both);
    let held = watching.red_lock("a").lease(LEASE).try_lock().await;
    let held = held.expect("the spare and 1 grant");
    old.change_places(spare.master(0));
    sleep(ms(600)).await;
    stage.b.cut(1, Direction::Both);
    apart(&held, &stage.connect(&stage.b).await).await;
}

/// The same as operators are told to do it: it is restarted first. Nobody was connected.
#[tokio::test(start_paused = true)]
async fn the_old_server_put_back_after_a_restart() {
    let stage = Stage::new(3);
    let spare = Cluster::new(1);
    drop(stage.connect(&stage.a).await);
    let old = stage.cluster.master(0);
    old.change_places(spare.master(0));
    drop(stage.connect(&stage.a).await);
    sleep(QUARANTINE).await;
    stage.a.cut(2, Direction::Both);
    let a = stage.connect(&stage.a).await;
    let held = a.red_lock("a").lease(LEASE).try_lock().await;
    let held = held.expect("the spare and 1 grant");
    stage.a.cut(0, Direction::Both);
    spare.master(0).restart(Keep::Data);
    old.change_places(spare.master(0));
    stage.b.cut(1, Direction::Both);
    apart(&held, &stage.connect(&stage.b).await).await;
}

/// The same, and the old server was introduced again while it was away, but before the last grant that it missed.
#[tokio::test(start_paused = true)]
async fn the_old_server_put_back_with_a_newer_record() {
    let (stage, spare) = (Stage::new(3), Cluster::new(1));
    let (watching, away) = replaced(&stage, &spare).await;
    // The server that has the place of the spare now is the old one.
    record_anew(away);
    sleep(ms(100)).await;
    stage.a.cut(2, Direction::Both);
    let held = watching.red_lock("a").lease(LEASE).try_lock().await;
    let held = held.expect("the spare and 1 grant");
    stage.cluster.master(0).change_places(away);
    sleep(ms(600)).await;
    stage.b.cut(1, Direction::Both);
    apart(&held, &stage.connect(&stage.b).await).await;
}

/// The same, and the last grant that it missed is read after it has come back. Its record is of old standing by then.
#[tokio::test(start_paused = true)]
async fn the_old_server_put_back_before_the_grant_that_it_missed_is_read() {
    let (stage, spare) = (Stage::new(3), Cluster::new(1));
    let (watching, away) = replaced(&stage, &spare).await;
    record_anew(away);
    sleep(QUARANTINE + ms(1000)).await;
    stage.a.cut(2, Direction::Both);
    // A quorum needs its answer, and it comes after the exchange of the servers.
    stage.a.set_distance(1, ms(20));
    let lock = watching.red_lock("a").lease(LEASE);
    let locking = tokio::spawn(async move { lock.try_lock().await });
    sleep(ms(5)).await;
    stage.cluster.master(0).change_places(away);
    let held = locking.await.expect("no panic");
    stage.b.cut(1, Direction::Both);
    let b = stage.connect(&stage.b).await;
    match held {
        Ok(held) => apart(&held, &b).await,
        Err(LockError::Unreachable { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

/// A client of long standing beside a spare in the place of master 0, and that master in the spare's own place.
async fn replaced<'a>(stage: &Stage, spare: &'a Cluster) -> (Masters, &'a Master) {
    let (watching, away) = (stage.connect(&stage.a).await, spare.master(0));
    stage.cluster.master(0).change_places(away);
    sleep(QUARANTINE + ms(1000)).await;
    (watching, away)
}

/// Has the memory of a master count from now on, as another client might.
fn record_anew(master: &Master) {
    let text = record(master).expect("recorded");
    let words: Vec<_> = text.split(' ').collect();
    let time = master.command(&["TIME"]).expect("two numbers");
    let now: u64 = format!("{}{:0>6}", time[0], time[1]).parse().expect("a number");
    let newer = format!("{} {} {now} {}", words[0], words[1], words[3]);
    master.command(&["SET", SET, &newer]).expect("set");
}

/// A master restarts with its data. Of three clients the first has it record that its memory counts from then on, and that
/// counts for the others: a record that is stored again is a wiped memory to clients that compare it.
#[tokio::test(start_paused = true)]
async fn a_restart_is_recorded_once() {
    // One after the other; and so close that each has looked before the first has stored, and so asks for it, too.
    recorded_once([0, 10, 30].map(ms), 1, ms(0)).await;
    recorded_once([5, 6, 7].map(ms), 3, ms(0)).await;
    // The last one is cut off meanwhile, so its connection is set up for long.
    recorded_once([0, 10, 30].map(ms), 1, ms(100)).await;
}

async fn recorded_once(distances: [Duration; 3], asked: u64, cut_off_for: Duration) {
    let cluster = Cluster::new(3);
    let networks = distances.map(|_| Network::new(3));
    let connect = async |network: &Network, distance| {
        network.set_distance(0, distance);
        let client = Client::new().network(network);
        let builder = builder().strict(true).node_timeout(ms(200));
        let connected = cluster.connect_as(&client, builder).await;
        connected.expect("a majority can be reached")
    };
    let mut clients = Vec::new();
    for (network, distance) in networks.iter().zip(distances) {
        clients.push(connect(network, distance).await);
    }
    sleep(LEASE).await;
    let master = cluster.master(0);
    let introduced = || master.executed().get("introduce").copied().unwrap_or(0);
    let before = introduced();
    // The last one has an answer of the old run from just before its end. The question was sent long before.
    let far = &clients[2];
    let guard = far.multi_lock("b").try_lock().await.expect("free");
    let unlocking = tokio::spawn(guard.unlock());
    sleep(distances[2] + ms(1)).await;
    if cut_off_for > ms(0) {
        networks[2].cut(0, Direction::Both);
    }
    master.restart(Keep::Data);
    sleep(cut_off_for).await;
    networks[2].heal(0);
    let _ = unlocking.await.expect("no panic");
    sleep(QUARANTINE + ms(1000)).await;
    assert_eq!(introduced() - before, asked);
    for masters in clients {
        let guard = masters.multi_lock("a").try_lock().await;
        guard.expect("all have a vote").unlock().await.expect("held");
    }
    assert_eq!(introduced() - before, asked);
}

/// Three masters are a set, and 0 has restarted without its data. In a deploy that nobody should make, a client lists
/// five masters. It hears 0 and the two new masters first.
#[tokio::test(start_paused = true)]
async fn from_three_to_five_with_a_restart() {
    let stage = Stage::new(5);
    for place in 3..5 {
        stage.cluster.master(place).flush_all();
    }
    let three = Client::new().network(&stage.a).masters(&[0, 1, 2]);
    let a = stage
        .cluster
        .connect_as(&three, builder())
        .await
        .expect("a set of three");
    stage.a.cut(0, Direction::Both);
    stage.cluster.master(0).restart(Keep::Nothing);
    for far in 1..3 {
        stage.b.set_distance(far, ms(100));
    }
    let five = Client::new().network(&stage.b);
    let refused = stage.cluster.connect_as(&five, builder()).await;
    let Err(ConnectError::Unfit {
        reason: Unfit::OtherSet { set, listed, .. },
        ..
    }) = refused
    else {
        violated("exclusion", &format!("{refused:?}"));
    };
    assert_eq!((set.masters, listed.masters), (3, 5));
    sleep(ms(1000)).await;
    for place in [0, 3, 4] {
        if let Some(record) = record(stage.cluster.master(place)) {
            violated(
                "nothing stored",
                &format!("m{place} has {record}, by a client that was refused"),
            );
        }
    }
    stage.a.heal(0);
    sleep(QUARANTINE + ms(1000)).await;
    if a.multi_lock("a").try_lock().await.is_err() {
        violated("progress", "the set of three is stranded");
    }
}

/// A client that lists five reaches the masters of a set of three only after it has begun to use the others.
#[tokio::test(start_paused = true)]
async fn another_set_that_is_met_late() {
    let stage = Stage::new(5);
    let three = Client::new().network(&stage.a).masters(&[0, 1, 2]);
    let _a = stage
        .cluster
        .connect_as(&three, builder())
        .await
        .expect("a set of three");
    for place in [0, 3, 4] {
        stage.cluster.master(place).restart(Keep::Nothing);
    }
    stage.a.cut(0, Direction::Both);
    for place in 1..3 {
        stage.b.cut(place, Direction::Both);
    }
    let five = Client::new().network(&stage.b);
    let five = stage
        .cluster
        .connect_as(&five, builder())
        .await
        .expect("0, 3 and 4 are new");
    sleep(QUARANTINE).await;
    let guard = five.red_lock("a").try_lock().await.expect("three of five");
    drop(guard);
    for place in 1..3 {
        stage.b.heal(place);
    }
    sleep(ms(1000)).await;
    if five.red_lock("a").try_lock().await.is_ok() {
        violated("exclusion", "quorums of three and of five masters need not meet");
    }
}

/// Clients of three masters of five, and of all five; the one asks masters that keep everything, the other not.
#[tokio::test(start_paused = true)]
async fn another_size() {
    for (first, second) in [
        (Quarantine::Auto, Quarantine::Off),
        (Quarantine::Off, Quarantine::Auto),
    ] {
        let stage = Stage::new(5);
        let three = Client::new().network(&stage.a).masters(&[0, 1, 2]);
        let three = stage
            .cluster
            .connect_as(&three, builder().quarantine(first))
            .await;
        assert!(three.is_ok(), "the first");
        if stage.cluster.connect(builder().quarantine(second)).await.is_ok() {
            violated("exclusion", "quorums of three and of five masters need not meet");
        }
    }
}

/// Clients that say that leases are for tests, and of another length, or not at all.
#[tokio::test(start_paused = true)]
async fn another_length() {
    for other in [Masters::builder(), builder().for_tests(LEASE * 2)] {
        let stage = Stage::new(3);
        let _a = stage.connect(&stage.a).await;
        if stage.cluster.connect(other).await.is_ok() {
            violated("exclusion", "one reckons with shorter leases than the other has");
        }
    }
}

/// Two clients introduce themselves to a new set at once, each to the masters in an order of its own; then each uses it.
#[tokio::test(start_paused = true)]
async fn two_clients_of_a_new_set_in_every_order() {
    const ORDERS: [[u64; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in ORDERS {
        let stage = Stage::fresh(3);
        for (place, turn) in order.into_iter().enumerate() {
            stage.a.set_distance(place, ms(10 * turn));
            stage.b.set_distance(place, ms(10 * (2 - turn) + 5));
        }
        let (a, b) = tokio::join!(stage.connect(&stage.a), stage.connect(&stage.b));
        let refused = a.red_lock("a").try_lock().await;
        assert!(
            matches!(refused, Err(LockError::Unreachable { .. })),
            "{refused:?}"
        );
        let records: Vec<_> = stage.cluster.iter().map(record).collect();
        sleep(QUARANTINE).await;
        let held = a.red_lock("a").lease(LEASE).try_lock().await.expect("free");
        apart(&held, &b).await;
        let later: Vec<_> = stage.cluster.iter().map(record).collect();
        assert_eq!(records, later, "each master has recorded once");
    }
}

/// Has the second introduction to 1 arrive late.
#[derive(Debug)]
struct LateIntroduction;

impl Observer for LateIntroduction {
    fn sent(&self, call: &Call) -> Fate {
        if call.script == "introduce" && call.master == 1 {
            Fate::RequestDelayed(QUARANTINE + ms(100))
        } else {
            Fate::Delivered
        }
    }
}

/// B looks at a new set, and has 1 record since when its memory counts only a quarantine later; in between, A was granted
/// there, and 1 has lost that.
#[tokio::test(start_paused = true)]
async fn a_look_long_before_the_store() {
    let stage = Stage::fresh(3);
    let patient = || builder().connect_timeout(LEASE * 2);
    let a = Client::new().network(&stage.a);
    let a = stage.cluster.connect_as(&a, patient()).await.expect("connects");
    stage.cluster.master(1).evict(SET);
    let late: Arc<dyn Observer> = Arc::new(LateIntroduction);
    stage.cluster.observe(&late);
    let b = Client::new().network(&stage.b);
    let connecting = stage.cluster.connect_as(&b, patient());
    let holding = async {
        sleep(QUARANTINE).await;
        stage.a.cut(0, Direction::Both);
        let held = a.red_lock("a").lease(LEASE).try_lock().await;
        let held = held.expect("1 and 2 grant");
        stage.a.cut(1, Direction::Both);
        stage.cluster.master(1).flush_all();
        held
    };
    let (b, held) = tokio::join!(connecting, holding);
    stage.b.cut(2, Direction::Both);
    apart(&held, &b.expect("0 and 2 are there")).await;
}

/// A vote with another record is taken for a vote of a wiped memory, and the client introduces itself again.
#[tokio::test(start_paused = true)]
async fn strict_clients_introduce_themselves_once() {
    let cluster = Cluster::new(3);
    let connect = async || {
        let client = Client::new();
        let connected = cluster.connect_as(&client, builder().strict(true)).await;
        connected.expect("a majority can be reached")
    };
    let (one, other) = (connect().await, connect().await);
    sleep(LEASE * 2).await;
    let introduced = || {
        cluster
            .iter()
            .map(|master| master.executed().get("introduce").copied())
            .collect::<Vec<_>>()
    };
    let before = introduced();
    let waits = |masters: &Masters| masters.red_lock(["a", "b"]).wait(ms(50));
    // Held, refused, waited for in vain, extended, renewed, and had by the next.
    let held = one.red_lock(["a", "b"]).about("rows").lock().await.expect("free");
    waits(&other).lock().await.expect_err("held");
    other
        .red_lock("a")
        .fenced(false)
        .try_lock()
        .await
        .expect_err("held");
    held.extend(LEASE / 2).await.expect("held");
    sleep(LEASE * 2).await;
    let both = other.red_lock(["a", "b"]);
    let (released, next) = tokio::join!(
        async {
            sleep(ms(10)).await;
            held.unlock().await
        },
        both.lock()
    );
    released.expect("held");
    next.expect("in its turn").unlock().await.expect("held");
    // Written, downgraded, and read by both.
    let writes = one.red_lock("rows").write().lock().await.expect("free");
    other
        .red_lock("rows")
        .read()
        .try_lock()
        .await
        .expect_err("written");
    let reads = writes.downgrade().await;
    let also = other.red_lock("rows").read().lock().await.expect("read");
    one.red_lock("rows")
        .write()
        .wait(ms(50))
        .lock()
        .await
        .expect_err("read");
    drop((reads, also));
    // One permit of two, none left, and another number.
    let lock = |masters: &Masters| masters.permits("gpu", 2).wait(ms(50));
    let permits = (
        lock(&one).lock().await.expect("free"),
        lock(&other).lock().await.expect("free"),
    );
    lock(&other).lock().await.expect_err("none is left");
    lock(&other).try_lock().await.expect_err("none is left");
    other
        .permits("gpu", 3)
        .try_lock()
        .await
        .expect_err("another number");
    drop(permits);
    // Done once, and found done.
    for masters in [&one, &other] {
        let job = masters.red_lock("report").once(LEASE);
        let _ = job.run(async |_| Ok::<_, ()>(())).await.expect("done by now");
    }
    // Idle, recalled, and forced out.
    let sticky = one.red_lock("key").sticky();
    sticky.lock().await.expect("free").unlock().await.expect("held");
    let taken = other.red_lock("key").lock().await.expect("recalled");
    one.red_lock("key").force_release().await.expect("forced");
    taken.lost().await;
    assert_eq!(introduced(), before);
}
