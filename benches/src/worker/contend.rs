//! Tasks that want one name over and over.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use rand::RngExt;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Client, Settings, Who};
use crate::spend::spend;

/// A time at random between two; a fixed one if they are equal.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Between {
    pub least: Duration,
    pub most: Duration,
}

impl Between {
    pub const NOTHING: Self = Self::always(Duration::ZERO);

    pub const fn always(time: Duration) -> Self {
        Self {
            least: time,
            most: time,
        }
    }

    async fn pass(self) {
        let time = rand::rng().random_range(self.least..=self.most);
        spend(time).await;
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub struct ContendOrder {
    pub who: Who,
    pub urls: Vec<String>,
    pub settings: Settings,
    pub name: String,
    pub tasks: usize,
    pub time: Duration,
    /// How long each holds it.
    pub section: Between,
    /// How long each stays away after it.
    pub pause: Between,
    /// A file that every holder locks: that fails when there are two.
    pub witness: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
pub struct ContendReport {
    /// By task.
    pub grants: Vec<u64>,
    /// In microseconds; the last wait of a task that never got it counts as long as it lasted.
    pub waits: Vec<u64>,
    pub held: Vec<u64>,
    /// How often somebody else held it too.
    pub violations: u64,
}

pub async fn run(order: ContendOrder) -> Result<ContendReport> {
    let client = Client::connect(order.who, &order.urls, order.settings).await?;
    // The first use sets up connections and scripts, which are not part of the measurement.
    client
        .pair(&format!("{}-warm-{}", order.name, std::process::id()))
        .await?;
    super::ready().await?;
    let mut tasks = JoinSet::new();
    for _ in 0..order.tasks {
        tasks.spawn(task(client.clone(), order.clone()));
    }
    let mut report = ContendReport::default();
    while let Some(one) = tasks.join_next().await {
        let one = one??;
        report.grants.extend(one.grants);
        report.waits.extend(one.waits);
        report.held.extend(one.held);
        report.violations += one.violations;
    }
    Ok(report)
}

async fn task(client: Client, order: ContendOrder) -> Result<ContendReport> {
    let begun = Instant::now();
    let (mut report, mut grants) = (ContendReport::default(), 0);
    while let Some(left) = order.time.checked_sub(begun.elapsed()) {
        let waiting = Instant::now();
        let Ok(held) = timeout(left, client.acquire(&order.name)).await else {
            report.waits.push(waiting.elapsed().as_micros() as u64);
            break;
        };
        let (held, since) = (held?, Instant::now());
        report.waits.push((since - waiting).as_micros() as u64);
        grants += 1;
        let witness = lock(&order.witness)?;
        report.violations += u64::from(witness.is_none());
        order.section.pass().await;
        drop(witness);
        report.held.push(since.elapsed().as_micros() as u64);
        client.release(held).await?;
        order.pause.pass().await;
    }
    report.grants.push(grants);
    Ok(report)
}

/// `None` if another has it. Given back when dropped.
fn lock(path: &Path) -> Result<Option<File>> {
    let file = File::open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
