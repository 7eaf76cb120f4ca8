//! All ways at once: each with masters, a resource and clients of its own. Some of these processes are stopped again and
//! again.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::{join_all, try_join_all};
use multilock_test_support::{Server, start};
use rand::random_range;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::log::{Arrived, Log, process};
use crate::stopped::Stopped;
use crate::way::Way;
use crate::{client, resource};

const CLIENTS: u64 = 5;
const MASTERS: usize = 3;
/// Time for which a process stands still, and time until the next one does. Both are those of Jepsen's test.
const STANDS: Duration = Duration::from_secs(5);
const RUNS: Duration = Duration::from_secs(5);
/// Time for a process to end after the end of its stdin.
const ENDED_WITHIN: Duration = Duration::from_secs(20);

/// Clients and strikes of the short form, and the time for one. It takes a few seconds.
const CLIENTS_IN_SHORT: u64 = 3;
const STRIKES: u64 = 2;
const STRUCK_WITHIN: Duration = Duration::from_secs(120);

/// Outcome of one way.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) way: Way,
    pub(crate) pauses: u64,
    pub(crate) acknowledged: usize,
    /// Acknowledged, and not in the set at the end.
    pub(crate) lost: usize,
    /// Additions with a token that the resource refused.
    pub(crate) refused: u64,
    /// Writes that arrived after another client had read.
    pub(crate) overtaken: u64,
}

/// All ways, by the choice of stopped processes.
pub(crate) async fn run(length: Duration) -> Result<Vec<(Stopped, Vec<Row>)>> {
    let tables = Stopped::ALL.map(async |stopped| {
        let rows = Way::ALL.map(async |way| {
            let mut setting = Setting::start(way, CLIENTS).await?;
            let pauses = setting.pause(stopped, Instant::now() + length).await?;
            setting.end(pauses).await
        });
        anyhow::Ok((stopped, try_join_all(rows).await?))
    });
    try_join_all(tables).await
}

/// The ways of this crate, each with few holders that stand still for as long as it takes.
pub(crate) async fn run_short() -> Result<Vec<Row>> {
    let rows = Way::OURS.map(async |way| {
        let mut setting = Setting::start(way, CLIENTS_IN_SHORT).await?;
        for _ in 0..STRIKES {
            timeout(STRUCK_WITHIN, setting.strike())
                .await
                .context("a holder is overtaken")??;
        }
        setting.end(STRIKES).await
    });
    try_join_all(rows).await
}

/// One way at work.
struct Setting {
    way: Way,
    servers: Vec<Server>,
    resource: Child,
    address: String,
    log: Log,
    clients: Vec<Adding>,
}

impl Setting {
    async fn start(way: Way, clients: u64) -> Result<Self> {
        let servers = start(MASTERS, &["--appendonly", "no"]).await;
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let (resource, mut lines) = process(&[resource::ROLE])?;
        let port = lines.next_line().await?.context("a port")?;
        let address = format!("127.0.0.1:{port}");
        let clients = (0..clients).map(|number| {
            let words = [
                client::ROLE,
                way.word(),
                &number.to_string(),
                &address,
                &urls.join(","),
            ];
            Adding::start(&words)
        });
        Ok(Self {
            way,
            servers,
            resource,
            clients: clients.collect::<Result<_>>()?,
            address,
            log: Log::of(lines),
        })
    }

    fn client_of(&self, number: u64) -> Result<&Adding> {
        let place = usize::try_from(client::of_number(number))?;
        self.clients.get(place).context("a client")
    }

    /// Stops processes, and continues them, until `end`. Returns how often.
    async fn pause(&mut self, stopped: Stopped, end: Instant) -> Result<u64> {
        let mut pauses = 0;
        sleep(RUNS).await;
        while Instant::now() + STANDS < end {
            match stopped {
                Stopped::Holder => {
                    let Ok(number) = timeout_at(end, self.log.inside()).await else {
                        break;
                    };
                    self.client_of(number?)?.stand_still().await?;
                }
                Stopped::Client => {
                    self.clients[random_range(0..self.clients.len())]
                        .stand_still()
                        .await?;
                }
                Stopped::Masters => self.stop_masters().await,
            }
            pauses += 1;
            sleep(RUNS).await;
        }
        Ok(pauses)
    }

