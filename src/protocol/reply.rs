//! Answers of the Lua files. Each answer is parsed here, once, into a vote and its details.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::events::Op;
use crate::masters::client_label;
use crate::protocol::caption::{self, HolderFacts};
use crate::protocol::fault::Fault;
use crate::protocol::job_mark::JobMark;
use crate::protocol::record::Record;
use crate::protocol::seats::SeatSet;
use crate::protocol::text::text;
use crate::values::last_force::{LastForce, YEAR_10000_US};
use crate::values::token::FencingToken;
use crate::values::votes::Vote;

/// Beginning of every answer to acquire, extend and inspect. A client detects with it that a clock was set forward, or
/// that a memory was wiped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp<'a> {
    /// Wall clock of the master, in microseconds since 1970.
    pub(crate) clock_us: u64,
    /// Record of the master, empty if the master has none; `None` if the call did not ask for it.
    pub(crate) record: Option<&'a str>,
}

/// Smallest number that is a clock, even where a clock starts at 1970: one second. The answers of other calls are smaller
/// numbers, and none of them must be taken for a grant.
const LEAST_CLOCK_US: u64 = 1_000_000;

impl<'a> Stamp<'a> {
    fn of(part: &'a Value) -> Option<Self> {
        let (clock_us, record) = match part {
            Value::Int(clock) => (u64::try_from(*clock).ok()?, None),
            Value::BulkString(bytes) => {
                let (clock, record) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
                (clock.parse().ok()?, Some(record))
            }
            _ => return None,
        };
        (clock_us >= LEAST_CLOCK_US).then_some(Self { clock_us, record })
    }

    /// Stamp at the beginning of an answer, to any script; `None` if the answer is no vote.
    pub(crate) fn at_head_of(answer: &'a Value) -> Option<Self> {
        match answer {
            Value::Array(parts) => Self::of(parts.first()?),
            stamp => Self::of(stamp),
        }
    }
}

/// Waiters in the queues of some names, behind the holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitersBehind {
    pub(crate) waiting: u32,
    /// Smallest of their tickets.
    pub(crate) first: Option<NonZeroU64>,
}

impl WaitersBehind {
    fn parse(waiting: &Value, first: &Value) -> Option<Self> {
        let Value::Int(waiting) = waiting else {
            return None;
        };
        Some(Self {
            waiting: u32::try_from(*waiting).ok()?,
            first: NonZeroU64::new(whole_number(first)?),
        })
    }

    /// Adds the waiters that another master reported.
    pub(crate) fn add(&mut self, other: Self) {
        self.waiting = self.waiting.max(other.waiting);
        self.first = self.first.into_iter().chain(other.first).min();
    }
}

/// Test of an operation's answers for assent. An answer assents if the master has done all of its part, so
/// that the answer counts towards a quorum. The test does not parse the answer: the caller does that later.
pub(crate) fn assent_to(op: Op) -> fn(&Value) -> bool {
    match op {
        // A grant is a stamp alone, or a stamp and details.
        Op::Acquire => |answer| match answer {
            Value::Array(parts) => matches!(parts.get(1), Some(Value::Int(1 | 3))),
            _ => true,
        },
        Op::Release => |answer| matches!(parse_released(answer), Some(Released::Whole { .. })),
        _ => |answer| matches!(answer, Value::Int(1)),
    }
}

/// One hold's part of a master's answer to acquire or extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) vote: Vote,
    /// Causes of a refusal: a letter for each name.
    pub(crate) causes: Option<Box<str>>,
    /// A holder as people know it, for a refusal, if the master knows that.
    pub(crate) holder: Option<Box<HolderFacts>>,
    /// Whether the master granted, and the token was above all fences, if that was required.
    pub(crate) accepted: bool,
    /// Waiters behind a grant.
    pub(crate) behind: WaitersBehind,
    /// Largest token that was stored before.
    pub(crate) highest: u64,
    /// Whether the same call fails there until the configuration changes or a key is deleted.
    pub(crate) is_final: bool,
    /// Mark of the job, if the job is done.
    pub(crate) done: Option<Box<JobMark>>,
    /// Seats for which the caller would be let in, if it was refused for another one.
    pub(crate) open: SeatSet,
}

