//! One process that adds numbers to the set, one after the other, until its stdin is closed. It prints each number that the
//! resource has acknowledged.

use std::time::Duration;

use anyhow::{Context, Result};
use multilock::{Closing, Masters, MultiLock, Quarantine, RunError};
use rand::random_range;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, stdin};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::sleep;

use crate::peers::{Redisson, Redsync};
use crate::resource::{STALE, WRITTEN};
use crate::way::Way;

/// First argument of the process.
pub(crate) const ROLE: &str = "client";

/// Lease of every lock.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// Time from the read to the write, at random up to this, as in Jepsen's test.
const WORK: Duration = Duration::from_secs(2);
/// Wait for the lock.
const WAIT: Duration = Duration::from_secs(30);
/// Time to connect, which is no subject of the experiment.
const CONNECT: Duration = Duration::from_secs(10);
/// Pause between two additions of a client.
const PAUSE: Duration = Duration::from_millis(10);
/// Numbers of one client.
const NUMBERS: u64 = 1_000_000;

/// Client that adds a number.
pub(crate) fn of_number(number: u64) -> u64 {
    number / NUMBERS
}

/// Connection to the resource.
struct Resource {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
}

impl Resource {
    async fn connect(address: &str) -> Result<Self> {
        let (read, write) = TcpStream::connect(address).await?.into_split();
        let lines = BufReader::new(read).lines();
        Ok(Self { lines, write })
    }

    async fn ask(&mut self, line: String) -> Result<String> {
        self.write.write_all(format!("{line}\n").as_bytes()).await?;
        self.lines.next_line().await?.context("the resource has gone")
    }

    /// Adds a number to the set, by its old state. Returns whether that was acknowledged.
    async fn add(&mut self, number: u64, token: u64) -> Result<bool> {
        let set = self.ask(format!("read {number} {token}")).await?;
        if set == STALE {
            return Ok(false);
        }
        sleep(random_range(Duration::ZERO..WORK)).await;
        let separator = if set.is_empty() { "" } else { "," };
        let answer = self
            .ask(format!("write {number} {token} {set}{separator}{number}"))
            .await?;
        Ok(answer == WRITTEN)
    }
}

pub(crate) async fn add(way: &str, client: &str, resource: &str, urls: &str) -> Result<()> {
    let way = Way::of_word(way).context("a way")?;
    let client: u64 = client.parse().context("a number")?;
    let urls: Vec<&str> = urls.split(',').collect();
    let mut lines = BufReader::new(stdin()).lines();
    let numbers = client * NUMBERS..(client + 1) * NUMBERS;
    let mut locks = Locks::connect(way, &urls).await?;
    let (mut resource, address) = (Resource::connect(resource).await?, resource.to_owned());
    for number in numbers {
        tokio::select! {
            biased;
            line = lines.next_line() => if line?.is_none() {
                break;
            },
            added = locks.add(number, &mut resource) => {
                match added? {
                    Added::Acknowledged => println!("{number}"),
                    Added::Refused => {}
                    // An answer may be on its way over the old connection.
                    Added::Dropped => resource = Resource::connect(&address).await?,
                }
                sleep(PAUSE).await;
            }
        }
    }
    locks.close().await;
    Ok(())
}

/// Outcome of one addition.
enum Added {
    Acknowledged,
    Refused,
    /// The addition was dropped before its end.
    Dropped,
}

impl Added {
    fn of(is_acknowledged: bool) -> Self {
        if is_acknowledged {
            Self::Acknowledged
        } else {
            Self::Refused
        }
    }
}

/// The locks of one way.
enum Locks {
    Ours(Way, Masters),
    Redsync(Redsync),
    Redisson(Redisson),
}

impl Locks {
    async fn connect(way: Way, urls: &[&str]) -> Result<Self> {
        Ok(match way {
            Way::Redsync => Self::Redsync(Redsync::connect(urls, LEASE).await?),
            Way::Redisson => Self::Redisson(Redisson::connect(urls[0]).await?),
            ours => {
                let masters = Masters::builder().nodes(urls.iter().copied()).lease(LEASE);
                let masters = masters.connect_timeout(CONNECT);
                Self::Ours(ours, masters.quarantine(Quarantine::Off).connect().await?)
            }
        })
    }

    async fn add(&mut self, number: u64, resource: &mut Resource) -> Result<Added> {
        match self {
            Self::Ours(way, masters) => {
                let lock = masters.red_lock("set").wait(WAIT);
                match way {
                    Way::Run => add_in_a_body(&lock, number, resource).await,
                    way => add_under_a_guard(&lock, way.is_checked(), number, resource).await,
                }
            }
            Self::Redsync(redsync) => {
                let Some(held) = redsync.lock("set", LEASE).await else {
                    return Ok(Added::Refused);
                };
                let added = resource.add(number, 0).await?;
                redsync.unlock("set", &held).await;
                Ok(Added::of(added))
            }
            Self::Redisson(redisson) => {
                let Some(held) = redisson.lock("set", LEASE).await else {
                    return Ok(Added::Refused);
                };
                let added = resource.add(number, 0).await?;
                held.unlock().await;
                Ok(Added::of(added))
            }
        }
    }

    async fn close(self) {
        if let Self::Ours(_, masters) = self {
            masters.close(Closing::Release).await;
        }
    }
}

async fn add_under_a_guard(
    lock: &MultiLock,
    is_checked: bool,
    number: u64,
    resource: &mut Resource,
) -> Result<Added> {
    let Ok(guard) = lock.lock().await else {
        return Ok(Added::Refused);
    };
    let token = if is_checked {
        guard.fencing_token().get()
    } else {
        0
    };
    let added = resource.add(number, token).await?;
    // A hold that was lost meanwhile is the subject of the experiment.
    let _ = guard.unlock().await;
    Ok(Added::of(added))
}

async fn add_in_a_body(lock: &MultiLock, number: u64, resource: &mut Resource) -> Result<Added> {
    match lock.run(async |_guard| resource.add(number, 0).await).await {
        Ok(added) => Ok(Added::of(added?)),
        Err(RunError::Lock(_)) => Ok(Added::Refused),
        // The caller is told that the hold was lost, so it takes nothing for acknowledged.
        Err(_) => Ok(Added::Dropped),
    }
}
