//! Masters that store nothing and grant everything, to measure the costs of a client.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, ready};
use redis::Value;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::record::record_text;
use crate::admin::capabilities::Capabilities;
use crate::error::NodeError;
use crate::events::Op;
use crate::node::{By, ChannelForm, Connection, Endpoint, Identity, Listener, Peer, ReplyTo, Wire};
use crate::protocol::command::{Request, Script};
use crate::protocol::record::Record;
use crate::values::master_set::MasterSet;

/// A master that stores nothing.
pub(super) struct NullMaster {
    pub(super) node: usize,
    pub(super) set: MasterSet,
}

impl NullMaster {
    fn run_id(&self) -> String {
        format!("null_master-{}", self.node)
    }

    /// Record of a set that has long existed.
    fn record(&self) -> Option<Record> {
        Record::parse(&record_text(self.set, &self.run_id(), 0))
    }
}

impl Endpoint for NullMaster {
    fn label(&self) -> Arc<str> {
        self.run_id().into()
    }

    fn connect<'a>(
        &'a self,
        _predecessor: Option<&'a Peer>,
        _channel: &'a str,
        _listener: Listener,
    ) -> BoxFuture<'a, Result<Connection, NodeError>> {
        let peer = Peer {
            identity: Identity {
                run_id: self.run_id(),
                replication_id: String::new(),
                promoted_from: String::new(),
                is_of_a_process: true,
            },
            client_ids: vec![1],
            record: self.record(),
            asked: Instant::now(),
            clock_us: CLOCK_US,
            version: "null_master".into(),
            capabilities: Capabilities::ALL,
            calls_denied: false,
        };
        let (calls, mut called) = unbounded_channel::<(ReplyTo, Value)>();
        let driver = AbortOnDropHandle::new(tokio::spawn(async move {
            while let Some((reply, value)) = called.recv().await {
                reply.give(Ok(value));
            }
        }));
        let wire = Box::new(NullWire {
            answers: calls,
            connected: Instant::now(),
        });
        ready(Ok(Connection { wire, driver, peer })).boxed()
    }
}

/// First reading of its clock.
const CLOCK_US: u64 = 1_700_000_000_000_000;

/// Answers as a socket does, by way of the runtime.
struct NullWire {
    answers: UnboundedSender<(ReplyTo, Value)>,
    connected: Instant,
}

impl NullWire {
    /// Clock of the master. A wrong clock would make every answer look late.
    fn clock(&self) -> Value {
        let elapsed_us = u64::try_from(self.connected.elapsed().as_micros()).unwrap_or_default();
        Value::Int((CLOCK_US + elapsed_us).cast_signed())
    }

    fn answer(&self, reply: ReplyTo, value: Value) {
        // After the end of the connection, the drop of the reply reports it.
        let _ = self.answers.send((reply, value));
    }
}

impl Wire for NullWire {
    fn call(&self, request: &Request, _by: By, reply: ReplyTo) {
        let value = match request.script.op {
            Op::Acquire => self.clock(),
            Op::Extend => Value::Array(vec![self.clock(), Value::Int(1)]),
            Op::Release => Value::Int(1),
            _ => Value::Int(0),
        };
        self.answer(reply, value);
    }

    fn load(&self, _script: &'static Script, reply: ReplyTo) {
        self.answer(reply, Value::Nil);
    }

    fn listen(&self, _on: bool, _form: ChannelForm, _channel: &str, reply: ReplyTo) {
        self.answer(reply, Value::Nil);
    }

    fn waiting(&self) -> usize {
        0
    }

    fn last_received(&self) -> Option<Instant> {
        Some(Instant::now())
    }
}
