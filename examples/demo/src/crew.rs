//! The worker processes, from the outside.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout_at};

use crate::args::Duty;

/// A worker that is told to stop finishes its jobs first; more than this it never needs.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Crew(Vec<Child>);

impl Crew {
    /// One process for each duty, all on the masters `urls`.
    pub(crate) fn start(
        duties: impl Iterator<Item = Duty>,
        urls: &[String],
        lease: Duration,
    ) -> Result<Self> {
        let program = std::env::current_exe().context("the demo's own program")?;
        let start = |duty: Duty| {
            Command::new(&program)
                .args(duty.to_args())
                // Not as arguments: a URL may hold a password, which other users could then read.
                // The demo's masters keep every write that they acknowledge.
                .env("MULTILOCK_QUARANTINE", "off")
                .env("MULTILOCK_NODES", urls.join(","))
                .env("MULTILOCK_LEASE", humantime::format_duration(lease).to_string())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                // Ctrl-C at the terminal is for the demo alone, so that a worker can release its locks.
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
                .with_context(|| format!("starting worker {}", duty.number))
        };
        duties.map(start).collect::<Result<_>>().map(Self)
    }

    /// Fails when a worker has ended before its time; its own words are on stderr.
    pub(crate) fn check(&mut self) -> Result<()> {
        for (index, child) in self.0.iter_mut().enumerate() {
            if let Some(status) = child.try_wait().context("looking after a worker")? {
                bail!("worker {} has ended early ({status})", index + 1);
            }
        }
        Ok(())
    }

    /// Waits for workers that have been told to stop, and kills workers that do not stop.
    pub(crate) async fn dismiss(&mut self) -> Result<()> {
        let end = Instant::now() + STOPS_WITHIN;
        let mut unwell = Vec::new();
        for (index, child) in self.0.iter_mut().enumerate() {
            match timeout_at(end, child.wait()).await {
                Ok(Ok(status)) if status.success() => {}
                Ok(Ok(status)) => unwell.push(format!("worker {} failed ({status})", index + 1)),
                Ok(Err(error)) => unwell.push(format!("worker {}: {error}", index + 1)),
                Err(_) => {
                    // Fails only if it has just ended.
                    let _ = child.kill().await;
                    unwell.push(format!("worker {} did not stop and was killed", index + 1));
                }
            }
        }
        if unwell.is_empty() {
            return Ok(());
        }
        bail!("{}", unwell.join("; "))
    }
}
