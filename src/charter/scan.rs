//! One step through the keys of a master.

use redis::{Cmd, Value};

use super::master::Master;
use crate::error::NodeError;
use crate::node::questions::unexpected;

/// The next cursor, and the keys of one step.
pub(super) async fn step(master: &Master, scan: &Cmd) -> Result<(Vec<u8>, Vec<Vec<u8>>), NodeError> {
    let bytes = |value: &Value| match value {
        Value::BulkString(bytes) => Some(bytes.clone()),
        _ => None,
    };
    let answer = master.answer(scan).await?;
    if let Value::Array(parts) = &answer
        && let [cursor, Value::Array(keys)] = parts.as_slice()
        && let Some(cursor) = bytes(cursor)
    {
        return Ok((cursor, keys.iter().filter_map(bytes).collect()));
    }
    Err(unexpected("SCAN", &answer))
}
