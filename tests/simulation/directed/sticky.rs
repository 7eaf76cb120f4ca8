//! Grants that stay with a client while nobody holds them, and the events that take them away.

use std::time::Duration;

use multilock::sim::{Client, Cluster, Direction, Keep, Master, Network};
use multilock::{
    Closing, FencingToken, LockError, Masters, MultiLock, MultiLockGuard, Owner, Quarantine, Rounds, Unlocked,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::plan::ms;
use crate::scene::violated;
use crate::world::clock_us;

const LEASE: Duration = ms(3000);
/// Longer than it takes to recall a grant, to release it and to ask again.
const SOON: Duration = ms(60);

struct Stage {
    cluster: Cluster,
    /// Network of the masters' client.
    network: Network,
    masters: Masters,
}

fn network() -> Network {
    let network = Network::new(3);
    for place in 0..3 {
        network.set_distance(place, ms(1));
    }
    network
}

async fn connect(cluster: &Cluster) -> Masters {
    connect_by(cluster, &network(), LEASE).await
}

async fn connect_by(cluster: &Cluster, network: &Network, lease: Duration) -> Masters {
    let builder = Masters::builder().quarantine(Quarantine::Off).lease(lease);
    let client = Client::new().network(network);
    cluster.connect_as(&client, builder).await.expect("connects")
}

impl Stage {
    async fn new() -> Self {
        Self::with_lease(LEASE).await
    }

    async fn with_lease(lease: Duration) -> Self {
        let cluster = Cluster::new(3);
        let network = network();
        let masters = connect_by(&cluster, &network, lease).await;
        Self {
            cluster,
            network,
            masters,
        }
    }

    fn lock(&self) -> MultiLock {
        self.masters.red_lock("a").sticky()
    }

    /// Takes the name and gives it up, so that it stays.
    async fn stays(&self) -> FencingToken {
        let guard = self.lock().lock().await.expect("free or idle");
        let token = guard.fencing_token();
        assert_eq!(guard.unlock().await.expect("held"), Unlocked::Stays);
        assert_eq!(self.masters.status().idle, 1);
        token
    }

    fn executed(&self) -> u64 {
        let all = self.cluster.iter().map(Master::executed);
        all.map(|scripts| scripts.values().sum::<u64>()).sum()
    }

    fn having(&self) -> usize {
        let has = |master: &&Master| !master.fields("a").is_empty();
        self.cluster.iter().filter(has).count()
    }

    fn nothing_is_left(&self) {
        assert_eq!((self.having(), self.masters.status().idle), (0, 0));
    }
}

fn waiting(masters: &Masters) -> JoinHandle<Result<MultiLockGuard, LockError>> {
    let lock = masters.red_lock("a");
    tokio::spawn(async move { lock.lock().await })
}

async fn soon(waiting: JoinHandle<Result<MultiLockGuard, LockError>>) -> MultiLockGuard {
    let guard = timeout(SOON, waiting).await.expect("soon");
    guard.expect("no panic").expect("granted")
}

/// Only the first lock and the end send anything, and each hold has a token of its own.
#[tokio::test(start_paused = true)]
async fn the_second_lock_asks_nobody() {
    let stage = Stage::new().await;
    let mut last = stage.stays().await;
    let before = stage.executed();
    for _ in 0..20 {
        let token = stage.stays().await;
        assert!(token > last);
        last = token;
        sleep(ms(1)).await;
    }
    assert_eq!(stage.executed(), before);
    let tried = stage.lock().try_lock().await.expect("idle");
    assert!(tried.fencing_token() > last);
    assert_eq!(tried.unlock().await.expect("held"), Unlocked::Stays);
    assert_eq!(stage.executed(), before);
    stage.masters.close(Closing::Leave).await;
    stage.nothing_is_left();
}

/// Takes the name again and again. Returns the numbers of holds that needed masters.
async fn use_up(stage: &Stage, holds: u32) -> Vec<u32> {
    let mut last = FencingToken::NONE;
    let mut asked = Vec::new();
    for hold in 0..holds {
        let before = stage.executed();
        let guard = stage.lock().lock().await.expect("free or idle");
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
        if stage.executed() > before {
            asked.push(hold);
        }
        guard.unlock().await.expect("held");
        if hold % 64 == 0 {
            sleep(ms(1)).await;
        }
    }
    asked
}

/// A grant has 64 tokens, and the next one twice as many.
#[tokio::test(start_paused = true)]
async fn tokens_that_run_out_cost_a_round() {
    let stage = Stage::with_lease(ms(30_000)).await;
    let asked = use_up(&stage, 20_000).await;
    assert_eq!(asked, [0, 64, 192, 448, 960, 1984, 4032, 8128, 12224, 16320]);
}

/// Without time for the clocks to pass, no block is large: tokens stay near the clocks.
#[tokio::test(start_paused = true)]
async fn tokens_stay_near_the_clocks() {
    let stage = Stage::with_lease(ms(30_000)).await;
    for hold in 0..50_000 {
        let guard = stage.lock().lock().await.expect("free or idle");
        let token = guard.fencing_token().get();
        let clock = clock_us(stage.cluster.master(0));
        assert!(token < clock + 5_000, "hold {hold}: {} ahead", token - clock);
        guard.unlock().await.expect("held");
    }
}

/// Others that come when a grant has used up a large block get larger tokens, and the next block is small.
#[tokio::test(start_paused = true)]
async fn others_come_in_behind_a_large_block() {
    let stage = Stage::with_lease(ms(30_000)).await;
    let other = connect_by(&stage.cluster, &network(), ms(30_000)).await;
    use_up(&stage, 5_000).await;
    let token = stage.stays().await;
    let theirs = soon(waiting(&other)).await;
    let their_token = theirs.fencing_token();
    assert!(their_token > token);
    theirs.unlock().await.expect("held");
    assert!(stage.lock().lock().await.expect("free").fencing_token() > their_token);
    assert_eq!(
        use_up(&stage, 200).await[..2],
        [0, 1],
        "after a recall it does not stay"
    );
}

/// A waiter elsewhere recalls an idle grant.
#[tokio::test(start_paused = true)]
async fn a_waiter_gets_what_stays_elsewhere() {
    let stage = Stage::new().await;
    let other = connect(&stage.cluster).await;
    let token = stage.stays().await;
    let theirs = soon(waiting(&other)).await;
    assert!(theirs.fencing_token() > token);
    theirs.unlock().await.expect("held");
    sleep(SOON).await;
    stage.nothing_is_left();
    // After a recall the name is released at once for two times.
    for expected in [Unlocked::Released, Unlocked::Released, Unlocked::Stays] {
        let guard = stage.lock().lock().await.expect("free");
        assert_eq!(guard.unlock().await.expect("held"), expected);
    }
}

/// A holder is told, and the grant that it gives up does not stay.
#[tokio::test(start_paused = true)]
async fn a_holder_learns_that_somebody_waits() {
    let stage = Stage::new().await;
    let other = connect(&stage.cluster).await;
    let guard = stage.lock().lock().await.expect("free");
    assert!(timeout(ms(500), guard.wanted()).await.is_err() && !guard.is_wanted());
    let waiting = waiting(&other);
    timeout(SOON, guard.wanted()).await.expect("soon");
    assert!(guard.is_wanted());
    assert_eq!(guard.unlock().await.expect("held"), Unlocked::Released);
    drop(soon(waiting).await);
}

/// A task of the same process waits: in the line of the holder, and with other options.
#[tokio::test(start_paused = true)]
async fn a_task_of_the_process_is_somebody_else() {
    let stage = Stage::new().await;
    for other in [stage.lock(), stage.masters.multi_lock("a")] {
        let guard = stage.lock().lock().await.expect("free");
        let waiting = tokio::spawn(async move { other.lock().await });
        timeout(SOON, guard.wanted()).await.expect("soon");
        guard.unlock().await.expect("held");
        drop(soon(waiting).await);
        sleep(SOON).await;
        stage
            .masters
            .red_lock("a")
            .fair()
            .lock()
            .await
            .expect("idle or free")
            .unlock()
            .await
            .expect("held");
    }
}

/// A name that is recalled again and again stays seldom. A use while it stays makes up for a recall.
#[tokio::test(start_paused = true)]
async fn a_use_of_what_stays_makes_up_for_a_recall() {
    let stage = Stage::new().await;
    let other = connect(&stage.cluster).await;
    let released_after_a_recall = async || {
        drop(soon(waiting(&other)).await);
        sleep(SOON).await;
        let mut released = 0;
        while released < 100 && stage.lock().lock().await.expect("free").unlock().await != Ok(Unlocked::Stays)
        {
            released += 1;
        }
        released
    };
    stage.stays().await;
    assert_eq!(released_after_a_recall().await, 2);
    assert_eq!(released_after_a_recall().await, 4);
    stage.stays().await;
    assert_eq!(released_after_a_recall().await, 4);
}

/// Recalls are lost: the waiter asks again after five seconds.
#[tokio::test(start_paused = true)]
async fn a_lost_recall_is_sent_again() {
    let stage = Stage::new().await;
    let other = connect(&stage.cluster).await;
    let mut guard = stage.lock().lock().await.expect("free");
    for master in stage.cluster.iter() {
        master.lose_notices(true);
    }
    let waiting = waiting(&other);
    sleep(ms(100)).await;
    for master in stage.cluster.iter() {
        master.lose_notices(false);
    }
    assert_eq!(guard.unlock().await.expect("held"), Unlocked::Stays);
    // It is used all the time, so that it would stay for ever.
    let begun = Instant::now();
    while begun.elapsed() < ms(5500) && !waiting.is_finished() {
        guard = stage.lock().lock().await.expect("its own or free");
        guard.unlock().await.expect("held");
        // Fewer than 64 times: a grant without a token is released.
        sleep(ms(100)).await;
    }
    assert!(begun.elapsed() < ms(5300), "{:?}", begun.elapsed());
    drop(waiting.await.expect("no panic").expect("granted"));
}

/// Recalls are lost with a connection. Once there is a new one, the grant no longer stays, although it is used all the
/// time.
#[tokio::test(start_paused = true)]
async fn recalls_may_be_lost_with_a_connection() {
    // No renewal is due meanwhile.
    let lease = ms(30_000);
    let stage = Stage::with_lease(lease).await;
    let other = connect_by(&stage.cluster, &network(), lease).await;
    stage.stays().await;
    stage.cluster.iter().for_each(|master| master.lose_notices(true));
    let waiting = waiting(&other);
    sleep(ms(100)).await;
    stage.cluster.iter().for_each(|master| master.lose_notices(false));
    // A call without an answer ends the connections of this client.
    (0..3).for_each(|node| stage.network.cut(node, Direction::ToClient));
    assert!(stage.masters.red_lock("b").try_lock().await.is_err());
    sleep(ms(1000)).await;
    (0..3).for_each(|node| stage.network.heal(node));
    let begun = Instant::now();
    while begun.elapsed() < ms(5500) && !waiting.is_finished() {
        let guard = stage.lock().lock().await.expect("its own or free");
        guard.unlock().await.expect("held");
        sleep(ms(100)).await;
    }
    assert!(begun.elapsed() < ms(1500), "{:?}", begun.elapsed());
    drop(waiting.await.expect("no panic").expect("granted"));
}

/// Recalls may be lost with a connection while the name is held, too.
#[tokio::test(start_paused = true)]
async fn what_was_held_while_a_connection_was_made_does_not_stay() {
    let stage = Stage::new().await;
    let guard = stage.lock().lock().await.expect("free");
    stage.cluster.master(1).reset_connections();
    sleep(ms(500)).await;
    assert_eq!(guard.unlock().await.expect("held"), Unlocked::Released);
    stage.stays().await;
}

/// The task that leaves finds nobody in its line, another one joins, and then the grant would stay.
#[tokio::test(start_paused = true)]
async fn a_task_that_joins_the_line_gets_what_stays() {
    let stage = Stage::new().await;
    stage.stays().await;
    let before = stage.executed();
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let lock = stage.lock();
            tokio::spawn(async move {
                let guard = lock.lock().await.expect("idle");
                sleep(ms(1)).await;
                guard.unlock().await.expect("held")
            })
        })
        .collect();
    for task in tasks {
        timeout(SOON, task).await.expect("soon").expect("no panic");
    }
    assert_eq!(
        stage.executed(),
        before,
        "they pass it on, and the last one leaves it"
    );
    assert_eq!(stage.masters.status().idle, 1);
}

