//! The Lua files and the calls of them.

use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::events::Op;
use crate::protocol::claim::Claim;
use crate::protocol::command::{Encoder, Request, Script};
use crate::protocol::keys::{self, Key, SET, deadlines, fence, queue, readers_queue, revocation_mark};
use crate::protocol::kind::HoldKind;
use crate::protocol::record::HIDDEN;
use crate::protocol::waiter::{Precedence, Waiter};
use crate::values::master_set::MasterSet;
use crate::values::names::Names;
use crate::values::token::{Block, FencingToken};

macro_rules! script {
    ($constant:ident, $op:ident, $name:literal $(, behind $shared:literal)*) => {
        static $constant: Script = Script::new(
            Op::$op,
            concat!(
                $(include_str!(concat!("../../lua/", $shared, ".lua")), "\n",)*
                include_str!(concat!("../../lua/", $name, ".lua"))
            ),
            || redis::Script::new($constant.source).get_hash().to_owned(),
        );
    };
}

script!(ACQUIRE, Acquire, "acquire", behind "labels", behind "queue", behind "readers");
script!(EXTEND, Extend, "extend", behind "queue", behind "readers");
script!(RELEASE, Release, "release", behind "queue", behind "readers");
script!(DOWNGRADE, Downgrade, "downgrade", behind "queue", behind "readers");
script!(RETAIN, Retain, "retain", behind "queue");
script!(LEAVE, Leave, "leave", behind "queue", behind "readers");
script!(INSPECT, Inspect, "inspect", behind "labels");
script!(FORCE, Force, "force", behind "queue", behind "readers");
script!(INTRODUCE, Introduce, "introduce");
script!(LABEL, Label, "label");

/// All scripts, to be loaded when a connection is set up.
pub(crate) static ALL: [&Script; 10] = [
    &ACQUIRE, &EXTEND, &RELEASE, &DOWNGRADE, &RETAIN, &LEAVE, &INSPECT, &FORCE, &INTRODUCE, &LABEL,
];

/// Keys in one script call for many holds, each of which takes a server a few microseconds: others wait for
/// a millisecond, and for a few where the server shares its processor.
pub(crate) const BATCH: usize = 192;

/// Splits what goes into calls for many holds, each with so many keys as a server can take at once. What
/// has more keys than that goes by itself.
pub(crate) fn batches<T>(mut rest: &[T], keys: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let mut sum = 0;
        let fits = rest.iter().take_while(|item| {
            sum += keys(item);
            sum <= BATCH
        });
        let (batch, left) = rest.split_at(fits.count().max(1).min(rest.len()));
        rest = left;
        (!batch.is_empty()).then_some(batch)
    })
}

/// Names and, after each, its revocation mark.
fn keys_and_marks(encoder: &mut Encoder, names: &Names) {
    for name in names.iter() {
        encoder.word(name);
        encoder.keys([revocation_mark(name)]);
    }
}

/// The fences of a lock: none where it has no token.
fn fences(names: &Names, token: FencingToken) -> impl ExactSizeIterator<Item = Key<'_>> {
    let wanted = if token == FencingToken::NONE {
        0
    } else {
        names.len()
    };
    names.iter().take(wanted).map(fence)
}

/// Who reads each name; nothing for a plain lock.
fn readers(kind: HoldKind, names: &Names) -> impl ExactSizeIterator<Item = Key<'_>> {
    let wanted = if kind.is_read_write() { names.len() } else { 0 };
    names.iter().take(wanted).map(keys::readers)
}

/// How masters are to take a fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fencing {
    /// It is new, and must be above every fence.
    Proposed,
    /// A quorum has accepted it before; the master is to have it, and to remember it.
    Declared,
}

/// Whether an answer that counts in a vote repeats the master's record, which shows when its memory was wiped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    Clock,
    ClockAndRecord,
}

impl Evidence {
    fn key(self) -> Option<&'static str> {
        (self == Self::ClockAndRecord).then_some(SET)
    }
}

