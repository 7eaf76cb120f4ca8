//! Masters that are out of reach, for a while or for good.

use multilock::sim::{Client, Cluster, Direction, Keep, Master, Network};
use multilock::{LossCause, Masters, Quarantine};
use tokio::time::{Instant, sleep, timeout};

use crate::latch::{Latch, leaders};
use crate::memory::{connect, connect_by_default, connect_leasing, executed, ms};
use crate::steps::locks;

const LEASE_MS: u64 = 2000;

fn crash(cluster: &Cluster) {
    cluster.iter().for_each(Master::crash);
}

fn restart(cluster: &Cluster) {
    cluster.iter().for_each(|master| master.restart(Keep::Data));
}

/// `testWithCircuitBreaker`: five leaders of five names, and four outages. Each leads again after each of them, and is
/// told once of each loss.
#[tokio::test(start_paused = true)]
async fn test_with_circuit_breaker() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(LEASE_MS)).await;
    let latches = (0..5).map(|index| Latch::start(masters.red_lock(format!("/foo/bar/{index}"))));
    let latches: Vec<Latch> = latches.collect();
    for outage in 1..=4 {
        for latch in &latches {
            latch.term(outage).await;
        }
        crash(&cluster);
        sleep(ms(2 * LEASE_MS)).await;
        assert_eq!(leaders(&latches), 0);
        restart(&cluster);
        sleep(ms(20_000)).await;
        assert_eq!(leaders(&latches), 5, "after outage {outage}");
        let told: Vec<_> = latches
            .iter()
            .map(|latch| (latch.gained(), latch.lost()))
            .collect();
        assert_eq!(told, [(outage + 1, outage); 5]);
    }
}

/// `testGetChildrenHitsNoNode`: all masters are replaced by empty ones. The old term is over before a new one begins.
#[tokio::test(start_paused = true)]
async fn test_get_children_hits_no_node() {
    let cluster = Cluster::new(3);
    let (here, there) = (
        connect_by_default(&cluster).await,
        connect_by_default(&cluster).await,
    );
    let first = Latch::start(here.red_lock("/path"));
    let old = first.term(1).await;
    let second = Latch::start(there.red_lock("/path"));
    sleep(ms(1000)).await;
    assert!(first.has_leadership() && !second.has_leadership());
    cluster.iter().for_each(|master| {
        master.crash();
        master.restart(Keep::Nothing);
    });
    let begun = Instant::now();
    while first.gained() + second.gained() < 2 {
        assert!(begun.elapsed() < ms(120_000), "nobody leads again");
        assert!(leaders([&first, &second]) <= 1);
        sleep(ms(10)).await;
    }
    assert!(!old.is_valid() && first.lost() == 1);
    assert_eq!(leaders([&first, &second]), 1);
    let new = first.tokens().into_iter().skip(1).chain(second.tokens()).next();
    assert!(new.expect("a term") > old.fencing_token());
}

/// `testSessionInterruptionDoNotCauseBrainSplit`: the leader is cut off. The other one leads, and the old one does not
/// lead beside it once it is back.
#[tokio::test(start_paused = true)]
async fn test_session_interruption_do_not_cause_brain_split() {
    let cluster = Cluster::new(3);
    let network = Network::new(3);
    let builder = Masters::builder().quarantine(Quarantine::Off).lease(ms(LEASE_MS));
    let client = Client::new().network(&network);
    let here = cluster.connect_as(&client, builder).await.expect("connects");
    let there = connect_leasing(&cluster, ms(LEASE_MS)).await;
    let first = Latch::start(here.red_lock("/path"));
    first.term(1).await;
    let second = Latch::start(there.red_lock("/path"));
    sleep(ms(1000)).await;
    (0..3).for_each(|node| network.cut(node, Direction::Both));
    let begun = Instant::now();
    while second.gained() == 0 {
        assert!(begun.elapsed() < ms(60_000), "the other one does not lead");
        assert!(leaders([&first, &second]) <= 1);
        sleep(ms(1)).await;
    }
    assert_eq!((first.lost(), first.has_leadership()), (1, false), "told before");
    (0..3).for_each(|node| network.heal(node));
    sleep(ms(60_000)).await;
    assert_eq!((first.gained(), second.gained(), second.lost()), (1, 1, 0));
    assert!(second.has_leadership());
}