/// It is renewed once after its last use, and then released.
#[tokio::test(start_paused = true)]
async fn what_is_not_used_is_released() {
    let stage = Stage::new().await;
    stage.stays().await;
    sleep(ms(1500)).await;
    assert_eq!(stage.having(), 3, "renewed once");
    sleep(ms(700)).await;
    stage.nothing_is_left();
    // A grant that is used stays, and is asked for again after two leases.
    let asked = stage.cluster.master(0).executed()["acquire"];
    let mut stayed = 0;
    for _ in 0..24 {
        let guard = stage.lock().lock().await.expect("free or idle");
        stayed += usize::from(guard.unlock().await.expect("held") == Unlocked::Stays);
        sleep(ms(500)).await;
    }
    let asked = stage.cluster.master(0).executed()["acquire"] - asked;
    assert_eq!((stayed, asked), (24, 2));
}

/// The masters that were not asked get it meanwhile, which is no use of it.
#[tokio::test(start_paused = true)]
async fn what_few_masters_were_asked_for_stays_as_long() {
    let cluster = Cluster::new(5);
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .lease(LEASE)
        .rounds(Rounds::Thrifty);
    let masters = cluster.connect(builder).await.expect("connects");
    let guard = masters.red_lock("a").sticky().lock().await.expect("free");
    assert_eq!(guard.unlock().await.expect("held"), Unlocked::Stays);
    sleep(ms(900)).await;
    assert_eq!(masters.status().idle, 1);
    assert!(
        cluster.iter().all(|master| !master.fields("a").is_empty()),
        "all have it"
    );
    sleep(ms(1300)).await;
    assert_eq!(masters.status().idle, 0);
}

