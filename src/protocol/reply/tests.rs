use super::*;
use proptest::prelude::*;

fn bulk(text: &str) -> Value {
    Value::BulkString(text.into())
}

fn labelled(label: &str) -> HolderFacts {
    HolderFacts {
        label: Some(label.into()),
        ..HolderFacts::default()
    }
}

#[test]
fn replies_are_read() {
    let answer = |parts: &[Value]| {
        let stamp = Value::Int(1_700_000_000_000_000);
        Value::Array(std::iter::once(stamp).chain(parts.iter().cloned()).collect())
    };
    let acquired = |parts: &[Value]| Reply::acquired(Ok(answer(parts)));
    let alone = Value::Int(1_700_000_000_000_000);
    assert_eq!(Reply::acquired(Ok(alone)), granted(true, 0));
    let largest = [Value::Int(3), bulk("9007199254740991")];
    assert_eq!(acquired(&largest), granted(false, (1 << 53) - 1));
    let behind = WaitersBehind {
        waiting: 2,
        first: NonZeroU64::new(7),
    };
    let others = [Value::Int(2), bulk("7")];
    for (code, granted) in [
        (vec![Value::Int(1)], granted(true, 0)),
        (largest.to_vec(), granted(false, (1 << 53) - 1)),
    ] {
        let answer = [code, others.to_vec()].concat();
        assert_eq!(acquired(&answer), Reply { behind, ..granted });
    }
    assert_eq!(acquired(&[Value::Int(-1)]), Vote::Revoked { force: None }.into());
    for odd in [Value::Nil, answer(&[Value::Int(2)])] {
        let reply = Reply::acquired(Ok(odd));
        assert!(matches!(&reply.vote, Vote::Unknown { .. }) && reply.vote.may_have_granted());
    }
    let refused = [
        Value::Int(0),
        Value::Int(1500),
        bulk("oa"),
        bulk("billing@host:1"),
        bulk("9"),
    ];
    let remaining = Some(Duration::from_millis(1500));
    let reply = Reply {
        causes: Some("oa".into()),
        holder: Some(Box::new(labelled("billing@host:1"))),
        highest: 9,
        ..Vote::Refused { remaining }.into()
    };
    assert_eq!(acquired(&refused), reply);
    // A master reports any value of the label's key.
    for odd in ["", "a\x1b[2J"] {
        let odd_reply = acquired(&[Value::Int(0), Value::Int(1500), bulk("oa"), bulk(odd)]);
        let unknown = Reply {
            holder: None,
            highest: 0,
            ..reply.clone()
        };
        assert_eq!(odd_reply, unknown, "{odd:?}");
    }
    for (stored, label) in [("billing@host:1", "billing@host:1"), ("", ""), ("a\x1b[2J", "")] {
        let done = acquired(&[Value::Int(4), bulk("1000"), bulk("2000"), bulk(stored)]).done;
        assert_eq!(
            done.as_deref().map(|mark| &*mark.label),
            Some(label),
            "{stored:?}"
        );
    }
    let elsewhere = Value::Array(vec![Value::Int(0), Value::Int(-1), bulk("list")]);
    let mixed = [
        Value::Int(1),
        Value::Int(3),
        Value::Int(2),
        Value::Int(-1),
        elsewhere,
    ];
    let extended = Reply::extended(Ok(answer(&mixed)), 6);
    assert_eq!(extended[..2], [granted(true, 0), granted(false, 0)]);
    assert_eq!(
        extended[2..4],
        [Vote::NotHeld.into(), Vote::Revoked { force: None }.into()]
    );
    assert_eq!(extended[4].vote, Vote::Refused { remaining: None });
    assert_eq!(extended[5..], [unexpected("extend").into()]);
    assert_eq!(Reply::extended(Ok(answer(&mixed)), 2).len(), 2);
}

#[test]
fn waiters_that_several_masters_report_are_not_added_up() {
    let behind = |waiting, first| WaitersBehind {
        waiting,
        first: NonZeroU64::new(first),
    };
    let mut all = behind(2, 7);
    for other in [behind(1, 5), behind(3, 9), behind(0, 0)] {
        all.add(other);
    }
    assert_eq!(all, behind(3, 5));
}

/// A master reports any value of the key.
#[test]
fn a_force_is_one_that_can_be_shown() {
    let shown = |at: &str, by: &str| {
        let force = parse_force(&[bulk(at), bulk(by), bulk("stuck")]);
        force.map(|force| force.to_string())
    };
    let second = "1970-01-01T00:00:07Z: stuck";
    assert_eq!(shown("7000000", "ops"), Some(format!("by ops at {second}")));
    for odd in ["", "a\x1b[2J"] {
        let by = format!("by a client without a label at {second}");
        assert_eq!(shown("7000000", odd), Some(by));
    }
    let last = "by ops at 9999-12-31T23:59:59Z: stuck";
    assert_eq!(shown("253402300799999999", "ops").as_deref(), Some(last));
    for odd in ["253402300800000000", "18446744073709551615", "soon", ""] {
        assert_eq!(shown(odd, "ops"), None, "{odd}");
    }
}

