//! Worker processes that stop or end in the middle of something.

use anyhow::Result;
use rand::RngExt;
use rustix::process::Signal;

use super::{Expect, REMEMBERED, Row};
use crate::event::Done;
use crate::stage::Stage;

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "a client is stopped beyond its lease",
            promise: "exclusion; its write after it is stale and rejected, the unfenced twin takes it",
            strike: |stage| Box::pin(stopped(stage)),
            stale: Expect::Seen,
            available: true,
            ..REMEMBERED
        },
        Row {
            name: "a client is killed (-9) while it holds",
            promise: "exclusion, free after the lease",
            strike: |stage| Box::pin(killed(stage)),
            ..REMEMBERED
        },
    ]
}

pub(super) async fn stopped(stage: &mut Stage) -> Result<()> {
    let number = stage.somebody_stays().await?;
    stage.breaks(format!("worker {number} is stopped"));
    stage.witness.done(Done::Stopped { worker: number });
    stage.worker(number)?.signal(Signal::STOP)?;
    stage.pause(1500, 2500).await;
    stage.worker(number)?.signal(Signal::CONT)?;
    stage.witness.done(Done::Continued { worker: number });
    stage.pause(50, 50).await;
    Ok(())
}

async fn killed(stage: &mut Stage) -> Result<()> {
    let number = stage.somebody_mortal_stays().await?;
    let place = stage.worker(number)?.place;
    stage.breaks(format!("worker {number} is killed"));
    stage.worker(number)?.kill();
    stage.workers.retain(|worker| worker.number != number);
    if stage.rng.random_bool(0.5) {
        stage.pause(0, 1200).await;
    }
    stage.hire(place)
}