/// A hold that is not renewed any more is given up. The next one is renewed.
#[tokio::test(start_paused = true)]
async fn what_was_held_for_too_long_is_renewed_again() {
    let stage = Stage::new().await;
    let short = stage.lock().max_hold(LEASE).lock().await.expect("free");
    sleep(ms(3300)).await;
    assert_eq!(short.unlock().await.expect("held"), Unlocked::Stays);
    let guard = stage.lock().lock().await.expect("idle");
    sleep(ms(9000)).await;
    assert!(guard.is_valid());
    guard.unlock().await.expect("held");
}

/// The masters let readers in beside a grant that was downgraded, so no writer may find it.
#[tokio::test(start_paused = true)]
async fn what_was_downgraded_does_not_stay() {
    let stage = Stage::new().await;
    let other = connect(&stage.cluster).await;
    let lock = || stage.lock().write();
    let writer = lock().lock().await.expect("free");
    writer.downgrade().await.unlock().await.expect("held");
    let reader = other.red_lock("a").read().lock().await.expect("nobody writes");
    if lock().try_lock().await.is_ok() {
        violated("mutual exclusion", "a writer is let in beside a reader");
    }
    reader.unlock().await.expect("held");
}

/// The names are forced from a hold. The grant that the hold gives up does not stay.
#[tokio::test(start_paused = true)]
async fn what_was_forced_from_a_hold_does_not_stay() {
    let stage = Stage::new().await;
    let other = connect(&stage.cluster).await;
    let guard = stage.lock().lock().await.expect("free");
    other.red_lock("a").force_release().await.expect("forced");
    timeout(SOON, guard.wanted()).await.expect("soon");
    let _ = guard.unlock().await;
    assert_eq!(stage.masters.status().idle, 0);
}