impl Reply {
    /// Parses an answer to acquire.
    pub(crate) fn acquired(answer: Result<Value, Fault>) -> Self {
        answer.map_or_else(Self::from, |value| {
            parse_acquired(&value).unwrap_or_else(|| {
                let reason = format!("unexpected answer to acquire: {value:?}").into();
                Self::from(Vote::Unknown { reason })
            })
        })
    }

    /// Parses an answer to extend, for each of `holds` holds.
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
            causes: None,
            holder: None,
            accepted: false,
            behind: WaitersBehind::default(),
            highest: 0,
            is_final: false,
            done: None,
            open: SeatSet::default(),
        }
    }
}

impl From<Fault> for Reply {
    fn from(fault: Fault) -> Self {
        Self {
            is_final: fault.is_final(),
            ..fault.vote().into()
        }
    }
}

/// Vote for an answer that no version of the script gives.
fn unexpected(script: &str) -> Vote {
    Vote::Unknown {
        reason: format!("unexpected answer to {script}").into(),
    }
}

/// State of some names on one master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Wall clock of the master at that moment, in microseconds since 1970.
    pub(crate) clock_us: u64,
    /// One entry for each name.
    pub(crate) entries: Vec<StoredName>,
}

/// State of one name on one master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredName {
    pub(crate) kind: String,
    pub(crate) remaining: Option<Duration>,
    /// Number of waiters for the name, and the number of waiters that want to read.
    pub(crate) waiting: u64,
    pub(crate) waiting_to_read: u64,
    /// Largest token that the master has accepted for the name.
    pub(crate) fence: Option<FencingToken>,
    /// Waiter with the least ticket.
    pub(crate) first_waiting: Option<FirstWaiting>,
    pub(crate) last_force: Option<LastForce>,
    /// Fields of a hash.
    pub(crate) fields: Vec<FieldEntry>,
    /// Digest of a string's value.
    pub(crate) digest: Option<String>,
}

/// First waiter of a name's queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirstWaiting {
    pub(crate) waiter: String,
    /// Client of the waiter, as people know it.
    pub(crate) facts: HolderFacts,
    /// Microseconds by the masters' clocks at which it began to wait.
    pub(crate) ticket: u64,
}

/// A field of a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldEntry {
    pub(crate) field: String,
    pub(crate) value: String,
    /// Owner of the field as people know it.
    pub(crate) facts: HolderFacts,
}

/// Parses a stamp and its details. A stamp alone grants.
fn parse_acquired(value: &Value) -> Option<Reply> {
    match value {
        Value::Array(parts) => {
            let [stamp, details @ ..] = &parts[..] else {
                return None;
            };
            Stamp::of(stamp)?;
            parse_reply(details).filter(|reply| reply.vote != Vote::NotHeld)
        }
        stamp => Stamp::of(stamp).map(|_| granted(true, 0)),
    }
}

/// Parses one reply for each hold, after the stamp.
fn parse_extended(value: &Value) -> Option<Vec<Reply>> {
    let reply = |value: &Value| match value {
        Value::Array(parts) => parse_reply(parts),
        code => parse_reply(std::slice::from_ref(code)),
    };
    let [stamp, replies @ ..] = value.as_sequence()? else {
        return None;
    };
    Stamp::of(stamp)?;
    replies.iter().map(reply).collect()
}

