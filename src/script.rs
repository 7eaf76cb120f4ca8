//! The Lua files, typed in and out.
//!
//! Every request is one script call. It is encoded once and shared by all masters of a round.

use std::fmt;
use std::iter::once;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::Value;

use crate::fence::FencingToken;
use crate::name::{LONGEST_PREFIX, MARKER, Names, channel, fence, revocation_mark};

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

impl Script {
    /// `SCRIPT LOAD source`
    pub(crate) fn load(&self) -> redis::Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(self.source);
        command
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

/// Puts a call together, its keys before its arguments.
struct Encoder {
    script: &'static Script,
    command: redis::Cmd,
}

impl Encoder {
    /// For so many keys, with room for some holds on these names.
    fn new<'a>(script: &'static Script, keys: usize, names: impl Iterator<Item = &'a Names>) -> Self {
        let (mut arguments, mut bytes) = (3 + keys, WORDS);
        for names in names {
            arguments += names.len() + ARGUMENTS;
            // The name itself and what derives from it: at most two keys and a channel.
            bytes += WORDS
                + names
                    .iter()
                    .map(|name| 3 * (name.len() + LONGEST_PREFIX))
                    .sum::<usize>();
        }
        let mut command = redis::Cmd::with_capacity(arguments, bytes);
        command.arg("EVALSHA").arg(script.sha.as_str()).arg(keys);
        Self { script, command }
    }

    fn word(&mut self, word: &str) {
        self.command.arg(word);
    }

    fn words<S: AsRef<str>>(&mut self, words: impl IntoIterator<Item = S>) {
        for word in words {
            self.command.arg(word.as_ref());
        }
    }

    fn number(&mut self, number: u64) {
        self.command.arg(number);
    }

    fn flag(&mut self, flag: bool) {
        self.command.arg(u8::from(flag));
    }

    fn ms(&mut self, duration: Duration) {
        // What is longer than a server can count was refused long before.
        self.number(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    }

    fn done(self) -> Arc<Request> {
        Arc::new(Request {
            script: self.script,
            command: self.command,
        })
    }
}

/// Room for what does not depend on the names: the script's digest, or an owner and numbers.
const WORDS: usize = 128;
const ARGUMENTS: usize = 8;

/// Names and, after each, its revocation mark.
fn keys_and_marks(encoder: &mut Encoder, names: &Names) {
    for name in names.iter() {
        encoder.word(name);
        encoder.word(&revocation_mark(name));
    }
}

/// A fencing token as the scripts take it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    pub(crate) token: FencingToken,
    /// How long a master remembers it.
    pub(crate) retention: Duration,
}

impl Fence {
    fn is_wanted(self) -> bool {
        self.token != FencingToken::NONE
    }

    /// The keys it needs: none for a lock that is not fenced.
    fn keys(self, names: &Names) -> impl ExactSizeIterator<Item = String> {
        let wanted = if self.is_wanted() { names.len() } else { 0 };
        names.iter().take(wanted).map(fence)
    }
}

/// Whether the masters' memory is marked, so that an answer tells when it was wiped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Unmarked,
    Marked,
}

impl Memory {
    fn key(self) -> Option<&'static str> {
        (self == Self::Marked).then_some(MARKER)
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
    let fences = fence.keys(names);
    let keys = 2 * names.len() + fences.len() + usize::from(memory.key().is_some());
    let mut call = Encoder::new(&ACQUIRE, keys, once(names));
    keys_and_marks(&mut call, names);
    call.words(fences);
    call.words(memory.key());
    call.word(owner);
    call.number(count);
    call.ms(lease);
    call.flag(memory == Memory::Marked);
    if fence.is_wanted() {
        call.number(fence.token.get());
        call.ms(fence.retention);
    }
    call.done()
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
pub(crate) fn extend(
    renewals: &[Renewal<'_>],
    retention: Duration,
    fencing: Fencing,
    memory: Memory,
) -> Arc<Request> {
    let fence = |renewal: &Renewal<'_>| Fence {
        token: renewal.token,
        retention,
    };
    let keys = |renewal: &Renewal<'_>| 2 * renewal.names.len() + fence(renewal).keys(renewal.names).len();
    let keys = renewals.iter().map(keys).sum::<usize>() + usize::from(memory.key().is_some());
    let mut call = Encoder::new(&EXTEND, keys, renewals.iter().map(|renewal| renewal.names));
    for renewal in renewals {
        keys_and_marks(&mut call, renewal.names);
        call.words(fence(renewal).keys(renewal.names));
    }
    call.words(memory.key());
    call.ms(retention);
    call.flag(memory == Memory::Marked);
    for renewal in renewals {
        call.word(&renewal.owner);
        call.number(renewal.count);
        call.ms(renewal.lease);
        call.number(renewal.names.len() as u64);
        call.number(renewal.token.get());
        call.flag(fencing == Fencing::Raise);
    }
    call.done()
}

/// `lua/release.lua`.
pub(crate) fn release(names: &Names, owner: &str, notify: bool, fence: Fence) -> Arc<Request> {
    let fences = fence.keys(names);
    let mut call = Encoder::new(&RELEASE, names.len() + fences.len(), once(names));
    call.words(names.iter());
    call.words(fences);
    call.word(owner);
    call.flag(notify);
    call.number(fence.token.get());
    call.ms(fence.retention);
    call.words(names.iter().map(channel));
    call.done()
}

/// `lua/inspect.lua`.
pub(crate) fn inspect(names: &Names) -> Arc<Request> {
    let mut call = Encoder::new(&INSPECT, names.len(), once(names));
    call.words(names.iter());
    call.done()
}

/// `lua/force.lua`, with the owner fields that were seen on any master.
pub(crate) fn force(names: &Names, mark_lifetime: Duration, owners: &[Arc<str>]) -> Arc<Request> {
    let mut call = Encoder::new(&FORCE, 2 * names.len(), once(names));
    keys_and_marks(&mut call, names);
    call.ms(mark_lifetime);
    call.number(names.len() as u64);
    call.words(names.iter().map(channel));
    call.words(owners);
    call.done()
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

/// What one master keeps under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: String,
    pub(crate) remaining: Option<Duration>,
    pub(crate) fields: Vec<(String, String)>,
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
        assert_eq!(
            parse_acquired(&Value::Int(1_700_000_000_000_000)),
            granted(true, 0)
        );
        assert_eq!(parse_acquired(&Value::Nil), None);
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
