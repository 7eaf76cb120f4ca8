//! Commands that were sent over a connection that is given up may be executed later, or never, or between two later
//! commands. They must not touch a newer hold. If the server lets us end the old connection, they must not arrive
//! at all.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::support::{
    Cluster, Direction, PATIENT, Proxy, Server, all_executed, connect, field, held_everywhere, patient,
    until, until_free,
};
use futures::poll;
use multilock::{Masters, Policy, Unlocked};
use multilock_test_support::scripts::RELEASE;
use rand::RngExt;
use tokio::task::yield_now;
use tokio::time::sleep;

/// So long that nothing here is freed by its end.
const LONG: Duration = Duration::from_secs(3600);
/// Long enough for wrongly sent commands to arrive.
const A_WHILE: Duration = Duration::from_millis(200);

/// Three masters, each behind a proxy.
struct Net {
    servers: Vec<Server>,
    proxies: Vec<Proxy>,
    masters: Masters,
}

impl Net {
    /// `rules` are the ACL rules of the user that the client logs in as.
    async fn start(rules: &[&str]) -> Self {
        let (mut servers, mut proxies) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let server = Server::start_with(&[]).await;
            let user = ["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"];
            server.command(&[&user[..], rules].concat()).await;
            proxies.push(Proxy::start(server.port()).await);
            servers.push(server);
        }
        let urls = proxies
            .iter()
            .map(|proxy| format!("redis://app:secret@127.0.0.1:{}", proxy.port()));
        let masters = patient(urls)
            .for_tests(LONG)
            .connect()
            .await
            .expect("masters that can be used");
        Self {
            servers,
            proxies,
            masters,
        }
    }

    /// Gives the connection to one of them up, and waits until there is another one.
    async fn abandon(&self, place: usize) {
        let proxy = &self.proxies[place];
        let before = proxy.connections();
        proxy.abandon().await;
        for direction in [Direction::ToServer, Direction::ToClient] {
            proxy.resume(direction);
        }
        until("there is another connection", async || {
            proxy.connections() > before
        })
        .await;
    }

    async fn fields(&self, name: &str) -> Vec<Option<String>> {
        let mut fields = Vec::new();
        for server in &self.servers {
            fields.push(field(server, name).await);
        }
        fields
    }
}

/// Rules under which the old socket cannot be ended.
const NO_KILL: &[&str] = &["-client|kill"];

/// Attempt 1 is granted by 0 and 2 and given up; the link to 2 breaks before 2 has read the release;
/// attempt 2 wins everywhere; only then does the old socket deliver attempt 1's release.
#[tokio::test]
async fn stale_rollback() {
    let net = Net::start(NO_KILL).await;
    {
        let lock = net.masters.multi_lock("a");
        let mut attempt = pin!(lock.try_lock());
        // The answers of 0 and 2 are not heard, 1 does not even hear the question.
        net.proxies[0].pause(Direction::ToClient);
        net.proxies[1].pause(Direction::ToServer);
        net.proxies[2].pause(Direction::ToClient);
        assert!(poll!(&mut attempt).is_pending());
        for place in [0, 2] {
            until("it is granted", async || net.servers[place].exists("a").await).await;
        }
        net.proxies[2].pause(Direction::ToServer);
    }
    let first = field(&net.servers[2], "a").await.expect("attempt 1");
    until_free([&net.servers[0]], "a").await;
    // Until the release is in the proxy's hands.
    sleep(A_WHILE).await;
    net.abandon(2).await;
    net.proxies[0].resume(Direction::ToClient);
    net.proxies[1].resume(Direction::ToServer);

    let second = held_everywhere(&net.masters.multi_lock("a").wait(PATIENT)).await;
    let held = net.fields("a").await;
    assert!(
        held.iter()
            .all(|field| *field == held[0] && field.as_ref() != Some(&first))
    );
    let stale = net.proxies[2].deliver_abandoned().await;
    assert!(stale > 0, "the release was held back");
    assert_eq!(net.fields("a").await, held, "attempt 2 is whole");
    second.extend(LONG).await.expect("held");
    assert_eq!(second.unlock().await, Ok(Unlocked::Released));
    until_free(&net.servers, "a").await;
}

/// The acquire itself is late: sent, given up, and delivered over the old socket when everything else
/// is over.
async fn abandoned_acquire(net: &Net) {
    net.proxies[2].pause(Direction::ToServer);
    let guard = net.masters.red_lock("a").try_lock().await.expect("two are well");
    sleep(A_WHILE).await;
    net.abandon(2).await;
    // The next connection is set up before anything else is said over it.
    until("it votes again", async || {
        net.masters.multi_lock("probe").try_lock().await.is_ok()
    })
    .await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    all_executed(&net.masters).await;
    until_free(&net.servers, "a").await;
    net.proxies[2].deliver_abandoned().await;
    sleep(A_WHILE).await;
}

