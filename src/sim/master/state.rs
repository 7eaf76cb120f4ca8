//! State of a master in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Weak;

use super::clock::ClockOffset;
use crate::error::Unfit;
use crate::node::ChannelForm;
use crate::sim::conditions::Conditions;
use crate::sim::connection::{Ask, MemoryPipe};
use crate::sim::store::Store;

#[derive(Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a switch that a test may throw by itself"
)]
pub(super) struct MasterState {
    pub(super) up: bool,
    /// Number among all servers of the process: servers of two clusters are different.
    pub(super) number: u64,
    /// Number of starts; part of the identity.
    pub(super) runs: u64,
    /// Whether it is too late for the record of an old set, which the first client of a new master finds.
    pub(super) is_found: bool,
    pub(super) clock_offset: ClockOffset,
    /// Number of times that all connections were broken.
    pub(super) resets: u64,
    pub(super) store: Store,
    /// Store at the last snapshot.
    pub(super) saved: Store,
    /// Scripts that are loaded, by their texts, with the names of their operations.
    pub(super) scripts: BTreeMap<&'static str, &'static str>,
    pub(super) executed: BTreeMap<&'static str, u64>,
    pub(super) next_client: i64,
    pub(super) conditions: Conditions,
    pub(super) error: Option<String>,
    /// Reason why it refuses new connections.
    pub(super) unfit: Option<Unfit>,
    pub(super) lost_replies: usize,
    pub(super) reset_at_next: bool,
    pub(super) notices_lost: bool,
    pub(super) client_kill_denied: bool,
    pub(super) subscribe_denied: bool,
    pub(super) keep_abandoned: bool,
    pub(super) abandoned: Vec<(i64, VecDeque<Ask>)>,
    /// Existing connections, by their client's id.
    pub(super) pipes: BTreeMap<i64, Weak<MemoryPipe>>,
}

impl MasterState {
    /// Ends every connection. The server knows it at once, before the tasks at either end see it.
    pub(super) fn break_connections(&mut self) {
        self.resets += 1;
        self.pipes.clear();
        self.store.receivers.clear();
    }

    /// Makes a client listen to this channel, or not any more. A late request over a connection that has
    /// ended has no effect.
    pub(super) fn listen(&mut self, client: i64, form: ChannelForm, channel: &str, on: bool) {
        if !self.pipes.contains_key(&client) {
            return;
        }
        if on {
            self.store.listen(client, form, channel.as_bytes());
        } else {
            self.store.unlisten(client, form, channel.as_bytes());
        }
    }

    /// Sends published messages to the clients that listen.
    pub(super) fn deliver_published(&mut self) {
        let published = std::mem::take(&mut self.store.outbox);
        if self.notices_lost {
            return;
        }
        for (channel, message) in &published {
            let message = String::from_utf8_lossy(message);
            for ((form, listened), clients) in self.store.listening(channel) {
                let listened = String::from_utf8_lossy(listened);
                for pipe in clients
                    .iter()
                    .filter_map(|client| self.pipes.get(client)?.upgrade())
                {
                    pipe.publish(*form, &listened, &message);
                }
            }
        }
    }
}
