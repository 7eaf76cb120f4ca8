//! The Lua files, typed in and out.
//!
//! Every request is one script call. It is encoded once and shared by all masters of a round.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::Value;

use crate::fence::FencingToken;
use crate::name::{MARKER, Names, channel, fence, revocation_mark};

/// One Lua file.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    sha: LazyLock<String>,
}

impl Script {
    const fn new(name: &'static str, source: &'static str, sha: fn() -> String) -> Self {
        Self {
            name,
            source,
            sha: LazyLock::new(sha),
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! script {
    ($constant:ident, $name:literal) => {
        static $constant: Script = Script::new(
            $name,
            include_str!(concat!("../lua/", $name, ".lua")),
            || redis::Script::new($constant.source).get_hash().to_owned(),
        );
    };
}

script!(ACQUIRE, "acquire");
script!(EXTEND, "extend");
script!(RELEASE, "release");
script!(INSPECT, "inspect");
script!(FORCE, "force");

/// All scripts, to be loaded when a connection is set up.
pub(crate) static ALL: [&Script; 5] = [&ACQUIRE, &EXTEND, &RELEASE, &INSPECT, &FORCE];

/// One script call, encoded.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) script: &'static Script,
    /// `EVALSHA sha numkeys key… arg…`
    pub(crate) command: redis::Cmd,
}

impl Request {
    fn new(script: &'static Script, keys: &[String], args: &[&[u8]]) -> Arc<Self> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.sha.as_str()).arg(keys.len());
        for key in keys {
            command.arg(key);
        }
        for arg in args {
            command.arg(arg);
        }
        Arc::new(Self { script, command })
    }

    /// The same call with the script's text, for a server that has forgotten it.
    pub(crate) fn with_source(&self) -> redis::Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.script.source);
        for arg in self.command.args_iter().skip(2) {
            if let redis::Arg::Simple(bytes) = arg {
                command.arg(bytes);
            }
        }
        command
    }
}

/// Names and, after each, its revocation mark.
fn keys_and_marks(names: &Names) -> Vec<String> {
    names
        .iter()
        .flat_map(|name| [name.to_owned(), revocation_mark(name)])
        .collect()
}

fn keys(names: &Names) -> Vec<String> {
    names.iter().map(str::to_owned).collect()
}

/// A fencing token as the scripts take it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    pub(crate) token: FencingToken,
    /// How long a master remembers it.
    pub(crate) retention: Duration,
}

impl Fence {
    /// The keys it needs: none for a lock that is not fenced.
    fn keys(self, names: &Names) -> Vec<String> {
        let fenced = self.token != FencingToken::NONE;
        names.iter().filter(|_| fenced).map(fence).collect()
    }

    fn retention_ms(self) -> String {
        self.retention.as_millis().to_string()
    }
}

/// Whether the masters' memory is marked, so that an answer tells when it was wiped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Unmarked,
    Marked,
}

impl Memory {
    fn key(self) -> Option<String> {
        (self == Self::Marked).then(|| MARKER.to_owned())
    }

    fn flag(self) -> &'static str {
        if self == Self::Marked { "1" } else { "0" }
    }
}

/// `lua/acquire.lua`: a hold that begins, or one that is taken again where it was forgotten.
pub(crate) fn acquire(
    names: &Names,
    owner: &str,
    count: u64,
    lease: Duration,
    fence: Fence,
    memory: Memory,
) -> Arc<Request> {
    let (count, lease) = (count.to_string(), lease.as_millis().to_string());
    let (token, retention) = (fence.token.to_string(), fence.retention_ms());
    let mut keys = keys_and_marks(names);
    let mut args = vec![
        owner.as_bytes(),
        count.as_bytes(),
        lease.as_bytes(),
        memory.flag().as_bytes(),
    ];
    let fences = fence.keys(names);
    if !fences.is_empty() {
        keys.extend(fences);
        args.extend([token.as_bytes(), retention.as_bytes()]);
    }
    keys.extend(memory.key());
    Request::new(&ACQUIRE, &keys, &args)
}

/// One hold's part of `lua/extend.lua`.
#[derive(Debug)]
pub(crate) struct Renewal<'a> {
    pub(crate) names: &'a Names,
    pub(crate) owner: String,
    pub(crate) count: u64,
    pub(crate) lease: Duration,
    pub(crate) token: FencingToken,
}

/// Whether the fence is to move or to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fencing {
    /// The token must be above all that is stored.
    Raise,
    /// The token was accepted before; the master is to have it, and to remember it.
    KeepUp,
}

/// `lua/extend.lua`, for any number of holds.
pub(crate) fn extend<'a>(
    renewals: impl Iterator<Item = Renewal<'a>>,
    retention: Duration,
    fencing: Fencing,
    memory: Memory,
) -> Arc<Request> {
    let mut keys = Vec::new();
    let mut args = vec![retention.as_millis().to_string(), memory.flag().to_owned()];
    for renewal in renewals {
        keys.extend(keys_and_marks(renewal.names));
        keys.extend(
            Fence {
                token: renewal.token,
                retention,
            }
            .keys(renewal.names),
        );
        args.push(renewal.owner);
        args.push(renewal.count.to_string());
        args.push(renewal.lease.as_millis().to_string());
        args.push(renewal.names.len().to_string());
        args.push(renewal.token.to_string());
        args.push(u8::from(fencing == Fencing::Raise).to_string());
    }
    keys.extend(memory.key());
    let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
    Request::new(&EXTEND, &keys, &args)
}

