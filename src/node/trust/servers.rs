//! Servers of the pool: none is in it twice, and some may have missed grants.
//!
//! Trust belongs to a server, and not to its address: servers may swap addresses, and the same servers go on
//! voting. The list has as many entries as there are masters. So within a quarantine no more servers vote
//! than two quorums have in common. A new server takes the entry of a server that is away, which counts as
//! new when it comes back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock_check::ClockCheck;
use crate::error::Unfit;
use crate::node::Identity;

/// The servers of a pool.
#[derive(Debug)]
pub(crate) struct KnownServers {
    state: Mutex<ClaimedServers>,
}

#[derive(Debug)]
struct ClaimedServers {
    /// At most one for each address.
    servers: Vec<KnownServer>,
    /// Whether a server was ever seen there, for each address.
    taken: Vec<bool>,
}

/// One run of one server.
#[derive(Debug)]
struct KnownServer {
    identity: Identity,
    /// Last address of the server.
    node: usize,
    label: Arc<str>,
    /// Whether there is a connection to it.
    present: bool,
    /// Whether its memory is to count from now on. Another server had its address or its entry before, so it
    /// may have missed grants to that server. The flag is reset once the master has recorded that.
    has_forgotten: bool,
    clock_check: Arc<ClockCheck>,
}

impl KnownServer {
    /// Whether the identity is that of this server, in this run or another.
    fn is_server(&self, identity: &Identity) -> bool {
        identity.server().is_some() && self.identity.server() == identity.server()
    }
}

impl KnownServers {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            state: Mutex::new(ClaimedServers {
                servers: Vec::with_capacity(nodes),
                taken: vec![false; nodes],
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
                has_forgotten: state.taken[node],
                clock_check: clock_check(),
            };
            state.admit(newcomer)
        });
        state.taken[node] = true;
        let server = &mut state.servers[index];
        (server.node, server.label, server.present) = (node, Arc::clone(label), true);
        server.clock_check.seen_at(node);
        Ok(Arc::clone(&server.clock_check))
    }

    /// Notes that the server at that address may have missed grants.
    pub(in crate::node) fn forgot(&self, node: usize) {
        self.with_present(node, |server| server.has_forgotten = true);
    }

    /// Whether the memory of the server at that address is to count from now on.
    pub(in crate::node) fn has_forgotten(&self, node: usize) -> bool {
        let mut has_forgotten = false;
        self.with_present(node, |server| has_forgotten = server.has_forgotten);
        has_forgotten
    }

    /// Notes that the server at that address has recorded since when its memory counts.
    pub(in crate::node) fn introduced(&self, node: usize) {
        self.with_present(node, |server| server.has_forgotten = false);
    }

    /// Notes that the connection to the server at that address has ended. Its entry stays.
    pub(in crate::node) fn disconnected(&self, node: usize) {
        self.with_present(node, |server| server.present = false);
    }

    fn with_present(&self, node: usize, change: impl FnOnce(&mut KnownServer)) {
        let mut state = self.state();
        let present = |server: &&mut KnownServer| server.present && server.node == node;
        if let Some(server) = state.servers.iter_mut().find(present) {
            change(server);
        }
    }

    /// Ids of the servers with connections, as far as they have one.
    pub(crate) fn present(&self) -> Vec<String> {
        let state = self.state();
        let present = state.servers.iter().filter(|server| server.present);
        present
            .filter_map(|server| server.identity.server())
            .map(str::to_owned)
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, ClaimedServers> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClaimedServers {
    /// Gives a server an entry, the first of these that exists:
    /// - its own of an earlier run,
    /// - that of the last server at its address,
    /// - a free one,
    /// - that of any server that is away. There always is one.
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
                newcomer.has_forgotten = true;
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