#[tokio::test]
async fn an_abandoned_acquire_never_lands() {
    let net = Net::start(&[]).await;
    abandoned_acquire(&net).await;
    assert_eq!(net.fields("a").await, [None, None, None]);
}

/// If the server does not let us end the old connection, the harm is bounded: an orphan without an owner, which costs one
/// vote until its lease ends.
#[tokio::test]
async fn an_abandoned_acquire_is_an_orphan_where_it_cannot_be_ended() {
    let net = Net::start(NO_KILL).await;
    abandoned_acquire(&net).await;
    let [None, None, Some(_)] = net.fields("a").await[..] else {
        panic!("without CLIENT KILL it lands, or this and the other test show nothing");
    };
    assert!(
        (1..=3_600_000).contains(&net.servers[2].pttl("a").await),
        "not for ever"
    );
    let guard = net.masters.red_lock("a").try_lock().await.expect("two are free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let forced = net
        .masters
        .red_lock("a")
        .force_release()
        .await
        .expect("all are well");
    assert_eq!(forced.former.len(), 1);
    until_free(&net.servers, "a").await;
}

/// Only the connection's successor ends it: another client of the same servers is left alone.
#[tokio::test]
async fn nobody_else_is_ended() {
    let net = Net::start(&[]).await;
    let mut proxies = Vec::new();
    for server in &net.servers {
        proxies.push(Proxy::start(server.port()).await);
    }
    let other = patient(proxies.iter().map(Proxy::url))
        .for_tests(LONG)
        .connect()
        .await;
    let other = other.expect("masters that can be used");
    for place in 0..3 {
        net.abandon(place).await;
    }
    until("all vote again", async || {
        net.masters.multi_lock("probe").try_lock().await.is_ok()
    })
    .await;
    let guard = other.multi_lock("a").try_lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    for proxy in &proxies {
        assert_eq!(proxy.connections(), 1, "the first one is still in use");
    }
}

/// Polls `future` at most `most` times, with everybody else's turn between two polls. Returns the number of polls,
/// and the output.
async fn polled<F: Future>(future: F, most: usize) -> (usize, Option<F::Output>) {
    let mut future = pin!(future);
    for polls in 1..=most {
        if let Poll::Ready(output) = poll!(&mut future) {
            return (polls, Some(output));
        }
        yield_now().await;
    }
    (most, None)
}

/// Commands that were sent over the same connections before are done when this is. A second time covers the effects
/// of the first round. Then there is nothing.
async fn assert_nothing_left(masters: &Masters, cluster: &Cluster, when: &str) {
    for _ in 0..2 {
        all_executed(masters).await;
    }
    for server in cluster.servers() {
        assert_eq!(server.keys().await, Vec::<String>::new(), "{when}");
    }
}

/// The server knows how to release, and nothing else any more.
async fn forget_all_but_release(server: &Server) {
    server.command(&["SCRIPT", "FLUSH"]).await;
    server.command(&["SCRIPT", "LOAD", RELEASE]).await;
}

/// The server has forgotten the script, so the acquire goes twice over the line: dropped between the
/// two, the second must not follow the release.
#[tokio::test]
async fn noscript_cancel() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let (mut most, mut dropped) = (0, 0);
    loop {
        for server in cluster.servers() {
            // Every second time the release has to go twice as well.
            forget_all_but_release(server).await;
            if dropped % 2 == 1 {
                server.command(&["SCRIPT", "FLUSH"]).await;
            }
        }
        let (polls, guard) = polled(masters.multi_lock("a").try_lock(), most).await;
        let granted = guard.is_some();
        drop(guard);
        assert_nothing_left(&masters, &cluster, &format!("dropped after {polls} polls")).await;
        if granted {
            break;
        }
        dropped += 1;
        most += 1 + most / 8;
    }
    assert!(dropped > 5, "only {dropped} moments were tried");
}

/// Whenever the caller loses patience, shortly afterwards there is nothing left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_at_any_moment() {
    const TRIES: usize = 100;
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let mut dropped = 0;
    for try_ in 0..TRIES {
        let policy = [Policy::RedLock, Policy::MultiLock][try_ % 2];
        let lock = masters.lock("a", policy);
        // However often that is: it ends by its deadline.
        let (whole, guard) = polled(lock.try_lock(), usize::MAX).await;
        drop(guard.expect("done"));
        assert_nothing_left(&masters, &cluster, "dropped guard").await;
        let most = rand::rng().random_range(0..=whole);
        let (polls, guard) = polled(lock.try_lock(), most).await;
        dropped += usize::from(guard.is_none());
        drop(guard);
        assert_nothing_left(
            &masters,
            &cluster,
            &format!("{policy} dropped after {polls} polls"),
        )
        .await;
    }
    assert!(
        dropped > TRIES / 4,
        "only {dropped} were dropped before they were done"
    );
}
