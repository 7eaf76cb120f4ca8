use redis::Value;

use super::*;

/// Runs a script on a store with a list `l` and a string `s` only.
fn eval(script: &str) -> CommandReply {
    Fixture::new().eval(script)
}

struct Fixture {
    store: Store,
}

impl Fixture {
    fn new() -> Self {
        let mut fixture = Self {
            store: Store::default(),
        };
        fixture
            .eval("redis.call('rpush', 'l', 'x') redis.call('set', 's', 'v')")
            .unwrap();
        fixture
    }

    fn eval(&mut self, script: &str) -> CommandReply {
        let keys = [b"l".to_vec(), b"s".to_vec()];
        super::eval(
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
fn scripts_of_several_masters_run_at_once() {
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let mut store = Store::default();
                for round in 1..=200 {
                    let reply = super::eval(&mut store, 0, "return redis.call('incr', 'n')", &[], &[]);
                    assert_eq!(reply, Ok(Value::Int(round)));
                }
            });
        }
    });
}
