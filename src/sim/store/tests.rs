use redis::Value;

use super::reply::{NOT_AN_INTEGER, SYNTAX, bulk};
use super::*;

fn call(store: &mut Store, now_ms: u64, line: &str) -> CommandReply {
    let args: Vec<Bytes> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    store.call(now_ms, &args)
}

fn words(words: &[&str]) -> CommandReply {
    bulks(words.iter())
}

#[test]
fn a_key_lives_through_its_last_millisecond() {
    let store = &mut Store::default();
    assert_eq!(call(store, 1_000, "HSET lock owner 1"), int(1));
    assert_eq!(call(store, 1_000, "PTTL lock"), Ok(Value::Int(-1)));
    assert_eq!(call(store, 1_000, "PEXPIRE lock 50"), int(1));
    assert_eq!(call(store, 1_049, "PTTL lock"), int(1));
    assert_eq!(call(store, 1_050, "PTTL lock"), int(0));
    assert_eq!(call(store, 1_050, "HLEN lock"), int(1));
    assert_eq!(call(store, 1_051, "DBSIZE"), int(0));
    assert_eq!(call(store, 1_051, "PTTL lock"), Ok(Value::Int(-2)));
    // A new key under the name of an expired one has no deadline.
    assert_eq!(call(store, 1_051, "SADD lock a"), int(1));
    assert_eq!(call(store, 9_999, "PTTL lock"), Ok(Value::Int(-1)));
}

#[test]
fn expiry_that_is_not_in_the_future_deletes() {
    let store = &mut Store::default();
    for ttl in ["0", "-1", "-9223372036854775808"] {
        call(store, 7, "SET k v").unwrap();
        assert_eq!(call(store, 7, &format!("PEXPIRE k {ttl}")), int(1), "{ttl}");
        assert_eq!(call(store, 7, "EXISTS k"), int(0), "{ttl}");
    }
    assert_eq!(call(store, 7, "PEXPIRE k 10"), int(0));
    for bad in ["1.5", "x", "", "+1", "01", "-0", "9223372036854775808"] {
        assert_eq!(
            call(store, 7, &format!("PEXPIRE k {bad}")),
            Err(NOT_AN_INTEGER.into()),
            "{bad}"
        );
    }
    let far = format!("PEXPIRE k {}", i64::MAX);
    assert_eq!(
        call(store, 7, &far),
        Err("ERR invalid expire time in 'pexpire' command".into())
    );
    let never = "ERR invalid expire time in 'set' command";
    assert_eq!(call(store, 7, "SET k v PX 0"), Err(never.into()));
}

#[test]
fn set_answers_nil_when_its_condition_fails() {
    let store = &mut Store::default();
    assert_eq!(call(store, 0, "SET k 1 XX"), Ok(Value::Nil));
    assert_eq!(call(store, 0, "SET k 1 px 100 nx"), Ok(Value::Okay));
    assert_eq!(call(store, 0, "SET k 2 NX"), Ok(Value::Nil));
    assert_eq!(call(store, 0, "INCR k"), int(2));
    assert_eq!(call(store, 0, "PTTL k"), int(100));
    assert_eq!(call(store, 0, "SET k 3 XX"), Ok(Value::Okay));
    assert_eq!(call(store, 0, "PTTL k"), Ok(Value::Int(-1)));
    assert_eq!(call(store, 0, "SET k 1 NX XX"), Err(SYNTAX.into()));
}

#[test]
fn collections_keep_order_and_vanish_when_empty() {
    let store = &mut Store::default();
    assert_eq!(call(store, 0, "HSET h b 1 a 2 b 3"), int(2));
    assert_eq!(call(store, 0, "HGETALL h"), words(&["b", "3", "a", "2"]));
    assert_eq!(call(store, 0, "HINCRBY h b -3"), int(0));
    assert_eq!(call(store, 0, "HDEL h a a b"), int(2));
    assert_eq!(call(store, 0, "TYPE h"), Ok(Value::SimpleString("none".into())));
    assert_eq!(call(store, 0, "SADD s y x y"), int(2));
    assert_eq!(call(store, 0, "SMEMBERS s"), words(&["x", "y"]));
    assert_eq!(call(store, 0, "SREM s x y z"), int(2));
    assert_eq!(call(store, 0, "KEYS *"), words(&[]));
}

