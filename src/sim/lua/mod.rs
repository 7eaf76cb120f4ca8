//! The Lua a master in memory runs scripts in: the real Lua 5.1, dressed as Redis 7.0 dresses it.
//!
//! A script sees `KEYS`, `ARGV`, the `redis` table, and of the standard libraries `table`, `string`
//! and `math` with the base functions that cannot reach outside. `cjson` and its siblings, `bit`,
//! coroutines, `load` and random numbers are left out: the crate's scripts have no use for them, and a
//! script that names one fails as it would for any undeclared global.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::chunk::ChunkMode;
use mlua::{Error, Function, IntoLua, Lua, LuaOptions, MultiValue, StdLib, Table, Value as LuaValue};
use redis::Value;
use sha1_smol::Sha1;

use super::store::{Bytes, Reply, Store};

/// The name Redis gives every script; it shows in error lines.
const CHUNK: &str = "@user_script";

/// Replies nested deeper than this are refused. Redis refuses where its Lua stack ends; here the
/// limit keeps a table that contains itself from ending the Rust stack.
const DEEPEST_REPLY: usize = 128;

/// Gives each run a set of globals of its own, so that nothing a script does outlives it.
///
/// `pcall` differs from Lua's as it does in Redis: a caught error reply is its line, not a table.
const PRELUDE: &str = r#"
local redis, caught = ...
local error, getmetatable, next, setfenv, tostring, type = error, getmetatable, next, setfenv, tostring, type
local pcall, rawset, setmetatable, xpcall = pcall, rawset, setmetatable, xpcall

local READ_ONLY = "Attempt to modify a readonly table"
local function refuse() error(READ_ONLY, 2) end
local function read_only(index)
    return { __index = index, __newindex = refuse, __metatable = false }
end
local function settled(ok, ...)
    if ok then return ok, ... end
    local err = caught((...))
    if type(err) == "table" and type(err.err) == "string" then err = err.err end
    return false, err
end

local base = {
    pcall = function(...) return settled(pcall(...)) end,
    xpcall = function(f, handler)
        return xpcall(f, function(err) return handler(caught(err)) end)
    end,
    rawset = function(t, name, value)
        if getmetatable(t) == false then error(READ_ONLY, 0) end
        return rawset(t, name, value)
    end,
}
for name in ([[_VERSION assert error getmetatable ipairs next pairs rawequal rawget select setmetatable
        tonumber tostring type unpack]]):gmatch("%S+") do
    base[name] = _G[name]
end
setmetatable(base, { __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end })

redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING = 0, 1, 2, 3
-- C's generator keeps its state between runs.
math.random, math.randomseed = nil, nil
local libraries = {
    math = read_only(math), redis = read_only(redis), string = read_only(string), table = read_only(table),
}
-- All strings share one metatable, which leads to the library itself.
getmetatable("").__metatable = false

return function(script, keys, argv, handler)
    local own = setmetatable({ KEYS = keys, ARGV = argv }, { __index = base })
    for name, meta in next, libraries do own[name] = setmetatable({}, meta) end
    own._G = setmetatable({}, read_only(own))
    setfenv(script, own._G)
    return xpcall(script, handler)
end
"#;

/// Runs scripts against any [`Store`], one at a time.
#[derive(Debug)]
pub(crate) struct LuaHost(Mutex<Engine>);

#[derive(Debug)]
struct Engine {
    lua: Lua,
    /// What [`PRELUDE`] returns.
    run: Function,
    /// Makes the error line of an error that nobody caught, while the stack still tells where.
    handler: Function,
    /// By their text. Ordered, since comparing two texts is cheaper than hashing one.
    scripts: BTreeMap<String, Script>,
}

/// A compiled script and its SHA-1, which names it in error lines.
#[derive(Clone, Debug)]
struct Script {
    function: Function,
    sha: Arc<str>,
}

/// The run in progress. The store moves in for its length: `redis.call` is created once, for all
/// runs, and cannot borrow.
#[derive(Debug)]
struct Running {
    store: Store,
    now_ms: u64,
    sha: Arc<str>,
}