/// A hold ends after its masters have forgotten its grant. A later grant of the name stays meanwhile, and a waiter has
/// to find that grant.
#[tokio::test(start_paused = true)]
async fn a_hold_that_was_lost_hides_no_grant_that_stays() {
    for knows in [false, true] {
        let stage = Stage::new().await;
        let other = connect(&stage.cluster).await;
        let lost = stage.lock().lock().await.expect("free");
        stage.cluster.iter().for_each(Master::flush_all);
        let guard = stage.lock().try_lock().await.expect("forgotten");
        assert_eq!(guard.unlock().await.expect("held"), Unlocked::Stays);
        if knows {
            lost.extend(LEASE).await.expect_err("forgotten");
        }
        let _ = lost.unlock().await;
        let waiting = waiting(&other);
        soon(waiting).await.unlock().await.expect("held");
        sleep(SOON).await;
        stage.nothing_is_left();
    }
}

/// The same, and the hold ends while the later grant is on its way.
#[tokio::test(start_paused = true)]
async fn a_later_grant_takes_the_place_of_one_that_stays() {
    let stage = Stage::new().await;
    let other = connect(&stage.cluster).await;
    let lost = stage.lock().lock().await.expect("free");
    // The third one refuses the later grant, and remembers the earlier one.
    stage.cluster.master(0).flush_all();
    stage.cluster.master(1).flush_all();
    let lock = stage.lock();
    let (guard, unlocked) = tokio::join!(lock.try_lock(), async {
        sleep(ms(1)).await;
        lost.unlock().await
    });
    assert_eq!(unlocked.expect("nothing is known"), Unlocked::Stays);
    let guard = guard.expect("forgotten");
    assert_eq!(guard.unlock().await.expect("held"), Unlocked::Stays);
    assert_eq!(stage.masters.status().idle, 1);
    let waiting = waiting(&other);
    soon(waiting).await.unlock().await.expect("held");
    sleep(SOON).await;
    stage.nothing_is_left();
}

