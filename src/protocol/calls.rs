//! The Lua files, and the requests that run them.

use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::events::Op;
use crate::protocol::claim::Claim;
use crate::protocol::command::{Encoder, Request, Script};
use crate::protocol::job_mark::JobMark;
use crate::protocol::keys::{
    self, Key, Listed, SET, deadlines, fence, queue, readers_queue, revocation_mark,
};
use crate::protocol::kind::HoldKind;
use crate::protocol::record::HIDDEN;
use crate::protocol::waiter::{Precedence, Waiter};
use crate::values::master_set::MasterSet;
use crate::values::names::Names;
use crate::values::token::Block;

macro_rules! script {
    ($constant:ident, $op:ident, $file:literal $(, after $shared:literal)*) => {
        static $constant: Script = Script::new(
            Op::$op,
            $file,
            concat!(
                $(include_str!(concat!("../../lua/", $shared, ".lua")), "\n",)*
                include_str!(concat!("../../lua/", $file, ".lua"))
            ),
            || redis::Script::new($constant.source).get_hash().to_owned(),
        );
    };
}

script!(ACQUIRE, Acquire, "acquire", after "fences", after "look", after "joining", after "captions", after "labels", after "queue", after "readers", after "fencing");
script!(EXTEND, Extend, "extend", after "forces", after "captions", after "queue", after "permits", after "readers", after "fences", after "fencing");
script!(RELEASE, Release, "release", after "unawaited", after "captions", after "announce", after "queue", after "permits", after "readers");
script!(DOWNGRADE, Downgrade, "downgrade", after "queue", after "readers");
script!(RETAIN, Retain, "retain", after "captions", after "queue");
script!(WITHDRAW, Withdraw, "withdraw", after "queue", after "permits", after "readers");
script!(INSPECT, Inspect, "inspect", after "forces", after "captions", after "labels");
script!(FORCE, Force, "force", after "forces", after "captions", after "announce", after "queue", after "permits", after "readers");
script!(INTRODUCE, Introduce, "introduce");
script!(LABEL, Label, "label");
script!(ACQUIRE_ONCE, Acquire, "acquire", after "done", after "fences", after "look", after "joining", after "captions", after "labels", after "queue", after "readers", after "fencing");
script!(ACQUIRE_PERMIT, Acquire, "acquire", after "captions", after "labels", after "queue", after "permits", after "readers", after "permit", after "fences", after "look", after "joining", after "fencing");
script!(LIST, Inspect, "list");
script!(MARK, Mark, "mark", after "marks");
script!(FINISH, Mark, "release", after "captions", after "announce", after "queue", after "permits", after "readers", after "marks", after "finish");

/// All scripts that a client loads when it sets a connection up. Scripts of permits, of jobs that are done once, and
/// of lists are loaded when they are used first.
pub(crate) static ALL: [&Script; 10] = [
    &ACQUIRE, &EXTEND, &RELEASE, &DOWNGRADE, &RETAIN, &WITHDRAW, &INSPECT, &FORCE, &INTRODUCE, &LABEL,
];

/// Most keys in one script call for many holds. A server takes a few microseconds for a key. So other clients
/// wait for a millisecond, or for a few if the server shares its processor.
pub(crate) const BATCH: usize = 192;

/// Splits holds into batches, one for each call, of at most [`BATCH`] keys. A hold with more keys has a call
/// of its own.
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

/// Keys of the readers of each name; none for a plain lock.
fn readers(kind: HoldKind, names: &Names) -> impl ExactSizeIterator<Item = Key<'_>> {
    let wanted = if kind.is_read_write() { names.len() } else { 0 };
    names.iter().take(wanted).map(keys::readers)
}

/// Treatment of a fencing token by masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fencing {
    /// The token is new, and must be above every fence.
    Proposed,
    /// A quorum has accepted the token before, and the master stores it.
    Declared,
}

