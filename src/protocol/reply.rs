//! What the Lua files answer: each answer is read here, once, and becomes a vote with what it tells beside.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::protocol::fault::Fault;
use crate::protocol::reckoning::Agreed;
use crate::votes::Vote;

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
    fn of(part: &'a Value) -> Option<Self> {
        match part {
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

/// What an answer begins with, whatever it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heading<'a> {
    /// None where no vote was asked for.
    pub(crate) stamp: Option<Stamp<'a>>,
    /// In place of a vote, to a client that reckons with less than others may hold for: the longest lease
    /// that it has to reckon with.
    pub(crate) outdated: Option<Duration>,
}

impl<'a> Heading<'a> {
    pub(crate) fn of(answer: &'a Value) -> Self {
        let (stamp, outdated) = match answer {
            Value::Array(parts) => match parts.as_slice() {
                [stamp, Value::Int(-2), longest] => (Some(stamp), whole_number(longest)),
                parts => (parts.first(), None),
            },
            stamp => (Some(stamp), None),
        };
        Self {
            stamp: stamp.and_then(Stamp::of),
            outdated: outdated.map(Duration::from_millis),
        }
    }
}

/// What a master's answer to acquire or extend says of one hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) vote: Vote,
    /// On whose behalf it was refused.
    pub(crate) holder: Option<Arc<str>>,
    /// Granted, and the token was above all that was stored, where it had to be.
    pub(crate) accepted: bool,
    /// The largest token that was stored before.
    pub(crate) highest: u64,
    /// Nobody may do there what the script does.
    pub(crate) denied: bool,
}

impl Reply {
    /// What acquire answered.
    pub(crate) fn acquired(answer: Result<Value, Fault>) -> Self {
        answer.map_or_else(Self::from, |value| {
            parse_acquired(&value).unwrap_or_else(|| {
                let reason = format!("unexpected answer to acquire: {value:?}").into();
                Self::from(Vote::Unknown { reason })
            })
        })
    }

    /// What extend answered, for each of so many holds.
    pub(crate) fn extended(answer: Result<Value, Fault>, holds: usize) -> Vec<Self> {
        match answer {
            Ok(value) => {
                let mut replies = parse_extended(&value).unwrap_or_default();
                replies.resize_with(holds, || unexpected("extend").into());
                replies
            }
            Err(fault) => vec![fault.into(); holds],
        }
    }
}

impl From<Vote> for Reply {
    fn from(vote: Vote) -> Self {
        Self {
            vote,
            holder: None,
            accepted: false,
            highest: 0,
            denied: false,
        }
    }
}

impl From<Fault> for Reply {
    fn from(fault: Fault) -> Self {
        Self {
            denied: fault.is_denied(),
            ..fault.vote().into()
        }
    }
}

