//! Attempts that ask only as many masters as are needed: a hold that exactly a quorum has, and how it comes by its slack.

use std::time::Duration;

use multilock::sim::{Client, Cluster, Direction, Master, Network};
use multilock::{Closing, Masters, Quarantine, Rounds, Vote};
use tokio::time::{Instant, sleep};

use crate::plan::ms;
use crate::scene::{in_time, violated};

const LEASE: Duration = ms(3000);
/// A hold is taken on the other masters at the latest by then.
const WIDENED: Duration = ms(80);

struct Stage {
    cluster: Cluster,
    network: Network,
    masters: Masters,
}

async fn connect(cluster: &Cluster, network: &Network, rounds: Rounds) -> Masters {
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .rounds(rounds)
        .lease(LEASE);
    let client = Client::new().network(network);
    cluster.connect_as(&client, builder).await.expect("connects")
}

impl Stage {
    /// Five masters that are a millisecond away, and a client that asks three of them first.
    async fn new() -> Self {
        let (cluster, network) = (Cluster::new(5), Network::new(5));
        let masters = connect(&cluster, &network, Rounds::Thrifty).await;
        for place in 0..5 {
            network.set_distance(place, ms(1));
        }
        // Its round trips are known.
        masters
            .multi_lock("b")
            .lock()
            .await
            .expect("free")
            .unlock()
            .await
            .expect("held");
        Self {
            cluster,
            network,
            masters,
        }
    }

    async fn another(&self, rounds: Rounds) -> Masters {
        connect(&self.cluster, &Network::new(5), rounds).await
    }

    /// The masters that have the name, or have not.
    fn having(&self, is_there: bool) -> Vec<usize> {
        let has = |place: &usize| self.cluster.master(*place).fields("a").is_empty() != is_there;
        (0..5).filter(has).collect()
    }

    fn queued_on(&self) -> usize {
        let queued = |place: &usize| {
            let keys = self.cluster.master(*place).keys();
            keys.iter().any(|key| key.contains("queue"))
        };
        (0..5).filter(queued).count()
    }

    /// The masters that are asked first for the name.
    async fn first_asked(&self) -> Vec<usize> {
        let guard = self.masters.red_lock("a").lock().await.expect("free");
        let first = self.having(true);
        guard.unlock().await.expect("held");
        self.nothing_is_left().await;
        first
    }

    async fn nothing_is_left(&self) {
        sleep(ms(200)).await;
        if !self.having(true).is_empty() {
            violated("nothing is left", &format!("on {:?}", self.having(true)));
        }
    }
}

/// A section that is over before the hold is widened never reaches the other masters.
#[tokio::test(start_paused = true)]
async fn a_short_section_costs_the_others_nothing() {
    let stage = Stage::new().await;
    let before: Vec<_> = stage.cluster.iter().map(Master::executed).collect();
    let guard = stage.masters.red_lock("a").lock().await.expect("free");
    let others = stage.having(false);
    assert_eq!(others.len(), 2, "three are asked");
    let not_asked = guard
        .votes()
        .iter()
        .filter(|answer| answer.vote == Vote::NotAsked)
        .count();
    assert_eq!((guard.votes().granted(), not_asked), (3, 2));
    guard.unlock().await.expect("held");
    stage.nothing_is_left().await;
    for place in others {
        assert_eq!(stage.cluster.master(place).executed(), before[place], "m{place}");
    }
}

/// Two masters of five may forget a hold without being noticed, once it is widened.
#[tokio::test(start_paused = true)]
async fn a_hold_comes_by_its_slack() {
    let stage = Stage::new().await;
    let guard = stage.masters.red_lock("a").lock().await.expect("free");
    let first = stage.having(true);
    sleep(WIDENED).await;
    for place in &first[..2] {
        stage.cluster.master(*place).flush_all();
    }
    let other = stage.another(Rounds::All).await;
    if other.red_lock("a").try_lock().await.is_ok() && guard.is_valid() {
        violated("mutual exclusion", "two masters had forgotten a hold of a second");
    }
    assert_eq!(guard.votes().granted(), 5);
    guard.unlock().await.expect("held");
    stage.nothing_is_left().await;
}

