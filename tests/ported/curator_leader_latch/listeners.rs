//! Notices to the tasks of a leader about its terms.

use multilock::FencingToken;
use multilock::sim::Cluster;
use tokio::time::{sleep, timeout};

use crate::latch::{Latch, leaders};
use crate::memory::{connect, ms, settle};
use crate::steps::{clients, locks};

/// Ten candidates lead twice each: they step down from the first term, and give up in the second. Returns them with
/// the tokens of all terms in order.
async fn twice_each(cluster: &Cluster) -> (usize, Vec<FencingToken>) {
    let clients = clients(cluster, 10).await;
    let latches = clients
        .iter()
        .map(|masters| Latch::start(masters.red_lock("/one/two/me")));
    let mut latches: Vec<Latch> = latches.collect();
    let (mut stepped_down, mut tokens) = (0, Vec::new());
    while !latches.is_empty() {
        settle().await;
        assert_eq!(leaders(&latches), 1, "one leads");
        let place = latches.iter().position(Latch::has_leadership).expect("one leads");
        let latch = &latches[place];
        tokens.extend(latch.tokens().last());
        assert_eq!(
            latch.lost() + 1,
            latch.gained(),
            "its former terms were ended, and told"
        );
        if latch.gained() == 1 {
            latch.step_down();
            stepped_down += 1;
        } else {
            latches.remove(place).close().await;
        }
    }
    (stepped_down, tokens)
}

/// `testCallbackSanity`: twenty terms. The leader steps down from ten of them.
#[tokio::test(start_paused = true)]
async fn test_callback_sanity() {
    let cluster = Cluster::new(3);
    let led = timeout(ms(60_000), twice_each(&cluster)).await;
    let (stepped_down, tokens) = led.expect("everybody has its turns");
    assert_eq!((tokens.len(), stepped_down), (20, 10));
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    settle().await;
    assert!(locks(&cluster).is_empty(), "all are closed");
}

/// `testCallbackNotifyLeader`: a leader that gives up is told of the end of its term. Here always: no mode is silent.
#[tokio::test(start_paused = true)]
async fn test_callback_notify_leader() {
    let masters = connect(&Cluster::new(3)).await;
    let latch = Latch::start(masters.red_lock("/one/two/me"));
    let first = latch.term(1).await.cancellation_token();
    latch.step_down();
    let second = latch.term(2).await.cancellation_token();
    assert!(first.is_cancelled() && !second.is_cancelled());
    latch.close().await;
    assert!(second.is_cancelled());
}

/// `testCallbackDontNotify`: a candidate that has never led is told of no end, and a leader of one.
#[tokio::test(start_paused = true)]
async fn test_callback_dont_notify() {
    let cluster = Cluster::new(3);
    let clients = clients(&cluster, 2).await;
    let leader = Latch::start(clients[0].red_lock("/one/two/me"));
    let term = leader.term(1).await;
    let waits = Latch::start(clients[1].red_lock("/one/two/me"));
    sleep(ms(1000)).await;
    assert_eq!((waits.gained(), waits.lost()), (0, 0));
    waits.close().await;
    sleep(ms(1000)).await;
    assert_eq!(
        (leader.gained(), leader.lost()),
        (1, 0),
        "the other one's end is none of its own"
    );
    leader.close().await;
    assert!(term.cancellation_token().is_cancelled() && !term.is_valid());
}
