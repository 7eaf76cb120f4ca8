//! Masters that are frozen, flushed, full, or not the ones they were.

use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use rand::RngExt;
use tokio::time::{Instant, sleep};

use super::{Expect, PROMISED, REMEMBERED, Row};
use crate::event::{Done, now};
use crate::settings::SetUp;
use crate::stage::Stage;
use crate::support::Server;

const REPLACEABLE: SetUp = SetUp {
    replaceable: true,
    ..PROMISED.set_up
};

/// Other servers, with older fences, take the place of masters.
const OLDER: Row = Row {
    reader_tokens: false,
    ..PROMISED
};

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "SIGSTOP of a minority, within the lease",
            promise: "exclusion, progress after",
            strike: |stage| Box::pin(frozen(stage, (50, 600))),
            containers: false,
            ..REMEMBERED
        },
        Row {
            name: "SIGSTOP of a minority, beyond the lease",
            promise: "exclusion, progress during and after",
            strike: |stage| Box::pin(frozen(stage, (1300, 2600))),
            available: true,
            ..REMEMBERED
        },
        Row {
            name: "SIGSTOP of a majority",
            promise: "unreachable, never held, never granted",
            strike: |stage| Box::pin(frozen_majority(stage)),
            blackout: true,
            ..REMEMBERED
        },
        Row {
            name: "CLIENT KILL of all connections",
            promise: "exclusion, progress after",
            strike: |stage| Box::pin(client_kill(stage)),
            ..REMEMBERED
        },
        Row {
            name: "SCRIPT FLUSH in a loop",
            promise: "exclusion, progress during and after",
            strike: |stage| Box::pin(script_flush(stage)),
            available: true,
            ..REMEMBERED
        },
        Row {
            name: "out of memory, noeviction",
            promise: "exclusion, progress after",
            strike: |stage| Box::pin(full(stage, "noeviction")),
            ..PROMISED
        },
        Row {
            name: "out of memory, allkeys-random (allowed in the builder)",
            promise: "fencing only, as clocks agree",
            set_up: SetUp {
                allow_eviction: true,
                ..PROMISED.set_up
            },
            strike: |stage| Box::pin(full(stage, "allkeys-random")),
            overlaps: Expect::Open,
            containers: false,
            ..PROMISED
        },
        Row {
            name: "FLUSHALL of a majority",
            promise: "fencing only, as clocks agree",
            strike: |stage| Box::pin(flush(stage)),
            overlaps: Expect::Open,
            ..PROMISED
        },
        Row {
            name: "FLUSHALL of a majority, strict",
            promise: "exclusion (records looked at), progress",
            set_up: SetUp {
                strict: true,
                ..PROMISED.set_up
            },
            strike: |stage| Box::pin(flush(stage)),
            ..PROMISED
        },
        Row {
            name: "failover to a stale copy",
            promise: "exclusion (quarantine of the promoted), progress",
            set_up: REPLACEABLE,
            strike: |stage| Box::pin(failover(stage)),
            containers: false,
            ..OLDER
        },
        Row {
            name: "quiet re-pointing to other, older servers",
            promise: "exclusion (all have seen the place change), progress",
            set_up: REPLACEABLE,
            prepare: Some(|stage| Box::pin(spares(stage))),
            strike: |stage| Box::pin(re_point(stage)),
            containers: false,
            ..OLDER
        },
        Row {
            name: "quiet re-pointing to other, older servers, strict",
            promise: "exclusion (records looked at), progress",
            set_up: SetUp {
                strict: true,
                ..REPLACEABLE
            },
            prepare: Some(|stage| Box::pin(spares(stage))),
            strike: |stage| Box::pin(re_point(stage)),
            containers: false,
            ..OLDER
        },
    ]
}

async fn frozen(stage: &mut Stage, (from_ms, to_ms): (u64, u64)) -> Result<()> {
    let masters = stage.minority();
    stage.somebody_stays().await?;
    stage.breaks(format!("SIGSTOP to {masters:?}"));
    join_all(masters.iter().map(|&master| stage.server(master).freeze())).await;
    stage.pause(from_ms, to_ms).await;
    join_all(masters.iter().map(|&master| stage.server(master).thaw())).await;
    Ok(())
}

async fn frozen_majority(stage: &mut Stage) -> Result<()> {
    let masters = stage.some(stage.majority());
    stage.somebody_stays().await?;
    join_all(masters.iter().map(|&master| stage.server(master).freeze())).await;
    stage.breaks(format!("SIGSTOP to {masters:?}"));
    stage.pause(2200, 2800).await;
    // Healed from the first that answers again.
    stage.witness.done(Done::Healed);
    join_all(masters.iter().map(|&master| stage.server(master).thaw())).await;
    Ok(())
}