/// Arguments of `lua/acquire.lua`, for a new hold or for a hold that a master forgot.
pub(crate) struct Acquire<'a> {
    pub(crate) names: &'a Names,
    pub(crate) kind: HoldKind,
    pub(crate) field: &'a str,
    pub(crate) count: u64,
    pub(crate) lease: Duration,
    pub(crate) tokens: Block,
    pub(crate) fencing: Fencing,
    pub(crate) precedence: Precedence,
    /// Text of the hold's caption, if it has one.
    pub(crate) about: Option<&'a str>,
    /// For a job that is to be done once: the time for which it is not to be begun again.
    pub(crate) once: Option<Duration>,
    /// For a seat of a name with permits: their number.
    pub(crate) permits: Option<u8>,
}

/// Packs a call of `lua/acquire.lua`. If it is `strict`, each grant repeats the master's record, which shows when the memory
/// was wiped.
pub(crate) fn acquire(acquire: &Acquire<'_>, strict: bool) -> Arc<Request> {
    let Acquire {
        names, kind, field, ..
    } = *acquire;
    let readers = readers(kind, names);
    let first = || names.iter().next();
    let job = acquire.once.and_then(|keep| Some((keep, first()?)));
    let seats = acquire
        .permits
        .and_then(|permits| Some((permits, kind.queued_under(first()?))));
    let (script, apart) = match (&job, &seats) {
        (Some(_), _) => (&ACQUIRE_ONCE, 1),
        (_, Some(_)) => (&ACQUIRE_PERMIT, 1),
        _ => (&ACQUIRE, 0),
    };
    let keys = 4 * names.len() + readers.len() + usize::from(strict) + apart;
    let mut call = Encoder::new(script, keys, once(names));
    for name in names.iter() {
        call.word(name);
        call.keys([revocation_mark(name), deadlines(name)]);
    }
    // Fences are sent without a token, too: a master on which a name has a fence refuses a call without a token.
    call.keys(names.iter().map(fence));
    call.keys(readers);
    call.words(strict.then_some(SET));
    call.keys(job.map(|(_, name)| keys::done(name)));
    call.keys(seats.map(|(_, name)| deadlines(name)));
    call.word(field);
    call.ms(acquire.lease);
    let options = [
        kind.mode(),
        (acquire.fencing == Fencing::Declared).then_some("d"),
        strict.then_some("m"),
    ];
    let is_large = acquire.fencing == Fencing::Proposed && acquire.tokens.size() > Block::SIZE;
    // The count, the ticket, the waiter and the text follow.
    let has_place = acquire.count != 1
        || acquire.precedence != Precedence::Tried
        || acquire.about.is_some()
        || seats.is_some();
    let has_options = has_place || is_large || options != [None; 3];
    if acquire.tokens.is_none() {
        call.words(has_options.then_some(""));
    } else {
        call.number(acquire.tokens.last.get());
    }
    if has_options {
        let options = options.map(Option::unwrap_or_default).concat();
        if is_large {
            call.word(&format!("{options}{}", acquire.tokens.size()));
        } else {
            call.word(&options);
        }
    }
    if has_place {
        call.number(acquire.count);
        call.number(acquire.precedence.ticket());
        let waiter = acquire.precedence.waiter().map(|waiter| waiter.placed());
        call.words(
            waiter
                .as_deref()
                .or((acquire.about.is_some() || seats.is_some()).then_some("")),
        );
        call.words(acquire.about);
    }
    seats.inspect(|(permits, _)| call.number(u64::from(*permits)));
    job.inspect(|(keep, _)| call.ms(*keep));
    call.done()
}

/// Packs a call of `lua/mark.lua`: the job of a name is done, by the hold with this owner field if it is known.
pub(crate) fn mark(names: &Names, mark: &JobMark, field: Option<&str>) -> Arc<Request> {
    marking(names, mark, field).done()
}