#[test]
fn a_sorted_set_keeps_scores_and_vanishes_when_empty() {
    let store = &mut Store::default();
    assert_eq!(call(store, 0, "ZADD z 1700000001930 a 2.5 b"), int(2));
    assert_eq!(call(store, 0, "ZADD z 7 b 3 c"), int(1));
    let text = |text: &str| Ok(bulk(Some(&text.into())));
    assert_eq!(call(store, 0, "ZSCORE z a"), text("1700000001930"));
    assert_eq!(call(store, 0, "ZSCORE z b"), text("7"));
    assert_eq!(call(store, 0, "ZSCORE z x"), Ok(Value::Nil));
    assert_eq!(call(store, 0, "ZSCORE none a"), Ok(Value::Nil));
    assert_eq!(call(store, 0, "TYPE z"), Ok(Value::SimpleString("zset".into())));
    assert_eq!(call(store, 0, "ZREMRANGEBYSCORE z -inf 7"), int(2));
    assert_eq!(call(store, 0, "ZCARD z"), int(1));
    assert_eq!(call(store, 0, "ZREMRANGEBYSCORE z 8 +inf"), int(1));
    assert_eq!(call(store, 0, "ZREMRANGEBYSCORE z 8 +inf"), int(0));
    assert_eq!(call(store, 0, "EXISTS z"), int(0));
    let float = Err("ERR value is not a valid float".into());
    assert_eq!(call(store, 0, "ZADD z nan a"), float);
    let range = Err("ERR min or max is not a float".into());
    assert_eq!(call(store, 0, "ZREMRANGEBYSCORE z x 1"), range);
    call(store, 0, "ZADD z 1 a 2 b").unwrap();
    assert_eq!(call(store, 0, "ZREM z a a x"), int(1));
    assert_eq!(call(store, 0, "ZREM z b"), int(1));
    assert_eq!(call(store, 0, "ZREM z b"), int(0));
    assert_eq!(call(store, 0, "EXISTS z"), int(0));
    assert_eq!(call(store, 0, "ZADD z 1 a 2"), Err(SYNTAX.into()));
}

#[test]
fn a_sorted_set_is_read_in_order() {
    let store = &mut Store::default();
    call(store, 0, "ZADD z 2 b 10 c 2 a -1 B").unwrap();
    let everything = words(&["B", "-1", "a", "2", "b", "2", "c", "10"]);
    let cases: &[(&str, &[&str])] = &[
        ("ZRANGE z 0 0", &["B"]),
        ("ZRANGE z 1 -2", &["a", "b"]),
        ("ZRANGE z -9 1", &["B", "a"]),
        ("ZRANGE z 3 99", &["c"]),
        ("ZRANGE z 4 9", &[]),
        ("ZRANGE z 2 1", &[]),
        ("ZRANGE z 0 -5", &[]),
        ("ZRANGE z -1 -1 LIMIT 0 -1 WithScores", &["c", "10"]),
        ("ZRANGE none 0 -1", &[]),
        ("ZRANGEBYSCORE z 2 10", &["a", "b", "c"]),
        ("ZRANGEBYSCORE z (2 +inf", &["c"]),
        ("ZRANGEBYSCORE z -inf (2 withscores", &["B", "-1"]),
        ("ZRANGEBYSCORE z (2 2", &[]),
        ("ZRANGEBYSCORE z 3 1", &[]),
        ("ZRANGEBYSCORE z -inf inf LIMIT 1 2", &["a", "b"]),
        ("ZRANGEBYSCORE z -inf inf LIMIT 3 -7 WITHSCORES", &["c", "10"]),
        ("ZRANGEBYSCORE z -inf inf LIMIT -1 2", &[]),
        ("ZRANGEBYSCORE z -inf inf LIMIT 0 0", &[]),
        ("ZRANGEBYSCORE none 0 1", &[]),
    ];
    assert_eq!(call(store, 0, "ZRANGE z 0 -1 WITHSCORES"), everything);
    for (line, expected) in cases {
        assert_eq!(call(store, 0, line), words(expected), "{line}");
    }
    // A repeated member has its last score, and the place of that score.
    assert_eq!(call(store, 0, "ZADD z 11 a 0 a 3 a"), int(0));
    assert_eq!(call(store, 0, "ZRANGE z 0 -1"), words(&["B", "b", "a", "c"]));
}

