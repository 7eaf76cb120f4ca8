//! The scenarios, each a file.

mod beside;
mod contention;
mod crowds;
mod downgrade;
mod dropped;
mod faults;
mod fences;
mod growth;
mod hand_off;
mod held;
mod holding;
mod once;
mod one_master;
mod permits;
mod reader_release;
mod readers;
mod reentry;
mod several;
mod short_sections;
mod sticky;
mod think_times;
mod throughput;
mod uncontended;
mod waiting;

use std::time::Instant;

use anyhow::{Result, ensure};

use crate::args::Choice;
use crate::cluster::Cluster;
use crate::machine::Machine;
use crate::summary::Summary;

/// Enough for the largest number of masters that is measured.
const MASTERS: usize = 9;

/// Argument of every scenario.
pub struct Bench {
    pub quick: bool,
    pub cluster: Cluster,
    pub summary: Summary,
}

impl Bench {
    /// Returns the value for a quick or for a full run.
    pub fn form<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Runs the scenarios as often as chosen. After each run, writes the median over the runs so far.
pub async fn run(choice: &Choice) -> Result<()> {
    let (mut runs, mut failed) = (Vec::new(), Vec::new());
    for _ in 0..choice.runs.get() {
        let (summary, failed_now) = once(choice).await?;
        failed.extend(failed_now);
        runs.push(summary);
        let median = Summary::median(&runs);
        let path = median.write()?;
        eprintln!("{}: {}", path.display(), median.runs_told());
        if runs.len() > 1 {
            for line in &median.lines {
                println!("{line}");
            }
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// One run; returns also the names of the scenarios that failed.
async fn once(choice: &Choice) -> Result<(Summary, Vec<&'static str>)> {
    let begun = Instant::now();
    let mut bench = Bench {
        quick: choice.quick,
        cluster: Cluster::start(MASTERS).await?,
        summary: Summary {
            machine: Machine::this(),
            quick: choice.quick,
            runs: 1,
            seconds: 0.0,
            lines: Vec::new(),
            distributions: Vec::new(),
        },
    };
    let mut failed = Vec::new();
    macro_rules! scenarios {
        ($($name:literal => $run:path),* $(,)?) => {$(
            if choice.wants($name) {
                let begun = Instant::now();
                // Keys of the clients of other scenarios, such as the number of their masters, must not affect this one.
                bench.cluster.wipe(MASTERS).await?;
                // The others are measured all the same.
                if let Err(error) = $run(&mut bench).await {
                    eprintln!("{}: {error:#}", $name);
                    failed.push($name);
                }
                eprintln!("{} took {:.1?}", $name, begun.elapsed());
            }
        )*};
    }
    scenarios! {
        "S1" => uncontended::run,
        "S2" => throughput::run,
        "S3" => faults::run,
        "S6" => contention::run,
        "S6" => crowds::run,
        "S6b" => beside::run,
        "S6s" => short_sections::near,
        "S6t" => think_times::run,
        "S6w" => short_sections::far,
        "S7" => hand_off::near,
        "S7w" => hand_off::far,
        "S8" => dropped::run,
        "S9" => holding::run,
        "S10" => waiting::run,
        "S11" => reentry::run,
        "S13" => growth::run,
        "S13" => held::run,
        "S14" => fences::run,
        "S15" => readers::beside_plain,
        "S16" => readers::beside_a_writer,
        "S17" => reader_release::run,
        "S18" => downgrade::run,
        "S19" => several::run,
        "S20" => one_master::run,
        "S21" => sticky::near,
        "S22w" => sticky::far,
        "S23" => permits::near,
        "S23w" => permits::far,
        "S24" => once::run,
    }
    bench.summary.seconds = begun.elapsed().as_secs_f64();
    Ok((bench.summary, failed))
}
