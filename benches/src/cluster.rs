//! Masters of the bench's own on free loopback ports, and their own figures: commands, script time, processor time, clients.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::stream::{FuturesUnordered, StreamExt};
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use crate::client::Who;
use crate::processors::Apart;
use crate::stats::Durations;
use crate::support::Server;

/// Nothing is kept on disk: it would be the disk that is measured.
const IN_MEMORY: [&str; 4] = ["--appendonly", "no", "--save", ""];
/// For the last stragglers of a run.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
/// Keys that are meant to outlast the locks: fences, names of clients, and a master's record.
const LASTING: [&str; 3] = ["multilock_fence:", "multilock_client:", "multilock_set"];

pub struct Cluster {
    pub servers: Vec<Server>,
    observers: Vec<MultiplexedConnection>,
}

/// Number of commands that a node has run, by the command's name.
#[derive(Clone, Debug, Default)]
pub struct Commands(BTreeMap<String, f64>);

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

    /// The first of `n` masters on a processor apart from this program's, if it is the only one.
    pub fn apart_if_alone(&self, n: usize) -> Result<Option<Apart>> {
        let [server] = &self.servers[..n] else {
            return Ok(None);
        };
        Apart::from(server.pid().context("a server that runs")?).map(Some)
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

    /// Empties the masters: deletes all their keys.
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

/// Records the time until the needed number of servers have answered a PING.
pub async fn ping(servers: &[MultiplexedConnection], needed: usize, into: &mut Durations) -> Result<()> {
    let begun = Instant::now();
    let mut answers: FuturesUnordered<_> = servers
        .iter()
        .cloned()
        .map(|mut server| async move { server.send_packed_command(&redis::cmd("PING")).await })
        .collect();
    for _ in 0..needed {
        answers.next().await.context("an answer")??;
    }
    into.record(begun.elapsed());
    Ok(())
}

async fn locks_left(node: &MultiplexedConnection) -> Result<usize> {
    let mut node = node.clone();
    let size: usize = redis::cmd("DBSIZE").query_async(&mut node).await?;
    if size == 0 {
        return Ok(0);
    }
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut node).await?;
    let lasts = |key: &&String| LASTING.iter().any(|prefix| key.starts_with(prefix));
    Ok(keys.iter().filter(|key| !lasts(key)).count())
}

/// The mean over the nodes. This question itself is not counted.
pub async fn commands(nodes: &[MultiplexedConnection]) -> Result<Commands> {
    let mut commands = Commands::default();
    for node in nodes {
        let info: String = redis::cmd("INFO")
            .arg("commandstats")
            .query_async(&mut node.clone())
            .await?;
        let lines = info.lines().filter_map(|line| line.strip_prefix("cmdstat_"));
        for (name, rest) in lines.filter_map(|line| line.split_once(":calls=")) {
            let calls: f64 = rest.split(',').next().unwrap_or_default().parse()?;
            if name != "info" {
                *commands.0.entry(name.to_owned()).or_default() += calls / nodes.len() as f64;
            }
        }
    }
    Ok(commands)
}

impl Commands {
    pub fn since(mut self, before: &Self) -> Self {
        for (name, calls) in &mut self.0 {
            *calls -= before.of(name);
        }
        self
    }

    fn of(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub fn scripts(&self) -> f64 {
        self.of("evalsha") + self.of("eval")
    }

    /// All commands, including the commands that scripts called.
    pub fn all(&self) -> f64 {
        self.0.values().sum()
    }

    /// Commands that a client sent, set-up aside. The servers also count the commands that scripts call, so these are left out.
    pub fn sent_by(&self, who: Who) -> f64 {
        let plain = match who {
            Who::Rslock | Who::DistributedLockRedis | Who::Redlock => self.of("set"),
            _ => self.of("subscribe") + self.of("unsubscribe"),
        };
        self.scripts() + plain
    }
}

/// Number of scripts that a node has run, and its time for them, with the commands that they call.
#[derive(Clone, Debug, Default)]
pub struct ScriptTime {
    pub scripts: f64,
    pub us: f64,
}

impl ScriptTime {
    pub async fn of(node: &MultiplexedConnection) -> Result<Self> {
        let info: String = redis::cmd("INFO")
            .arg("commandstats")
            .query_async(&mut node.clone())
            .await?;
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
        let figure = |key: &str| {
            let mut figures = line?.split(',');
            figures.find_map(|figure| figure.strip_prefix(key)?.parse().ok())
        };
        Ok(Self {
            scripts: figure("calls=").context("calls")?,
            us: figure("usec=").context("usec")?,
        })
    }

    pub fn since(mut self, before: &Self) -> Self {
        self.scripts -= before.scripts;
        self.us -= before.us;
        self
    }

    pub fn add(&mut self, other: &Self) {
        self.scripts += other.scripts;
        self.us += other.us;
    }
}

/// Processor time of all nodes together.
pub async fn servers_cpu(nodes: &[MultiplexedConnection]) -> Result<Duration> {
    let mut seconds = 0.0;
    for node in nodes {
        let info: String = redis::cmd("INFO")
            .arg("cpu")
            .query_async(&mut node.clone())
            .await?;
        for key in ["used_cpu_user:", "used_cpu_sys:"] {
            let spent = info.lines().find_map(|line| line.strip_prefix(key));
            seconds += spent.context("used_cpu")?.trim().parse::<f64>()?;
        }
    }
    Ok(Duration::from_secs_f64(seconds))
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