/// The client wants the name with other options than those of the grant that stays.
#[tokio::test(start_paused = true)]
async fn what_is_wanted_otherwise_is_released_first() {
    let stage = Stage::new().await;
    let masters = &stage.masters;
    let otherwise = [
        masters.multi_lock("a"),
        masters.red_lock("a").lease(ms(1000)),
        masters.red_lock(["a", "b"]),
        masters.red_lock("a").write(),
        masters.red_lock("a").fair(),
    ];
    for lock in otherwise {
        stage.stays().await;
        let before = stage.executed();
        let guard = lock.try_lock().await.expect("released first");
        assert_eq!(masters.status().idle, 0);
        assert!(stage.executed() > before, "the masters are asked");
        guard.unlock().await.expect("held");
    }
    stage.stays().await;
    let set = masters.red_lock("a").and(masters.red_lock("b")).lock().await;
    set.expect("released first").unlock().await.expect("held");
    stage.stays().await;
    let reading = masters.red_lock("a").read().lock().await;
    reading.expect("released first").unlock().await.expect("held");
    // A grant of all masters would end with one of them.
    let all = masters.multi_lock("a").sticky();
    all.lock().await.expect("free").unlock().await.expect("held");
    assert_eq!(masters.status().idle, 1);
    let guard = masters.red_lock("a").try_lock().await.expect("released first");
    stage.cluster.master(2).crash();
    sleep(LEASE * 2).await;
    assert!(guard.is_valid(), "a majority is there");
    stage.cluster.master(2).restart(Keep::Data);
    sleep(SOON).await;
    guard.unlock().await.expect("held");
    // A grant without tokens has none for a lock with them.
    let unfenced = masters.red_lock("c").sticky().fenced(false).lock().await;
    assert_eq!(unfenced.expect("free").unlock().await, Ok(Unlocked::Stays));
    let guard = masters.red_lock("c").try_lock().await.expect("released first");
    assert!(guard.fencing_token() > FencingToken::NONE);
    guard.unlock().await.expect("held");
    // A lock that is not sticky takes a grant that suits it, and does not leave it behind.
    stage.stays().await;
    let before = stage.executed();
    let guard = masters.red_lock("a").lock().await.expect("idle");
    assert_eq!(stage.executed(), before);
    assert_eq!(guard.unlock().await.expect("held"), Unlocked::Released);
    stage.nothing_is_left();
}