async fn client_kill(stage: &mut Stage) -> Result<()> {
    stage.breaks("all connections are killed by the servers, again and again");
    for _ in 0..8 {
        let n = stage.rng.random_range(1..=stage.masters());
        for master in stage.some(n) {
            for kind in ["normal", "pubsub"] {
                stage.tell(master, &["CLIENT", "KILL", "TYPE", kind]).await?;
            }
        }
        stage.pause(20, 150).await;
    }
    Ok(())
}

async fn script_flush(stage: &mut Stage) -> Result<()> {
    stage.breaks("scripts are forgotten again and again");
    let end = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < end {
        let master = stage.some(1)[0];
        stage.tell(master, &["SCRIPT", "FLUSH"]).await?;
        stage.pause(2, 15).await;
    }
    Ok(())
}

async fn full(stage: &mut Stage, policy: &str) -> Result<()> {
    let masters = stage.some(stage.majority());
    stage.somebody_stays().await?;
    stage.breaks(format!("{masters:?} are full ({policy})"));
    for &master in &masters {
        stage
            .tell(master, &["CONFIG", "SET", "maxmemory-policy", policy])
            .await?;
        stage.tell(master, &["CONFIG", "SET", "maxmemory", "1"]).await?;
    }
    stage.pause(100, 700).await;
    for &master in &masters {
        stage.tell(master, &["CONFIG", "SET", "maxmemory", "0"]).await?;
        stage
            .tell(master, &["CONFIG", "SET", "maxmemory-policy", "noeviction"])
            .await?;
    }
    stage.pause(100, 300).await;
    Ok(())
}

async fn flush(stage: &mut Stage) -> Result<()> {
    let masters = stage.some(stage.majority());
    stage.somebody_stays().await?;
    stage.breaks(format!("FLUSHALL on {masters:?}"));
    for &master in &masters {
        stage.tell(master, &["FLUSHALL"]).await?;
    }
    stage.pause(100, 400).await;
    Ok(())
}

/// The replicas stop following a moment before the masters die, and take their places.
async fn failover(stage: &mut Stage) -> Result<()> {
    let masters = stage.some(stage.majority());
    let mut replicas = Vec::new();
    for &master in &masters {
        let port = stage.server(master).port().to_string();
        stage
            .tell(master, &["CONFIG", "SET", "repl-diskless-sync-delay", "0"])
            .await?;
        // Told, not started with: it must be a master still when it is started again.
        let replica = Server::start_with(&[]).await;
        replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
        replicas.push(replica);
    }
    for replica in &replicas {
        let begun = Instant::now();
        while !info(replica).await.contains("master_link_status:up") {
            anyhow::ensure!(
                begun.elapsed() < Duration::from_secs(30),
                "a replica does not follow"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }
    for replica in &replicas {
        replica.command(&["REPLICAOF", "NO", "ONE"]).await;
    }
    stage.somebody_stays_since(now()).await?;
    stage.breaks(format!(
        "{masters:?} die; copies from a moment ago take their places"
    ));
    for (&master, replica) in masters.iter().zip(replicas) {
        let old = stage.replace(master, replica);
        old.kill().await;
    }
    stage.pause(100, 400).await;
    Ok(())
}

async fn info(server: &Server) -> String {
    // A server that is busy with its disk does not answer at once.
    let answer = server.try_command(&["INFO", "replication"]).await.ok();
    answer
        .and_then(|info| redis::from_redis_value(info).ok())
        .unwrap_or_default()
}

/// Servers that have been there for as long as the masters.
async fn spares(stage: &mut Stage) -> Result<()> {
    for _ in 0..stage.majority() {
        stage.spare.push(Server::start_with(&[]).await);
    }
    sleep(Duration::from_millis(3100)).await;
    Ok(())
}

/// Places are changed with servers that have run for longer than any quarantine and know nothing, or old things.
async fn re_point(stage: &mut Stage) -> Result<()> {
    let masters = stage.some(stage.majority());
    stage.somebody_stays().await?;
    stage.breaks(format!("{masters:?} are other servers from now on"));
    for &master in &masters {
        let spare = stage.spare.remove(0);
        let old = stage.replace(master, spare);
        stage.spare.push(old);
        for way in stage.ways_to(master) {
            way.reset_connections().await;
        }
    }
    stage.pause(100, 400).await;
    Ok(())
}