fn parse_reply(parts: &[Value]) -> Option<Reply> {
    match parts {
        [Value::Int(1)] => Some(granted(true, 0)),
        [Value::Int(1), waiting, first] => Some(Reply {
            behind: WaitersBehind::parse(waiting, first)?,
            ..granted(true, 0)
        }),
        [Value::Int(3)] => Some(granted(false, 0)),
        [Value::Int(3), highest] => Some(granted(false, whole_number(highest)?)),
        [Value::Int(3), highest, waiting, first] => Some(Reply {
            behind: WaitersBehind::parse(waiting, first)?,
            ..granted(false, whole_number(highest)?)
        }),
        [Value::Int(2)] => Some(Vote::NotHeld.into()),
        [Value::Int(-1)] => Some(Vote::Revoked { force: None }.into()),
        [Value::Int(-1), force @ ..] => {
            let force = parse_force(force).map(Arc::new);
            Some(Vote::Revoked { force }.into())
        }
        [Value::Int(0), Value::Int(left), causes] => refused(*left, causes, 0),
        [Value::Int(0), Value::Int(left), causes, label] => Some(Reply {
            holder: parse_holder(label),
            ..refused(*left, causes, 0)?
        }),
        [Value::Int(0), Value::Int(left), causes, label, highest] => Some(Reply {
            holder: parse_holder(label),
            ..refused(*left, causes, whole_number(highest)?)?
        }),
        [Value::Int(5), Value::Int(left), causes, label, open] => Some(Reply {
            holder: parse_holder(label),
            open: SeatSet::parse(&text(open)?)?,
            ..refused(*left, causes, 0)?
        }),
        [Value::Int(4), at, keep, label] => Some(Reply {
            done: Some(Box::new(JobMark {
                at_ms: whole_number(at)?,
                keep: Duration::from_millis(whole_number(keep)?),
                label: client_label::parse(&text(label)?).unwrap_or_default(),
            })),
            ..Vote::Refused { remaining: None }.into()
        }),
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

fn refused(left: i64, causes: &Value, highest: u64) -> Option<Reply> {
    let remaining = milliseconds(left);
    Some(Reply {
        causes: Some(text(causes)?.into()),
        highest,
        ..Vote::Refused { remaining }.into()
    })
}

/// Facts about a holder, as `lua/labels.lua` reports them. A master may store anything there.
fn parse_facts(label: &Value) -> HolderFacts {
    let parsed = |label: &Value| client_label::parse(&text(label)?);
    match label {
        Value::Array(parts) => match parts.as_slice() {
            [label, about, token] => HolderFacts {
                label: parsed(label),
                about: text(about).and_then(|about| caption::parse(&about)),
                token: whole_number(token).filter(|token| *token > 0).map(FencingToken),
            },
            _ => HolderFacts::default(),
        },
        label => HolderFacts {
            label: parsed(label),
            ..HolderFacts::default()
        },
    }
}

/// Facts about the holder in the way, if there are any.
fn parse_holder(label: &Value) -> Option<Box<HolderFacts>> {
    let facts = parse_facts(label);
    (facts != HolderFacts::default()).then(|| Box::new(facts))
}

/// Record after an introduction, and the master's clock in microseconds since 1970.
pub(crate) fn parse_introduced(value: &Value) -> Option<(Record, u64)> {
    match value.as_sequence()? {
        [record, Value::Int(clock_us)] => {
            Some((Record::parse(&text(record)?)?, u64::try_from(*clock_us).ok()?))
        }
        _ => None,
    }
}

/// Result of a release on one master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Every name was held, and is released. `others_listen` if clients of other libraries received the
    /// message.
    Whole { others_listen: bool },
    /// Some names were not held.
    Partly,
}

/// Parses the answer to release for one hold.
pub(crate) fn parse_released(value: &Value) -> Option<Released> {
    match value {
        Value::Int(1) => Some(Released::Whole { others_listen: false }),
        Value::Int(2) => Some(Released::Whole { others_listen: true }),
        Value::Array(parts) => matches!(parts.as_slice(), [Value::Int(_)]).then_some(Released::Partly),
        _ => None,
    }
}

/// Result of a release, or the fault that hides it.
pub(crate) fn released(answer: Result<Value, Fault>) -> Result<Released, Fault> {
    let value = answer?;
    parse_released(&value)
        .ok_or_else(|| Fault::Unknown(format!("unexpected answer to release: {value:?}").into()))
}

/// Result of a call about a job's mark on one master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    /// The mark is stored, or forgotten; the answer of the release that the call may contain.
    Counts(Released),
    /// The mark is stored, and does not count.
    BesideAnother,
    Nowhere,
}

