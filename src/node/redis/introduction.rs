//! What a server tells of itself when it is asked who it is, whether it will do as a master or not.

use futures::future::join3;
use redis::Value;

use super::info::Info;
use super::pipeline::Pipe;
use super::questions::{ask, clock_us, get, judge, text, unexpected};
use crate::error::NodeError;
use crate::node::Identity;
use crate::protocol::fault::{Fault, FaultClass};
use crate::protocol::keys::SET;
use crate::protocol::record::Record;

/// The answers, of one moment.
pub(super) struct Introduction {
    info: String,
    /// What it says that it is, where it does.
    pub(super) role: Option<String>,
    clock: Result<Value, NodeError>,
    record: Result<Value, Fault>,
}

impl Introduction {
    pub(super) async fn hear(pipe: &Pipe) -> Result<Self, NodeError> {
        // At once, so that they tell of the same moment. The record is read last: none is younger than the clock by more.
        let (info, time, get) = (redis::cmd("INFO"), redis::cmd("TIME"), get(SET));
        let (info, clock, record) = join3(ask(pipe, &info), ask(pipe, &time), pipe.ask(&get)).await;
        let info = info?;
        let Some(info) = text(&info) else {
            return Err(unexpected("INFO", &info));
        };
        let role = match Info::parse(&info).get("role") {
            Some(role) => Some(role.to_owned()),
            None => role(pipe).await,
        };
        Ok(Self {
            info,
            role,
            clock,
            record,
        })
    }

    pub(super) fn info(&self) -> Info<'_> {
        Info::parse(&self.info)
    }

    /// The server's wall clock, in microseconds since 1970.
    pub(super) fn clock_us(&self) -> Result<u64, NodeError> {
        clock_us(self.clock.as_ref().map_err(Clone::clone)?)
    }

    /// What the server has recorded; `None` where nothing stands, or something that is no record.
    pub(super) fn record(&self) -> Result<Option<Record>, NodeError> {
        match &self.record {
            Ok(value) => Ok(text(value).and_then(|text| Record::parse(&text))),
            Err(fault) if fault.class() == Some(FaultClass::Spoilt) => Ok(None),
            Err(fault) => Err(judge(fault.clone())),
        }
    }
}

/// Which server it is, and in which run.
pub(super) fn identity(info: &Info<'_>) -> Identity {
    Identity {
        run_id: info.fact("run_id").to_owned(),
        replication_id: info.fact("master_replid").to_owned(),
        is_of_a_process: info.is_of_a_process(),
    }
}

/// What the server says that it is, where INFO does not.
async fn role(pipe: &Pipe) -> Option<String> {
    match pipe.ask(&redis::cmd("ROLE")).await {
        Ok(Value::Array(parts)) => text(parts.first()?),
        _ => None,
    }
}
