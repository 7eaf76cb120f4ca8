//! Worker processes of the bench, seen from the process that started them.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::worker::Order;

const REPLY_WITHIN: Duration = Duration::from_secs(30);

/// A worker process, ended with the bench.
pub struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub fn start(order: &Order) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe().context("this program")?)
            .arg("worker")
            .arg(serde_json::to_string(order)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting a worker")?;
        let stdout = child.stdout.take().context("a worker's output")?;
        Ok(Self {
            child,
            lines: BufReader::new(stdout).lines(),
        })
    }

    pub async fn line(&mut self) -> Result<String> {
        self.line_within(REPLY_WITHIN).await
    }

    pub async fn line_within(&mut self, within: Duration) -> Result<String> {
        let line = timeout(within, self.lines.next_line()).await;
        line.context("a worker does not answer")??
            .context("a worker has ended early")
    }

    pub async fn go(&mut self) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("a worker's input")?;
        Ok(stdin.write_all(b"go\n").await?)
    }
}