#[test]
fn a_fault_is_its_vote_for_every_hold() {
    let fault = Fault::Unfit("no user".into());
    let denied = Reply {
        is_final: true,
        ..fault.vote().into()
    };
    assert_eq!(Reply::acquired(Err(fault.clone())), denied);
    assert_eq!(Reply::extended(Err(fault), 2), [denied.clone(), denied]);
}

#[test]
fn replies_to_what_is_asked_beside_holds_are_read() {
    let whole = |others_listen| Some(Released::Whole { others_listen });
    assert_eq!(parse_released(&Value::Int(1)), whole(false));
    assert_eq!(parse_released(&Value::Int(2)), whole(true));
    let in_part = Value::Array(vec![Value::Int(0)]);
    assert_eq!(parse_released(&in_part), Some(Released::Partly));
    let longer = Value::Array(vec![Value::Int(0), Value::Int(2)]);
    assert_eq!(
        (parse_released(&longer), parse_released(&Value::Nil)),
        (None, None)
    );
    assert_eq!(parse_released(&Value::Int(-1)), None);

    assert!(matches!(super::released(Ok(Value::Nil)), Err(Fault::Unknown(_))));

    assert_eq!(forced(Ok(bulk("done"))), Vote::Granted);
    let late = forced(Ok(Value::SimpleString("late".into())));
    assert!(matches!(late, Vote::Failed { .. }));
    assert_eq!(forced(Ok(bulk("else"))), unexpected("force"));
}

#[test]
fn an_introduction_tells_what_is_stored() {
    let parsed = |record: Value, clock: i64| parse_introduced(&Value::Array(vec![record, Value::Int(clock)]));
    let (record, clock_us) = parsed(bulk("3 a-b 5"), 7).expect("a record and a clock");
    assert_eq!((record.set.masters, clock_us), (3, 7));
    assert_eq!(parsed(bulk("three"), 7), None);
    assert_eq!(parsed(bulk("3 a-b 5"), -7), None);
    assert_eq!(parse_introduced(&bulk("3 a-b 5")), None);
}

/// A name in the report of a master.
fn entry(parts: &[Value]) -> Option<StoredName> {
    let all = Value::Array(vec![Value::Int(1_000_007), Value::Array(parts.to_vec())]);
    parse_report(&all).map(|report| {
        assert_eq!((report.clock_us, report.entries.len()), (1_000_007, 1));
        report.entries[0].clone()
    })
}

fn kept(kind: &str, remaining: Option<u64>) -> StoredName {
    StoredName {
        kind: kind.into(),
        remaining: remaining.map(Duration::from_millis),
        waiting: 2,
        waiting_to_read: 1,
        fence: Some(FencingToken(9)),
        first_waiting: Some(FirstWaiting {
            waiter: "b:7".into(),
            facts: labelled("billing@host:7"),
            ticket: 5,
        }),
        last_force: None,
        fields: Vec::new(),
        digest: None,
    }
}

#[test]
fn what_a_master_keeps_is_read() {
    let first = || Value::Array(vec![bulk("b:7"), bulk("billing@host:7"), Value::Int(5)]);
    let hash = [
        bulk("hash"),
        Value::Int(900),
        Value::Int(2),
        Value::Int(1),
        bulk("9"),
        first(),
        bulk(""),
        bulk("b:1"),
        bulk("2"),
        bulk("billing@host:1"),
        bulk("b:2"),
        bulk("1"),
        bulk(""),
        bulk("b:3c"),
        bulk("1"),
        Value::Array(vec![bulk("billing@host:2"), bulk("rows"), bulk("7")]),
        bulk("b:4c"),
        bulk("1"),
        // A master reports any text of its keys.
        Value::Array(vec![bulk(""), bulk("a\x1b[2J"), bulk("no number")]),
    ];
    let field = |field: &str, value: &str, facts: HolderFacts| FieldEntry {
        field: field.into(),
        value: value.into(),
        facts,
    };
    let fields = vec![
        field("b:1", "2", labelled("billing@host:1")),
        field("b:2", "1", HolderFacts::default()),
        field(
            "b:3c",
            "1",
            HolderFacts {
                about: Some("rows".into()),
                token: Some(FencingToken(7)),
                ..labelled("billing@host:2")
            },
        ),
        field("b:4c", "1", HolderFacts::default()),
    ];
    let held = StoredName {
        fields,
        ..kept("hash", Some(900))
    };
    assert_eq!(entry(&hash), Some(held));
    let text = StoredName {
        digest: Some("abc".into()),
        ..kept("string", None)
    };
    assert_eq!(
        entry(&[
            bulk("string"),
            Value::Int(-1),
            Value::Int(2),
            Value::Int(1),
            bulk("9"),
            first(),
            bulk(""),
            bulk("abc")
        ]),
        Some(text)
    );
    assert_eq!(
        entry(&[
            bulk("none"),
            Value::Int(-2),
            Value::Int(2),
            Value::Int(1),
            bulk(""),
            bulk(""),
            bulk("")
        ]),
        Some(StoredName {
            fence: None,
            first_waiting: None,
            ..kept("none", None)
        })
    );
    assert_eq!(entry(&[bulk("none"), Value::Int(-2)]), None);
    assert_eq!(parse_report(&Value::Array(vec![Value::Nil])), None);
    let none = Value::Array(vec![Value::Int(1_000_007)]);
    assert_eq!(inspected(Ok(none), 1), Err(unexpected("inspect")));
}

