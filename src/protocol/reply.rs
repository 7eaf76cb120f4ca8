//! What the Lua files answer.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::protocol::reckoning::Agreed;

/// What comes with every answer to acquire and extend: by it the client notices a clock that was set
/// forward, and a memory that was wiped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp<'a> {
    /// The master's wall clock, in microseconds since 1970.
    pub(crate) clock_us: u64,
    /// What its marker says; empty for one that is not marked.
    pub(crate) marker: &'a str,
}

impl<'a> Stamp<'a> {
    pub(crate) fn of(reply: &'a Value) -> Option<Self> {
        let stamp = match reply {
            Value::Array(parts) => parts.first()?,
            alone => alone,
        };
        match stamp {
            Value::Int(clock) => Some(Self {
                clock_us: u64::try_from(*clock).ok()?,
                marker: "",
            }),
            Value::BulkString(bytes) => {
                let (clock, marker) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
                Some(Self {
                    clock_us: clock.parse().ok()?,
                    marker,
                })
            }
            _ => None,
        }
    }
}

/// What acquire and extend may answer. `highest` is the largest token that was stored before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Granted {
        /// Whether the token was above all that was stored, where it had to be.
        accepted: bool,
        highest: u64,
    },
    Refused {
        remaining: Option<Duration>,
        holder: Arc<str>,
        highest: u64,
    },
    Absent,
    Revoked,
}

/// What one master keeps under some names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Its wall clock at that moment, in microseconds since 1970.
    pub(crate) clock_us: u64,
    /// One a name.
    pub(crate) entries: Vec<Entry>,
}

/// What one master keeps under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: String,
    pub(crate) remaining: Option<Duration>,
    /// Of a hash, with their values.
    pub(crate) fields: Vec<(String, String)>,
    /// Of a string's value.
    pub(crate) digest: Option<String>,
}

/// What acquire answered, after its stamp; a stamp alone grants.
pub(crate) fn parse_acquired(value: &Value) -> Option<Reply> {
    match value {
        Value::Array(parts) => parse_reply(parts.get(1..)?),
        stamp => Stamp::of(stamp).map(|_| Reply::Granted {
            accepted: true,
            highest: 0,
        }),
    }
}

fn parse_reply(parts: &[Value]) -> Option<Reply> {
    let digits = |value: &Value| text(value)?.parse::<u64>().ok();
    let refused = |left: i64, holder: &Value, highest| {
        Some(Reply::Refused {
            remaining: milliseconds(left),
            holder: text(holder)?.into(),
            highest,
        })
    };
    match parts {
        [Value::Int(1)] => Some(Reply::Granted {
            accepted: true,
            highest: 0,
        }),
        [Value::Int(3)] => Some(Reply::Granted {
            accepted: false,
            highest: 0,
        }),
        [Value::Int(2)] => Some(Reply::Absent),
        [Value::Int(-1)] => Some(Reply::Revoked),
        [Value::Int(3), highest] => Some(Reply::Granted {
            accepted: false,
            highest: digits(highest)?,
        }),
        [Value::Int(0), Value::Int(left), holder] => refused(*left, holder, 0),
        [Value::Int(0), Value::Int(left), holder, highest] => refused(*left, holder, digits(highest)?),
        _ => None,
    }
}

/// One reply for each hold that was to be extended, after the stamp.
pub(crate) fn parse_extended(value: &Value) -> Option<Vec<Reply>> {
    let Value::Array(replies) = value else {
        return None;
    };
    let reply = |value: &Value| match value {
        Value::Array(parts) => parse_reply(parts),
        code => parse_reply(std::slice::from_ref(code)),
    };
    replies.get(1..)?.iter().map(reply).collect()
}

/// What is answered to a client that reckons with less than others may hold for: the longest lease that
/// it has to reckon with.
pub(crate) fn parse_outdated(value: &Value) -> Option<Duration> {
    match value {
        Value::Array(parts) => match parts.as_slice() {
            [_, Value::Int(-2), longest] => text(longest)?.parse().ok().map(Duration::from_millis),
            _ => None,
        },
        _ => None,
    }
}

