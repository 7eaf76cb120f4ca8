//! What a server tells of itself when it is asked who it is, whether it will do as a master or not.

use futures::future::join;
use redis::Value;

use super::info::Info;
use super::pipeline::Pipe;
use super::setup::ask;
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

/// An answer that is a text.
pub(super) fn text(answer: &Value) -> Option<String> {
    match answer {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// The answer to TIME in microseconds since 1970; zero where that cannot be.
pub(super) fn clock_us(answer: &Value) -> Result<u64, NodeError> {
    match answer {
        Value::Array(parts) => Ok(microseconds(parts).unwrap_or(0)),
        other => Err(unexpected("TIME", other)),
    }
}

/// Seconds and microseconds.
fn microseconds(parts: &[Value]) -> Option<u64> {
    let digits = |part: &Value| match part {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse::<u64>().ok(),
        _ => None,
    };
    digits(parts.first()?)?
        .checked_mul(1_000_000)?
        .checked_add(digits(parts.get(1)?)?)
}

/// What the server says that it is, where INFO does not.
async fn role(pipe: &Pipe) -> Option<String> {
    match pipe.ask(&redis::cmd("ROLE")).await {
        Ok(Value::Array(parts)) => match parts.into_iter().next()? {
            Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
            Value::SimpleString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn unexpected(command: &str, value: &Value) -> NodeError {
    NodeError::Unavailable(format!("unexpected answer to {command}: {value:?}"))
}
