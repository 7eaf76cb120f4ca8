//! Masters in memory, for tests (feature `test-util`). [The guide](crate::guide::testing) describes tests
//! with them.
//!
//! Each master runs the crate's real `lua/` files in an embedded Lua 5.1, over a small store with expiry.
//! Clients reach it through connections that keep order, may be slow, and break, as sockets do. Everything
//! above the connection is the code for real servers. All times are tokio's, so with `start_paused = true` a
//! test does not wait.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use multilock::Masters;
//!
//! let (masters, cluster) = Masters::in_memory(3).await?;
//! cluster.master(0).crash();
//! masters.red_lock("a").try_lock().await?.unlock().await?;
//! # Ok(())
//! # }
//! ```

mod change;
mod client;
mod conditions;
mod connection;
mod driver;
mod lua;
mod master;
mod network;
mod null_master;
mod observer;
mod record;
mod store;

use std::sync::Arc;
use std::time::Duration;

pub use client::Client;
pub use master::{Keep, Master, Observer};
pub use network::{Direction, Network};
pub use observer::{Call, Fate};

use crate::error::{ConnectError, InvalidInput};
use crate::masters::Masters;
use crate::masters::builder::{self, MastersBuilder};
use crate::masters::config::Config;
use crate::node::Endpoint;
use crate::time::clock::Clock;
use crate::time::random::Random;

impl Masters {
    /// Makes masters in memory, and the handle by which a test makes them fail. [`Cluster::connect`] makes
    /// more clients of the same masters.
    ///
    /// # Errors
    ///
    /// As [`MastersBuilder::connect`].
    ///
    /// # Panics
    ///
    /// If Lua cannot be started.
    pub async fn in_memory(nodes: usize) -> Result<(Self, Cluster), ConnectError> {
        let cluster = Cluster::new(nodes);
        let masters = cluster.connect(Self::builder()).await?;
        Ok((masters, cluster))
    }
}

/// Connects a client to masters that store nothing and grant everything, to measure the costs of the client
/// itself.
///
/// # Errors
///
/// As [`MastersBuilder::connect`].
pub async fn connect_to_hollow(nodes: usize, builder: MastersBuilder) -> Result<Masters, ConnectError> {
    let config = builder.config;
    config.check(nodes)?;
    let set = config.set(nodes);
    let nodes = (0..nodes)
        .map(|node| Box::new(null_master::NullMaster { node, set }) as Box<dyn Endpoint>)
        .collect();
    let clock = Clock::tokio(Clock::Host.wall_us());
    builder::connect(nodes, config, clock, Random::from_host()).await
}

/// N independent masters in memory.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use multilock::Masters;
/// use multilock::sim::{Cluster, Keep};
///
/// let cluster = Cluster::new(3);
/// // Two processes.
/// let (here, there) = (cluster.connect(Masters::builder()).await?, cluster.connect(Masters::builder()).await?);
/// let guard = here.red_lock("a").try_lock().await?;
/// cluster.master(0).crash();
/// assert!(there.red_lock("a").try_lock().await.is_err());
/// cluster.master(0).restart(Keep::Data);
/// assert_eq!(cluster.iter().filter(|master| master.locks() == ["a"]).count(), 3);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Cluster {
    masters: Vec<Master>,
}

impl Cluster {
    /// Makes new, empty masters. They need a tokio runtime, because they use its clock.
    ///
    /// The first client finds masters that have long been in their set, so they have a vote at once. Real masters,
    /// and these after [`Master::flush_all`], have none until the longest lease has passed.
    ///
    /// # Panics
    ///
    /// If Lua cannot be started.
    pub fn new(nodes: usize) -> Self {
        Self {
            masters: (0..nodes).map(Master::new).collect(),
        }
    }

    /// Returns one of the masters, counted from 0.
    ///
    /// # Panics
    ///
    /// If there is no such master.
    pub fn master(&self, node: usize) -> &Master {
        &self.masters[node]
    }

    /// Iterates over all masters.
    pub fn iter(&self) -> impl Iterator<Item = &Master> {
        self.masters.iter()
    }

