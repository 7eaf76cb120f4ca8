//! Clients of the masters in memory.

use std::time::Duration;

use super::network::Network;
use crate::time::random::Random;

/// A client: its list of masters, its distance from each, its wall clock, and its source of randomness.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use multilock::sim::{Client, Cluster};
/// use multilock::Masters;
///
/// // With one seed, and everything else the same, a run repeats itself exactly.
/// let client = Client::new().seed(7);
/// let masters = Cluster::new(3).connect_as(&client, Masters::builder()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a client does nothing until it is connected"]
pub struct Client {
    pub(super) seed: Option<u64>,
    pub(super) network: Network,
    pub(super) skew: Skew,
    /// Masters that the client lists; by default all, in order.
    pub(super) masters: Option<Vec<usize>>,
}

/// Error of a wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) enum Skew {
    Ahead(Duration),
    Behind(Duration),
}

impl Default for Skew {
    fn default() -> Self {
        Self::Ahead(Duration::ZERO)
    }
}

impl Skew {
    pub(super) fn apply(self, wall_us: u64) -> u64 {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        match self {
            Self::Ahead(by) => wall_us.saturating_add(us(by)),
            Self::Behind(by) => wall_us.saturating_sub(us(by)),
        }
    }
}

impl Client {
    /// Makes a client that is near every master and has a correct clock and random jitter.
    pub fn new() -> Self {
        Self::default()
    }

    /// Derives all jitter, and the client's half of its owner fields, from `seed`.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Connects the client over this network, which can be cut without an effect on other clients.
    pub fn network(mut self, network: &Network) -> Self {
        self.network = network.clone();
        self
    }

    /// Makes the client's requests take this long to each master, in order. Masters without a value are at distance
    /// zero.
    pub fn distances(mut self, distances: &[Duration]) -> Self {
        self.network = Network::new(distances.len());
        for (node, distance) in distances.iter().enumerate() {
            self.network.set_distance(node, *distance);
        }
        self
    }

    /// Makes the client list these masters, counted from 0, in this order. Its list may differ from that of other
    /// clients.
    pub fn masters(mut self, nodes: &[usize]) -> Self {
        self.masters = Some(nodes.to_vec());
        self
    }

    /// Source of the client's jitter and of its half of owner fields.
    pub(super) fn random(&self) -> Random {
        self.seed.map_or_else(Random::from_host, Random::from_seed)
    }

    /// Sets the client's wall clock ahead of the masters'.
    pub fn clock_ahead(mut self, by: Duration) -> Self {
        self.skew = Skew::Ahead(by);
        self
    }

    /// Sets the client's wall clock behind the masters'.
    pub fn clock_behind(mut self, by: Duration) -> Self {
        self.skew = Skew::Behind(by);
        self
    }
}