#[test]
fn a_list_tells_where_it_goes_on() {
    let answer = |parts: &[Value]| listed(Ok(Value::Array(parts.to_vec())));
    assert_eq!(answer(&[bulk("17")]), Ok(("17".into(), Vec::new())));
    assert_eq!(
        answer(&[bulk("0"), bulk("a"), bulk("b")]),
        Ok(("0".into(), vec!["a".into(), "b".into()]))
    );
    for unknown in [&[][..], &[Value::Nil], &[bulk("0"), Value::Int(1)]] {
        assert_eq!(answer(unknown), Err(unexpected("list").into()));
    }
}

#[test]
fn a_stamp_tells_the_clock_and_the_record() {
    let stamp = |first: Value| {
        let stamp = |answer: &Value| {
            let stamp = Stamp::at_head_of(answer);
            stamp.map(|stamp| (stamp.clock_us, stamp.record.map(str::to_owned)))
        };
        let alone = stamp(&first);
        assert_eq!(stamp(&Value::Array(vec![first, Value::Int(1)])), alone);
        alone
    };
    assert_eq!(
        stamp(Value::Int(1_000_007)),
        Some((1_000_007, None)),
        "not asked for"
    );
    assert_eq!(
        stamp(bulk("1000007 run 5")),
        Some((1_000_007, Some("run 5".into())))
    );
    assert_eq!(stamp(bulk("1000007 ")), Some((1_000_007, Some(String::new()))));
    assert_eq!(stamp(bulk("1000007")), None);
    assert_eq!(stamp(Value::Int(-7)), None);
}

/// Answers can be one place off only where a server breaks the protocol. Then a release's answer must not let anybody in.
#[test]
fn the_answer_of_another_call_grants_nothing() {
    let list = |parts: &[i64]| Value::Array(parts.iter().map(|part| Value::Int(*part)).collect());
    for released in [
        Value::Int(0),
        Value::Int(1),
        Value::Int(2),
        list(&[1]),
        list(&[1, 1]),
        list(&[0, 3]),
    ] {
        let acquired = Reply::acquired(Ok(released.clone()));
        assert!(matches!(acquired.vote, Vote::Unknown { .. }), "{released:?}");
        let extended = Reply::extended(Ok(released.clone()), 1).swap_remove(0);
        assert!(matches!(extended.vote, Vote::Unknown { .. }), "{released:?}");
    }
}

/// No answer but those of the scripts counts as a mark.
#[test]
fn a_mark_counts_beside_any_answer_of_the_release() {
    let gone = Value::Array(vec![Value::Int(0)]);
    let listened = Released::Whole { others_listen: true };
    for (answer, expected) in [
        (Value::Int(0), Some(Marked::Nowhere)),
        (Value::Int(-1), Some(Marked::BesideAnother)),
        (Value::Int(2), Some(Marked::Counts(listened))),
        (gone, Some(Marked::Counts(Released::Partly))),
        (Value::Okay, None),
    ] {
        let (marked, vote) = marked(Ok(answer));
        assert_eq!(marked, expected);
        assert_eq!(vote == Vote::Granted, matches!(expected, Some(Marked::Counts(_))));
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::Int),
        ".{0,8}".prop_map(|text| Value::BulkString(text.into_bytes())),
        ".{0,8}".prop_map(Value::SimpleString),
        Just(Value::Nil),
        Just(Value::Okay),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop::collection::vec(inner, 0..5).prop_map(Value::Array)
    })
}

proptest! {
    #[test]
    fn no_answer_makes_the_parsers_panic(value in any_value()) {
        let _ = Stamp::at_head_of(&value);
        let _ = Reply::acquired(Ok(value.clone()));
        let _ = Reply::extended(Ok(value.clone()), 3);
        let _ = parse_introduced(&value);
        let _ = super::released(Ok(value.clone()));
        let _ = marked(Ok(value.clone()));
        let _ = forced(Ok(value.clone()));
        let _ = inspected(Ok(value), 1);
    }
}

/// A grant with details assents, too. Its caller is not woken before there is a quorum.
#[test]
fn what_is_granted_assents() {
    let list = |parts: &[i64]| Value::Array(parts.iter().map(|part| Value::Int(*part)).collect());
    let acquire = assent_to(Op::Acquire);
    for grant in [Value::Int(7), list(&[7, 1, 2, 9]), list(&[7, 3, 9])] {
        assert!(acquire(&grant), "{grant:?}");
    }
    for other in [list(&[7, 0, 100]), list(&[7, -1]), list(&[7, 2]), list(&[])] {
        assert!(!acquire(&other), "{other:?}");
    }
    let release = assent_to(Op::Release);
    assert!(release(&Value::Int(1)) && release(&Value::Int(2)));
    assert!(!release(&list(&[1])));
    assert!(!assent_to(Op::Downgrade)(&list(&[1])));
}