/// A grant that the masters no longer have is not taken.
#[tokio::test(start_paused = true)]
async fn what_is_forced_or_lapsed_is_not_taken() {
    let stage = Stage::new().await;
    let other = connect(&stage.cluster).await;
    let token = stage.stays().await;
    other.red_lock("a").force_release().await.expect("forced");
    sleep(ms(10)).await;
    assert_eq!(stage.masters.status().idle, 0);
    let theirs = other.red_lock("a").try_lock().await.expect("free");
    assert!(theirs.fencing_token() > token);
    let refused = stage.lock().try_lock().await;
    assert!(matches!(refused, Err(LockError::Contended { .. })));
    theirs.unlock().await.expect("held");
    sleep(SOON).await;
    // No master answers for longer than the lease.
    stage.stays().await;
    for master in stage.cluster.iter() {
        master.freeze();
    }
    sleep(LEASE).await;
    assert!(stage.lock().try_lock().await.is_err());
    assert_eq!(stage.masters.status().idle, 0);
    for master in stage.cluster.iter() {
        master.thaw();
    }
    sleep(ms(500)).await;
    stage.nothing_is_left();
}

/// Masters, and a client with which two names may stay.
async fn two_may_stay() -> (Cluster, Masters) {
    let cluster = Cluster::new(3);
    let builder = Masters::builder().quarantine(Quarantine::Off);
    let masters = cluster.connect(builder.lease(LEASE).max_idle(2)).await;
    (cluster, masters.expect("connects"))
}

/// Nobody waits for a grant of a client that keeps none, because it lets clients of other libraries in.
#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_stay_keeps_no_try_waiting() {
    let cluster = Cluster::new(3);
    let connect = async || {
        let builder = Masters::builder().quarantine(Quarantine::Off);
        cluster
            .connect(builder.beside_redisson(true))
            .await
            .expect("connects")
    };
    let (here, there) = (connect().await, connect().await);
    let held = here.red_lock("a").sticky().lock().await.expect("free");
    let begun = Instant::now();
    let refused = there.red_lock("a").try_lock().await.expect_err("held");
    assert!(refused.is_contended(), "{refused}");
    assert!(begun.elapsed() < ms(50), "{:?}", begun.elapsed());
    assert_eq!(held.unlock().await, Ok(Unlocked::Released));
}

/// Names that are held again take no place of names that stay.
#[tokio::test(start_paused = true)]
async fn what_is_held_does_not_count_among_what_stays() {
    let (_cluster, masters) = two_may_stay().await;
    let sticky = |name: &str| masters.red_lock(name).sticky();
    let mut held = Vec::new();
    for name in ["a", "b"] {
        sticky(name).run(async |_| ()).await.expect("free");
        held.push(sticky(name).lock().await.expect("it stayed"));
    }
    for name in ["c", "d", "e"] {
        let guard = sticky(name).lock().await.expect("free");
        assert_eq!(guard.unlock().await.expect("held"), Unlocked::Stays);
    }
    assert_eq!(masters.status().idle, 2);
}

/// A grant that ends otherwise than by a release does not count any more.
#[tokio::test(start_paused = true)]
async fn what_is_kept_or_leaked_is_forgotten() {
    let (_cluster, masters) = two_may_stay().await;
    let owner = Owner::new();
    for name in ["a", "b", "c"] {
        let lock = masters.red_lock(name).owner(&owner);
        let sticky = lock.clone().sticky();
        sticky.lock().await.expect("free").unlock().await.expect("held");
        let guard = sticky.lock().await.expect("idle");
        if name == "c" {
            guard.leak();
        } else {
            drop(lock.at_least(ms(20)).lock().await.expect("its own"));
            let unlocked = guard.unlock().await.expect("held");
            assert!(matches!(unlocked, Unlocked::KeptFor(_)), "{unlocked:?}");
        }
    }
    for name in ["d", "e"] {
        let guard = masters.red_lock(name).sticky().lock().await.expect("free");
        assert_eq!(guard.unlock().await.expect("held"), Unlocked::Stays);
    }
    assert_eq!(masters.status().idle, 2);
}