/// What `lua/acquire.lua` is told: of a hold that begins, or one that is taken again where it was forgotten.
#[derive(Debug)]
pub(crate) struct Acquire<'a> {
    pub(crate) names: &'a Names,
    pub(crate) kind: HoldKind,
    pub(crate) owner: &'a str,
    pub(crate) count: u64,
    pub(crate) lease: Duration,
    pub(crate) tokens: Block,
    pub(crate) fencing: Fencing,
    pub(crate) precedence: Precedence,
}

/// `lua/acquire.lua`.
pub(crate) fn acquire(acquire: &Acquire<'_>, evidence: Evidence) -> Arc<Request> {
    let Acquire {
        names, kind, owner, ..
    } = *acquire;
    let readers = readers(kind, names);
    let keys = 5 * names.len() + readers.len() + usize::from(evidence.key().is_some());
    let mut call = Encoder::new(&ACQUIRE, keys, once(names));
    for name in names.iter() {
        call.word(name);
        call.keys([revocation_mark(name), deadlines(name)]);
    }
    // Also without a token: a master refuses one that takes none where others do.
    call.keys(names.iter().map(fence));
    call.keys(names.iter().map(queue));
    call.keys(readers);
    call.words(evidence.key());
    call.word(owner);
    call.number(acquire.count);
    call.ms(acquire.lease);
    call.flag(evidence == Evidence::ClockAndRecord);
    match acquire.precedence.waiter() {
        Some(waiter) => call.word(&waiter.placed()),
        None => call.word(""),
    }
    call.number(acquire.precedence.ticket());
    if !acquire.tokens.is_none() {
        call.number(acquire.tokens.first.get());
        call.number(acquire.tokens.last.get());
        call.flag(acquire.fencing == Fencing::Declared);
    }
    call.words(kind.mode());
    call.done()
}

/// One hold's part of `lua/extend.lua`.
#[derive(Debug)]
pub(crate) struct Renewal<'a> {
    pub(crate) names: &'a Names,
    pub(crate) kind: HoldKind,
    pub(crate) owner: String,
    pub(crate) count: u64,
    pub(crate) lease: Duration,
    pub(crate) tokens: Block,
}

/// How many keys a hold has in `lua/extend.lua`.
pub(crate) fn extended_keys(names: &Names, kind: HoldKind, tokens: Block) -> usize {
    let each = if tokens.is_none() { 2 } else { 3 } + if kind.is_shared() { 3 } else { 0 };
    names.len() * each
}

/// `lua/extend.lua`, for any number of holds.
pub(crate) fn extend(renewals: &[Renewal<'_>], fencing: Fencing, evidence: Evidence) -> Arc<Request> {
    let keys = |renewal: &Renewal<'_>| extended_keys(renewal.names, renewal.kind, renewal.tokens);
    let keys = renewals.iter().map(keys).sum::<usize>() + usize::from(evidence.key().is_some());
    let mut call = Encoder::new(&EXTEND, keys, renewals.iter().map(|renewal| renewal.names));
    for renewal in renewals {
        keys_and_marks(&mut call, renewal.names);
        call.keys(fences(renewal.names, renewal.tokens.first));
        if renewal.kind.is_shared() {
            for name in renewal.names.iter() {
                call.keys([keys::readers(name), queue(name), deadlines(name)]);
            }
        }
    }
    call.words(evidence.key());
    call.flag(evidence == Evidence::ClockAndRecord);
    for renewal in renewals {
        call.word(&renewal.owner);
        call.number(renewal.count);
        call.ms(renewal.lease);
        call.number(renewal.names.len() as u64);
        call.number(renewal.tokens.first.get());
        call.number(renewal.tokens.last.get());
        call.flag(fencing == Fencing::Proposed);
        call.word(renewal.kind.mode().unwrap_or_default());
    }
    call.done()
}

/// How many keys a hold has in `lua/release.lua`.
pub(crate) fn released_keys(claim: &Claim) -> usize {
    let each = if claim.fence == FencingToken::NONE { 3 } else { 4 };
    claim.names.len() * each + readers(claim.kind, &claim.names).len()
}

/// As `lua/release.lua` has the layout of a read/write lock, whoever holds it.
const READ_WRITE: &str = "rw";

/// `lua/release.lua`, for one hold; `here` is a waiter that needs no call, and may be one that asks at once.
pub(crate) fn release(claim: &Claim, here: Option<(Waiter, bool)>) -> Arc<Request> {
    let mut call = Encoder::new(&RELEASE, released_keys(claim), once(&claim.names));
    let owner = claim.field.text();
    keys_to_release(&mut call, claim);
    call.words(claim.kind.is_read_write().then_some(READ_WRITE));
    call.word(&owner);
    call.number(claim.fence.get());
    channels(&mut call, claim);
    if let Some((waiter, asks)) = here {
        call.word(&waiter.placed());
        call.number(waiter.ticket);
        call.words(asks.then_some("1"));
    }
    call.done()
}

/// The same for any number of holds.
pub(crate) fn releases<'a>(claims: impl ExactSizeIterator<Item = &'a Claim> + Clone) -> Arc<Request> {
    if claims.len() == 1
        && let Some(claim) = claims.clone().next()
    {
        return release(claim, None);
    }
    let keys = claims.clone().map(released_keys).sum();
    let mut call = Encoder::new(&RELEASE, keys, claims.clone().map(|claim| &claim.names));
    for claim in claims.clone() {
        keys_to_release(&mut call, claim);
    }
    call.number(0);
    for claim in claims {
        call.word(&claim.field.text());
        call.number(claim.fence.get());
        call.number(claim.names.len() as u64);
        call.word(if claim.kind.is_read_write() {
            READ_WRITE
        } else {
            ""
        });
        channels(&mut call, claim);
    }
    call.done()
}

