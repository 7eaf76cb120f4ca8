//! Replies as Lua values, and Lua values as replies.

use mlua::{IntoLua, Lua, Value as LuaValue};
use redis::Value;

use super::failure::{internal, one_line};
use crate::sim::store::CommandReply;

/// Replies nested deeper than this are refused. Redis refuses where its Lua stack ends; here the
/// limit keeps a table that contains itself from ending the Rust stack.
const DEEPEST_REPLY: usize = 128;

/// What a script gets for a reply: nil is `false`, a status is `{ok = ...}`.
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
        // The store answers in nothing else.
        _ => Ok(LuaValue::Boolean(false)),
    }
}

/// The reply for what a script returned: numbers lose their fraction, `true` is 1, `false` is nil,
/// and an array ends at its first nil.
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

/// An error within an array. The client's type for it is only made by reading one.
fn server_error(line: &str) -> CommandReply {
    redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).map_err(|err| format!("ERR {err}"))
}

/// Toward zero; what does not fit is the lowest integer, as x86-64 has it.
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

/// An error reply as scripts meet it. The second field is a mark of Redis' own, and scripts that
/// look through the table see it.
pub(super) fn error_table(lua: &Lua, line: &str) -> mlua::Result<LuaValue> {
    let table = lua.create_table_from([("err", line)])?;
    table.raw_set("ignore_error_stats_update", true)?;
    table.into_lua(lua)
}
