//! Masters that speak RESP2 alone, some of them or all. Calls of waiters come over a connection of their own, and
//! nothing takes longer or is promised less.

use std::time::{Duration, Instant};

use crate::support::{
    PATIENT, Script, Server, StandIn, called_before, connect, held_everywhere, patient, undisturbed, until,
    until_free, waiters, within,
};
use futures::future::{Either, select};
use multilock::{LossCause, Masters, MultiLockGuard, Unlocked};
use tokio::task::JoinHandle;

/// Three servers. The first `resp2` of them speak RESP2 alone.
async fn servers(resp2: usize) -> Vec<Server> {
    let mut servers = Vec::new();
    for number in 0..3 {
        let options: &[&str] = if number < resp2 {
            &["--rename-command", "HELLO", ""]
        } else {
            &[]
        };
        servers.push(Server::start_with(options).await);
    }
    servers
}

async fn client(servers: &[Server]) -> Masters {
    connect(servers.iter().map(Server::url)).await
}

/// A waiter asks again by itself after five seconds; a call comes long before.
const BY_CALL: Duration = Duration::from_secs(4);

type Waiting = JoinHandle<(MultiLockGuard, Instant)>;

/// Waits in a task of its own; when this returns it stands in the queue of every server.
async fn wait_for(name: &'static str, masters: &Masters, servers: &[Server]) -> Waiting {
    let before = waiters(&servers[0], name).await;
    let lock = masters.red_lock(name).wait(4 * PATIENT);
    let waiting = tokio::spawn(async move {
        let guard = lock.lock().await.expect("in the end");
        (guard, Instant::now())
    });
    for server in servers {
        until("it stands in the queue", async || {
            waiters(server, name).await > before
        })
        .await;
    }
    waiting
}

/// Takes the lock on all masters without waiting.
async fn hold(masters: &Masters) -> MultiLockGuard {
    let mut guard = None;
    until("it is free", async || {
        guard = masters.multi_lock("a").try_lock().await.ok();
        guard.is_some()
    })
    .await;
    guard.expect("it is held")
}

/// Unlocks; how long it took until the waiter was in.
async fn hand_off(guard: MultiLockGuard, waiting: Waiting) -> (MultiLockGuard, Duration) {
    let begun = Instant::now();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let (guard, granted) = waiting.await.expect("no panic");
    (guard, granted.saturating_duration_since(begun))
}

/// The number of listeners of each client's channel on a server.
async fn listeners(server: &Server) -> Vec<usize> {
    let channels = server.command(&["PUBSUB", "CHANNELS", "multilock:*"]).await;
    let channels: Vec<String> = redis::from_redis_value(channels).expect("texts");
    let mut command = vec!["PUBSUB", "NUMSUB"];
    command.extend(channels.iter().map(String::as_str));
    let counts = server.command(&command).await;
    let counts: Vec<(String, usize)> = redis::from_redis_value(counts).expect("pairs");
    counts.into_iter().map(|(_, count)| count).collect()
}

#[tokio::test]
async fn waiters_are_called_in_order_where_some_or_all_masters_speak_resp2() {
    for resp2 in [1, 2, 3] {
        called_before(BY_CALL, async || slowest_of_two_calls(resp2).await).await;
    }
}

/// Two waiters are called, one after the other. Returns the longer of the two times, and the longest that there is where
/// the second one came first: on a machine with other work the first one may come too late, and loses its turn.
async fn slowest_of_two_calls(resp2: usize) -> Duration {
    let servers = servers(resp2).await;
    let guard = held_everywhere(&client(&servers).await.red_lock("a")).await;
    let (first, second) = (client(&servers).await, client(&servers).await);
    let first = wait_for("a", &first, &servers).await;
    let second = wait_for("a", &second, &servers).await;
    let begun = Instant::now();
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let (first_took, next, last) = match select(first, second).await {
        Either::Left((first, second)) => {
            let (guard, granted) = first.expect("no panic");
            (granted.saturating_duration_since(begun), guard, second)
        }
        Either::Right((second, first)) => (Duration::MAX, second.expect("no panic").0, first),
    };
    let (guard, second_took) = hand_off(next, last).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    until_free(&servers, "a").await;
    first_took.max(second_took)
}

