//! Which servers are in the pool: none of them twice, and since when each is known.
//!
//! What a server is trusted with is its own, not its address's: addresses may change places, and the same
//! servers vote on. There are as many servers as masters, so that no more servers vote within a quarantine
//! than two quorums have in common: a server that is new takes the server of one that is away, and that one
//! is new when it comes again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::clock_check::ClockCheck;
use crate::error::Unfit;
use crate::node::{Identity, Memory};

/// The servers of a pool.
#[derive(Debug)]
pub(crate) struct KnownServers {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// At most one for each address.
    servers: Vec<KnownServer>,
    /// Whether a server was ever seen there, one for each address.
    taken: Vec<bool>,
}

/// One run of one server.
#[derive(Debug)]
struct KnownServer {
    identity: Identity,
    /// Its address the last time.
    node: usize,
    label: Arc<str>,
    /// Whether there is a connection to it.
    present: bool,
    first_seen: Instant,
    /// Another server had the address, or the entry, before.
    successor: bool,
    clock_check: Arc<ClockCheck>,
}

impl KnownServer {
    /// Whether it is that server, in this run or another.
    fn is_server(&self, identity: &Identity) -> bool {
        identity.server().is_some() && self.identity.server() == identity.server()
    }
}

/// What is known of a server, beside what it tells itself.
#[derive(Clone, Debug)]
pub(in crate::node) struct ServerHistory {
    known_for: Duration,
    successor: bool,
    pub(in crate::node) clock_check: Arc<ClockCheck>,
}

impl ServerHistory {
    /// How far back the memory of a server reaches, as far as the pool is concerned. What a successor has
    /// remembered before it came was not what its predecessor was told; besides, an uptime is told by a wall
    /// clock, which may have been set forward since the start.
    pub(in crate::node) fn memory(&self, memory: Memory) -> Duration {
        if memory.vouched && !self.successor {
            memory.told
        } else {
            memory.told.min(self.known_for)
        }
    }
}

impl KnownServers {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            state: Mutex::new(State {
                servers: Vec::with_capacity(nodes),
                taken: vec![false; nodes],
            }),
        }
    }

    /// Notes that there is a connection to a server at the address `node`, unless there is one to the
    /// same server at another. One of which it is not certain that it is a run that was there before is a newcomer.
    pub(in crate::node) fn claim(
        &self,
        node: usize,
        label: &Arc<str>,
        identity: &Identity,
        clock_check: impl FnOnce() -> Arc<ClockCheck>,
    ) -> Result<ServerHistory, Unfit> {
        let mut state = self.state();
        let twin =
            |server: &&KnownServer| server.present && server.node != node && server.is_server(identity);
        if let Some(server) = state.servers.iter().find(twin) {
            let other = Arc::clone(&server.label);
            return Err(Unfit::SameServer { other });
        }
        let known = state
            .servers
            .iter()
            .position(|server| server.identity.is_same_run(identity));
        let index = known.unwrap_or_else(|| {
            let newcomer = KnownServer {
                identity: identity.clone(),
                node,
                label: Arc::clone(label),
                present: true,
                first_seen: Instant::now(),
                successor: state.taken[node],
                clock_check: clock_check(),
            };
            state.admit(newcomer)
        });
        state.taken[node] = true;
        let server = &mut state.servers[index];
        (server.node, server.label, server.present) = (node, Arc::clone(label), true);
        server.clock_check.seen_at(node);
        Ok(ServerHistory {
            known_for: server.first_seen.elapsed(),
            successor: server.successor,
            clock_check: Arc::clone(&server.clock_check),
        })
    }

    /// Notes that the connection to the server at that address has ended. What is known of it stays.
    pub(in crate::node) fn leave(&self, node: usize) {
        let mut state = self.state();
        let present = |server: &&mut KnownServer| server.present && server.node == node;
        if let Some(server) = state.servers.iter_mut().find(present) {
            server.present = false;
        }
    }

    /// The servers to which there are connections, as far as they tell which they are.
    pub(crate) fn present(&self) -> Vec<String> {
        let state = self.state();
        let present = state.servers.iter().filter(|server| server.present);
        present
            .filter_map(|server| server.identity.server())
            .map(str::to_owned)
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives a server an entry: its own of an earlier life, that of the server that was last at its address,
    /// one that nobody has had, or that of any server that is away, of which there is one.
    fn admit(&mut self, mut newcomer: KnownServer) -> usize {
        let rank = |server: &KnownServer| match server {
            server if server.is_server(&newcomer.identity) => 0,
            server if server.node == newcomer.node => 1,
            server if !server.present => 2,
            _ => 3,
        };
        let best = (0..self.servers.len()).min_by_key(|&index| rank(&self.servers[index]));
        match best {
            Some(index) if rank(&self.servers[index]) < 2 || self.servers.len() == self.taken.len() => {
                newcomer.successor = true;
                self.servers[index] = newcomer;
                index
            }
            _ => {
                self.servers.push(newcomer);
                self.servers.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests;