#[test]
fn what_is_no_range_is_refused() {
    let store = &mut Store::default();
    let float = "ERR min or max is not a float";
    let limited = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
    let cases = [
        ("ZRANGE z 0 (1", NOT_AN_INTEGER),
        ("ZRANGE z 0 1.5", NOT_AN_INTEGER),
        ("ZRANGE z a 1 LIMIT 0 1", limited),
        ("ZRANGE z 0 1 LIMIT 0 -2", limited),
        ("ZRANGE z 0 1 LIMIT 0", SYNTAX),
        ("ZRANGE z 0 1 x", SYNTAX),
        ("ZRANGEBYSCORE z 0 1 REV", SYNTAX),
        ("ZRANGEBYSCORE z 0 x LIMIT 0 a", NOT_AN_INTEGER),
        ("ZRANGEBYSCORE z 0 x LIMIT 0 1 y", SYNTAX),
        ("ZRANGEBYSCORE z 0 x LIMIT 0 1", float),
        ("ZRANGEBYSCORE z ((0 1", float),
        ("ZRANGEBYSCORE z 0 nan", float),
        ("ZREMRANGEBYSCORE z 0 1x", float),
    ];
    for (line, expected) in cases {
        assert_eq!(call(store, 0, line), Err(expected.into()), "{line}");
    }
    call(store, 0, "ZADD z 0 a").unwrap();
    for nothing in ["", "(-1"] {
        let line = format!("ZRANGEBYSCORE z {nothing} 1e999");
        assert_eq!(call(store, 0, &line), words(&["a"]), "{line}");
    }
}

#[test]
fn a_score_reads_as_c_writes_it() {
    let store = &mut Store::default();
    let cases = [
        ("3.0", "3"),
        ("-0", "0"),
        ("0.1", "0.10000000000000001"),
        ("-2.5e3", "-2500"),
        ("9007199254740993", "9007199254740992"),
        ("1700000000123456", "1700000000123456"),
        ("99999999999999984", "99999999999999984"),
        ("1e17", "1e+17"),
        ("123456789e300", "1.23456789e+308"),
        ("0.0001", "0.0001"),
        ("0.00001", "1.0000000000000001e-05"),
        ("5e-324", "4.9406564584124654e-324"),
        ("+Inf", "inf"),
        ("-infinity", "-inf"),
    ];
    for (score, written) in cases {
        call(store, 0, &format!("ZADD z {score} a")).unwrap();
        let read = call(store, 0, "ZSCORE z a");
        assert_eq!(read, Ok(bulk(Some(&written.into()))), "{score}");
        assert_eq!(call(store, 0, "ZRANGE z 0 0 WITHSCORES"), words(&["a", written]));
    }
    for bad in ["", "x", "1x", "(1", "1e999", "-1e999", "1e-999"] {
        let refused = call(store, 0, &format!("ZADD z {bad} a"));
        assert_eq!(refused, Err("ERR value is not a valid float".into()), "{bad}");
    }
}

#[test]
fn errors_read_as_redis_writes_them() {
    let store = &mut Store::default();
    call(store, 0, "LPUSH l 1").unwrap();
    for line in [
        "HGET l f",
        "HINCRBY l f 1",
        "SADD l x",
        "ZADD l 1 x",
        "ZREM l x",
        "ZRANGE l 0 1",
        "ZRANGEBYSCORE l 0 1",
        "ZREMRANGEBYSCORE l 0 1",
        "ZSCORE l x",
        "ZCARD l",
        "GET l",
        "INCR l",
        "HLEN l",
    ] {
        assert_eq!(call(store, 0, line), Err(WRONGTYPE.into()), "{line}");
    }
    let arity = |name| Err(format!("ERR wrong number of arguments for '{name}' command"));
    assert_eq!(call(store, 0, "GeT"), arity("get"));
    assert_eq!(call(store, 0, "HSET h a 1 b"), arity("hset"));
    assert_eq!(call(store, 0, "ZREM z"), arity("zrem"));
    assert_eq!(call(store, 0, "ZRANGE z 0"), arity("zrange"));
    assert_eq!(call(store, 0, "ZRANGEBYSCORE z 0"), arity("zrangebyscore"));
    assert_eq!(call(store, 0, "PUBSUB"), arity("pubsub"));
    let unknown = "ERR unknown subcommand 'NoSuch'. Try PUBSUB HELP.";
    assert_eq!(call(store, 0, "PubSub NoSuch"), Err(unknown.into()));
    let unknown = "ERR unknown command 'NoSuch', with args beginning with: 'a' 'b' ";
    assert_eq!(call(store, 0, "NoSuch a b"), Err(unknown.into()));
}

