//! Masters that are killed and come back, with their data or without.

use anyhow::Result;
use futures::future::join_all;
use rand::RngExt;

use super::{Expect, PROMISED, Row};
use crate::event::Done;
use crate::settings::SetUp;
use crate::stage::Stage;
use crate::support::{Keep, Proxy};

const TRUSTING: SetUp = SetUp {
    no_quarantine: true,
    ..PROMISED.set_up
};

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "kill -9, restart with data, fsync always, no quarantine",
            promise: "exclusion, progress",
            set_up: TRUSTING,
            strike: |stage| Box::pin(minority(stage, Keep::Data)),
            available: true,
            ..PROMISED
        },
        Row {
            name: "kill -9, restart with data, fsync everysec",
            promise: "exclusion, progress",
            set_up: SetUp {
                args: &["--appendfsync", "everysec"],
                ..PROMISED.set_up
            },
            strike: |stage| Box::pin(minority(stage, Keep::Data)),
            available: true,
            containers: false,
            ..PROMISED
        },
        Row {
            name: "kill -9, restart without data",
            promise: "exclusion (quarantine), progress",
            strike: |stage| Box::pin(amnesia(stage)),
            ..PROMISED
        },
        Row {
            name: "kill -9, restart without data, no quarantine",
            promise: "fencing only: two holders must be seen",
            set_up: SetUp {
                outlasts_restarts: true,
                ..TRUSTING
            },
            strike: |stage| Box::pin(amnesia(stage)),
            overlaps: Expect::Seen,
            stale: Expect::Seen,
            // Its harm has to be seen within a lease, and a container may take longer to start.
            containers: false,
            ..PROMISED
        },
        Row {
            name: "a majority down",
            promise: "unreachable, never held, never granted",
            strike: |stage| Box::pin(blackout(stage)),
            blackout: true,
            ..PROMISED
        },
        Row {
            name: "all restarted at once, with data",
            promise: "exclusion, progress after the quarantine",
            strike: |stage| Box::pin(everybody(stage, Keep::Data)),
            ..PROMISED
        },
        Row {
            name: "all restarted at once, without data",
            promise: "exclusion (quarantine), progress after it",
            strike: |stage| Box::pin(everybody(stage, Keep::Nothing)),
            ..PROMISED
        },
    ]
}

/// Kills, waits, and starts again, all of them at once.
async fn restart(stage: &mut Stage, masters: &[usize], down_ms: (u64, u64), keep: Keep) {
    if keep == Keep::Nothing && stage.on_containers() {
        return restart_emptied(stage, masters, down_ms).await;
    }
    join_all(masters.iter().map(|&master| stage.server(master).kill())).await;
    stage.pause(down_ms.0, down_ms.1).await;
    join_all(masters.iter().map(|&master| stage.server(master).restart(keep))).await;
}

/// A new volume for a container takes so long that every lease has ended. So nobody can reach the masters while they
/// are emptied, and a later client meets masters that have started without data.
async fn restart_emptied(stage: &mut Stage, masters: &[usize], down_ms: (u64, u64)) {
    for &master in masters {
        join_all(stage.ways_to(master).map(Proxy::cut)).await;
    }
    join_all(masters.iter().map(|&master| stage.server(master).flushall())).await;
    join_all(masters.iter().map(|&master| stage.server(master).kill())).await;
    stage.pause(down_ms.0, down_ms.1).await;
    join_all(
        masters
            .iter()
            .map(|&master| stage.server(master).restart(Keep::Data)),
    )
    .await;
    for &master in masters {
        stage.ways_to(master).for_each(Proxy::heal);
    }
}

async fn minority(stage: &mut Stage, keep: Keep) -> Result<()> {
    stage.somebody_stays().await?;
    let masters = stage.minority();
    stage.breaks(format!("kill -9 of {masters:?}, restart with {keep:?}"));
    restart(stage, &masters, (50, 1800), keep).await;
    Ok(())
}

/// As many forget as it takes for a majority of others.
async fn amnesia(stage: &mut Stage) -> Result<()> {
    let masters = if stage.rng.random_bool(0.3) {
        // A hold that not all masters know of, so that fewer need to forget.
        let all = stage.some(stage.masters());
        let (away, forgets) = all.split_at(stage.masters() - stage.majority());
        stage.breaks(format!("{away:?} do not answer"));
        join_all(away.iter().map(|&master| stage.server(master).freeze())).await;
        stage.somebody_stays().await?;
        stage.breaks(format!("kill -9 of {:?}, restart with nothing", &forgets[..1]));
        restart(stage, &forgets[..1], (0, 0), Keep::Nothing).await;
        join_all(away.iter().map(|&master| stage.server(master).thaw())).await;
        stage.pause(100, 400).await;
        return Ok(());
    } else {
        stage.some(stage.majority())
    };
    stage.somebody_stays().await?;
    stage.breaks(format!("kill -9 of {masters:?}, restart with nothing"));
    restart(stage, &masters, (0, 0), Keep::Nothing).await;
    stage.pause(100, 400).await;
    Ok(())
}

async fn blackout(stage: &mut Stage) -> Result<()> {
    stage.somebody_stays().await?;
    let masters = stage.some(stage.majority());
    join_all(masters.iter().map(|&master| stage.server(master).kill())).await;
    // Only now: on a busy machine the kill may come late, and locks are granted until then.
    stage.breaks(format!("kill -9 of {masters:?}"));
    stage.pause(2200, 2800).await;
    // Healed from the first that answers again, which may be long before the last one is known to.
    stage.witness.done(Done::Healed);
    join_all(
        masters
            .iter()
            .map(|&master| stage.server(master).restart(Keep::Data)),
    )
    .await;
    Ok(())
}

async fn everybody(stage: &mut Stage, keep: Keep) -> Result<()> {
    stage.somebody_stays().await?;
    let masters = stage.some(stage.masters());
    stage.breaks(format!("kill -9 of all, restart with {keep:?}"));
    restart(stage, &masters, (0, 100), keep).await;
    Ok(())
}
