//! Masters of the bench's own on free loopback ports, and what they say about themselves.

use anyhow::{Context, Result, ensure};
use redis::aio::MultiplexedConnection;
use std::time::{Duration, Instant};
use tokio::time::sleep;

use crate::client::Who;
use crate::support::Server;

/// Nothing is kept on disk: it would be the disk that is measured.
const IN_MEMORY: [&str; 4] = ["--appendonly", "no", "--save", ""];
/// For the last stragglers of a run.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
/// Keys that are meant to outlast the locks.
const FENCES: &str = "redisson_lock_token:";

pub struct Cluster {
    pub servers: Vec<Server>,
    observers: Vec<MultiplexedConnection>,
}

/// What the servers have run so far, a node.
#[derive(Clone, Copy, Debug)]
pub struct Commands {
    /// Calls of scripts.
    pub scripts: f64,
    /// Everything, with what runs inside scripts.
    pub all: f64,
}

impl Cluster {
    pub async fn start(nodes: usize) -> Result<Self> {
        let mut servers = Vec::new();
        for _ in 0..nodes {
            servers.push(Server::start_with(&IN_MEMORY).await);
        }
        let mut cluster = Self {
            servers,
            observers: Vec::new(),
        };
        cluster.observers = observers(&cluster.urls(nodes)).await?;
        Ok(cluster)
    }

    /// The first n masters.
    pub fn urls(&self, n: usize) -> Vec<String> {
        self.servers.iter().take(n).map(Server::url).collect()
    }

    pub fn observers(&self, n: usize) -> &[MultiplexedConnection] {
        &self.observers[..n]
    }

    /// Waits for the stragglers, fails if a lock was left behind, and empties the masters.
    ///
    /// Not every peer gives all back: one does not release where it did not wait for the answer.
    pub async fn settle(&self, n: usize, who: Who) -> Result<()> {
        if who.is_peer() {
            return self.wipe(n).await;
        }
        let begun = Instant::now();
        for (number, node) in self.observers(n).iter().enumerate() {
            while locks_left(node).await? > 0 {
                ensure!(
                    begun.elapsed() < SETTLED_WITHIN,
                    "{}: {} locks were left behind on node {number}",
                    who.label(),
                    locks_left(node).await?
                );
                sleep(Duration::from_millis(2)).await;
            }
        }
        self.wipe(n).await
    }

    /// Empties the masters, whatever they hold.
    pub async fn wipe(&self, n: usize) -> Result<()> {
        for node in self.observers(n) {
            redis::cmd("FLUSHALL").exec_async(&mut node.clone()).await?;
        }
        Ok(())
    }
}

pub async fn observers(urls: &[String]) -> Result<Vec<MultiplexedConnection>> {
    let mut observers = Vec::new();
    for url in urls {
        let client = redis::Client::open(url.as_str())?;
        observers.push(client.get_multiplexed_async_connection().await?);
    }
    Ok(observers)
}

async fn locks_left(node: &MultiplexedConnection) -> Result<usize> {
    let mut node = node.clone();
    let size: usize = redis::cmd("DBSIZE").query_async(&mut node).await?;
    if size == 0 {
        return Ok(0);
    }
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut node).await?;
    Ok(keys.iter().filter(|key| !key.starts_with(FENCES)).count())
}

/// The mean over the nodes.
pub async fn commands(nodes: &[MultiplexedConnection]) -> Result<Commands> {
    let mut sum = Commands {
        scripts: 0.0,
        all: 0.0,
    };
    for node in nodes {
        let info: String = redis::cmd("INFO")
            .arg("commandstats")
            .query_async(&mut node.clone())
            .await?;
        for (name, rest) in info.lines().filter_map(|line| line.split_once(":calls=")) {
            let calls: f64 = rest.split(',').next().unwrap_or_default().parse()?;
            match name {
                "cmdstat_info" => {}
                "cmdstat_evalsha" | "cmdstat_eval" => {
                    sum.scripts += calls;
                    sum.all += calls;
                }
                _ => sum.all += calls,
            }
        }
    }
    let n = nodes.len() as f64;
    Ok(Commands {
        scripts: sum.scripts / n,
        all: sum.all / n,
    })
}

impl Commands {
    pub fn since(self, before: Self) -> Self {
        Self {
            scripts: self.scripts - before.scripts,
            all: self.all - before.all,
        }
    }
}

/// Clients that each node knows, the observer among them.
pub async fn connections(nodes: &[MultiplexedConnection]) -> Result<Vec<usize>> {
    let mut counts = Vec::new();
    for node in nodes {
        let info: String = redis::cmd("INFO")
            .arg("clients")
            .query_async(&mut node.clone())
            .await?;
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("connected_clients:"));
        counts.push(line.context("connected_clients")?.trim().parse()?);
    }
    Ok(counts)
}
