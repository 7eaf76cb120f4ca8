//! Holders that lose their lock: how many acknowledged additions to a set are lost.
//!
//! The experiment is that of Jepsen's test of etcd 3.4.3: five clients add to a set that a lock guards, by reading all of
//! it and writing all of it back up to two seconds later. A client that stands still for longer than its lease writes back
//! an old set.

mod client;
mod harness;
mod log;
mod peers;
mod resource;
mod stopped;
mod table;
mod way;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words {
        [resource::ROLE] => resource::serve().await?,
        [client::ROLE, way, number, resource, urls] => client::add(way, number, resource, urls).await?,
        ["short"] => strike().await?,
        [] => return measure(Duration::from_secs(600)).await,
        [seconds] => {
            let seconds = seconds.parse().context("a number of seconds")?;
            return measure(Duration::from_secs(seconds)).await;
        }
        _ => bail!("no arguments, or `short`, or for how many seconds: {words:?}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each of the ways of this crate.
async fn strike() -> Result<()> {
    for row in harness::run_short().await? {
        println!(
            "{}: pauses={} acknowledged={} lost={} overtaken={} refused={}",
            row.way.word(),
            row.pauses,
            row.acknowledged,
            row.lost,
            row.overtaken,
            row.refused
        );
    }
    Ok(())
}

async fn measure(length: Duration) -> Result<ExitCode> {
    let tables = harness::run(length).await?;
    for (stopped, rows) in &tables {
        println!("{}:\n\n{}", stopped.describe(), table::of(rows));
    }
    let rows = || tables.iter().flat_map(|(_, rows)| rows);
    let fenced_lost: usize = rows()
        .filter(|row| row.way.is_checked())
        .map(|row| row.lost)
        .sum();
    println!(
        "pauses: seconds={} rows={} fenced_lost={fenced_lost}",
        length.as_secs(),
        rows().count()
    );
    let is_alive = rows().all(|row| row.acknowledged > 0);
    Ok(if fenced_lost == 0 && is_alive {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
