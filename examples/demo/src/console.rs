//! The web page of the command `multilock`, for users that want to watch.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Longest time until it listens.
const STARTS_WITHIN: Duration = Duration::from_secs(5);

/// A console, which ends with this value.
#[derive(Debug)]
pub(crate) struct Console {
    /// Line with its address.
    pub(crate) line: String,
    _process: Child,
}

impl Console {
    /// Starts it on a free port. The demo goes on without it, as where the command was not built beside this program
    /// (`cargo build -p multilock-cli`).
    pub(crate) async fn start(urls: &[String]) -> Option<Self> {
        Self::try_start(urls).await.ok()
    }

    async fn try_start(urls: &[String]) -> Result<Self> {
        let program = std::env::current_exe().context("the demo's own program")?;
        let program = program.with_file_name("multilock");
        let mut command = Command::new(program);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MULTILOCK_")) {
            command.env_remove(name);
        }
        let mut process = command
            .args(["console", "--listen", "127.0.0.1:0"])
            .env("MULTILOCK_QUARANTINE", "off")
            .env("MULTILOCK_NODES", urls.join(","))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("starting the console")?;
        let output = process.stdout.take().context("the console's output")?;
        let mut lines = BufReader::new(output).lines();
        let line = timeout(STARTS_WITHIN, lines.next_line()).await;
        let line = line.context("the console did not start in time")??;
        Ok(Self {
            line: line.context("the console has ended")?,
            _process: process,
        })
    }
}