/// What a master stores of what clients have agreed upon, and of how many masters it is one.
pub(crate) fn parse_agreed(value: &Value) -> Option<(Agreed, usize)> {
    let Value::Array(parts) = value else {
        return None;
    };
    match parts.as_slice() {
        [Value::Int(longest), Value::Int(in_force), Value::Int(masters)] => {
            let agreed = Agreed {
                longest: milliseconds(*longest)?,
                in_force: milliseconds(*in_force)?,
            };
            Some((agreed, usize::try_from(*masters).ok()?))
        }
        _ => None,
    }
}

/// What release did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    /// Whether every name was given up here.
    pub(crate) all: bool,
    /// Connections that heard of it.
    pub(crate) listeners: usize,
}

pub(crate) fn parse_released(value: &Value) -> Option<Released> {
    let (all, listeners) = match value {
        Value::Int(listeners) => (true, listeners),
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(_), Value::Int(listeners)] => (false, listeners),
            _ => return None,
        },
        _ => return None,
    };
    Some(Released {
        all,
        listeners: usize::try_from(*listeners).ok()?,
    })
}

/// What release answered for each of many holds.
pub(crate) fn parse_releases(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(each) => Some(each),
        _ => None,
    }
}

/// Whether a force came in time and was carried out.
pub(crate) fn parse_forced(value: &Value) -> Option<bool> {
    match text(value)?.as_str() {
        "done" => Some(true),
        "late" => Some(false),
        _ => None,
    }
}

pub(crate) fn parse_report(value: &Value) -> Option<Report> {
    let Value::Array(parts) = value else {
        return None;
    };
    Some(Report {
        clock_us: Stamp::of(value)?.clock_us,
        entries: parts.get(1..)?.iter().map(parse_entry).collect::<Option<_>>()?,
    })
}

fn parse_entry(value: &Value) -> Option<Entry> {
    let Value::Array(parts) = value else {
        return None;
    };
    let (Some(kind), Some(Value::Int(left))) = (parts.first(), parts.get(1)) else {
        return None;
    };
    let fields = parts[2..]
        .chunks_exact(2)
        .map(|pair| Some((text(&pair[0])?, text(&pair[1])?)))
        .collect::<Option<_>>()?;
    let digest = match &parts[2..] {
        [digest] => Some(text(digest)?),
        _ => None,
    };
    Some(Entry {
        kind: text(kind)?,
        remaining: milliseconds(*left),
        fields,
        digest,
    })
}