/// A hold without a watchdog that is leaked, and names that stay taken, have their slack as well.
#[tokio::test(start_paused = true)]
async fn what_stays_taken_comes_by_its_slack() {
    let stage = Stage::new().await;
    stage.masters.red_lock("a").lock().await.expect("free").leak();
    sleep(ms(5)).await;
    if stage.having(true).len() < 5 {
        violated("slack", &format!("leaked, and on {:?} alone", stage.having(true)));
    }
    sleep(LEASE).await;
    let kept = stage.masters.red_lock("a").at_least(ms(1000)).lock().await;
    kept.expect("free").unlock().await.expect("held");
    sleep(ms(5)).await;
    if stage.having(true).len() < 5 {
        violated("slack", &format!("kept, and on {:?} alone", stage.having(true)));
    }
}

/// A hold with a lease of its own is never renewed, so it is asked for again where the first request for it found no script.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_not_renewed_is_widened_again() {
    let stage = Stage::new().await;
    let lock = stage.masters.red_lock("a").lease(LEASE);
    let guard = lock.lock().await.expect("free");
    for place in stage.having(false) {
        stage.cluster.master(place).flush_scripts();
    }
    sleep(WIDENED).await;
    if stage.having(true).len() < 5 {
        violated("slack", &format!("on {:?} alone", stage.having(true)));
    }
    guard.unlock().await.expect("held");
    stage.nothing_is_left().await;
}

