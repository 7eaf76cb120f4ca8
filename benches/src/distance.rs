//! Masters at a distance. In front of each master of the cluster stands a proxy of the test suite. It delivers the bytes of
//! each direction in order, each after a fixed time, with no limit to the bytes under way.
//!
//! The kernel could do it too (`netem`). But not every kernel has it, and it needs a network namespace and the permission
//! to make one. The proxies live in the bench's own process, and add about a tenth of a millisecond each way, more on
//! a busy machine. So figures are given in round trips that a PING took through the proxies in the same run. One thing is
//! nearer than it would be: a proxy accepts connections at once. It spares a round trip for the peers that open a
//! connection for each command.

use std::time::Duration;

use anyhow::Result;
use redis::aio::MultiplexedConnection;

use crate::cluster::{Cluster, observers, ping};
use crate::stats::Durations;
use crate::support::{Direction, Proxy};

const PINGS: usize = 100;

pub struct Distance {
    each_way: Duration,
    /// They end when dropped.
    _proxies: Vec<Proxy>,
    urls: Vec<String>,
    observers: Vec<MultiplexedConnection>,
}

impl Distance {
    /// To the first n masters.
    pub async fn to(cluster: &Cluster, n: usize, each_way: Duration) -> Result<Self> {
        let (mut proxies, mut urls) = (Vec::new(), Vec::new());
        for server in cluster.servers.iter().take(n) {
            let proxy = Proxy::start(server.port()).await;
            proxy.set_delay(Direction::ToServer, each_way);
            proxy.set_delay(Direction::ToClient, each_way);
            urls.push(proxy.url());
            proxies.push(proxy);
        }
        Ok(Self {
            each_way,
            _proxies: proxies,
            observers: observers(&urls).await?,
            urls,
        })
    }

    pub fn urls(&self) -> Vec<String> {
        self.urls.clone()
    }

    /// Connections of the bench's own, as far away.
    pub fn observers(&self) -> &[MultiplexedConnection] {
        &self.observers
    }

    /// There and back, as it should be.
    pub fn round_trip(&self) -> Duration {
        self.each_way * 2
    }

    /// Figures for a line: the delay of the proxies in milliseconds, and the median time of a majority's answers in microseconds.
    pub async fn told(&self) -> Result<Vec<(&'static str, f64)>> {
        let mut took = Durations::default();
        for _ in 0..PINGS {
            ping(&self.observers, self.observers.len() / 2 + 1, &mut took).await?;
        }
        Ok(vec![
            ("proxies_each_way_ms", self.each_way.as_secs_f64() * 1e3),
            ("round_trip_us", took.at(0.5)),
        ])
    }
}