    async fn stop_masters(&self) {
        let place = random_range(0..self.servers.len());
        let one = &self.servers[place..=place];
        let some = if random_range(0..2) == 0 {
            one
        } else {
            &self.servers
        };
        join_all(some.iter().map(Server::freeze)).await;
        sleep(STANDS).await;
        join_all(some.iter().map(Server::thaw)).await;
    }

    /// Stops a holder before its write until another client has read, and waits until both have ended their additions.
    async fn strike(&mut self) -> Result<()> {
        loop {
            let struck = self.log.inside().await?;
            self.client_of(struck)?.signal(Signal::STOP)?;
            let next = self.next_inside(struck).await?;
            self.client_of(struck)?.signal(Signal::CONT)?;
            if let Some(next) = next {
                self.until_ended(struck, next).await?;
                return Ok(());
            }
        }
    }

    /// Returns the addition of another client that reads next, and none if this one has written before.
    async fn next_inside(&mut self, struck: u64) -> Result<Option<u64>> {
        loop {
            match self.log.next().await? {
                Arrived::Read(next) if client::of_number(next) != client::of_number(struck) => {
                    return Ok(Some(next));
                }
                // The stop was late.
                Arrived::Read(_) => return Ok(None),
                Arrived::Write(number) if number == struck => return Ok(None),
                Arrived::Write(_) => {}
            }
        }
    }

    /// Waits until the clients of both additions read for a later one: each has printed by then.
    async fn until_ended(&mut self, one: u64, other: u64) -> Result<()> {
        let mut clients = BTreeSet::from([one, other].map(client::of_number));
        while !clients.is_empty() {
            if let Arrived::Read(number) = self.log.next().await? {
                clients.remove(&client::of_number(number));
            }
        }
        Ok(())
    }

    async fn end(mut self, pauses: u64) -> Result<Row> {
        let mut acknowledged = BTreeSet::new();
        for client in self.clients {
            acknowledged.extend(client.end().await?);
        }
        let result = Outcome::ask(&self.address).await?;
        drop(self.resource.stdin.take());
        timeout(ENDED_WITHIN, self.resource.wait())
            .await
            .context("the resource ends")??;
        Ok(Row {
            way: self.way,
            pauses,
            acknowledged: acknowledged.len(),
            lost: acknowledged.difference(&result.set).count(),
            refused: result.refused,
            overtaken: result.overtaken,
        })
    }
}

/// Result of the resource at the end.
struct Outcome {
    refused: u64,
    overtaken: u64,
    set: BTreeSet<u64>,
}

impl Outcome {
    async fn ask(address: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"result\n").await?;
        let mut lines = BufReader::new(stream).lines();
        let line = lines.next_line().await?.context("a result")?;
        let mut words = line.split(' ');
        let mut word = || words.next().context("a word");
        Ok(Self {
            refused: word()?.parse()?,
            overtaken: word()?.parse()?,
            set: {
                let numbers = word()?.split(',').filter(|number| !number.is_empty());
                numbers.map(str::parse).collect::<Result<_, _>>()?
            },
        })
    }
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

    async fn stand_still(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        sleep(STANDS).await;
        self.signal(Signal::CONT)
    }

    /// Has it end, and returns its acknowledged numbers.
    async fn end(mut self) -> Result<Vec<u64>> {
        drop(self.child.stdin.take());
        let status = timeout(ENDED_WITHIN, self.child.wait())
            .await
            .context("a client ends")??;
        anyhow::ensure!(status.success(), "a client failed: {status}");
        self.printed.await?
    }
}
