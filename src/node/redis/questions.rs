//! Questions to a server that several modules ask, and their answers.

use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::timeout;

use super::pipeline::Pipe;
use crate::error::{NodeError, Unfit};
use crate::protocol::fault::{Fault, FaultClass, is_unknown_command};
use crate::protocol::text::text;
use crate::time::rounded::Rounded;

/// Sends a command and waits for the answer; turns a fault into an error of the server.
pub(super) async fn ask(pipe: &Pipe, command: &Cmd) -> Result<Value, NodeError> {
    pipe.ask(command).await.map_err(judge)
}

/// Error of the server for a fault: [`Unfit`] if the configuration has to change before the server can be
/// used. A command that it does not have was renamed, as a rule.
pub(crate) fn judge(fault: Fault) -> NodeError {
    match fault {
        Fault::Server(FaultClass::Denied | FaultClass::LoggedOut, error) => denied(&error),
        Fault::Server(FaultClass::Unforeseen, error) if is_unknown_command(&error) => denied(&error),
        Fault::Server(_, error) => NodeError::NotReady(error.to_string()),
        // A call there will be reported as not sent, for this reason.
        Fault::NotSent(reason) => NodeError::Unavailable(reason.to_string()),
        other => NodeError::Unavailable(other.vote().to_string()),
    }
}

/// Error of a server that does not let this client in, or denies a command.
pub(super) fn denied(error: &impl ToString) -> NodeError {
    let error = error.to_string();
    Unfit::Denied { error }.into()
}

/// Runs questions within a time limit.
pub(crate) async fn in_time<T>(
    within: Duration,
    asking: impl Future<Output = Result<T, NodeError>>,
) -> Result<T, NodeError> {
    timeout(within, asking).await.unwrap_or_else(|_| {
        let late = format!("no answer within {}", Rounded(within));
        Err(NodeError::Unavailable(late))
    })
}

/// Parses the answer to TIME into microseconds since 1970; zero if it is no time.
pub(super) fn clock_us(answer: &Value) -> Result<u64, NodeError> {
    match answer {
        Value::Array(parts) => Ok(microseconds(parts).unwrap_or(0)),
        other => Err(unexpected("TIME", other)),
    }
}

/// Parses seconds and microseconds.
fn microseconds(parts: &[Value]) -> Option<u64> {
    let number = |part: &Value| text(part)?.parse::<u64>().ok();
    number(parts.first()?)?
        .checked_mul(1_000_000)?
        .checked_add(number(parts.get(1)?)?)
}

pub(super) fn unexpected(command: &str, answer: &Value) -> NodeError {
    NodeError::Unavailable(format!("unexpected answer to {command}: {answer:?}"))
}