/// Packs a call of `lua/mark.lua` that stores the mark only where the job has one.
pub(crate) fn confirm(names: &Names, mark: &JobMark) -> Arc<Request> {
    let mut call = marking(names, mark, None);
    call.word("confirm");
    call.done()
}

fn marking(names: &Names, mark: &JobMark, field: Option<&str>) -> Encoder {
    let mut call = Encoder::new(&MARK, 2 * names.len(), once(names));
    call.keys(names.iter().map(keys::done));
    for name in names.iter() {
        call.word(name);
    }
    mark_words(&mut call, mark);
    call.word(field.unwrap_or_default());
    call
}

/// Packs a call of `lua/mark.lua`: the marks of a job that was done before `at_ms` are forgotten.
pub(crate) fn forget(names: &Names, at_ms: u64) -> Arc<Request> {
    let mut call = Encoder::new(&MARK, names.len(), once(names));
    call.keys(names.iter().map(keys::done));
    call.number(at_ms);
    call.done()
}

fn mark_words(call: &mut Encoder, mark: &JobMark) {
    call.number(mark.at_ms);
    call.ms(mark.keep);
    call.word(&mark.label);
}

/// One hold's part of a call of `lua/extend.lua`.
pub(crate) struct Renewal<'a> {
    pub(crate) names: &'a Names,
    pub(crate) kind: HoldKind,
    pub(crate) field: String,
    pub(crate) count: u64,
    pub(crate) lease: Duration,
    pub(crate) tokens: Block,
}

/// Number of keys of a hold in `lua/extend.lua`.
pub(crate) fn extended_keys(names: &Names, kind: HoldKind, tokens: Block) -> usize {
    let each = if tokens.is_none() { 2 } else { 3 } + if kind.is_shared() { 3 } else { 0 };
    names.len() * each
}