    /// Passes every script call to these masters to `observer`.
    pub fn observe(&self, observer: &Arc<dyn Observer>) {
        for master in &self.masters {
            master.observe(observer);
        }
    }

    /// Connects a client with the builder's options, without its list of nodes. Every call makes another
    /// client, as if in another process.
    ///
    /// # Errors
    ///
    /// As [`MastersBuilder::connect`].
    pub async fn connect(&self, builder: MastersBuilder) -> Result<Masters, ConnectError> {
        self.connect_as(&Client::new(), builder).await
    }

    /// Connects a client with a distance to each master, in order. Masters without a value are at distance
    /// zero.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use multilock::Masters;
    /// use multilock::sim::Cluster;
    /// use std::time::Duration;
    ///
    /// let cluster = Cluster::new(3);
    /// let distances = [1, 1, 40].map(Duration::from_millis);
    /// let masters = cluster.connect_from(&distances, Masters::builder()).await?;
    /// let before = tokio::time::Instant::now();
    /// masters.red_lock("a").try_lock().await?;
    /// // Two of three are enough: nobody waits for the one that is far away.
    /// assert!(before.elapsed() < Duration::from_millis(10));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`MastersBuilder::connect`].
    pub async fn connect_from(
        &self,
        distances: &[Duration],
        builder: MastersBuilder,
    ) -> Result<Masters, ConnectError> {
        self.connect_as(&Client::new().distances(distances), builder)
            .await
    }

    /// Connects a client with the given properties.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use multilock::Masters;
    /// use multilock::sim::{Client, Cluster};
    /// use std::time::Duration;
    ///
    /// let cluster = Cluster::new(3);
    /// let client = Client::new().clock_ahead(Duration::from_secs(3600));
    /// let masters = cluster.connect_as(&client, Masters::builder()).await?;
    /// masters.red_lock("a").try_lock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`MastersBuilder::connect`].
    ///
    /// # Panics
    ///
    /// If the client lists a master that does not exist.
    pub async fn connect_as(
        &self,
        client: &Client,
        builder: MastersBuilder,
    ) -> Result<Masters, ConnectError> {
        let config = builder.config;
        let nodes = self.nodes(client, &config)?;
        builder::connect(nodes, config, self.clock(client), client.random()).await
    }

    /// Makes a client that connects in the background, as [`MastersBuilder::connect_lazy`] does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use multilock::Masters;
    /// use multilock::sim::{Cluster, Keep};
    /// use std::time::Duration;
    ///
    /// let cluster = Cluster::new(3);
    /// cluster.iter().for_each(|master| master.crash());
    /// // The service starts, and its first job waits for the masters.
    /// let masters = cluster.connect_lazy(Masters::builder())?;
    /// let job = tokio::spawn(async move { masters.red_lock("a").lock().await.map(drop) });
    /// tokio::time::sleep(Duration::from_secs(60)).await;
    /// cluster.iter().for_each(|master| master.restart(Keep::Data));
    /// job.await??;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`MastersBuilder::connect_lazy`].
    pub fn connect_lazy(&self, builder: MastersBuilder) -> Result<Masters, InvalidInput> {
        let (client, config) = (Client::new(), builder.config);
        let nodes = self.nodes(&client, &config)?;
        builder::start_lazily(nodes, config, self.clock(&client), client.random())
    }

    /// Wall clock of a client.
    fn clock(&self, client: &Client) -> Clock {
        let wall_us = self.masters.first().map_or(0, Master::wall_us);
        Clock::tokio(client.skew.apply(wall_us))
    }

    /// Masters that a client lists, as seen by that client.
    fn nodes(&self, client: &Client, config: &Config) -> Result<Vec<Box<dyn Endpoint>>, InvalidInput> {
        let all: Vec<_> = (0..self.masters.len()).collect();
        let listed = client.masters.as_ref().unwrap_or(&all);
        config.check(listed.len())?;
        let lines: Vec<_> = client.network.lines().take(all.len()).collect();
        let nodes = listed
            .iter()
            .map(|node| {
                let master =
                    self.masters[*node].seen_over(Arc::clone(&lines[*node]), config.set(listed.len()));
                Box::new(master) as Box<dyn Endpoint>
            })
            .collect();
        Ok(nodes)
    }
}
