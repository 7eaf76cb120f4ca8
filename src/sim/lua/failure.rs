//! Error lines of scripts that failed, as Redis writes them.

use mlua::{Error, Lua, Value as LuaValue};

use super::running::{CHUNK, Running};
use crate::sim::store::Bytes;

/// Error line of an error raised by one of the functions here.
pub(super) fn line_of(err: &Error) -> String {
    match err {
        Error::CallbackError { cause, .. } => line_of(cause),
        Error::RuntimeError(line) => line.clone(),
        other => format!("ERR {other}"),
    }
}

/// Error line of a script that failed: the error, the script, and the line in it.
pub(super) fn uncaught(lua: &Lua, err: &LuaValue) -> Bytes {
    let mut line = match err {
        LuaValue::Error(err) => line_of(err).into_bytes(),
        LuaValue::Table(table) => match table.get::<LuaValue>("err") {
            Ok(LuaValue::String(line)) => line.as_bytes().to_vec(),
            _ => b"ERR unknown error".to_vec(),
        },
        LuaValue::String(text) => [b"ERR ", &*text.as_bytes()].concat(),
        other => format!("ERR {}", other.to_string().unwrap_or_default()).into_bytes(),
    };
    if let (Some(running), Some(at)) = (lua.app_data_ref::<Running>(), line_number(lua)) {
        line.extend(format!(" script: {}, on {CHUNK}:{at}.", running.sha).bytes());
    }
    line
}

/// Current line of the script.
fn line_number(lua: &Lua) -> Option<usize> {
    let at = |level| {
        lua.inspect_stack(level, |frame| {
            let ours = frame.source().source.is_some_and(|source| source == CHUNK);
            ours.then(|| frame.current_line()).flatten()
        })
    };
    (0..).map_while(at).flatten().next()
}

/// Removes line ends from the text of a reply.
pub(super) fn one_line(text: &str) -> String {
    text.trim_end_matches(['\r', '\n']).replace(['\r', '\n'], " ")
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of `map_err`")]
pub(super) fn internal(err: Error) -> String {
    format!("ERR {}", one_line(&err.to_string()))
}