/// For an answer that no version of the script gives.
fn unexpected(script: &str) -> Vote {
    Vote::Unknown {
        reason: format!("unexpected answer to {script}").into(),
    }
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

/// A stamp and what comes after it; a stamp alone grants.
fn parse_acquired(value: &Value) -> Option<Reply> {
    match value {
        Value::Array(parts) => parse_reply(parts.get(1..)?).filter(|reply| reply.vote != Vote::NotHeld),
        stamp => Stamp::of(stamp).map(|_| granted(true, 0)),
    }
}

/// One reply for each hold, after the stamp.
fn parse_extended(value: &Value) -> Option<Vec<Reply>> {
    let Value::Array(replies) = value else {
        return None;
    };
    let reply = |value: &Value| match value {
        Value::Array(parts) => parse_reply(parts),
        code => parse_reply(std::slice::from_ref(code)),
    };
    replies.get(1..)?.iter().map(reply).collect()
}

fn parse_reply(parts: &[Value]) -> Option<Reply> {
    match parts {
        [Value::Int(1)] => Some(granted(true, 0)),
        [Value::Int(3)] => Some(granted(false, 0)),
        [Value::Int(3), highest] => Some(granted(false, whole_number(highest)?)),
        [Value::Int(2)] => Some(Vote::NotHeld.into()),
        [Value::Int(-1)] => Some(Vote::Revoked.into()),
        [Value::Int(0), Value::Int(left), holder] => refused(*left, holder, 0),
        [Value::Int(0), Value::Int(left), holder, highest] => refused(*left, holder, whole_number(highest)?),
        _ => None,
    }
}

fn granted(accepted: bool, highest: u64) -> Reply {
    Reply {
        accepted,
        highest,
        ..Vote::Granted.into()
    }
}

fn refused(left: i64, holder: &Value, highest: u64) -> Option<Reply> {
    let remaining = milliseconds(left);
    Some(Reply {
        holder: Some(text(holder)?.into()),
        highest,
        ..Vote::Refused { remaining }.into()
    })
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

/// What release did, or why that is not known.
pub(crate) fn released(answer: Result<Value, Fault>) -> Result<Released, Fault> {
    let value = answer?;
    parse_released(&value)
        .ok_or_else(|| Fault::Unknown(format!("unexpected answer to release: {value:?}").into()))
}

/// Whether a force came in time and was carried out.
pub(crate) fn forced(answer: Result<Value, Fault>) -> Vote {
    let value = match answer {
        Ok(value) => value,
        Err(fault) => return fault.vote(),
    };
    match text(&value).as_deref() {
        Some("done") => Vote::Granted,
        Some("late") => Vote::Failed {
            error: "the request came too late, and nothing was done".into(),
        },
        _ => unexpected("force"),
    }
}

/// What inspect answered for so many names.
pub(crate) fn inspected(answer: Result<Value, Fault>, names: usize) -> Result<Report, Vote> {
    let value = answer.map_err(|fault| fault.vote())?;
    parse_report(&value)
        .filter(|report| report.entries.len() == names)
        .ok_or_else(|| unexpected("inspect"))
}

fn parse_report(value: &Value) -> Option<Report> {
    let Value::Array(parts) = value else {
        return None;
    };
    Some(Report {
        clock_us: Stamp::of(parts.first()?)?.clock_us,
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

/// A number that may be too large for the integers of Lua or of the wire.
fn whole_number(value: &Value) -> Option<u64> {
    text(value)?.parse().ok()
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
        let answer = |parts: &[Value]| {
            let stamp = Value::Int(1_700_000_000_000_000);
            Value::Array(std::iter::once(stamp).chain(parts.iter().cloned()).collect())
        };
        let acquired = |parts: &[Value]| Reply::acquired(Ok(answer(parts)));
        let alone = Value::Int(1_700_000_000_000_000);
        assert_eq!(Reply::acquired(Ok(alone)), granted(true, 0));
        let largest = [Value::Int(3), bulk("9007199254740991")];
        assert_eq!(acquired(&largest), granted(false, crate::token::LARGEST));
        assert_eq!(acquired(&[Value::Int(-1)]), Vote::Revoked.into());
        for odd in [Value::Nil, answer(&[Value::Int(2)])] {
            let reply = Reply::acquired(Ok(odd));
            assert!(matches!(&reply.vote, Vote::Unknown { .. }) && reply.vote.may_have_granted());
        }
        let refused = [Value::Int(0), Value::Int(1500), bulk("b:1"), bulk("9")];
        let remaining = Some(Duration::from_millis(1500));
        let reply = Reply {
            holder: Some("b:1".into()),
            highest: 9,
            ..Vote::Refused { remaining }.into()
        };
        assert_eq!(acquired(&refused), reply);
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
        assert_eq!(extended[2..4], [Vote::NotHeld.into(), Vote::Revoked.into()]);
        assert_eq!(extended[4].vote, Vote::Refused { remaining: None });
        assert_eq!(extended[5..], [unexpected("extend").into()]);
        assert_eq!(Reply::extended(Ok(answer(&mixed)), 2).len(), 2);
    }

    #[test]
    fn a_fault_is_its_vote_for_every_hold() {
        let fault = Fault::Unfit("no user".into());
        let denied = Reply {
            denied: true,
            ..fault.vote().into()
        };
        assert_eq!(Reply::acquired(Err(fault.clone())), denied);
        assert_eq!(Reply::extended(Err(fault), 2), [denied.clone(), denied]);
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

        assert!(matches!(super::released(Ok(Value::Nil)), Err(Fault::Unknown(_))));

        assert_eq!(forced(Ok(bulk("done"))), Vote::Granted);
        let late = forced(Ok(Value::SimpleString("late".into())));
        assert!(matches!(late, Vote::Failed { .. }));
        assert_eq!(forced(Ok(bulk("else"))), unexpected("force"));
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
        let none = Value::Array(vec![Value::Int(7)]);
        assert_eq!(inspected(Ok(none), 1), Err(unexpected("inspect")));
    }

    #[test]
    fn a_stamp_tells_the_clock_and_what_the_marker_says() {
        let stamp = |first: Value| {
            let stamp = |answer: &Value| {
                let stamp = Heading::of(answer).stamp;
                stamp.map(|stamp| (stamp.clock_us, stamp.marker.to_owned()))
            };
            let alone = stamp(&first);
            assert_eq!(stamp(&Value::Array(vec![first, Value::Int(1)])), alone);
            alone
        };
        assert_eq!(stamp(Value::Int(7)), Some((7, String::new())));
        assert_eq!(stamp(bulk("7 run 5")), Some((7, "run 5".into())));
        assert_eq!(stamp(bulk("7 ")), Some((7, String::new())));
        assert_eq!(stamp(bulk("7")), None);
        assert_eq!(stamp(Value::Int(-7)), None);
    }

    #[test]
    fn a_heading_tells_who_reckons_with_too_little() {
        let outdated = |code| {
            let answer = Value::Array(vec![Value::Int(7), Value::Int(code), bulk("300000")]);
            let heading = Heading::of(&answer);
            assert_eq!(heading.stamp.map(|stamp| stamp.clock_us), Some(7));
            heading.outdated
        };
        assert_eq!(outdated(-2), Some(Duration::from_secs(300)));
        assert_eq!(outdated(-1), None);
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
            let _ = Heading::of(&value);
            let _ = Reply::acquired(Ok(value.clone()));
            let _ = Reply::extended(Ok(value.clone()), 3);
            let _ = parse_agreed(&value);
            let _ = super::released(Ok(value.clone()));
            let _ = forced(Ok(value.clone()));
            let _ = inspected(Ok(value), 1);
        }
    }
}
