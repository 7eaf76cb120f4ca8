//! Servers of the pool: none is in it twice, and some may have missed grants.
//!
//! Trust belongs to a server, and not to its address: servers may swap addresses, and the same servers go on
//! voting. The list has as many entries as there are masters. So within a quarantine no more servers vote
//! than two quorums have in common. A new server takes the entry of a server that is away, which counts as
//! new when it comes back.

use std::sync::Arc;

use parking_lot::Mutex;

use super::clock_check::ClockCheck;
use crate::error::Unfit;
use crate::node::Identity;
use crate::time::clock::{Clock, Moment};

/// The servers of a pool.
pub(crate) struct KnownServers {
    clock: Clock,
    state: Mutex<ClaimedServers>,
}

struct ClaimedServers {
    /// At most one for each address.
    servers: Vec<KnownServer>,
    /// For each address, a moment from which on its server has granted nothing that counts for this client. A hold is valid
    /// from the moment before its question, so it is the moment before the last question that the server has answered.
    left: Vec<Option<Moment>>,
}

/// One run of one server.
struct KnownServer {
    identity: Identity,
    /// Last address of the server.
    node: usize,
    label: Arc<str>,
    /// Whether there is a connection to the server.
    present: bool,
    /// Moment until which another server had this server's address or its entry. This server may have missed that
    /// server's grants, so its memory is not to count from before. `None` once the master has recorded that.
    missed_until: Option<Moment>,
    clock_check: Arc<ClockCheck>,
}

impl KnownServer {
    /// Whether the identity is that of this server, in this run or another.
    fn is_server(&self, identity: &Identity) -> bool {
        identity.server().is_some() && self.identity.server() == identity.server()
    }
}

impl KnownServers {
    pub(crate) fn new(nodes: usize, clock: Clock) -> Self {
        Self {
            clock,
            state: Mutex::new(ClaimedServers {
                servers: Vec::with_capacity(nodes),
                left: vec![None; nodes],
            }),
        }
    }

    /// Notes a connection to a server at the address `node`. Fails if there is a connection to the same
    /// server at another address. A server is new unless its run certainly was seen before.
    pub(in crate::node) fn claim(
        &self,
        node: usize,
        label: &Arc<str>,
        identity: &Identity,
        clock_check: impl FnOnce() -> Arc<ClockCheck>,
    ) -> Result<Arc<ClockCheck>, Unfit> {
        let mut state = self.state.lock();
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
                missed_until: state.left[node],
                clock_check: clock_check(),
            };
            state.admit(newcomer, self.clock)
        });
        let server = &mut state.servers[index];
        (server.node, server.label, server.present) = (node, Arc::clone(label), true);
        server.clock_check.seen_at(node);
        Ok(Arc::clone(&server.clock_check))
    }

    /// Notes that the server at that address may have missed grants until now.
    pub(in crate::node) fn forgot(&self, node: usize) {
        if let Some(server) = self.state.lock().present_at(node) {
            server.missed_until = Some(self.clock.now());
        }
    }

    /// Moment until which the server at that address may have missed grants, if its memory is not to count from before.
    pub(in crate::node) fn missed_until(&self, node: usize) -> Option<Moment> {
        self.state.lock().present_at(node)?.missed_until
    }

    /// Notes that the server at that address has recorded since when its memory counts.
    pub(in crate::node) fn introduced(&self, node: usize) {
        if let Some(server) = self.state.lock().present_at(node) {
            server.missed_until = None;
        }
    }

    /// Notes that the connection to the server at that address has ended. The last question that the server has answered was
    /// not sent before `asked`; `None` if it was asked for no hold. Its entry stays.
    pub(in crate::node) fn disconnected(&self, node: usize, asked: Option<Moment>) {
        let mut state = self.state.lock();
        if let Some(server) = state.present_at(node) {
            server.present = false;
            state.left[node] = later(state.left[node], asked);
        }
    }

    /// Ids of the servers with connections, as far as they have one.
    pub(crate) fn present(&self) -> Vec<String> {
        let state = self.state.lock();
        let present = state.servers.iter().filter(|server| server.present);
        present
            .filter_map(|server| server.identity.server())
            .map(str::to_owned)
            .collect()
    }
}

impl ClaimedServers {
    fn present_at(&mut self, node: usize) -> Option<&mut KnownServer> {
        let is_there = |server: &&mut KnownServer| server.present && server.node == node;
        self.servers.iter_mut().find(is_there)
    }

    /// Gives a server an entry, the first of these that exists:
    /// - its own of an earlier run,
    /// - that of the last server at its address,
    /// - a free one,
    /// - that of any server that is away. There always is one.
    fn admit(&mut self, mut newcomer: KnownServer, clock: Clock) -> usize {
        let rank = |server: &KnownServer| match server {
            server if server.is_server(&newcomer.identity) => 0,
            server if server.node == newcomer.node => 1,
            server if !server.present => 2,
            _ => 3,
        };
        let best = (0..self.servers.len()).min_by_key(|&index| rank(&self.servers[index]));
        match best {
            Some(index) if rank(&self.servers[index]) < 2 || self.servers.len() == self.left.len() => {
                let before = &self.servers[index];
                let left = self.left[before.node].or_else(|| Some(clock.now()));
                let missed_until = later(newcomer.missed_until, before.missed_until);
                newcomer.missed_until = later(missed_until, left);
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

/// The later one of two moments.
fn later(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    match (one, other) {
        (Some(one), Some(other)) if other.ns_since(one) == 0 => Some(one),
        (one, other) => other.or(one),
    }
}

#[cfg(test)]
mod tests;