/// A PTTL: negative for a key that is absent or has no expiry.
fn milliseconds(left: i64) -> Option<Duration> {
    u64::try_from(left).ok().map(Duration::from_millis)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn replies_are_read() {
        let granted = |accepted, highest| Some(Reply::Granted { accepted, highest });
        let answer = |parts: &[Value]| {
            let stamp = Value::Int(1_700_000_000_000_000);
            Value::Array(std::iter::once(stamp).chain(parts.iter().cloned()).collect())
        };
        let acquired = |parts: &[Value]| parse_acquired(&answer(parts));
        assert_eq!(
            parse_acquired(&Value::Int(1_700_000_000_000_000)),
            granted(true, 0)
        );
        assert_eq!(parse_acquired(&Value::Nil), None);
        let largest = [Value::Int(3), bulk("9007199254740991")];
        assert_eq!(acquired(&largest), granted(false, crate::token::LARGEST));
        assert_eq!(acquired(&[Value::Int(-1)]), Some(Reply::Revoked));
        let outdated = answer(&[Value::Int(-2), bulk("300000")]);
        assert_eq!(parse_outdated(&outdated), Some(Duration::from_secs(300)));
        assert_eq!(parse_outdated(&answer(&[Value::Int(-1)])), None);
        let refused = [Value::Int(0), Value::Int(1500), bulk("b:1"), bulk("9")];
        let (remaining, holder) = (Some(Duration::from_millis(1500)), Arc::from("b:1"));
        let reply = Reply::Refused {
            remaining,
            holder,
            highest: 9,
        };
        assert_eq!(acquired(&refused), Some(reply));
        let elsewhere = Value::Array(vec![Value::Int(0), Value::Int(-1), bulk("list")]);
        let mixed = [
            Value::Int(1),
            Value::Int(3),
            Value::Int(2),
            Value::Int(-1),
            elsewhere,
        ];
        let extended = parse_extended(&answer(&mixed)).expect("an answer for each hold");
        assert_eq!(extended.len(), 5);
        assert_eq!(Some(extended[0].clone()), granted(true, 0));
        assert_eq!(Some(extended[1].clone()), granted(false, 0));
        assert_eq!(extended[2..4], [Reply::Absent, Reply::Revoked]);
    }

    #[test]
    fn replies_to_what_is_asked_beside_holds_are_read() {
        let agreed = |parts: [i64; 3]| parse_agreed(&Value::Array(parts.map(Value::Int).to_vec()));
        let in_force = Agreed {
            longest: Duration::from_secs(60),
            in_force: Duration::from_secs(40),
        };
        assert_eq!(agreed([60_000, 40_000, 5]), Some((in_force, 5)));
        assert_eq!(
            (agreed([-1, 40_000, 5]), agreed([60_000, 40_000, -5])),
            (None, None)
        );

        let released = |all, listeners| Some(Released { all, listeners });
        assert_eq!(parse_released(&Value::Int(3)), released(true, 3));
        let in_part = Value::Array(vec![Value::Int(0), Value::Int(2)]);
        assert_eq!(parse_released(&in_part), released(false, 2));
        assert_eq!(parse_released(&Value::Array(vec![Value::Int(0)])), None);
        assert_eq!(
            (parse_released(&Value::Int(-1)), parse_released(&Value::Nil)),
            (None, None)
        );
        let each = vec![in_part, Value::Int(1)];
        assert_eq!(parse_releases(Value::Array(each.clone())), Some(each));
        assert_eq!(parse_releases(Value::Int(1)), None);

        assert_eq!(parse_forced(&bulk("done")), Some(true));
        assert_eq!(parse_forced(&Value::SimpleString("late".into())), Some(false));
        assert_eq!(parse_forced(&bulk("else")), None);
    }

    #[test]
    fn what_a_master_keeps_is_read() {
        let entry = |parts: &[Value]| {
            let all = Value::Array(vec![Value::Int(7), Value::Array(parts.to_vec())]);
            parse_report(&all).map(|report| {
                assert_eq!((report.clock_us, report.entries.len()), (7, 1));
                report.entries[0].clone()
            })
        };
        let kept = |kind: &str, remaining: Option<u64>| Entry {
            kind: kind.into(),
            remaining: remaining.map(Duration::from_millis),
            fields: Vec::new(),
            digest: None,
        };
        let hash = [
            bulk("hash"),
            Value::Int(900),
            bulk("b:1"),
            bulk("2"),
            bulk("b:2"),
            bulk("1"),
        ];
        let fields = vec![("b:1".into(), "2".into()), ("b:2".into(), "1".into())];
        let held = Entry {
            fields,
            ..kept("hash", Some(900))
        };
        assert_eq!(entry(&hash), Some(held));
        let text = Entry {
            digest: Some("abc".into()),
            ..kept("string", None)
        };
        assert_eq!(entry(&[bulk("string"), Value::Int(-1), bulk("abc")]), Some(text));
        assert_eq!(entry(&[bulk("none"), Value::Int(-2)]), Some(kept("none", None)));
        assert_eq!(entry(&[bulk("none")]), None);
        assert_eq!(parse_report(&Value::Array(vec![Value::Nil])), None);
    }

    #[test]
    fn a_stamp_tells_the_clock_and_what_the_marker_says() {
        let stamp = |first: Value| {
            let parts =
                |reply: &Value| Stamp::of(reply).map(|stamp| (stamp.clock_us, stamp.marker.to_owned()));
            let alone = parts(&first);
            assert_eq!(parts(&Value::Array(vec![first, Value::Int(1)])), alone);
            alone
        };
        assert_eq!(stamp(Value::Int(7)), Some((7, String::new())));
        assert_eq!(stamp(bulk("7 run 5")), Some((7, "run 5".into())));
        assert_eq!(stamp(bulk("7 ")), Some((7, String::new())));
        assert_eq!(stamp(bulk("7")), None);
        assert_eq!(stamp(Value::Int(-7)), None);
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
            let _ = parse_acquired(&value);
            let _ = Stamp::of(&value);
            let _ = parse_outdated(&value);
            let _ = parse_agreed(&value);
            let _ = parse_released(&value);
            let _ = parse_extended(&value);
            let _ = parse_forced(&value);
            let _ = parse_report(&value);
        }
    }
}
