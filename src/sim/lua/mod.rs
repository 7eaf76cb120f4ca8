//! Lua for the scripts of a master in memory: the real Lua 5.1, prepared as Redis 7.0 prepares it.
//!
//! A script sees `KEYS`, `ARGV` and the `redis` table. Of the standard libraries it sees `table`, `string`
//! and `math`, with the base functions that cannot reach outside. `cjson` and its siblings, `bit`,
//! coroutines, `load` and random numbers are left out, because the crate's scripts do not use them. A script
//! that names one fails as for any undeclared global.

mod api;
mod failure;
mod running;
mod values;

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::{Error, Function, Lua, LuaOptions, StdLib, Table, Value as LuaValue};
use parking_lot::Mutex;

use self::api::{api, sha1};
use self::failure::{internal, line_of, one_line, uncaught};
use self::running::{CHUNK, Running};
use self::values::{error_table, reply};
use super::store::{Bytes, CommandReply, Store};

/// Gives each run a set of globals of its own, so that no effect of a script outlives the run.
///
/// As in Redis, `pcall` returns the line of a caught error reply, and not a table as Lua's does.
const PRELUDE: &str = include_str!("prelude.lua");

/// Engines that run no script at the moment. All masters share them: to start one, and to compile the scripts there, takes far
/// longer than a run. Nothing but a compiled script outlives a run.
static IDLE: Mutex<Vec<Engine>> = Mutex::new(Vec::new());
/// Most scripts that an engine keeps compiled, far above the number that the crate has.
const MOST_SCRIPTS: usize = 256;

struct Engine {
    lua: Lua,
    /// Function that [`PRELUDE`] returns.
    run: Function,
    /// Makes the error line of an error that was not caught, while the stack still shows its place.
    handler: Function,
    /// Scripts by their text. The map is ordered, because a comparison of two texts is cheaper than a hash of
    /// one.
    scripts: BTreeMap<String, CompiledScript>,
}

/// A compiled script and its SHA-1, which names it in error lines.
#[derive(Clone, Debug)]
struct CompiledScript {
    function: Function,
    sha: Arc<str>,
}

/// Runs a script on a store as `EVAL` does. All of it happens at `now_ms`, as in Redis: a key does not expire halfway through
/// a script.
pub(crate) fn eval(
    store: &mut Store,
    now_ms: u64,
    script: &str,
    keys: &[Bytes],
    args: &[Bytes],
) -> CommandReply {
    let idle = IDLE.lock().pop();
    let mut engine = idle.map_or_else(Engine::start, Ok).map_err(internal)?;
    let reply = engine.eval(store, now_ms, script, keys, args);
    IDLE.lock().push(engine);
    reply
}

impl Engine {
    /// Starts a Lua with all that a script may use.
    fn start() -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let api = api(&lua)?;
        let caught = lua.create_function(|lua, err: LuaValue| match err {
            LuaValue::Error(err) => error_table(lua, &line_of(&err)),
            other => Ok(other),
        })?;
        let run = lua.load(PRELUDE).set_name("=prelude").call((api, caught))?;
        let handler = lua.create_function(|lua, err: LuaValue| lua.create_string(uncaught(lua, &err)))?;
        Ok(Self {
            lua,
            run,
            handler,
            scripts: BTreeMap::new(),
        })
    }

    fn eval(
        &mut self,
        store: &mut Store,
        now_ms: u64,
        script: &str,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> CommandReply {
        let CompiledScript { function, sha } = self.compiled(script)?;
        let keys = self.strings(keys).map_err(internal)?;
        let args = self.strings(args).map_err(internal)?;

        store.begin_script();
        self.lua.set_app_data(Running {
            store: mem::take(store),
            now_ms,
            sha,
        });
        let outcome = self
            .run
            .call::<(bool, LuaValue)>((function, keys, args, &self.handler));
        if let Some(running) = self.lua.remove_app_data::<Running>() {
            *store = running.store;
        }
        store.end_script();

        match outcome.map_err(internal)? {
            (true, value) => reply(&value, 0),
            (false, LuaValue::String(line)) => Err(one_line(&line.to_string_lossy())),
            (false, _) => Err("ERR execution failure".into()),
        }
    }

    /// Compiles each distinct script once.
    fn compiled(&mut self, source: &str) -> Result<CompiledScript, String> {
        if let Some(script) = self.scripts.get(source) {
            return Ok(script.clone());
        }
        let chunk = self.lua.load(source).set_name(CHUNK).set_mode(ChunkMode::Text);
        let function = chunk.into_function().map_err(|err| {
            let why = if let Error::SyntaxError { message, .. } = err {
                message
            } else {
                err.to_string()
            };
            format!("ERR Error compiling script (new function): {}", one_line(&why))
        })?;
        let script = CompiledScript {
            function,
            sha: sha1(source.as_bytes()).into(),
        };
        if self.scripts.len() >= MOST_SCRIPTS {
            self.scripts.clear();
        }
        self.scripts.insert(source.into(), script.clone());
        Ok(script)
    }

    fn strings(&self, items: &[Bytes]) -> mlua::Result<Table> {
        let strings = items.iter().map(|item| self.lua.create_string(item));
        self.lua
            .create_sequence_from(strings.collect::<mlua::Result<Vec<_>>>()?)
    }
}

#[cfg(test)]
mod tests;
