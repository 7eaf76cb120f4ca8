//! A server's facts about itself, whether the server can be a master or not.

use futures::future::join3;
use redis::Value;

use super::info::Info;
use super::pipeline::Pipe;
use super::questions::{ask, clock_us, judge, unexpected};
use crate::admin::capabilities::Capabilities;
use crate::error::NodeError;
use crate::node::Identity;
use crate::protocol::fault::{Fault, FaultClass};
use crate::protocol::keys::SET;
use crate::protocol::record::Record;
use crate::protocol::text::text;

/// Answers of one moment.
pub(super) struct ServerAnswers {
    info: String,
    /// Role of the server, if it reports one.
    pub(super) role: Option<String>,
    clock: Result<Value, NodeError>,
    record: Result<Value, Fault>,
}

impl ServerAnswers {
    pub(super) async fn read(pipe: &Pipe) -> Result<Self, NodeError> {
        // Sent together, so that the answers are of the same moment. The record is read first: one that is stored meanwhile
        // would look like one from a time that is still to come.
        let (record, info, clock) = join3(
            pipe.ask(redis::cmd("GET").arg(SET)),
            ask(pipe, &redis::cmd("INFO")),
            ask(pipe, &redis::cmd("TIME")),
        )
        .await;
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

    /// Record of the server; `None` if the key is absent or holds no record.
    pub(super) fn record(&self) -> Result<Option<Record>, NodeError> {
        match &self.record {
            Ok(value) => Ok(text(value).and_then(|text| Record::parse(&text))),
            Err(fault) if fault.class() == Some(FaultClass::Spoilt) => Ok(None),
            Err(fault) => Err(judge(fault.clone())),
        }
    }
}

/// Server and run.
pub(super) fn identity(info: &Info<'_>) -> Identity {
    Identity {
        run_id: info.fact("run_id").to_owned(),
        replication_id: info.fact("master_replid").to_owned(),
        promoted_from: info.promoted_from().to_owned(),
        is_of_a_process: info.is_of_a_process(),
    }
}

/// Capabilities of a server over one connection.
pub(super) fn capabilities(
    info: &Info<'_>,
    identity: &Identity,
    resp3: bool,
    kill_fence: bool,
) -> Capabilities {
    Capabilities {
        resp3,
        kill_fence,
        run_known: identity.run().is_some(),
        eviction_known: info.evicts().is_some(),
        identity_known: identity.server().is_some(),
    }
}

/// Role of the server by ROLE, if INFO does not have it.
async fn role(pipe: &Pipe) -> Option<String> {
    let answer = pipe.ask(&redis::cmd("ROLE")).await.ok()?;
    text(answer.as_sequence()?.first()?)
}
