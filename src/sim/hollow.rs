//! Masters that keep nothing and grant everything, so that what is left is what a client costs.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, ready};
use redis::Value;
use tokio_util::task::AbortOnDropHandle;

use crate::error::NodeError;
use crate::node::{By, Connection, Fault, Identity, Listener, Node, Peer, Wire};
use crate::script::{Request, Script};

/// One of them.
#[derive(Debug)]
pub(super) struct Hollow {
    pub(super) place: usize,
}

impl Node for Hollow {
    fn label(&self) -> Arc<str> {
        format!("hollow-{}", self.place).into()
    }

    fn connect<'a>(
        &'a self,
        _predecessor: Option<&'a Peer>,
        _listener: Listener,
    ) -> BoxFuture<'a, Result<Connection, NodeError>> {
        let peer = Peer {
            identity: Identity {
                run_id: self.label().to_string(),
                replication_id: String::new(),
            },
            client_id: 1,
            memory: Some(super::LONG_AGO),
            clock_us: CLOCK_US,
            marker: None,
        };
        let driver = AbortOnDropHandle::new(tokio::spawn(std::future::pending()));
        let wire = Box::new(HollowWire);
        ready(Ok(Connection { wire, driver, peer })).boxed()
    }
}

/// A clock that stands still is behind, and never suspected.
const CLOCK_US: u64 = 1_700_000_000_000_000;

/// Answers at the second poll, as a socket does: by way of the runtime.
#[derive(Debug)]
struct HollowWire;

impl Wire for HollowWire {
    fn call(&self, request: &Arc<Request>, _by: By) -> BoxFuture<'static, Result<Value, Fault>> {
        let reply = match request.script.name {
            "acquire" | "extend" => Value::Array(vec![Value::Int(CLOCK_US.cast_signed()), Value::Int(1)]),
            _ => Value::Int(0),
        };
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(reply)
        })
    }

    fn load(&self, _script: &'static Script) -> BoxFuture<'static, Result<(), Fault>> {
        ready(Ok(())).boxed()
    }

    fn subscribe(&self, _channels: &[String]) -> BoxFuture<'static, Result<(), Fault>> {
        ready(Ok(())).boxed()
    }

    fn unsubscribe(&self, _channels: &[String]) -> BoxFuture<'static, Result<(), Fault>> {
        ready(Ok(())).boxed()
    }
}
