//! Masters that come back with less than they acknowledged.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, Result};
use futures::future::join_all;

use super::{Expect, PROMISED, Row};
use crate::event::now;
use crate::settings::SetUp;
use crate::stage::Stage;
use crate::support::{Keep, Server};

const EVERY_SECOND: SetUp = SetUp {
    args: &["--appendfsync", "everysec"],
    ..PROMISED.set_up
};
const SNAPSHOTS: SetUp = SetUp {
    args: &["--appendonly", "no"],
    ..PROMISED.set_up
};

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "power loss: the AOF's tail is cut",
            promise: "exclusion (quarantine), progress",
            set_up: EVERY_SECOND,
            strike: |stage| Box::pin(cut_tail(stage)),
            containers: false,
            reader_tokens: false,
            ..PROMISED
        },
        Row {
            name: "power loss: the AOF's tail is cut, no quarantine",
            promise: "fencing only: two holders must be seen",
            set_up: SetUp {
                no_quarantine: true,
                ..EVERY_SECOND
            },
            strike: |stage| Box::pin(cut_tail(stage)),
            overlaps: Expect::Seen,
            containers: false,
            reader_tokens: false,
            ..PROMISED
        },
        Row {
            name: "an old RDB is restored",
            promise: "exclusion (quarantine), progress",
            set_up: SNAPSHOTS,
            strike: |stage| Box::pin(old_snapshot(stage)),
            containers: false,
            reader_tokens: false,
            ..PROMISED
        },
    ]
}

fn aof(server: &Server) -> Result<PathBuf> {
    let dir = server.dir().join("data/appendonlydir");
    let files = fs::read_dir(&dir).with_context(|| format!("{}", dir.display()))?;
    let mut parts: Vec<PathBuf> = files
        .filter_map(|file| file.ok().map(|file| file.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "aof"))
        .filter(|path| path.to_string_lossy().contains(".incr."))
        .collect();
    parts.sort();
    parts.pop().context("no append-only file")
}

/// Writes of the last moments never reached the disk, the acquire of the current holder included.
async fn cut_tail(stage: &mut Stage) -> Result<()> {
    let masters = stage.some(stage.majority());
    let mut marks = Vec::new();
    // A mark is the length that has reached the disk. The acquire of the client that stays comes after it.
    for &master in &masters {
        let file = aof(stage.server(master))?;
        marks.push((file.clone(), fs::metadata(&file)?.len()));
    }
    stage.somebody_stays_since(now()).await?;
    stage.breaks(format!("kill -9 of {masters:?}, whose last second is lost"));
    kill(stage, &masters).await;
    for (file, len) in marks {
        File::options().write(true).open(&file)?.set_len(len)?;
    }
    restart(stage, &masters).await;
    Ok(())
}

async fn old_snapshot(stage: &mut Stage) -> Result<()> {
    let masters = stage.some(stage.majority());
    for &master in &masters {
        stage.tell(master, &["SAVE"]).await?;
    }
    stage.somebody_stays_since(now()).await?;
    stage.breaks(format!("kill -9 of {masters:?}, restored from before"));
    kill(stage, &masters).await;
    restart(stage, &masters).await;
    Ok(())
}

async fn kill(stage: &Stage, masters: &[usize]) {
    join_all(masters.iter().map(|&master| stage.server(master).kill())).await;
}

async fn restart(stage: &mut Stage, masters: &[usize]) {
    let restarts = masters
        .iter()
        .map(|&master| stage.server(master).restart(Keep::Data));
    join_all(restarts).await;
    stage.pause(100, 400).await;
}
