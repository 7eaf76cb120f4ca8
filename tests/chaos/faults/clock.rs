//! Servers with wall clocks that are set.

use std::cmp::Reverse;

use anyhow::Result;
use futures::future::join_all;
use rand::RngExt;

use super::{PROMISED, Row};
use crate::settings::SetUp;
use crate::stage::Stage;
use crate::support::Keep;
use crate::support::clock;

pub(super) const CLOCKS: SetUp = SetUp {
    clocks: true,
    ..PROMISED.set_up
};

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "clocks of a minority step forward",
            promise: "exclusion (all have heard the clocks before), progress",
            set_up: CLOCKS,
            strike: |stage| Box::pin(forward(stage, false)),
            containers: false,
            ..PROMISED
        },
        Row {
            name: "clocks of a majority step forward",
            promise: "exclusion (all have heard the clocks before), progress",
            set_up: CLOCKS,
            strike: |stage| Box::pin(forward(stage, true)),
            containers: false,
            ..PROMISED
        },
        Row {
            name: "clocks of a minority step backward",
            promise: "exclusion, progress after; locks may stay for longer",
            set_up: CLOCKS,
            strike: |stage| Box::pin(backward(stage)),
            clean: false,
            containers: false,
            ..PROMISED
        },
        Row {
            name: "restart without data, then the clock steps forward",
            promise: "exclusion (all have seen the place change), progress",
            set_up: CLOCKS,
            strike: |stage| Box::pin(forward_after_restart(stage)),
            containers: false,
            ..PROMISED
        },
    ]
}

/// Moves a server's clock for good: going back would be a step, too.
fn step(stage: &mut Stage, master: usize, seconds: i64) -> Result<()> {
    stage.clocks[master] += seconds;
    clock::set(stage.server(master), stage.clocks[master])
}

pub(super) async fn forward(stage: &mut Stage, majority: bool) -> Result<()> {
    let masters = if majority {
        stage.some(stage.majority())
    } else {
        stage.minority()
    };
    let seconds = stage.rng.random_range(1..100);
    stage.somebody_stays().await?;
    stage.breaks(format!("the clocks of {masters:?} step by +{seconds} s"));
    for &master in &masters {
        step(stage, master, seconds)?;
    }
    stage.pause(300, 1000).await;
    Ok(())
}

async fn backward(stage: &mut Stage) -> Result<()> {
    let masters = stage.minority();
    let seconds = stage.rng.random_range(1..4);
    stage.somebody_stays().await?;
    stage.breaks(format!("the clocks of {masters:?} step by -{seconds} s"));
    for &master in &masters {
        step(stage, master, -seconds)?;
    }
    stage.pause(300, 1500).await;
    Ok(())
}

async fn forward_after_restart(stage: &mut Stage) -> Result<()> {
    // The masters are the same in every strike. A master with a clock an hour ahead of most takes no fencing tokens,
    // so no lock on all masters would be granted any more.
    let mut masters = stage.some(stage.masters());
    masters.sort_by_key(|&master| Reverse(stage.clocks[master]));
    masters.truncate(stage.majority());
    stage.somebody_stays().await?;
    stage.breaks(format!(
        "{masters:?} restart with nothing, their clocks step by +3600 s, connections break"
    ));
    let restarts = masters
        .iter()
        .map(|&master| stage.server(master).restart(Keep::Nothing));
    join_all(restarts).await;
    for &master in &masters {
        step(stage, master, 3600)?;
        for way in stage.ways_to(master) {
            way.reset_connections().await;
        }
    }
    stage.pause(200, 500).await;
    Ok(())
}
