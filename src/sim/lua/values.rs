//! Replies as Lua values, and Lua values as replies.

use mlua::{IntoLua, Lua, Value as LuaValue};
use redis::Value;

use super::failure::{internal, one_line};
use crate::sim::store::CommandReply;

/// Depth from which nested replies are refused. Redis refuses them at the end of its Lua stack. The limit
/// here prevents an overflow of the Rust stack by a table that contains itself.
const DEEPEST_REPLY: usize = 128;

/// Converts a reply to the value that a script gets: nil is `false`, a status is `{ok = ...}`.
pub(super) fn to_lua(lua: &Lua, value: Value) -> mlua::Result<LuaValue> {
    match value {
        Value::Int(number) => Ok(LuaValue::Integer(number)),
        Value::BulkString(bytes) => lua.create_string(bytes)?.into_lua(lua),
        Value::Okay => field(lua, "ok", "OK"),
        Value::SimpleString(status) => field(lua, "ok", &status),
        Value::Array(items) => {
            let items = items.into_iter().map(|item| to_lua(lua, item));
            lua.create_sequence_from(items.collect::<mlua::Result<Vec<_>>>()?)?
                .into_lua(lua)
        }
        // The store has no other replies.
        _ => Ok(LuaValue::Boolean(false)),
    }
}

/// Converts the result of a script to a reply. Numbers lose their fraction, `true` is 1, `false` is nil, and
/// an array ends at its first nil.
pub(super) fn reply(value: &LuaValue, depth: usize) -> CommandReply {
    match value {
        LuaValue::Boolean(true) => Ok(Value::Int(1)),
        LuaValue::Integer(number) => Ok(Value::Int(*number)),
        LuaValue::Number(number) => Ok(Value::Int(truncated(*number))),
        LuaValue::String(text) => Ok(Value::BulkString(text.as_bytes().to_vec())),
        LuaValue::Table(table) => {
            if let LuaValue::String(line) = table.raw_get("err").map_err(internal)? {
                return Err(one_line(&line.to_string_lossy()));
            }
            if let LuaValue::String(status) = table.raw_get("ok").map_err(internal)? {
                let status = status.to_string_lossy().replace(['\r', '\n'], " ");
                return Ok(if status == "OK" {
                    Value::Okay
                } else {
                    Value::SimpleString(status)
                });
            }
            if depth == DEEPEST_REPLY {
                return Err("ERR reached lua stack limit".into());
            }
            let mut items = Vec::new();
            loop {
                let item = table.raw_get::<LuaValue>(items.len() + 1).map_err(internal)?;
                if item.is_nil() {
                    return Ok(Value::Array(items));
                }
                items.push(reply(&item, depth + 1).or_else(|line| server_error(&line))?);
            }
        }
        _ => Ok(Value::Nil),
    }
}

/// Makes an error within an array. The client's type for it can only be made by parsing one.
fn server_error(line: &str) -> CommandReply {
    redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).map_err(|err| format!("ERR {err}"))
}

/// Truncates toward zero. A number that does not fit becomes the lowest integer, as on x86-64.
#[expect(clippy::cast_possible_truncation, reason = "it is what Redis does")]
fn truncated(number: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

pub(super) fn field(lua: &Lua, name: &str, text: &str) -> mlua::Result<LuaValue> {
    lua.create_table_from([(name, text)])?.into_lua(lua)
}

/// Makes an error reply as scripts see it. The second field is a mark that Redis sets, and a script that
/// iterates over the table sees it.
pub(super) fn error_table(lua: &Lua, line: &str) -> mlua::Result<LuaValue> {
    let table = lua.create_table_from([("err", line)])?;
    table.raw_set("ignore_error_stats_update", true)?;
    table.into_lua(lua)
}
