//! Leaders, the clients that watch them, and the captions of holders.

use std::future::pending;
use std::time::Duration;

use multilock::{CancellationToken, Leadership, Masters, MultiLock};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use crate::support::{Cluster, Server, connect, held_everywhere, patient, three, until, within};

/// Leads until the token is cancelled: the leaderships, and the end.
fn lead(
    lock: MultiLock,
) -> (
    UnboundedReceiver<Leadership>,
    CancellationToken,
    JoinHandle<Option<()>>,
) {
    let (terms, begun) = unbounded_channel();
    let stop = CancellationToken::new();
    let until = stop.clone().cancelled_owned();
    let leading = tokio::spawn(async move {
        let body = |leadership| {
            let _ = terms.send(leadership);
            pending::<()>()
        };
        lock.grace(Duration::ZERO)
            .lead_until(until, body)
            .await
            .expect("no error")
    });
    (begun, stop, leading)
}

async fn labelled(servers: &[Server], label: &str) -> Masters {
    let urls = servers.iter().map(Server::url);
    patient(urls)
        .client_label(label)
        .connect()
        .await
        .expect("all are well")
}

async fn captions(servers: &[Server]) -> usize {
    let mut all = 0;
    for server in servers {
        let keys: Vec<String> =
            redis::from_redis_value(server.command(&["KEYS", "multilock_about:*"]).await).expect("keys");
        all += keys.len();
    }
    all
}

/// Turns of two candidates, as a third client sees them.
async fn turns_are_seen(servers: Vec<Server>) {
    let watcher = connect(servers.iter().map(Server::url)).await;
    let mut told = watcher.watch_leader("leader").expect("a name of a lock");
    let (one, two) = (labelled(&servers, "one").await, labelled(&servers, "two").await);
    let lock = |masters: &Masters, about: &str| masters.red_lock("leader").about(about);
    let (mut first, stop_first, first_ends) = lead(lock(&one, "http://one"));
    let term = within("one leads", first.recv()).await.expect("a term");
    let (mut second, stop_second, second_ends) = lead(lock(&two, "http://two"));
    let is = |about: &'static str| {
        move |leader: &Option<multilock::Leader>| {
            leader
                .as_ref()
                .is_some_and(|leader| leader.about.as_deref() == Some(about))
        }
    };
    let shown = within("it is shown", told.wait_for(is("http://one")))
        .await
        .expect("it goes on")
        .clone();
    let shown = shown.expect("a leader");
    assert_eq!(
        (shown.token, shown.holder()),
        (term.fencing_token(), term.holder())
    );
    until("its label is told", async || {
        let seen = watcher
            .red_lock("leader")
            .inspect()
            .await
            .expect("looks")
            .remove(0);
        seen.agreed
            .is_some_and(|holder| holder.client_label() == Some("one"))
    })
    .await;
    within("another one waits", term.wanted()).await;
    term.step_down();
    let next = within("the other one leads", second.recv())
        .await
        .expect("a term");
    assert!(next.fencing_token() > term.fencing_token() && !term.is_valid());
    let shown = within("it is shown", told.wait_for(is("http://two")))
        .await
        .expect("it goes on")
        .clone();
    assert_eq!(shown.map(|leader| leader.token), Some(next.fencing_token()));
    let refused = watcher
        .red_lock("leader")
        .try_lock()
        .await
        .expect_err("it is held");
    assert_eq!(refused.about(), Some("http://two"));
    stop_first.cancel();
    stop_second.cancel();
    assert_eq!(within("both end", first_ends).await.expect("no panic"), None);
    assert_eq!(within("both end", second_ends).await.expect("no panic"), None);
    within("nobody leads", told.wait_for(Option::is_none))
        .await
        .expect("it goes on");
    until("nothing is left", async || captions(&servers).await == 0).await;
}

#[tokio::test]
async fn whoever_watches_is_shown_each_leader() {
    turns_are_seen(three(&[]).await).await;
}

/// Published messages come over the second connection there.
#[tokio::test]
async fn the_same_over_resp2() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start_with(&["--rename-command", "HELLO", ""]).await);
    }
    turns_are_seen(servers).await;
}

