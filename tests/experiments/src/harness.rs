//! All ways at once: each with masters, a resource and five clients of its own, one of which is paused again and again.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use multilock_test_support::{Server, start};
use rand::random_range;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::way::Way;
use crate::{client, resource};

const CLIENTS: u64 = 5;
const MASTERS: usize = 3;
/// Time for which a process stands still, twice its lease, and time until the next one does: five seconds together.
const STOPPED: Duration = Duration::from_secs(4);
const RUNNING: Duration = Duration::from_secs(1);
/// Time for a process to end once it is told so.
const ENDED_WITHIN: Duration = Duration::from_secs(20);

/// What came of one way.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) way: Way,
    pub(crate) pauses: u64,
    pub(crate) acknowledged: usize,
    /// Acknowledged, and not in the set at the end.
    pub(crate) lost: usize,
}

pub(crate) async fn run(length: Duration) -> Result<Vec<Row>> {
    try_join_all(Way::ALL.map(|way| run_one(way, length))).await
}

async fn run_one(way: Way, length: Duration) -> Result<Row> {
    let servers = start(MASTERS, &["--appendonly", "no"]).await;
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let (mut resource, mut port) = process(&[resource::ROLE])?;
    let port = port.next_line().await?.context("a port")?;
    let address = format!("127.0.0.1:{port}");
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let words = [
            client::ROLE,
            way.word(),
            &number.to_string(),
            &address,
            &urls.join(","),
        ];
        clients.push(Adding::start(&words)?);
    }
    let pauses = pause_them(&clients, Instant::now() + length).await?;
    let mut acknowledged = BTreeSet::new();
    for client in clients {
        acknowledged.extend(client.end().await?);
    }
    let set = read(&address).await?;
    drop(resource.stdin.take());
    timeout(ENDED_WITHIN, resource.wait())
        .await
        .context("the resource ends")??;
    Ok(Row {
        way,
        pauses,
        acknowledged: acknowledged.len(),
        lost: acknowledged.difference(&set).count(),
    })
}

/// Stops one client after the other, and continues it, until `end`. Returns how often.
async fn pause_them(clients: &[Adding], end: Instant) -> Result<u64> {
    let mut pauses = 0;
    sleep(RUNNING).await;
    while Instant::now() + STOPPED < end {
        let client = &clients[random_range(0..clients.len())];
        client.signal(Signal::STOP)?;
        sleep(STOPPED).await;
        client.signal(Signal::CONT)?;
        pauses += 1;
        sleep(RUNNING).await;
    }
    Ok(pauses)
}

/// The set as the resource has it.
async fn read(address: &str) -> Result<BTreeSet<u64>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"read 0\n").await?;
    let line = BufReader::new(stream)
        .lines()
        .next_line()
        .await?
        .context("the set")?;
    let numbers = line.split(',').filter(|word| !word.is_empty());
    numbers.map(|word| word.parse().context("a number")).collect()
}

/// This program in a role. It ends with its stdin, and is killed when it is dropped.
fn process(words: &[&str]) -> Result<(Child, Lines<BufReader<ChildStdout>>)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = child.stdout.take().context("a pipe")?;
    Ok((child, BufReader::new(stdout).lines()))
}

/// A client at work.
struct Adding {
    child: Child,
    pid: Pid,
    /// The numbers that it has printed.
    printed: JoinHandle<Result<Vec<u64>>>,
}

impl Adding {
    fn start(words: &[&str]) -> Result<Self> {
        let (child, mut lines) = process(words)?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let printed = tokio::spawn(async move {
            let mut numbers = Vec::new();
            while let Some(line) = lines.next_line().await? {
                numbers.push(line.parse()?);
            }
            Ok(numbers)
        });
        Ok(Self {
            pid: id.and_then(Pid::from_raw).context("it runs")?,
            child,
            printed,
        })
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid, signal).context("a client was signalled")
    }

    /// Has it end, and returns what was acknowledged to it.
    async fn end(mut self) -> Result<Vec<u64>> {
        drop(self.child.stdin.take());
        let status = timeout(ENDED_WITHIN, self.child.wait())
            .await
            .context("a client ends")??;
        anyhow::ensure!(status.success(), "a client failed: {status}");
        self.printed.await?
    }
}
