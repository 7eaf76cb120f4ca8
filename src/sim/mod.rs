//! Masters in memory, for tests (feature `test-util`).
//!
//! Each runs the crate's real `lua/` files in an embedded Lua 5.1 over a small store with expiry, and
//! is reached through connections that keep order, may be slow, and break, as sockets do. Everything
//! above the connection is the code that talks to real servers. All of it lives in tokio's time, so
//! with `start_paused = true` a test waits for nothing.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use multilock::{Masters, sim::Cluster};
//!
//! let cluster = Cluster::new(3);
//! let masters = cluster.connect(Masters::builder()).await?;
//! cluster.master(0).crash();
//! masters.red_lock("a").try_lock().await?.unlock().await?;
//! # Ok(())
//! # }
//! ```

mod lua;
mod master;
mod pipe;
mod store;

use std::time::Duration;

pub use master::{Keep, Master};

use crate::builder::{self, MastersBuilder};
use crate::clock::Clock;
use crate::error::ConnectError;
use crate::masters::Masters;
use crate::node::Node;

/// N independent masters in memory.
#[derive(Clone, Debug)]
pub struct Cluster {
    masters: Vec<Master>,
}

impl Cluster {
    /// New, empty masters. Needs a tokio runtime, whose clock they live by.
    ///
    /// # Panics
    ///
    /// If Lua cannot be started.
    pub fn new(nodes: usize) -> Self {
        Self {
            masters: (0..nodes).map(Master::new).collect(),
        }
    }

    /// One of them, counted from 0.
    ///
    /// # Panics
    ///
    /// If there is no such master.
    pub fn master(&self, place: usize) -> &Master {
        &self.masters[place]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Master> {
        self.masters.iter()
    }

    /// Connects a client with the builder's options; the builder's nodes are not used. Every call
    /// makes another client, as another process would be.
    ///
    /// # Errors
    ///
    /// As [`MastersBuilder::connect`].
    pub async fn connect(&self, builder: MastersBuilder) -> Result<Masters, ConnectError> {
        self.connect_from(&[], builder).await
    }

    /// Connects a client whose requests take so long to each master, in order; zero where none is
    /// given.
    ///
    /// # Errors
    ///
    /// As [`MastersBuilder::connect`].
    pub async fn connect_from(
        &self,
        distances: &[Duration],
        builder: MastersBuilder,
    ) -> Result<Masters, ConnectError> {
        let config = builder.into_config();
        config.check(self.masters.len())?;
        let distances = distances.iter().copied().chain(std::iter::repeat(Duration::ZERO));
        let seen = self
            .masters
            .iter()
            .zip(distances)
            .map(|(master, distance)| master.at_distance(distance));
        let nodes = seen.map(|master| Box::new(master) as Box<dyn Node>).collect();
        builder::connect(nodes, config, Clock::Tokio).await
    }
}