/// All masters are asked, and the furthest one has no script, or is taken by another attempt for a moment. The quorum does not
/// wait for it.
#[tokio::test(start_paused = true)]
async fn a_hold_that_a_far_master_did_not_grant_is_taken_there() {
    for how in ["no script", "permit", "contended"] {
        let (cluster, network) = (Cluster::new(3), Network::new(3));
        let masters = connect(&cluster, &network, Rounds::All).await;
        let near = Network::new(3);
        let other = connect(&cluster, &near, Rounds::All).await;
        for (place, away) in [2, 2, 20].into_iter().enumerate() {
            network.set_distance(place, ms(away));
        }
        let is_there = |name: &str| {
            cluster
                .iter()
                .filter(|master| !master.fields(name).is_empty())
                .count()
        };
        match how {
            "permit" => {
                let lock = masters.permits("gpu", 1).lease(LEASE);
                let guard = lock.lock().await.expect("free");
                sleep(WIDENED).await;
                assert_eq!(is_there("gpu:seat:1"), 3, "{how}");
                guard.unlock().await.expect("held");
                continue;
            }
            "no script" => cluster.master(2).flush_scripts(),
            // An attempt that loses, because it reaches one master alone.
            _ => {
                (0..2).for_each(|place| near.cut(place, Direction::Both));
                let tried = tokio::spawn(async move { other.red_lock("a").try_lock().await });
                sleep(ms(1)).await;
                let guard = masters.red_lock("a").lease(LEASE).lock().await.expect("a quorum");
                tried.await.expect("no panic").expect_err("one master alone");
                sleep(WIDENED * 2).await;
                assert_eq!(is_there("a"), 3, "{how}");
                guard.unlock().await.expect("held");
                continue;
            }
        }
        let guard = masters.red_lock("a").lease(LEASE).lock().await.expect("free");
        sleep(WIDENED).await;
        assert_eq!(is_there("a"), 3, "{how}");
        guard.unlock().await.expect("held");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_closed_client_leaves_comes_by_its_slack() {
    let stage = Stage::new().await;
    let _guard = stage.masters.red_lock("a").lock().await.expect("free");
    stage.masters.close(Closing::Leave).await;
    if stage.having(true).len() < 5 {
        violated("slack", &format!("left, and on {:?} alone", stage.having(true)));
    }
    let stage = Stage::new().await;
    let _guard = stage.masters.red_lock("a").at_least(ms(1000)).lock().await;
    stage.masters.close(Closing::Release).await;
    if stage.having(true).len() < 5 {
        violated("slack", &format!("kept, and on {:?} alone", stage.having(true)));
    }
}

/// A master that answers late, and in time all the same, does not slow down the names that prefer it.
#[tokio::test(start_paused = true)]
async fn a_slow_master_is_passed_over() {
    let stage = Stage::new().await;
    let first = stage.first_asked().await;
    stage.network.set_distance(first[0], ms(10));
    // Each answer is measured.
    let all = stage.masters.multi_lock("b").lock().await.expect("free");
    all.unlock().await.expect("held");
    let begun = Instant::now();
    let guard = stage.masters.red_lock("a").lock().await.expect("free");
    in_time(begun, ms(5));
    guard.unlock().await.expect("held");
    stage.nothing_is_left().await;
}

/// A request that widens a hold is on its way when the hold is released: the release follows it.
#[tokio::test(start_paused = true)]
async fn a_widening_that_crosses_the_release_leaves_nothing() {
    let stage = Stage::new().await;
    let guard = stage.masters.red_lock("a").lock().await.expect("free");
    let others = stage.having(false);
    for place in &others {
        stage.network.set_distance(*place, ms(30));
    }
    sleep(ms(25)).await;
    guard.unlock().await.expect("held");
    stage.nothing_is_left().await;
}

/// A master that does not answer costs a hedge, and no node timeout.
#[tokio::test(start_paused = true)]
async fn a_silent_master_costs_a_hedge() {
    let stage = Stage::new().await;
    let first = stage.first_asked().await;
    stage.cluster.master(first[0]).freeze();
    let begun = Instant::now();
    let guard = stage
        .masters
        .red_lock("a")
        .lock()
        .await
        .expect("four of five answer");
    in_time(begun, ms(15));
    sleep(WIDENED).await;
    stage.cluster.master(first[0]).thaw();
    guard.unlock().await.expect("held");
    stage.nothing_is_left().await;
}

/// Masters that are asked after the hedge have a whole node timeout, so a try takes a quarter longer at most.
#[tokio::test(start_paused = true)]
async fn a_try_ends_a_hedge_after_the_node_timeout_at_most() {
    for distance in [ms(1), ms(20)] {
        let stage = Stage::new().await;
        for place in 0..5 {
            stage.network.set_distance(place, distance);
        }
        // Its round trips are known, and are long.
        let guard = stage.masters.multi_lock("b").lock().await.expect("free");
        guard.unlock().await.expect("held");
        let first = stage.first_asked().await;
        for node in &first {
            stage.cluster.master(*node).freeze();
        }
        let begun = Instant::now();
        let refused = stage.masters.red_lock("a").try_lock().await;
        assert!(refused.is_err_and(|error| error.is_unreachable()));
        let took = begun.elapsed();
        assert!((ms(50)..=ms(64)).contains(&took), "{took:?}");
    }
}

/// The others get their whole node timeout, and not what is left of that of the first.
#[tokio::test(start_paused = true)]
async fn masters_that_are_asked_later_have_as_much_time() {
    let stage = Stage::new().await;
    let first = stage.first_asked().await;
    for place in 0..5 {
        stage.network.set_distance(place, ms(49));
    }
    stage.cluster.master(first[0]).freeze();
    let guard = stage.masters.red_lock("a").try_lock().await;
    drop(guard.expect("four of five answer"));
    stage.cluster.master(first[0]).thaw();
    stage.nothing_is_left().await;
}

/// An answer that comes after the hedge is a grant like any other, and is released with the hold.
#[tokio::test(start_paused = true)]
async fn a_late_answer_after_the_hedge_leaves_nothing() {
    let stage = Stage::new().await;
    let first = stage.first_asked().await;
    stage.network.set_distance(first[1], ms(10));
    let guard = stage.masters.red_lock("a").lock().await.expect("free");
    guard.unlock().await.expect("held");
    stage.nothing_is_left().await;
}

/// One refusal, and all masters are asked together with the waiter: it stands in every queue, and a release anywhere calls it.
#[tokio::test(start_paused = true)]
async fn a_refused_waiter_stands_in_every_queue() {
    let stage = Stage::new().await;
    let other = stage.another(Rounds::All).await;
    let theirs = other.red_lock("a").lock().await.expect("free");
    let lock = stage.masters.red_lock("a");
    let waiting = tokio::spawn(async move { lock.lock().await });
    sleep(ms(20)).await;
    if stage.queued_on() < 5 {
        violated("queued", &format!("on {} masters of five", stage.queued_on()));
    }
    let begun = Instant::now();
    theirs.unlock().await.expect("held");
    let guard = waiting.await.expect("no panic").expect("its turn");
    in_time(begun, ms(20));
    guard.unlock().await.expect("held");
    stage.nothing_is_left().await;
}

/// The release has not reached a master that the waiter prefers. Others have called the waiter, and it asks these as well: to
/// leave the queues costs a call to each anyway.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_called_asks_all_masters() {
    let stage = Stage::new().await;
    let first = stage.first_asked().await;
    let network = Network::new(5);
    let other = connect(&stage.cluster, &network, Rounds::All).await;
    let theirs = other.red_lock("a").lock().await.expect("free");
    let lock = stage.masters.red_lock("a");
    let waiting = tokio::spawn(async move { lock.lock().await });
    sleep(ms(20)).await;
    network.set_distance(first[0], ms(30));
    let begun = Instant::now();
    drop(theirs);
    let guard = waiting.await.expect("no panic").expect("its turn");
    // One question: calls and answers take no time here.
    in_time(begun, ms(1));
    sleep(ms(100)).await;
    guard.unlock().await.expect("held");
    stage.nothing_is_left().await;
}

/// Two clients that reach different masters ask different quorums, which have a master in common.
#[tokio::test(start_paused = true)]
async fn clients_that_pass_over_different_masters_exclude_each_other() {
    let stage = Stage::new().await;
    let guard = stage.masters.red_lock("a").lock().await.expect("free");
    let (first, others) = (stage.having(true), stage.having(false));
    let network = Network::new(5);
    let other = connect(&stage.cluster, &network, Rounds::Thrifty).await;
    for place in &first[..2] {
        network.cut(*place, Direction::ToMaster);
    }
    sleep(ms(200)).await;
    let refused = other.red_lock("a").try_lock().await;
    if refused.is_ok() && guard.is_valid() {
        violated("mutual exclusion", &format!("by {others:?} and m{}", first[2]));
    }
    assert!(refused.is_err_and(|error| error.is_contended()), "a vote refuses");
    guard.unlock().await.expect("held");
    stage.nothing_is_left().await;
}

/// A master that is away for long is not owed the releases of holds that it never had.
#[tokio::test(start_paused = true)]
async fn a_master_that_is_away_is_owed_nothing() {
    let stage = Stage::new().await;
    stage.cluster.master(4).crash();
    sleep(ms(100)).await;
    for _ in 0..20 {
        let guard = stage.masters.red_lock("a").lock().await.expect("four are there");
        sleep(WIDENED).await;
        guard.unlock().await.expect("held");
    }
    let pending: Vec<_> = stage
        .masters
        .status()
        .nodes
        .iter()
        .map(|node| node.pending_releases)
        .collect();
    assert_eq!(pending, [0; 5]);
}

/// A master whose clock is so far ahead that its fences cannot be used is not among those that are asked first.
#[tokio::test(start_paused = true)]
async fn a_master_that_is_far_ahead_is_passed_over() {
    let cluster = Cluster::new(5);
    cluster.master(0).set_clock_forward(Duration::from_secs(6 * 60));
    let masters = connect(&cluster, &Network::new(5), Rounds::Thrifty).await;
    // Its round trips are known.
    let all = masters.multi_lock("b").fenced(false).lock().await.expect("free");
    all.unlock().await.expect("held");
    for job in 0..10 {
        let name = format!("job:{job}");
        let guard = masters.red_lock(&*name).lock().await.expect("four are right");
        if guard.votes().granted() != 3 || !cluster.master(0).fields(&name).is_empty() {
            violated("passed over", &format!("{}", guard.votes()));
        }
        guard.unlock().await.expect("held");
    }
}