/// A client without ACL permission for the keys of captions, or for the channels, locks and leads as ever.
#[tokio::test]
async fn an_acl_may_deny_captions_and_channels() {
    let servers = three(&[]).await;
    let keys = [
        "set",
        "revoked:*",
        "queue:*",
        "readers_queue:*",
        "readers:*",
        "deadlines:*",
        "fence:*",
        "client:*",
    ]
    .map(|key| format!("~multilock_{key}"));
    let rules = [
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">secret",
        "resetkeys",
        "resetchannels",
        "+@all",
        "~a",
    ];
    let rules: Vec<&str> = rules.into_iter().chain(keys.iter().map(String::as_str)).collect();
    for server in &servers {
        server.command(&rules).await;
    }
    let urls = servers
        .iter()
        .map(|server| format!("redis://app:secret@127.0.0.1:{}", server.port()));
    let denied = patient(urls).connect().await.expect("allowed");
    let allowed = connect(servers.iter().map(Server::url)).await;
    let guard = held_everywhere(&denied.red_lock("a").about("rows").announced()).await;
    assert_eq!(captions(&servers).await, 0);
    let seen = allowed.red_lock("a").inspect().await.expect("looks").remove(0);
    assert_eq!(seen.agreed, Some(guard.holder()));
    guard.unlock().await.expect("all answer");
    let guard = held_everywhere(&allowed.red_lock("a").about("rows")).await;
    let refused = denied.red_lock("a").try_lock().await.expect_err("held");
    assert!(refused.is_contended() && refused.about().is_none(), "{refused}");
    guard.unlock().await.expect("all answer");
    let (mut terms, stop, ends) = lead(denied.red_lock("a"));
    within("it leads", terms.recv()).await.expect("a term");
    stop.cancel();
    assert_eq!(within("it ends", ends).await.expect("no panic"), None);
}

/// A process that dies is shown until its lease ends.
#[tokio::test]
async fn a_client_that_is_gone_leads_until_its_lease_ends() {
    let cluster = Cluster::start(3).await;
    let watcher = connect(cluster.urls()).await;
    let mut told = watcher.watch_leader("leader").expect("a name of a lock");
    let lease = Duration::from_secs(6);
    let leader = patient(cluster.urls())
        .node_timeout(lease / 3)
        .lease(lease)
        .connect()
        .await
        .expect("all are well");
    let guard = leader.red_lock("leader").announced().lock().await.expect("free");
    within("it is shown", told.wait_for(Option::is_some))
        .await
        .expect("it goes on");
    // A whole lease from here, however long ago the last renewal was.
    let begun = std::time::Instant::now();
    guard.extend(lease).await.expect("held");
    guard.leak();
    drop(leader);
    within("its lease ends", told.wait_for(Option::is_none))
        .await
        .expect("it goes on");
    assert!(begun.elapsed() > lease * 9 / 10, "{:?}", begun.elapsed());
}

/// Without permission for the channels of Redisson, `beside_redisson` shows nobody's releases. A watcher is told of leaders all
/// the same, also over the next connections.
#[tokio::test]
async fn a_channel_that_is_denied_takes_no_other_with_it() {
    let servers = three(&[]).await;
    for server in &servers {
        let rules = [
            "ACL",
            "SETUSER",
            "app",
            "on",
            ">secret",
            "~*",
            "&multilock:*",
            "+@all",
        ];
        server.command(&rules).await;
        let hold = ["HSET", "a", "9a7c4c1e-0000-4000-8000-000000000001:1", "1"];
        server.command(&hold).await;
    }
    let urls = servers
        .iter()
        .map(|server| format!("redis://app:secret@{}", crate::support::label(server)));
    let builder = patient(urls).beside_redisson(true);
    let client = builder.connect().await.expect("masters that can be used");
    let _told = client.watch_leader("leader").expect("a name of a lock");
    let lock = client.red_lock("a");
    let waiting = tokio::spawn(async move { lock.lock().await });
    let listeners = async |server: &Server| {
        let counted = server
            .command(&["PUBSUB", "NUMSUB", "multilock:leads:{leader}"])
            .await;
        let counted: Vec<(String, usize)> = redis::from_redis_value(counted).expect("pairs");
        counted[0].1
    };
    let is_refused = async |server: &Server| {
        let log: String =
            redis::from_redis_value(server.command(&["INFO", "commandstats"]).await).expect("a text");
        let calls = log.lines().find(|line| line.starts_with("cmdstat_subscribe:"));
        calls.is_some_and(|line| !line.contains("rejected_calls=0"))
    };
    for server in &servers {
        until("the waiter has tried to listen", async || {
            is_refused(server).await
        })
        .await;
        until("the watcher listens", async || listeners(server).await == 1).await;
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    }
    for server in &servers {
        until("it listens again", async || listeners(server).await == 1).await;
    }
    waiting.abort();
}