/// A client listens on each master from its connection on, over either protocol, and is gone with its connections.
#[tokio::test]
async fn a_client_listens_for_as_long_as_it_is_connected() {
    let servers = servers(2).await;
    let holder = client(&servers).await;
    let guard = hold(&holder).await;
    let waiter = client(&servers).await;
    for server in &servers {
        assert_eq!(listeners(server).await, [1, 1], "nobody waits yet");
    }
    let waiting = wait_for("a", &waiter, &servers).await;
    waiting.abort();
    let _ = waiting.await;
    drop(waiter);
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    drop(holder);
    for server in &servers {
        until("nobody listens", async || listeners(server).await.is_empty()).await;
        assert_eq!(waiters(server, "a").await, 0);
    }
}

/// A hold is renewed, told of its loss, and its orphans are released, as on any masters.
#[tokio::test]
async fn holds_are_renewed_and_lost_as_elsewhere() {
    undisturbed(Duration::from_millis(500), async || {
        let servers = servers(3).await;
        let lease = Duration::from_secs(3);
        let builder = patient(servers.iter().map(Server::url)).lease(lease);
        let builder = builder.node_timeout(Duration::from_secs(1));
        let masters = builder.connect().await.expect("masters");
        let guard = held_everywhere(&masters.red_lock("a")).await;
        tokio::time::sleep(2 * lease).await;
        assert!(guard.is_valid(), "it was renewed");
        servers[0].kill().await;
        tokio::time::sleep(lease).await;
        assert!(guard.is_valid(), "a minority is down");
        servers[1].kill().await;
        let lost = within("it is told", guard.lost()).await;
        assert!(!guard.is_valid());
        assert_eq!(lost.cause, LossCause::Expired);
    })
    .await;
}

/// Three stand-ins that know no RESP3, each before a server that does.
async fn stand_ins(servers: &[Server]) -> Vec<StandIn> {
    let script = Script::new().says("HELLO", "-NOPROTO unsupported protocol version");
    let mut stand_ins = Vec::new();
    for server in servers {
        stand_ins.push(StandIn::before(server, script.clone()).await);
    }
    stand_ins
}

/// The connection for messages ends under a waiter, with and without the other connection. Both are made again, the
/// waiter listens again, and is called.
#[tokio::test]
async fn a_waiter_whose_connection_for_messages_ended_is_called_all_the_same() {
    let servers = servers(0).await;
    let stand_ins = stand_ins(&servers).await;
    let holder = client(&servers).await;
    for whole in [false, true] {
        called_before(BY_CALL, async || {
            let waiter = connect(stand_ins.iter().map(StandIn::url)).await;
            let guard = hold(&holder).await;
            let waiting = wait_for("a", &waiter, &servers).await;
            let before: Vec<_> = stand_ins.iter().map(StandIn::connections).collect();
            for stand_in in &stand_ins {
                if whole {
                    stand_in.reset();
                } else {
                    stand_in.reset_subscribers();
                }
            }
            for (number, server) in servers.iter().enumerate() {
                until("it listens again, on two new connections", async || {
                    let connections = stand_ins[number].connections();
                    connections >= before[number] + 2 && listeners(server).await == [1, 1]
                })
                .await;
            }
            let (guard, took) = hand_off(guard, waiting).await;
            assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
            took
        })
        .await;
    }
}

/// From unlock to the next client's grant, over either protocol in turn, in the same run.
#[tokio::test]
async fn a_hand_off_takes_as_long_as_over_resp3() {
    const ROUNDS: usize = 40;
    let (resp3, resp2) = (servers(0).await, servers(3).await);
    let mut took = [Vec::new(), Vec::new()];
    let mut pairs = Vec::new();
    for servers in [&resp3, &resp2] {
        pairs.push([client(servers).await, client(servers).await]);
    }
    for round in 0..ROUNDS {
        for (protocol, servers) in [&resp3, &resp2].into_iter().enumerate() {
            let [one, other] = &pairs[protocol];
            let (holder, waiter) = if round % 2 == 0 {
                (one, other)
            } else {
                (other, one)
            };
            let guard = held_everywhere(&holder.red_lock("a")).await;
            let waiting = wait_for("a", waiter, servers).await;
            let (guard, hand_off) = hand_off(guard, waiting).await;
            took[protocol].push(hand_off);
            assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[ROUNDS / 2]
    };
    let [resp3, resp2] = took.each_mut().map(median);
    println!("hand-off: resp3={resp3:?} resp2={resp2:?} (medians of {ROUNDS})");
    // No tight bound on a shared machine; a timer takes seconds.
    assert!(
        resp2 < 10 * resp3 + Duration::from_secs(1),
        "{resp2:?} against {resp3:?}"
    );
}