/// Parses the answer to mark, or to finish.
pub(crate) fn marked(answer: Result<Value, Fault>) -> (Option<Marked>, Vote) {
    let (marked, error) = match answer {
        Ok(Value::Int(0)) => (
            Marked::Nowhere,
            "the time of the mark is over by its clock, or the job was forgotten since",
        ),
        Ok(Value::Int(..0)) => (
            Marked::BesideAnother,
            "the mark is stored, and somebody else had the name before it",
        ),
        answer => match released(answer) {
            Ok(released) => return (Some(Marked::Counts(released)), Vote::Granted),
            Err(fault) => return (None, fault.vote()),
        },
    };
    (Some(marked), Vote::Failed { error: error.into() })
}

/// Vote of the answer to force: granted if the force came in time and took effect.
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

/// Parses the answer to inspect for `names` names.
pub(crate) fn inspected(answer: Result<Value, Fault>, names: usize) -> Result<Report, Vote> {
    let value = answer.map_err(|fault| fault.vote())?;
    parse_report(&value)
        .filter(|report| report.entries.len() == names)
        .ok_or_else(|| unexpected("inspect"))
}

/// Parses the answer to list: the next cursor, and keys.
pub(crate) fn listed(answer: Result<Value, Fault>) -> Result<(String, Vec<String>), Reply> {
    let value = answer?;
    let parsed = || {
        let mut texts = value.as_sequence()?.iter().map(text);
        Some((texts.next()??, texts.collect::<Option<_>>()?))
    };
    parsed().ok_or_else(|| unexpected("list").into())
}

fn parse_report(value: &Value) -> Option<Report> {
    let parts = value.as_sequence()?;
    Some(Report {
        clock_us: Stamp::of(parts.first()?)?.clock_us,
        entries: parts.get(1..)?.iter().map(parse_entry).collect::<Option<_>>()?,
    })
}

fn parse_entry(value: &Value) -> Option<StoredName> {
    let [
        kind,
        Value::Int(left),
        Value::Int(waiting),
        Value::Int(to_read),
        fence,
        first_waiting,
        last_force,
        parts @ ..,
    ] = value.as_sequence()?
    else {
        return None;
    };
    let fields = parts
        .chunks_exact(3)
        .map(|part| {
            Some(FieldEntry {
                field: text(&part[0])?,
                value: text(&part[1])?,
                facts: parse_facts(&part[2]),
            })
        })
        .collect::<Option<_>>()?;
    let digest = match parts {
        [digest] => Some(text(digest)?),
        _ => None,
    };
    Some(StoredName {
        kind: text(kind)?,
        remaining: milliseconds(*left),
        waiting: u64::try_from(*waiting).ok()?,
        waiting_to_read: u64::try_from(*to_read).ok()?,
        fence: whole_number(fence).map(FencingToken),
        first_waiting: match first_waiting {
            Value::Array(parts) => {
                let [waiter, facts, Value::Int(ticket)] = parts.as_slice() else {
                    return None;
                };
                Some(FirstWaiting {
                    waiter: text(waiter)?,
                    facts: parse_facts(facts),
                    ticket: u64::try_from(*ticket).ok()?,
                })
            }
            _ => None,
        },
        last_force: match last_force {
            Value::Array(parts) => parse_force(parts),
            _ => None,
        },
        fields,
        digest,
    })
}

/// Parses the last force of a name; `None` for a time that no master's clock shows.
fn parse_force(parts: &[Value]) -> Option<LastForce> {
    let [at, by, reason] = parts else { return None };
    let at = whole_number(at).filter(|at| *at < YEAR_10000_US)?;
    let word = |value| caption::parse(&text(value)?);
    Some(LastForce::new(at, word(by), word(reason)))
}

/// Duration of a PTTL, which is negative for a key that is absent or has no expiry.
fn milliseconds(left: i64) -> Option<Duration> {
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// Parses a number that a master has made, or has stored as text.
fn whole_number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => text(value)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
