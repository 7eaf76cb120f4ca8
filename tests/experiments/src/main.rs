//! Holders that are paused: how many acknowledged additions to a set are lost.
//!
//! The experiment is that of Jepsen's test of etcd 3.4.3: five processes add to a set that a lock guards, by reading all of
//! it and writing all of it back. A process that is paused for longer than its lease writes back an old set, and what
//! others have added meanwhile is lost.

mod client;
mod harness;
mod peers;
mod resource;
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
        [] => return measure(Duration::from_secs(600)).await,
        [seconds] => {
            let seconds = seconds.parse().context("a number of seconds")?;
            return measure(Duration::from_secs(seconds)).await;
        }
        _ => bail!("no arguments, or for how many seconds: {words:?}"),
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure(length: Duration) -> Result<ExitCode> {
    let rows = harness::run(length).await?;
    print!("{}", table::of(&rows));
    let is_sound = rows.iter().all(|row| !row.way.is_checked() || row.lost == 0);
    let is_alive = rows.iter().all(|row| row.acknowledged > 0);
    println!(
        "pauses: seconds={} ways={} fenced_lost={}",
        length.as_secs(),
        rows.len(),
        rows.iter()
            .filter(|row| row.way.is_checked())
            .map(|row| row.lost)
            .sum::<usize>()
    );
    Ok(if is_sound && is_alive {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