/// `lua/release.lua`.
pub(crate) fn release(names: &Names, owner: &str, notify: bool, fence: Fence) -> Arc<Request> {
    let (token, retention) = (fence.token.to_string(), fence.retention_ms());
    let channels: Vec<String> = names.iter().map(channel).collect();
    let mut keys = keys(names);
    keys.extend(fence.keys(names));
    let notify: &[u8] = if notify { b"1" } else { b"0" };
    let mut args = vec![owner.as_bytes(), notify, token.as_bytes(), retention.as_bytes()];
    args.extend(channels.iter().map(String::as_bytes));
    Request::new(&RELEASE, &keys, &args)
}

/// `lua/inspect.lua`.
pub(crate) fn inspect(names: &Names) -> Arc<Request> {
    Request::new(&INSPECT, &keys(names), &[])
}

/// `lua/force.lua`, with the owner fields that were seen on any master.
pub(crate) fn force(names: &Names, mark_lifetime: Duration, owners: &[Arc<str>]) -> Arc<Request> {
    let (lifetime, count) = (mark_lifetime.as_millis().to_string(), names.len().to_string());
    let channels: Vec<String> = names.iter().map(channel).collect();
    let mut args: Vec<&[u8]> = vec![lifetime.as_bytes(), count.as_bytes()];
    args.extend(channels.iter().map(String::as_bytes));
    args.extend(owners.iter().map(|owner| owner.as_bytes()));
    Request::new(&FORCE, &keys_and_marks(names), &args)
}

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
        let Value::Array(parts) = reply else {
            return None;
        };
        match parts.first()? {
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

/// What one master keeps under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: String,
    pub(crate) remaining: Option<Duration>,
    pub(crate) fields: Vec<(String, String)>,
}

/// What acquire answered, after its stamp.
pub(crate) fn parse_acquired(value: &Value) -> Option<Reply> {
    match value {
        Value::Array(parts) => parse_reply(parts.get(1..)?),
        _ => None,
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
        [Value::Int(1), highest] => Some(Reply::Granted {
            accepted: true,
            highest: digits(highest)?,
        }),
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

/// What release did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) names: usize,
    /// Connections that heard of it.
    pub(crate) listeners: usize,
}

pub(crate) fn parse_released(value: &Value) -> Option<Released> {
    match value {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(names), Value::Int(listeners)] => Some(Released {
                names: usize::try_from(*names).ok()?,
                listeners: usize::try_from(*listeners).ok()?,
            }),
            _ => None,
        },
        _ => None,
    }
}

pub(crate) fn parse_owners(value: &Value) -> Option<Vec<Arc<str>>> {
    let Value::Array(owners) = value else {
        return None;
    };
    owners.iter().map(|owner| text(owner).map(Arc::from)).collect()
}

pub(crate) fn parse_entries(value: &Value) -> Option<Vec<Entry>> {
    let Value::Array(entries) = value else {
        return None;
    };
    entries.iter().map(parse_entry).collect()
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
    Some(Entry {
        kind: text(kind)?,
        remaining: milliseconds(*left),
        fields,
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
        assert_eq!(acquired(&[Value::Int(1)]), granted(true, 0));
        assert_eq!(acquired(&[Value::Int(1), bulk("7")]), granted(true, 7));
        let largest = [Value::Int(3), bulk("9007199254740991")];
        assert_eq!(acquired(&largest), granted(false, crate::fence::LARGEST));
        assert_eq!(acquired(&[Value::Int(-1)]), Some(Reply::Revoked));
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
    fn a_stamp_tells_the_clock_and_what_the_marker_says() {
        let stamp = |first: Value| {
            let reply = Value::Array(vec![first, Value::Int(1)]);
            Stamp::of(&reply).map(|stamp| (stamp.clock_us, stamp.marker.to_owned()))
        };
        assert_eq!(stamp(Value::Int(7)), Some((7, String::new())));
        assert_eq!(stamp(bulk("7 run 5")), Some((7, "run 5".into())));
        assert_eq!(stamp(bulk("7 ")), Some((7, String::new())));
        assert_eq!(stamp(bulk("7")), None);
        assert_eq!(stamp(Value::Int(-7)), None);
    }

    #[test]
    fn a_forgotten_script_is_sent_whole_with_the_same_arguments() {
        let fence = Fence {
            token: FencingToken(5),
            retention: Duration::from_secs(9),
        };
        let (name, second) = ("a".into(), Duration::from_secs(1));
        let request = acquire(&name, "me:1", 1, second, fence, Memory::Unmarked);
        let texts = |command: &redis::Cmd| -> Vec<String> {
            command
                .args_iter()
                .filter_map(|arg| match arg {
                    redis::Arg::Simple(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                    _ => None,
                })
                .collect()
        };
        let (by_sha, by_source) = (texts(&request.command), texts(&request.with_source()));
        assert_eq!(by_source[..2], ["EVAL".to_owned(), ACQUIRE.source.to_owned()]);
        assert_eq!(by_sha[2..], by_source[2..]);
        let keys = ["3", "a", "multilock_revoked:{a}", "redisson_lock_token:{a}"];
        assert_eq!(by_sha[2..6], keys);
        assert_eq!(by_sha[6..], ["me:1", "1", "1000", "0", "5", "9000"]);
        let unfenced = Fence {
            token: FencingToken::NONE,
            ..fence
        };
        let request = acquire(&name, "me:1", 1, second, unfenced, Memory::Marked);
        let keys = ["3", "a", "multilock_revoked:{a}", "multilock_marker"];
        assert_eq!(texts(&request.command)[2..6], keys);
        assert_eq!(texts(&request.command)[6..], ["me:1", "1", "1000", "1"]);
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
            let _ = parse_released(&value);
            let _ = parse_extended(&value);
            let _ = parse_owners(&value);
            let _ = parse_entries(&value);
        }
    }
}
