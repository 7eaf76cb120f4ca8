//! What a server tells of itself when it is asked who it is, whether it will do as a master or not.

use futures::future::join;
use redis::Value;

use super::info::Info;
use super::pipeline::Pipe;
use super::questions::{ask, clock_us, text, unexpected};
use super::uptime::Uptime;
use crate::error::NodeError;
use crate::node::Identity;

/// The answers, of one moment.
pub(super) struct Introduction {
    info: String,
    /// What it says that it is, where it does.
    pub(super) role: Option<String>,
    clock: Result<Value, NodeError>,
}

impl Introduction {
    pub(super) async fn hear(pipe: &Pipe) -> Result<Self, NodeError> {
        // Both at once, so that they tell of the same moment.
        let (info, time) = (redis::cmd("INFO"), redis::cmd("TIME"));
        let (info, clock) = join(ask(pipe, &info), ask(pipe, &time)).await;
        let info = info?;
        let Some(info) = text(&info) else {
            return Err(unexpected("INFO", &info));
        };
        let role = match Info::parse(&info).get("role") {
            Some(role) => Some(role.to_owned()),
            None => role(pipe).await,
        };
        Ok(Self { info, role, clock })
    }

    pub(super) fn info(&self) -> Info<'_> {
        Info::parse(&self.info)
    }

    /// The server's wall clock, in microseconds since 1970.
    pub(super) fn clock_us(&self) -> Result<u64, NodeError> {
        clock_us(self.clock.as_ref().map_err(Clone::clone)?)
    }
}

/// Which server it is, and in which run.
pub(super) fn identity(info: &Info<'_>, uptime: &Uptime) -> Identity {
    Identity {
        run_id: info.fact("run_id").to_owned(),
        replication_id: info.fact("master_replid").to_owned(),
        started_s: uptime.started_s,
    }
}

/// What the server says that it is, where INFO does not.
async fn role(pipe: &Pipe) -> Option<String> {
    match pipe.ask(&redis::cmd("ROLE")).await {
        Ok(Value::Array(parts)) => text(parts.first()?),
        _ => None,
    }
}