/// The least recently used name makes room.
#[tokio::test(start_paused = true)]
async fn no_more_stay_than_may() {
    let (cluster, masters) = two_may_stay().await;
    for name in ["a", "b", "a", "c", "a", "d", "a", "e"] {
        let guard = masters
            .red_lock(name)
            .sticky()
            .lock()
            .await
            .expect("free or idle");
        assert_eq!(guard.unlock().await.expect("held"), Unlocked::Stays);
        sleep(ms(10)).await;
    }
    assert_eq!(masters.status().idle, 2);
    sleep(ms(10)).await;
    for (name, is_free) in [("a", false), ("b", true), ("c", true), ("d", true), ("e", false)] {
        assert_eq!(cluster.master(0).fields(name).is_empty(), is_free, "{name}");
    }
    let none = cluster
        .connect(Masters::builder().quarantine(Quarantine::Off).max_idle(0))
        .await;
    let guard = none
        .expect("connects")
        .red_lock("d")
        .sticky()
        .lock()
        .await
        .expect("free");
    assert_eq!(guard.unlock().await.expect("held"), Unlocked::Released);
}

/// A grant of several names makes room for all of them, and does not stay if there is none for so many.
#[tokio::test(start_paused = true)]
async fn no_more_names_stay_than_may() {
    let (cluster, masters) = two_may_stay().await;
    let several = |names: &[&str]| masters.red_lock(names).sticky();
    for names in [&["a"][..], &["b"], &["c", "d"]] {
        let guard = several(names).lock().await.expect("free");
        assert_eq!(guard.unlock().await.expect("held"), Unlocked::Stays);
    }
    sleep(ms(10)).await;
    for (name, is_free) in [("a", true), ("b", true), ("c", false), ("d", false)] {
        assert_eq!(cluster.master(0).fields(name).is_empty(), is_free, "{name}");
    }
    assert_eq!(masters.status().idle, 1, "one grant of two names");
    let guard = several(&["e", "f", "g"]).lock().await.expect("free");
    assert_eq!(guard.unlock().await.expect("held"), Unlocked::Released);
}

/// The last handle is dropped while the runtime lives.
#[tokio::test(start_paused = true)]
async fn nothing_stays_without_a_client() {
    let Stage { cluster, masters, .. } = Stage::new().await;
    let guard = masters.red_lock("a").sticky().lock().await.expect("free");
    assert_eq!(guard.unlock().await.expect("held"), Unlocked::Stays);
    drop(masters);
    sleep(ms(10)).await;
    assert!(cluster.iter().all(|master| master.fields("a").is_empty()));
}

#[tokio::test(start_paused = true)]
async fn what_excludes_it_is_refused() {
    let stage = Stage::new().await;
    let lock = || stage.lock();
    let errors = [
        lock().lease(ms(1000)).try_lock().await.expect_err("lease"),
        lock().at_least(ms(1000)).try_lock().await.expect_err("at_least"),
        lock().fair().try_lock().await.expect_err("fair"),
        lock().read().try_lock().await.expect_err("read"),
    ];
    for error in errors {
        assert!(
            error
                .to_string()
                .starts_with("sticky: true is not allowed; allowed: false with "),
            "{error}"
        );
    }
    let set = lock().and(stage.masters.red_lock("b")).try_lock().await;
    let error = set.expect_err("a set").to_string();
    assert!(error.contains("sticky: true is not allowed"), "{error}");
    assert_eq!(stage.executed(), 0);
}

/// Recalls may all be denied. So the masters are asked again, however often the name is used.
#[tokio::test(start_paused = true)]
async fn what_is_too_old_does_not_stay() {
    let stage = Stage::new().await;
    let begun = Instant::now();
    while begun.elapsed() + ms(500) < LEASE * 2 {
        stage.stays().await;
        sleep(ms(400)).await;
    }
    let asked = || {
        let by = |master: &Master| master.executed()["acquire"];
        stage.cluster.iter().map(by).sum::<u64>()
    };
    let before = asked();
    sleep_until(begun + LEASE * 2 + ms(50)).await;
    assert_eq!(stage.having(), 3, "it has stayed");
    drop(stage.lock().lock().await.expect("free"));
    assert!(asked() > before, "a lock asks the masters");
    let stage = Stage::new().await;
    let begun = Instant::now();
    while begun.elapsed() + ms(100) < LEASE * 2 {
        stage.stays().await;
        sleep(ms(100)).await;
    }
    sleep(LEASE / 3 + ms(200)).await;
    assert_eq!(stage.having(), 0, "the next renewal is none");
}