impl LuaHost {
    /// Starts a Lua with everything a script may use.
    pub(crate) fn new() -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let api = api(&lua)?;
        let caught = lua.create_function(|lua, err: LuaValue| match err {
            LuaValue::Error(err) => error_table(lua, &line_of(&err)),
            other => Ok(other),
        })?;
        let run = lua.load(PRELUDE).set_name("=prelude").call((api, caught))?;
        let handler = lua.create_function(|lua, err: LuaValue| lua.create_string(uncaught(lua, &err)))?;
        Ok(Self(Mutex::new(Engine {
            lua,
            run,
            handler,
            scripts: BTreeMap::new(),
        })))
    }

    /// Runs a script as `EVAL` does. All of it happens at `now_ms`, as in Redis, where a key does
    /// not expire halfway through a script.
    pub(crate) fn eval(
        &self,
        store: &mut Store,
        now_ms: u64,
        script: &str,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> Reply {
        let mut engine: MutexGuard<'_, Engine> = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Script { function, sha } = engine.compiled(script)?;
        let keys = engine.strings(keys).map_err(internal)?;
        let args = engine.strings(args).map_err(internal)?;

        store.begin_script();
        engine.lua.set_app_data(Running {
            store: mem::take(store),
            now_ms,
            sha,
        });
        let outcome = engine
            .run
            .call::<(bool, LuaValue)>((function, keys, args, &engine.handler));
        if let Some(running) = engine.lua.remove_app_data::<Running>() {
            *store = running.store;
        }
        store.end_script();

        match outcome.map_err(internal)? {
            (true, value) => reply(&value, 0),
            (false, LuaValue::String(line)) => Err(one_line(&line.to_string_lossy())),
            (false, _) => Err("ERR execution failure".into()),
        }
    }
}

impl Engine {
    /// Compiles each distinct script once.
    fn compiled(&mut self, source: &str) -> Result<Script, String> {
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
        let script = Script {
            function,
            sha: sha1(source.as_bytes()).into(),
        };
        self.scripts.insert(source.into(), script.clone());
        Ok(script)
    }

    fn strings(&self, items: &[Bytes]) -> mlua::Result<Table> {
        let strings = items.iter().map(|item| self.lua.create_string(item));
        self.lua
            .create_sequence_from(strings.collect::<mlua::Result<Vec<_>>>()?)
    }
}

/// The `redis` table, but for its constants.
fn api(lua: &Lua) -> mlua::Result<Table> {
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
            // A leading `-` is allowed. A single word is a message, and lacks its code.
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
            // What is neither a string nor a number counts as empty.
            let text = lua.coerce_string(text)?.map(|text| text.as_bytes().to_vec());
            lua.create_string(sha1(&text.unwrap_or_default()))
        })?,
    )?;
    redis.set("log", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    Ok(redis)
}

fn sha1(bytes: &[u8]) -> String {
    Sha1::from(bytes).digest().to_string()
}