/// `lua/downgrade.lua`: what a hold has written it reads from now on.
pub(crate) fn downgrade(claim: &Claim, lease: Duration) -> Arc<Request> {
    let names = &claim.names;
    let mut call = Encoder::new(&DOWNGRADE, 4 * names.len(), once(names));
    for name in names.iter() {
        call.word(name);
        call.keys([queue(name), deadlines(name), keys::readers(name)]);
    }
    call.word(&claim.field.text());
    call.ms(lease);
    call.done()
}

/// `lua/retain.lua`: what a hold has is left as it is for so much longer.
pub(crate) fn retain(claim: &Claim, rest: Duration) -> Arc<Request> {
    let mut call = Encoder::new(&RETAIN, released_keys(claim), once(&claim.names));
    keys_to_release(&mut call, claim);
    call.word(&claim.field.text());
    call.number(claim.fence.get());
    call.ms(rest);
    call.done()
}

/// Where clients of other libraries hear of a release.
fn channels(call: &mut Encoder, claim: &Claim) {
    call.keys(claim.names.iter().map(|name| claim.kind.channel(name)));
}

fn keys_to_release(call: &mut Encoder, claim: &Claim) {
    queues(call, claim.names.iter());
    call.keys(fences(&claim.names, claim.fence));
    call.keys(readers(claim.kind, &claim.names));
}

/// Names and, after each, who waits for it.
fn queues<'a>(call: &mut Encoder, names: impl Iterator<Item = &'a str>) {
    for name in names {
        call.word(name);
        call.keys([queue(name), deadlines(name)]);
    }
}

/// `lua/leave.lua`, for a waiter as the masters write it.
pub(crate) fn leave(names: &Names, client: Uuid, waiter: &str) -> Arc<Request> {
    let mut call = Encoder::new(&LEAVE, 3 * names.len(), once(names));
    queues(&mut call, names.iter());
    call.word(&format!("{client}:{waiter}"));
    call.done()
}

/// `lua/inspect.lua`.
pub(crate) fn inspect(names: &Names) -> Arc<Request> {
    let mut call = Encoder::new(&INSPECT, 4 * names.len(), once(names));
    for name in names.iter() {
        call.word(name);
        call.keys([queue(name), readers_queue(name), keys::readers(name)]);
    }
    call.done()
}

