//! Calls to a server, and the messages of channels. RESP3 carries both on one connection. Under RESP2 a
//! connection that has subscribed takes nothing else, so the messages have a connection of their own.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::pipeline::Pipe;
use crate::node::{By, ChannelForm, ReplyTo, Wire};
use crate::protocol::command::{Request, Script};

/// One connection, or two.
pub(super) struct ServerWire {
    pub(super) calls: Arc<Pipe>,
    /// Connection for messages, if the first one takes no subscriptions.
    pub(super) notices: Option<Arc<Pipe>>,
    /// Task that keeps the first connection logged in, and ends with it.
    pub(super) _refresh: Option<AbortOnDropHandle<()>>,
}

impl Wire for ServerWire {
    fn call(&self, request: &Request, by: By, reply: ReplyTo) {
        match by {
            By::Sha => self.calls.send(request.packed(), reply),
            By::Source => self.calls.send(&request.with_source(), reply),
        }
    }

    fn load(&self, script: &'static Script, reply: ReplyTo) {
        self.calls.send(&script.load().get_packed_command(), reply);
    }

    fn listen(&self, on: bool, form: ChannelForm, channel: &str, reply: ReplyTo) {
        let mut command = redis::cmd(match (form, on) {
            (ChannelForm::Exact, true) => "SUBSCRIBE",
            (ChannelForm::Exact, false) => "UNSUBSCRIBE",
            (ChannelForm::Pattern, true) => "PSUBSCRIBE",
            (ChannelForm::Pattern, false) => "PUNSUBSCRIBE",
        });
        command.arg(channel);
        let pipe = self.notices.as_ref().unwrap_or(&self.calls);
        pipe.send(&command.get_packed_command(), reply);
    }

    fn waiting(&self) -> usize {
        self.calls.waiting()
    }

    fn last_received(&self) -> Option<Instant> {
        self.calls.last_received()
    }
}
