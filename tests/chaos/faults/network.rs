//! Links that are slow, deaf in one direction, reset, or gone.

use std::time::Duration;

use anyhow::Result;
use rand::RngExt;
use tokio::time::{Instant, sleep};

use super::{REMEMBERED, Row};
use crate::settings::WORKERS;
use crate::stage::Stage;
use crate::support::{Direction, Proxy};

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "a minority's links deaf in one direction",
            promise: "exclusion, progress during and after",
            strike: |stage| Box::pin(deaf(stage)),
            available: true,
            ..REMEMBERED
        },
        Row {
            name: "slow links, 20 ms each way",
            promise: "exclusion, progress during and after",
            strike: |stage| Box::pin(slow(stage, 20)),
            available: true,
            containers: false,
            ..REMEMBERED
        },
        Row {
            name: "slow links, 200 ms each way (beyond the node timeout)",
            promise: "exclusion, progress after",
            strike: |stage| Box::pin(slow(stage, 200)),
            containers: false,
            ..REMEMBERED
        },
        Row {
            name: "connections reset in mid-request",
            promise: "exclusion, progress after",
            strike: |stage| Box::pin(resets(stage)),
            ..REMEMBERED
        },
        Row {
            name: "abandoned connections, bytes delivered late",
            promise: "exclusion, progress after",
            strike: |stage| Box::pin(late_bytes(stage)),
            containers: false,
            ..REMEMBERED
        },
        Row {
            name: "one client cut off from a minority",
            promise: "exclusion, progress during and after",
            strike: |stage| Box::pin(partition(stage, false)),
            available: true,
            containers: false,
            ..REMEMBERED
        },
        Row {
            name: "one client cut off from a majority",
            promise: "exclusion, the others' progress, its own after",
            strike: |stage| Box::pin(partition(stage, true)),
            available: true,
            ..REMEMBERED
        },
    ]
}

fn either(stage: &mut Stage) -> Direction {
    if stage.rng.random_bool(0.5) {
        Direction::ToServer
    } else {
        Direction::ToClient
    }
}

async fn deaf(stage: &mut Stage) -> Result<()> {
    let (masters, direction) = (stage.minority(), either(stage));
    stage.somebody_stays().await?;
    stage.breaks(format!("nothing goes {direction:?} of {masters:?}"));
    let each = |stage: &Stage, act: fn(&Proxy, Direction)| {
        for &master in &masters {
            stage.ways_to(master).for_each(|way| act(way, direction));
        }
    };
    each(stage, Proxy::pause);
    stage.pause(300, 2500).await;
    each(stage, Proxy::resume);
    Ok(())
}

async fn slow(stage: &mut Stage, ms: u64) -> Result<()> {
    stage.breaks(format!("{ms} ms each way, to all"));
    let set = |stage: &Stage, delay| {
        for master in 0..stage.masters() {
            for way in stage.ways_to(master) {
                way.set_delay(Direction::ToServer, delay);
                way.set_delay(Direction::ToClient, delay);
            }
        }
    };
    set(stage, Duration::from_millis(ms));
    stage.pause(1500, 2500).await;
    set(stage, Duration::ZERO);
    Ok(())
}

async fn resets(stage: &mut Stage) -> Result<()> {
    stage.breaks("connections are reset again and again");
    let end = Instant::now() + Duration::from_millis(1200);
    while Instant::now() < end {
        let master = stage.some(1)[0];
        let place = stage.rng.random_range(0..WORKERS);
        stage.way(place, master).reset_connections().await;
        stage.pause(5, 40).await;
    }
    Ok(())
}

/// Requests under way are held back, and arrive after their client has made a new connection.
async fn late_bytes(stage: &mut Stage) -> Result<()> {
    let masters = stage.some(stage.majority());
    stage.somebody_stays().await?;
    stage.breaks(format!(
        "requests to {masters:?} are held back, their connections abandoned"
    ));
    for &master in &masters {
        stage
            .ways_to(master)
            .for_each(|way| way.pause(Direction::ToServer));
    }
    stage.pause(20, 120).await;
    for &master in &masters {
        for way in stage.ways_to(master) {
            way.abandon().await;
            way.resume(Direction::ToServer);
        }
    }
    stage.pause(50, 900).await;
    stage.breaks("what was held back arrives");
    for &master in &masters {
        for way in stage.ways_to(master) {
            way.deliver_abandoned().await;
        }
    }
    Ok(())
}

async fn partition(stage: &mut Stage, majority: bool) -> Result<()> {
    let worker = stage.somebody_stays().await?;
    let place = stage.worker(worker)?.place;
    let masters = if majority {
        stage.some(stage.majority())
    } else {
        stage.minority()
    };
    let refused = stage.rng.random_bool(0.5);
    let how = if refused { "refused" } else { "silent" };
    stage.breaks(format!("worker {worker} is cut off from {masters:?} ({how})"));
    for &master in &masters {
        let way = stage.way(place, master);
        if refused {
            way.cut().await;
        } else {
            way.pause(Direction::ToServer);
            way.pause(Direction::ToClient);
        }
    }
    stage.pause(1500, 2500).await;
    for &master in &masters {
        let way = stage.way(place, master);
        way.heal();
        way.resume(Direction::ToServer);
        way.resume(Direction::ToClient);
    }
    sleep(Duration::from_millis(10)).await;
    Ok(())
}