/// `lua/force.lua`, with the holders that were seen on any master, for each name; after `latest_us` of
/// the master's clock it does nothing.
pub(crate) fn force(
    names: &Names,
    latest_us: u64,
    mark_lifetime: Duration,
    holders: &[Vec<Arc<str>>],
) -> Arc<Request> {
    let mut call = Encoder::new(&FORCE, 5 * names.len(), once(names));
    for name in names.iter() {
        call.word(name);
        call.keys([
            revocation_mark(name),
            queue(name),
            deadlines(name),
            keys::readers(name),
        ]);
    }
    call.number(latest_us);
    call.ms(mark_lifetime);
    for name in names.iter() {
        call.keys([HoldKind::Plain.channel(name), HoldKind::Write.channel(name)]);
    }
    for holders in holders {
        call.number(holders.len() as u64);
        call.words(holders.iter().map(AsRef::as_ref));
    }
    call.done()
}

/// `lua/introduce.lua`: the set that the client lists, the run of the master's server, and whether its memory counts from now
/// on.
pub(crate) fn introduce(set: MasterSet, run: Option<&str>, anew: bool) -> Arc<Request> {
    let mut call = Encoder::new(&INTRODUCE, 1, std::iter::empty());
    call.word(SET);
    call.number(set.masters as u64);
    call.word(run.unwrap_or(HIDDEN));
    // Where the run is hidden, it counts from now for whoever asks.
    call.flag(anew && run.is_some());
    if let Some(longest) = set.for_tests {
        call.ms(longest);
    }
    call.done()
}

/// `lua/label.lua`: what a client calls itself, to be kept for so long.
pub(crate) fn label(client: Uuid, label: &str, kept: Duration) -> Arc<Request> {
    let mut call = Encoder::new(&LABEL, 1, std::iter::empty());
    call.word(&keys::client(client));
    call.word(label);
    call.ms(kept);
    call.done()
}

/// The same, to take it back.
pub(crate) fn unlabel(client: Uuid) -> Arc<Request> {
    let mut call = Encoder::new(&LABEL, 1, std::iter::empty());
    call.word(&keys::client(client));
    call.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_by_keys() {
        let sizes =
            |keys: &[usize]| -> Vec<usize> { batches(keys, |keys| *keys).map(<[usize]>::len).collect() };
        assert_eq!(sizes(&[]), []);
        assert_eq!(sizes(&[3; 150]), [64, 64, 22]);
        assert_eq!(sizes(&[64; 7]), [3, 3, 1]);
        assert_eq!(sizes(&[3, 1000, 3, 3]), [1, 1, 2]);
    }

    #[test]
    fn keys_come_before_arguments() {
        let (names, second) = ("a".into(), Duration::from_secs(1));
        let waiter = Waiter {
            number: 7,
            ticket: 99,
            comes_within: second,
            only: None,
            reads: false,
        };
        let words = |request: &Request| -> Vec<String> {
            let texts = request.words().into_iter().map(String::from_utf8);
            texts.collect::<Result<_, _>>().expect("text")
        };
        let mut call = Acquire {
            names: &names,
            kind: HoldKind::Plain,
            owner: "me:1",
            count: 1,
            lease: second,
            tokens: FencingToken(5).block(),
            fencing: Fencing::Proposed,
            precedence: Precedence::Queued(waiter),
        };
        let said = words(&acquire(&call, Evidence::Clock));
        let own = [
            "5",
            "a",
            "multilock_revoked:{a}",
            "multilock_deadlines:{a}",
            "multilock_fence:{a}",
            "multilock_queue:{a}",
        ];
        assert_eq!(said[2..8], own);
        let told = ["me:1", "1", "1000", "0", "7:1000", "99", "5", "68", "0"];
        assert_eq!(said[8..], told);
        call.precedence = Precedence::Tried;
        call.tokens = FencingToken::NONE.block();
        let said = words(&acquire(&call, Evidence::ClockAndRecord));
        assert_eq!(said[3..8], own[1..]);
        assert_eq!(said[8], "multilock_set");
        let told = ["me:1", "1", "1000", "1", "", "9007199254740991"];
        assert_eq!(said[9..], told);
        call.kind = HoldKind::Read;
        let said = words(&acquire(&call, Evidence::Clock));
        assert_eq!(said[7..9], ["multilock_queue:{a}", "multilock_readers:{a}"]);
        assert_eq!(said.last().map(String::as_str), Some("r"));
    }
}