#[test]
fn a_full_master_refuses_growth_until_a_script_has_written() {
    let store = &mut Store::default();
    call(store, 0, "HSET h a 1").unwrap();
    store.oom = true;
    assert_eq!(call(store, 0, "HSET h a 2"), Err(OOM.into()));
    assert_eq!(call(store, 0, "PEXPIRE h 10"), int(1));
    assert_eq!(call(store, 0, "ZADD z 1 a"), Err(OOM.into()));
    assert_eq!(call(store, 0, "ZREM z a"), int(0));
    assert_eq!(
        call(store, 0, "HSET h a 2"),
        Err(OOM.into()),
        "outside a script each stands alone"
    );
    store.begin_script();
    assert_eq!(call(store, 0, "PUBLISH c m"), int(0));
    assert_eq!(call(store, 0, "HSET h a 2"), Err(OOM.into()));
    assert_eq!(call(store, 0, "DEL absent"), int(0));
    assert_eq!(call(store, 0, "HSET h a 2"), int(0));
    store.end_script();
    assert_eq!(call(store, 0, "SET k v"), Err(OOM.into()));
}

#[test]
fn publish_leaves_the_message_in_the_outbox() {
    let store = &mut Store::default();
    store.listen(1, ChannelForm::Exact, b"c");
    store.listen(2, ChannelForm::Exact, b"c");
    assert_eq!(call(store, 0, "PUBLISH c m"), int(2));
    assert_eq!(store.outbox, [(b"c".to_vec(), b"m".to_vec())]);
    assert_eq!(call(store, 1_234_567, "TIME"), words(&["1234", "567000"]));
}

#[test]
fn the_listeners_of_any_channel_are_counted() {
    let store = &mut Store::default();
    for (client, channel) in [(1, "a"), (2, "a"), (2, "b"), (2, "b")] {
        store.listen(client, ChannelForm::Exact, channel.as_bytes());
    }
    let counted = |store: &mut Store, a, b| {
        let counts = [("a", a), ("b", b), ("none", 0)];
        let flat = counts.map(|(channel, count)| [bulk(Some(&channel.into())), Value::Int(count)]);
        assert_eq!(
            call(store, 0, "PUBSUB NumSub a b none"),
            Ok(Value::Array(flat.concat()))
        );
    };
    counted(store, 2, 1);
    store.unlisten(1, ChannelForm::Exact, b"a");
    store.unlisten(1, ChannelForm::Exact, b"b");
    counted(store, 1, 1);
    store.stop_listening(2);
    counted(store, 0, 0);
    assert!(store.receivers.is_empty());
    assert_eq!(call(store, 0, "PUBSUB NUMSUB"), Ok(Value::Array(vec![])));
}

#[test]
fn a_pattern_listens_to_the_channels_that_it_matches() {
    let store = &mut Store::default();
    store.listen(1, ChannelForm::Pattern, br"a\*:*");
    store.listen(1, ChannelForm::Exact, b"a*:b");
    for (channel, count) in [("a*:b", 2), ("a*:", 1), ("ab:c", 0), ("a*", 0)] {
        assert_eq!(
            call(store, 0, &format!("PUBLISH {channel} m")),
            int(count),
            "{channel}"
        );
    }
    let numbers = vec![bulk(Some(&"a*:b".into())), Value::Int(1)];
    assert_eq!(call(store, 0, "PUBSUB NUMSUB a*:b"), Ok(Value::Array(numbers)));
    store.unlisten(1, ChannelForm::Pattern, br"a\*:*");
    assert_eq!(call(store, 0, "PUBLISH a*:b m"), int(1));
    store.stop_listening(1);
    assert!(store.receivers.is_empty());
}

#[test]
fn lists() {
    let store = &mut Store::default();
    assert_eq!(call(store, 0, "RPUSH l b c"), int(2));
    assert_eq!(call(store, 0, "LPUSH l a"), int(3));
    assert_eq!(call(store, 0, "LRANGE l 0 -1"), words(&["a", "b", "c"]));
    assert_eq!(call(store, 0, "LRANGE l 1 1"), words(&["b"]));
    assert_eq!(call(store, 0, "LRANGE none 0 7"), words(&[]));
    assert_eq!(call(store, 0, "LPOP l"), Ok(bulk(Some(&"a".into()))));
    assert_eq!(call(store, 0, "LLEN l"), int(2));
    assert_eq!(call(store, 0, "LPOP l"), Ok(bulk(Some(&"b".into()))));
    assert_eq!(call(store, 0, "LPOP l"), Ok(bulk(Some(&"c".into()))));
    assert_eq!(call(store, 0, "EXISTS l"), int(0));
    assert_eq!(call(store, 0, "LPOP l"), Ok(Value::Nil));
}