/// A try does not wait for a holder, but for a name that nobody holds.
#[tokio::test(start_paused = true)]
async fn a_try_gets_what_stays_elsewhere() {
    let stage = Stage::new().await;
    let other = connect(&stage.cluster).await;
    stage.stays().await;
    let begun = Instant::now();
    let theirs = other.red_lock("a").try_lock().await.expect("idle elsewhere");
    assert!(
        begun.elapsed() <= ms(3),
        "three requests at most: {:?}",
        begun.elapsed()
    );
    theirs.unlock().await.expect("held");
    // A try leaves a hold alone, and also the next hold.
    let guard = stage.lock().lock().await.expect("free");
    let begun = Instant::now();
    let refused = other.red_lock("a").try_lock().await;
    assert!(matches!(refused, Err(LockError::Contended { .. })));
    assert!(begun.elapsed() < ms(60), "{:?}", begun.elapsed());
    assert!(!guard.is_wanted());
    // A task of the holder's own process is no waiter either, if it only tries.
    assert!(stage.lock().try_lock().await.is_err() && !guard.is_wanted());
    drop(guard);
    sleep(SOON).await;
    for master in stage.cluster.iter() {
        assert!(
            !master.keys().iter().any(|key| key.contains("queue")),
            "{:?}",
            master.keys()
        );
    }
}

/// The same for a set, in which several names may stay with several clients.
#[tokio::test(start_paused = true)]
async fn a_try_of_a_set_gets_what_stays_elsewhere() {
    let stage = Stage::new().await;
    let (third, other) = (connect(&stage.cluster).await, connect(&stage.cluster).await);
    let set = || MultiLock::all_of(["a", "b", "c"].map(|name| other.red_lock(name)));
    stage.stays().await;
    let stays = third.red_lock("b").sticky().lock().await.expect("free");
    assert_eq!(stays.unlock().await, Ok(Unlocked::Stays));
    let begun = Instant::now();
    let all = set().try_lock().await.expect("two are idle elsewhere");
    assert!(begun.elapsed() <= ms(8), "{:?}", begun.elapsed());
    assert_eq!(all.unlock().await, Ok(vec![Unlocked::Released; 3]));
    // A lock of the set that is held is not waited for.
    let _held = third.red_lock("c").lock().await.expect("free");
    let (begun, refused) = (Instant::now(), set().try_lock().await.expect_err("held"));
    assert_eq!(refused.index, 2, "{refused}");
    assert_eq!(begun.elapsed(), ms(1));
}

#[tokio::test(start_paused = true)]
async fn a_try_of_a_set_of_one_gets_what_stays_elsewhere() {
    for is_once in [false, true] {
        let stage = Stage::new().await;
        let other = connect(&stage.cluster).await;
        stage.stays().await;
        let set = MultiLock::all_of([other.red_lock("a")]).wait(Duration::ZERO);
        let tried = if is_once {
            set.lock().await
        } else {
            set.try_lock().await
        };
        tried.expect("idle elsewhere").unlock().await.expect("held");
    }
}

/// Tries of many clients at once: one of them gets it.
#[tokio::test(start_paused = true)]
async fn of_many_tries_one_gets_what_stays() {
    let stage = Stage::new().await;
    let mut others = Vec::new();
    for _ in 0..8 {
        others.push(connect(&stage.cluster).await);
    }
    stage.stays().await;
    let tries: Vec<_> = others
        .iter()
        .map(|masters| {
            let lock = masters.red_lock("a");
            tokio::spawn(async move { lock.try_lock().await })
        })
        .collect();
    let mut won = Vec::new();
    for tried in tries {
        won.extend(tried.await.expect("no panic"));
    }
    assert_eq!(won.len(), 1);
}
