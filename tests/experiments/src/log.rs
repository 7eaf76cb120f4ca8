//! Reads and writes, as the resource prints them when they arrive.

use std::process::Stdio;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Of the addition with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    Read(u64),
    Write(u64),
}

impl Arrived {
    fn parse(line: &str) -> Option<Self> {
        let (verb, number) = line.split_once(' ')?;
        let number = number.parse().ok()?;
        match verb {
            "read" => Some(Self::Read(number)),
            "write" => Some(Self::Write(number)),
            _ => None,
        }
    }
}

/// Arrived reads and writes, in order.
pub(crate) struct Log(UnboundedReceiver<Arrived>);

impl Log {
    /// Drains the pipe, so that the resource never waits.
    pub(crate) fn of(mut lines: Lines<BufReader<ChildStdout>>) -> Self {
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let _ = Arrived::parse(&line).map(|arrived| sender.send(arrived));
            }
        });
        Self(receiver)
    }

    pub(crate) async fn next(&mut self) -> Result<Arrived> {
        self.0.recv().await.context("the resource has gone")
    }

    /// Returns the addition that is between its read and its write, once there is one.
    pub(crate) async fn inside(&mut self) -> Result<u64> {
        let mut last = None;
        while let Ok(arrived) = self.0.try_recv() {
            last = Some(arrived);
        }
        loop {
            match last.take() {
                Some(Arrived::Read(number)) => return Ok(number),
                _ => last = Some(self.next().await?),
            }
        }
    }
}

/// This program in a role. It ends with its stdin, and is killed when it is dropped.
pub(crate) fn process(words: &[&str]) -> Result<(Child, Lines<BufReader<ChildStdout>>)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = child.stdout.take().context("a pipe")?;
    Ok((child, BufReader::new(stdout).lines()))
}
