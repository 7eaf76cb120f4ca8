//! The `redis` table of scripts.

use mlua::{Error, Function, Lua, MultiValue, Table, Value as LuaValue};
use sha1_smol::Sha1;

use super::running::Running;
use super::values::{error_table, field, to_lua};
use crate::sim::store::{Bytes, CommandReply};

/// Makes the `redis` table without its constants.
pub(super) fn api(lua: &Lua) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    let format = lua.globals().get::<Table>("string")?.get::<Function>("format")?;
    let numbers = format.clone();
    redis.set(
        "call",
        lua.create_function(move |lua, args: MultiValue| match command(lua, &numbers, &args) {
            Ok(value) => to_lua(lua, value),
            Err(line) => Err(Error::RuntimeError(line)),
        })?,
    )?;
    redis.set(
        "pcall",
        lua.create_function(move |lua, args: MultiValue| match command(lua, &format, &args) {
            Ok(value) => to_lua(lua, value),
            Err(line) => error_table(lua, &line),
        })?,
    )?;
    redis.set(
        "error_reply",
        lua.create_function(|lua, args: MultiValue| {
            let Some(text) = only_string(&args) else {
                return misused(lua);
            };
            // A leading `-` is allowed. A single word is a message without its code.
            let text = text
                .strip_prefix('-')
                .unwrap_or(&text)
                .trim_end_matches(['\r', '\n']);
            let code = if text.contains(' ') { "" } else { "ERR " };
            field(lua, "err", &format!("{code}{text}"))
        })?,
    )?;
    redis.set(
        "status_reply",
        lua.create_function(|lua, args: MultiValue| match only_string(&args) {
            Some(text) => field(lua, "ok", &text),
            None => misused(lua),
        })?,
    )?;
    redis.set(
        "sha1hex",
        lua.create_function(|lua, args: MultiValue| {
            let mut args = args.into_iter();
            let (Some(text), None) = (args.next(), args.next()) else {
                return Err(Error::RuntimeError("ERR wrong number of arguments".into()));
            };
            // A value that is neither a string nor a number counts as empty.
            let text = lua.coerce_string(text)?.map(|text| text.as_bytes().to_vec());
            lua.create_string(sha1(&text.unwrap_or_default()))
        })?,
    )?;
    redis.set("log", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    Ok(redis)
}

/// Runs one `redis.call` against the store of the run in progress.
fn command(lua: &Lua, format: &Function, args: &MultiValue) -> CommandReply {
    if args.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call".into());
    }
    let args: Option<Vec<Bytes>> = args.iter().map(|arg| argument(format, arg)).collect();
    let args = args.ok_or("ERR Lua redis lib command arguments must be strings or integers")?;
    let mut running = lua
        .app_data_mut::<Running>()
        .ok_or("ERR redis.call/pcall can only be called inside a script invocation")?;
    let Running { store, now_ms, .. } = &mut *running;
    store.call(*now_ms, &args)
}

/// Turns an argument into bytes: a string unchanged, a number in 17 significant digits: `3`,
/// `0.10000000000000001`, `1e+17`.
fn argument(format: &Function, arg: &LuaValue) -> Option<Bytes> {
    let number = match arg {
        LuaValue::String(text) => return Some(text.as_bytes().to_vec()),
        // Such a number is short enough to have no exponent, and by far the most usual.
        LuaValue::Integer(number) if number.unsigned_abs() < 1 << 53 => {
            return Some(number.to_string().into());
        }
        LuaValue::Integer(_) | LuaValue::Number(_) => arg.clone(),
        _ => return None,
    };
    let text = format.call::<mlua::LuaString>(("%.17g", number)).ok()?;
    Some(text.as_bytes().to_vec())
}

/// Argument of a function that takes one string and nothing else.
fn only_string(args: &MultiValue) -> Option<String> {
    match (args.len(), args.front()) {
        (1, Some(LuaValue::String(text))) => Some(text.to_string_lossy()),
        _ => None,
    }
}

fn misused(lua: &Lua) -> mlua::Result<LuaValue> {
    field(lua, "err", "ERR wrong number or type of arguments")
}

pub(super) fn sha1(bytes: &[u8]) -> String {
    Sha1::from(bytes).digest().to_string()
}