/// Packs a call of `lua/extend.lua`, for any number of holds. `strict` as in [`acquire`].
pub(crate) fn extend(renewals: &[Renewal<'_>], fencing: Fencing, strict: bool) -> Arc<Request> {
    let keys = |renewal: &Renewal<'_>| extended_keys(renewal.names, renewal.kind, renewal.tokens);
    let keys = renewals.iter().map(keys).sum::<usize>() + usize::from(strict);
    let mut call = Encoder::new(&EXTEND, keys, renewals.iter().map(|renewal| renewal.names));
    for renewal in renewals {
        for name in renewal.names.iter() {
            call.word(name);
            call.keys([revocation_mark(name)]);
        }
        if !renewal.tokens.is_none() {
            call.keys(renewal.names.iter().map(fence));
        }
        if renewal.kind.is_shared() {
            for name in renewal.names.iter() {
                call.keys([keys::readers(name), queue(name), deadlines(name)]);
            }
        }
    }
    call.words(strict.then_some(SET));
    call.flag(strict);
    for renewal in renewals {
        call.word(&renewal.field);
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

/// Number of keys of a hold in `lua/release.lua`.
pub(crate) fn released_keys(claim: &Claim) -> usize {
    2 * claim.names.len() + readers(claim.kind, &claim.names).len()
}

/// Word by which `lua/release.lua` knows a read/write lock, whether it was read or written.
const READ_WRITE: &str = "rw";

/// Packs a call of `lua/release.lua`, for one hold. `here` is a waiter that needs no call, and whether it
/// asks at once.
pub(crate) fn release(claim: &Claim, here: Option<(Waiter, bool)>) -> Arc<Request> {
    let mut call = Encoder::new(&RELEASE, released_keys(claim), once(&claim.names));
    keys_to_release(&mut call, claim);
    arguments_to_release(&mut call, claim);
    if let Some((waiter, asks)) = here {
        call.word(&waiter.placed());
        call.number(waiter.ticket);
        call.words(asks.then_some("1"));
    }
    call.done()
}

/// Packs a call of `lua/finish.lua` and `lua/release.lua`: the job of a hold is done, and the hold is released.
pub(crate) fn finish(claim: &Claim, mark: &JobMark) -> Arc<Request> {
    let names = &claim.names;
    let mut call = Encoder::new(&FINISH, released_keys(claim) + names.len(), once(names));
    keys_to_release(&mut call, claim);
    call.keys(names.iter().map(keys::done));
    arguments_to_release(&mut call, claim);
    mark_words(&mut call, mark);
    call.done()
}

/// Adds the arguments of the release of one hold.
fn arguments_to_release(call: &mut Encoder, claim: &Claim) {
    call.words(claim.kind.is_read_write().then_some(READ_WRITE));
    call.word(&claim.field.text());
    announcement(call, claim);
}

/// Packs a call of `lua/release.lua`, for any number of holds.
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
        call.number(claim.names.len() as u64);
        call.word(if claim.kind.is_read_write() {
            READ_WRITE
        } else {
            ""
        });
        announcement(&mut call, claim);
    }
    call.done()
}

/// Packs a call of `lua/downgrade.lua`: a hold that writes becomes a hold that reads.
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

/// Packs a call of `lua/retain.lua`: the names of a hold stay locked for `rest`.
pub(crate) fn retain(claim: &Claim, rest: Duration) -> Arc<Request> {
    let mut call = Encoder::new(&RETAIN, 3 * claim.names.len(), once(&claim.names));
    queues(&mut call, claim.kind, &claim.names);
    call.word(&claim.field.text());
    call.ms(rest);
    call.done()
}

/// Word before the channels in a call of `lua/release.lua`.
const ANNOUNCE: &str = "announce";

/// Writes the channels on which clients of Redisson's wait for a release, if it is announced to them.
fn announcement(call: &mut Encoder, claim: &Claim) {
    if claim.beside_redisson {
        call.word(ANNOUNCE);
        call.keys(claim.names.iter().map(|name| claim.kind.channel(name)));
    }
}

fn keys_to_release(call: &mut Encoder, claim: &Claim) {
    for name in claim.names.iter() {
        call.word(name);
        call.keys([deadlines(claim.kind.queued_under(name))]);
    }
    call.keys(readers(claim.kind, &claim.names));
}

/// Writes the names and, after each name, the keys of its queue.
fn queues(call: &mut Encoder, kind: HoldKind, names: &Names) {
    for name in names.iter() {
        call.word(name);
        let name = kind.queued_under(name);
        call.keys([queue(name), deadlines(name)]);
    }
}

/// Packs a call of `lua/withdraw.lua`, for a waiter as the masters store it.
pub(crate) fn withdraw(names: &Names, client: Uuid, waiter: &str) -> Arc<Request> {
    let mut call = Encoder::new(&WITHDRAW, 3 * names.len(), once(names));
    queues(&mut call, HoldKind::Plain, names);
    call.word(&format!("{client}:{waiter}"));
    call.done()
}

/// Packs a call of `lua/inspect.lua`.
pub(crate) fn inspect(names: &Names, kind: HoldKind) -> Arc<Request> {
    let mut call = Encoder::new(&INSPECT, 5 * names.len(), once(names));
    for name in names.iter() {
        call.word(name);
        let queued_under = kind.queued_under(name);
        call.keys([
            queue(queued_under),
            readers_queue(queued_under),
            keys::readers(name),
            fence(name),
        ]);
    }
    call.done()
}

/// Packs a call of `lua/list.lua`: the keys that match a pattern, some at a time from `cursor` on.
pub(crate) fn list(cursor: &str, pattern: &str, of: Listed) -> Arc<Request> {
    let mut call = Encoder::new(&LIST, 0, std::iter::empty());
    call.words([cursor, pattern, of.type_of_key()]);
    call.done()
}

/// Packs a call of `lua/force.lua`, with the holders of each name that any master reported. A master does
/// nothing once its clock has passed `latest_us`. With `beside_redisson`, clients of Redisson's get a message.
pub(crate) fn force(
    names: &Names,
    kind: HoldKind,
    latest_us: u64,
    mark_lifetime: Duration,
    holders: &[Vec<Arc<str>>],
    (by, reason): (&str, &str),
    beside_redisson: bool,
) -> Arc<Request> {
    let mut call = Encoder::new(&FORCE, 5 * names.len(), once(names));
    for name in names.iter() {
        call.word(name);
        let queued_under = kind.queued_under(name);
        call.keys([
            revocation_mark(name),
            queue(queued_under),
            deadlines(queued_under),
            keys::readers(name),
        ]);
    }
    call.number(latest_us);
    call.ms(mark_lifetime);
    call.words([by, reason]);
    call.flag(beside_redisson);
    for name in names.iter().filter(|_| beside_redisson) {
        call.keys([HoldKind::Plain.channel(name), HoldKind::Write.channel(name)]);
    }
    for holders in holders {
        call.number(holders.len() as u64);
        call.words(holders.iter().map(AsRef::as_ref));
    }
    call.done()
}

/// Packs a call of `lua/introduce.lua`: the set of masters that the client lists, the run of the master's
/// server, and whether its memory counts from now on.
pub(crate) fn introduce(set: MasterSet, run: Option<&str>, anew: bool) -> Arc<Request> {
    let mut call = Encoder::new(&INTRODUCE, 1, std::iter::empty());
    call.word(SET);
    call.number(set.masters as u64);
    call.word(run.unwrap_or(HIDDEN));
    // A hidden run needs no flag: the memory counts from now on for every client that asks.
    call.flag(anew);
    if let Some(longest) = set.for_tests {
        call.ms(longest);
    }
    call.done()
}

/// Packs a call of `lua/label.lua`: a client's label, and the time for which the master stores it. `None`
/// deletes the label.
pub(crate) fn label(client: Uuid, stored: Option<(&str, Duration)>) -> Arc<Request> {
    let mut call = Encoder::new(&LABEL, 1, std::iter::empty());
    call.word(&keys::client(client));
    if let Some((label, kept)) = stored {
        call.word(label);
        call.ms(kept);
    }
    call.done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::field::{Field, Letters};
    use crate::protocol::waiter::WaiterKind;
    use crate::values::token::FencingToken;

    #[test]
    fn batches_are_bounded_by_keys() {
        let sizes =
            |keys: &[usize]| -> Vec<usize> { batches(keys, |keys| *keys).map(<[usize]>::len).collect() };
        assert_eq!(sizes(&[]), []);
        assert_eq!(sizes(&[3; 150]), [64, 64, 22]);
        assert_eq!(sizes(&[64; 7]), [3, 3, 1]);
        assert_eq!(sizes(&[3, 1000, 3, 3]), [1, 1, 2]);
    }

    fn words(request: &Request) -> Vec<String> {
        let texts = request.words().into_iter().map(String::from_utf8);
        texts.collect::<Result<_, _>>().expect("text")
    }

    fn waiter() -> Waiter {
        Waiter {
            number: 7,
            ticket: 99,
            comes_within: Duration::from_secs(1),
            only: None,
            kind: WaiterKind::Alone,
            at_first_master: false,
        }
    }

    #[test]
    fn a_release_names_channels_only_where_it_is_announced() {
        let mut claim = Claim {
            names: ["a", "b"].into(),
            field: Field {
                client: Uuid::nil(),
                number: 3,
                letters: Letters::default(),
            },
            kind: HoldKind::Plain,
            beside_redisson: false,
        };
        let owner = claim.field.text();
        let arguments = |claim: &Claim| words(&release(claim, Some((waiter(), false)))).split_off(7);
        assert_eq!(arguments(&claim), [&owner, "7:1000", "99"]);
        claim.beside_redisson = true;
        let channels = ["redisson_lock__channel:{a}", "redisson_lock__channel:{b}"];
        let expected = [&[&owner, "announce"][..], &channels, &["7:1000", "99"]].concat();
        assert_eq!(arguments(&claim), expected);
        let forced = |beside_redisson| {
            words(&force(
                &claim.names,
                HoldKind::Plain,
                5,
                Duration::ZERO,
                &[vec![], vec![]],
                ("ops", "why"),
                beside_redisson,
            ))
        };
        assert_eq!(forced(false)[13..], ["5", "0", "ops", "why", "0", "0", "0"]);
        assert_eq!(forced(true)[17..20], ["1", channels[0], "redisson_rwlock:{a}"]);
    }

    #[test]
    fn keys_come_before_arguments() {
        let (names, second) = ("a".into(), Duration::from_secs(1));
        let mut call = Acquire {
            names: &names,
            kind: HoldKind::Plain,
            field: "me:1",
            count: 1,
            lease: second,
            tokens: FencingToken(5).block(Block::SIZE),
            fencing: Fencing::Proposed,
            precedence: Precedence::Queued(waiter()),
            about: None,
            once: None,
            permits: None,
        };
        let said = words(&acquire(&call, false));
        let own = [
            "4",
            "a",
            "multilock_revoked:{a}",
            "multilock_deadlines:{a}",
            "multilock_fence:{a}",
        ];
        assert_eq!(said[2..7], own);
        assert_eq!(said[7..], ["me:1", "1000", "68", "", "1", "99", "7:1000"]);
        call.precedence = Precedence::Tried;
        assert_eq!(words(&acquire(&call, false))[7..], ["me:1", "1000", "68"]);
        // The size of a large block matters where the tokens are new.
        call.tokens = FencingToken(5).block(Block::MOST);
        let said = words(&acquire(&call, false));
        assert_eq!(said[7..], ["me:1", "1000", "4100", "4096"]);
        call.fencing = Fencing::Declared;
        assert_eq!(words(&acquire(&call, false))[9..], ["4100", "d"]);
        call.fencing = Fencing::Proposed;
        call.tokens = Block::NONE;
        assert_eq!(words(&acquire(&call, false))[7..], ["me:1", "1000"]);
        let said = words(&acquire(&call, true));
        assert_eq!(said[3..7], own[1..]);
        assert_eq!(said[7..], ["multilock_set", "me:1", "1000", "", "m"]);
        call.kind = HoldKind::Read;
        call.fencing = Fencing::Declared;
        call.count = 2;
        let said = words(&acquire(&call, false));
        assert_eq!(said[7], "multilock_readers:{a}");
        assert_eq!(said[8..], ["me:1", "1000", "", "rd", "2", "9007199254740991"]);
        call.about = Some("rows");
        let said = words(&acquire(&call, false));
        assert_eq!(said[12..], ["2", "9007199254740991", "", "rows"]);
        call.precedence = Precedence::Queued(waiter());
        let said = words(&acquire(&call, false));
        assert_eq!(said[12..], ["2", "99", "7:1000", "rows"]);
    }

    /// A server that a test has given other texts would not know those of the library.
    #[test]
    fn tests_have_the_scripts_of_the_library() {
        use multilock_test_support::scripts;
        assert_eq!(scripts::ACQUIRE, ACQUIRE.source);
        assert_eq!(scripts::EXTEND, EXTEND.source);
        assert_eq!(scripts::RELEASE, RELEASE.source);
        assert_eq!(scripts::DOWNGRADE, DOWNGRADE.source);
    }

    /// The scripts have these numbers and keys in their text.
    #[test]
    fn the_scripts_know_the_size_of_a_block() {
        let script = ACQUIRE.source;
        assert!(script.contains(&format!("a block of {}", Block::SIZE)));
        assert!(script.contains(&format!("local beyond_first = {}\n", Block::SIZE - 1)));
        assert!(script.contains(&format!("or {}) - 1", Block::SIZE)));
    }
}