/// `testSessionErrorPolicy`: an outage that is shorter than the validity ends no term; a longer one ends it once, and
/// the same candidate leads again.
#[tokio::test(start_paused = true)]
async fn test_session_error_policy() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let latch = Latch::start(masters.red_lock("/test"));
    latch.term(1).await;
    sleep(ms(1000)).await;
    crash(&cluster);
    sleep(ms(15_000)).await;
    assert!(latch.has_leadership(), "it is valid for as long as was granted");
    restart(&cluster);
    sleep(ms(120_000)).await;
    assert_eq!((latch.gained(), latch.lost()), (1, 0));
    crash(&cluster);
    sleep(ms(31_000)).await;
    assert_eq!((latch.gained(), latch.lost()), (1, 1));
    restart(&cluster);
    latch.term(2).await;
    assert!(latch.has_leadership() && latch.lost() == 1);
}

/// `testErrorPolicies`: the masters are gone for good. The term ends with its validity, not before, and that is told.
#[tokio::test(start_paused = true)]
async fn test_error_policies() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(LEASE_MS)).await;
    let latch = Latch::start(masters.red_lock("/test"));
    let term = latch.term(1).await;
    crash(&cluster);
    let (left, begun) = (term.validity(), Instant::now());
    assert!(left > ms(LEASE_MS / 2));
    let (loss, ()) = timeout(ms(60_000), async {
        tokio::join!(term.lost(), term.cancellation_token().cancelled_owned())
    })
    .await
    .expect("told");
    assert_eq!(loss.cause, LossCause::Expired);
    let apart = begun.elapsed().abs_diff(left);
    assert!(apart <= ms(2), "{apart:?} from the end of the validity");
    sleep(ms(60_000)).await;
    assert_eq!((latch.gained(), latch.lost()), (1, 1));
    latch.close().await;
}

/// `testProperCloseWithoutConnectionEstablished`: a candidate gives up before any master was there. Nothing follows.
#[tokio::test(start_paused = true)]
async fn test_proper_close_without_connection_established() {
    let cluster = Cluster::new(3);
    crash(&cluster);
    let masters = cluster.connect_lazy(Masters::builder()).expect("good options");
    let latch = Latch::start(masters.red_lock("/one/two/me"));
    sleep(ms(3000)).await;
    timeout(ms(100), latch.close()).await.expect("at once");
    restart(&cluster);
    sleep(ms(120_000)).await;
    assert_eq!(executed(&cluster, "acquire"), 0);
    assert!(locks(&cluster).is_empty());
}

/// `testLostConnection`: ten candidates of one client. Nobody leads during an outage, and one afterwards.
#[tokio::test(start_paused = true)]
async fn test_lost_connection() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(LEASE_MS)).await;
    let latches = (0..10).map(|_| Latch::start(masters.red_lock("/one/two/me")));
    let latches: Vec<Latch> = latches.collect();
    sleep(ms(100)).await;
    assert_eq!(leaders(&latches), 1);
    crash(&cluster);
    sleep(ms(2 * LEASE_MS)).await;
    assert_eq!(leaders(&latches), 0);
    restart(&cluster);
    sleep(ms(20_000)).await;
    assert_eq!(leaders(&latches), 1);
}

/// `testNoServerAtStart`: candidates stand before the masters are there. One is elected, once, and is not unelected.
#[tokio::test(start_paused = true)]
async fn test_no_server_at_start() {
    let cluster = Cluster::new(3);
    crash(&cluster);
    let masters = cluster.connect_lazy(Masters::builder()).expect("good options");
    let latch = Latch::start(masters.red_lock("/one/two/me"));
    sleep(ms(5000)).await;
    assert_eq!(latch.gained(), 0);
    restart(&cluster);
    latch.term(1).await;
    sleep(ms(600_000)).await;
    assert_eq!(
        (latch.gained(), latch.lost(), latch.has_leadership()),
        (1, 0, true)
    );
}