/// Runs one `redis.call` against the store of the run in progress.
fn command(lua: &Lua, format: &Function, args: &MultiValue) -> Reply {
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

/// A string as it is, a number in 17 significant digits: `3`, `0.10000000000000001`, `1e+17`.
fn argument(format: &Function, arg: &LuaValue) -> Option<Bytes> {
    let number = match arg {
        LuaValue::String(text) => return Some(text.as_bytes().to_vec()),
        // Short enough to have no exponent, and by far the most usual number.
        LuaValue::Integer(number) if number.unsigned_abs() < 1 << 53 => {
            return Some(number.to_string().into());
        }
        LuaValue::Integer(_) | LuaValue::Number(_) => arg.clone(),
        _ => return None,
    };
    let text = format.call::<mlua::LuaString>(("%.17g", number)).ok()?;
    Some(text.as_bytes().to_vec())
}

/// What a script gets for a reply: nil is `false`, a status is `{ok = ...}`.
fn to_lua(lua: &Lua, value: Value) -> mlua::Result<LuaValue> {
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
fn reply(value: &LuaValue, depth: usize) -> Reply {
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
fn server_error(line: &str) -> Reply {
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

/// The error line of an error raised by one of the functions here.
fn line_of(err: &Error) -> String {
    match err {
        Error::CallbackError { cause, .. } => line_of(cause),
        Error::RuntimeError(line) => line.clone(),
        other => format!("ERR {other}"),
    }
}

/// The error line of a script that failed: the error, then which script, and where in it.
fn uncaught(lua: &Lua, err: &LuaValue) -> Bytes {
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

/// The line the script is at.
fn line_number(lua: &Lua) -> Option<usize> {
    let at = |level| {
        lua.inspect_stack(level, |frame| {
            let ours = frame.source().source.is_some_and(|source| source == CHUNK);
            ours.then(|| frame.current_line()).flatten()
        })
    };
    (0..).map_while(at).flatten().next()
}

/// The argument of a function that takes one string and nothing else.
fn only_string(args: &MultiValue) -> Option<String> {
    match (args.len(), args.front()) {
        (1, Some(LuaValue::String(text))) => Some(text.to_string_lossy()),
        _ => None,
    }
}

fn field(lua: &Lua, name: &str, text: &str) -> mlua::Result<LuaValue> {
    lua.create_table_from([(name, text)])?.into_lua(lua)
}

/// An error reply as scripts meet it. The second field is a mark of Redis' own, and scripts that
/// look through the table see it.
fn error_table(lua: &Lua, line: &str) -> mlua::Result<LuaValue> {
    let table = lua.create_table_from([("err", line)])?;
    table.raw_set("ignore_error_stats_update", true)?;
    table.into_lua(lua)
}

fn misused(lua: &Lua) -> mlua::Result<LuaValue> {
    field(lua, "err", "ERR wrong number or type of arguments")
}

/// A reply's line has no end but its own.
fn one_line(text: &str) -> String {
    text.trim_end_matches(['\r', '\n']).replace(['\r', '\n'], " ")
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of `map_err`")]
fn internal(err: Error) -> String {
    format!("ERR {}", one_line(&err.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script on an empty store but for a list `l` and a string `s`.
    fn eval(script: &str) -> Reply {
        Fixture::new().eval(script)
    }

    struct Fixture {
        host: LuaHost,
        store: Store,
    }

    impl Fixture {
        fn new() -> Self {
            let mut fixture = Self {
                host: LuaHost::new().unwrap(),
                store: Store::default(),
            };
            fixture
                .eval("redis.call('rpush', 'l', 'x') redis.call('set', 's', 'v')")
                .unwrap();
            fixture
        }

        fn eval(&mut self, script: &str) -> Reply {
            let keys = [b"l".to_vec(), b"s".to_vec()];
            self.host.eval(
                &mut self.store,
                1_000,
                script,
                &keys,
                &[b"one".to_vec(), vec![0xff, 0]],
            )
        }
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn failure(script: &str) -> String {
        eval(script).unwrap_err()
    }

    #[test]
    fn what_a_script_returns_becomes_a_reply() {
        assert_eq!(eval("return"), Ok(Value::Nil));
        assert_eq!(eval("return false"), Ok(Value::Nil));
        assert_eq!(eval("return true"), Ok(Value::Int(1)));
        assert_eq!(eval("return -3.99"), Ok(Value::Int(-3)));
        assert_eq!(eval("return 2^63"), Ok(Value::Int(i64::MIN)));
        assert_eq!(eval("return ARGV[2]"), Ok(Value::BulkString(vec![0xff, 0])));
        assert_eq!(eval("return 1, 2"), Ok(Value::Int(1)));
        let items = vec![Value::Int(1), Value::Nil, Value::Array(vec![])];
        assert_eq!(
            eval("return {1, false, {}, nil, 'lost'}"),
            Ok(Value::Array(items))
        );
        assert_eq!(
            eval("return {ok = 'two\\r\\nlines'}"),
            Ok(Value::SimpleString("two  lines".into()))
        );
        assert_eq!(eval("return redis.status_reply('OK')"), Ok(Value::Okay));
        assert_eq!(eval("return {err = 'single'}"), Err("single".into()));
        assert_eq!(
            eval("return redis.error_reply('single')"),
            Err("ERR single".into())
        );
        assert_eq!(
            eval("return redis.error_reply('-MY error')"),
            Err("MY error".into())
        );
        let Ok(Value::Array(items)) = eval("return {{err = 'MY error'}, 7}") else {
            panic!()
        };
        assert!(matches!(&items[0], Value::ServerError(err) if err.code() == "MY"));
        assert_eq!(items[1], Value::Int(7));
        assert_eq!(eval("local t = {} t[1] = t return t[1] == t"), Ok(Value::Int(1)));
        assert!(eval("local t = {} t[1] = t return t").is_ok(), "it ends");
    }

    #[test]
    fn what_redis_replies_becomes_a_lua_value() {
        assert_eq!(
            eval("return redis.call('get', 'absent') == false"),
            Ok(Value::Int(1))
        );
        assert_eq!(eval("return redis.call('type', 'l').ok"), Ok(text("list")));
        assert_eq!(
            eval("return redis.call('type', 'l')"),
            Ok(Value::SimpleString("list".into()))
        );
        assert_eq!(eval("return redis.call('set', 's', 1).ok"), Ok(text("OK")));
        assert_eq!(eval("return #redis.call('hgetall', 'absent')"), Ok(Value::Int(0)));
        assert_eq!(
            eval("return redis.call('pttl', 'absent') + 1"),
            Ok(Value::Int(-1))
        );
    }

    #[test]
    fn numbers_reach_a_command_in_seventeen_digits() {
        let cases = [
            ("3", "3"),
            ("3.0", "3"),
            ("-0.5", "-0.5"),
            ("0.1", "0.10000000000000001"),
            ("0 * -1", "-0"),
            ("2^53", "9007199254740992"),
            ("99999999999999999", "1e+17"),
            ("2^63", "9.2233720368547758e+18"),
            ("1/0", "inf"),
        ];
        for (number, sent) in cases {
            let script = format!("redis.call('set', 'n', {number}) return redis.call('get', 'n')");
            assert_eq!(eval(&script), Ok(text(sent)), "{number}");
        }
        let line = failure("return redis.call('pexpire', 's', 1.5)");
        assert!(
            line.starts_with("ERR value is not an integer or out of range script: "),
            "{line}"
        );
    }

    #[test]
    fn an_error_ends_the_script_and_tells_where() {
        let mut fixture = Fixture::new();
        let script = "redis.call('set', 'before', 1)\nreturn redis.call('get', KEYS[1])";
        let sha = redis::Script::new(script).get_hash().to_owned();
        let line = format!(
            "WRONGTYPE Operation against a key holding the wrong kind of value script: {sha}, on @user_script:2."
        );
        assert_eq!(fixture.eval(script), Err(line));
        assert_eq!(
            fixture.eval("return redis.call('exists', 'before')"),
            Ok(Value::Int(1))
        );

        let starts = [
            ("error('boo')", "ERR user_script:1: boo script: "),
            ("error({err = 'MY own'})", "MY own script: "),
            (
                "return nil .. 'x'",
                "ERR user_script:1: attempt to concatenate a nil value script: ",
            ),
            (
                "return redis.call('nosuch')",
                "ERR Unknown Redis command called from script script: ",
            ),
            (
                "return redis.call('get')",
                "ERR Wrong number of args calling Redis command from script script: ",
            ),
            (
                "return redis.call('get', {})",
                "ERR Lua redis lib command arguments must be strings or integers",
            ),
            (
                "return redis.call()",
                "ERR Please specify at least one argument for this redis lib call",
            ),
            (
                "local function f() return 1 + f() end f()",
                "ERR user_script:1: stack overflow",
            ),
            (
                "x = = 1",
                "ERR Error compiling script (new function): user_script:1: unexpected symbol near '='",
            ),
        ];
        for (script, start) in starts {
            let line = failure(script);
            assert!(line.starts_with(start), "{script}: {line}");
        }
    }

    #[test]
    fn a_caught_error_is_a_table_from_redis_pcall_and_its_line_from_pcall() {
        let line = "WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(eval("return redis.pcall('get', 'l').err"), Ok(text(line)));
        assert_eq!(eval("return redis.pcall('get', 'l')"), Err(line.into()));
        assert_eq!(
            eval("return select(2, pcall(redis.call, 'get', 'l'))"),
            Ok(text(line))
        );
        let handled = "return select(2, xpcall(function() return redis.call('get', 'l') end, \
                       function(err) return err.err end))";
        assert_eq!(eval(handled), Ok(text(line)));
        assert_eq!(
            eval("return select('#', pcall(function() return nil, nil end))"),
            Ok(Value::Int(3))
        );
    }

    #[test]
    fn globals_are_protected_and_nothing_outlives_a_run() {
        let readonly = "ERR user_script:1: Attempt to modify a readonly table script: ";
        for script in [
            "x = 1",
            "KEYS = {}",
            "_G.x = 1",
            "string.x = 1",
            "redis.call = nil",
        ] {
            let line = failure(script);
            assert!(line.starts_with(readonly), "{script}: {line}");
        }
        assert!(failure("rawset(_G, 'x', 1)").starts_with("ERR Attempt to modify a readonly table"));
        for name in [
            "x",
            "os",
            "io",
            "require",
            "print",
            "load",
            "debug",
            "setfenv",
            "cjson",
            "coroutine",
        ] {
            let wanted =
                format!("ERR user_script:1: Script attempted to access nonexistent global variable '{name}'");
            assert!(failure(&format!("return {name}")).starts_with(&wanted), "{name}");
        }
        let mut fixture = Fixture::new();
        fixture
            .eval("KEYS[9] = 1 table.insert(table, 'left') return 1")
            .unwrap();
        assert_eq!(
            fixture.eval("return {KEYS[9], table[1]}"),
            Ok(Value::Array(vec![]))
        );
    }

    #[test]
    fn out_of_memory_stops_a_script_only_before_its_first_write() {
        let mut fixture = Fixture::new();
        fixture.store.oom = true;
        let line = fixture
            .eval("return redis.call('hset', 'h', 'f', 1)")
            .unwrap_err();
        assert!(line.starts_with("OOM command not allowed when used memory > 'maxmemory'. script: "));
        assert_eq!(
            fixture.eval("redis.call('del', 's') return redis.call('hset', 'h', 'f', 1)"),
            Ok(Value::Int(1))
        );
        assert!(fixture.eval("return redis.call('hset', 'h', 'f', 2)").is_err());
        let unheld = fixture.store.call(0, &[b"NOSUCH".to_vec()]).unwrap_err();
        assert!(
            unheld.starts_with("ERR unknown command"),
            "the script is over: {unheld}"
        );
    }

    #[test]
    fn sha1hex_is_of_bytes() {
        assert_eq!(
            eval("return redis.sha1hex('abc')"),
            Ok(text("a9993e364706816aba3e25717850c26c9cd0d89d"))
        );
        assert_eq!(eval("return redis.sha1hex({})"), eval("return redis.sha1hex('')"));
        assert_eq!(eval("return #redis.sha1hex(ARGV[2])"), Ok(Value::Int(40)));
    }

    #[test]
    fn one_host_serves_many_masters_at_once() {
        let host = LuaHost::new().unwrap();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    let mut store = Store::default();
                    for round in 1..=200 {
                        let reply = host.eval(&mut store, 0, "return redis.call('incr', 'n')", &[], &[]);
                        assert_eq!(reply, Ok(Value::Int(round)));
                    }
                });
            }
        });
    }
}
