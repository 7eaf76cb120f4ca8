//! Data that a master keeps under a name, as the properties look at it.

use std::time::Duration;

use multilock::sim::Master;

use crate::guard::LockKind;
use crate::history::{Reader, Stored, shortened};
use crate::world::clock_us;

/// Largest error of a time that a master gives in whole milliseconds.
const ROUNDED: Duration = Duration::from_millis(1);

/// Fields beside the owners of a read/write lock: its mode, and the end of its last reader's lease.
const MODE: &str = "mode";
const READ_UNTIL: &str = "multilock";

/// Prefixes of the keys of a name's queues: the queue of waiters for a lock alone, and the queue of waiting readers.
pub(crate) const QUEUES: [&str; 2] = ["multilock_queue", "multilock_readers_queue"];

/// Whether a field of the hash stands for an owner.
fn is_owner(field: &str) -> bool {
    ![MODE, READ_UNTIL].contains(&field)
}

fn readers_key(name: &str) -> String {
    format!("multilock_readers:{{{name}}}")
}

/// Owner fields of a name in their stored form: the fields of its hash, and the fields of its readers, listed in a key
/// beside it.
pub(crate) fn owner_fields(master: &Master, name: &str) -> Vec<String> {
    let fields = master.fields(name).into_iter().step_by(2);
    let owners = fields.filter(|field| is_owner(field));
    let is_read = mode(master, name).as_deref() == Some("read");
    let readers = if is_read {
        readers(master, name)
    } else {
        Vec::new()
    };
    owners
        .chain(readers.into_iter().map(|(field, _)| field))
        .collect()
}

/// The same in the form in which the crate shows them.
pub(crate) fn owners(master: &Master, name: &str) -> Vec<String> {
    let fields = owner_fields(master, name);
    fields.iter().map(|field| shortened(field)).collect()
}

/// Mode of a name, read or write, under any holder's layout.
pub(crate) fn mode(master: &Master, name: &str) -> Option<String> {
    let field = |field| {
        let value = master.command(&["HGET", name, field]).ok()?;
        value.into_iter().next().filter(|value| !value.is_empty())
    };
    if field(READ_UNTIL).is_some() {
        return Some("read".into());
    }
    field(MODE)
}

/// Readers that stand beside a name, each with the rest of its lease.
fn readers(master: &Master, name: &str) -> Vec<(String, Duration)> {
    let listed = master.command(&["ZRANGE", &readers_key(name), "0", "-1", "WITHSCORES"]);
    let (listed, now) = (listed.unwrap_or_default(), clock_us(master) / 1000);
    let reader = |pair: &[String]| {
        let ends: u64 = pair[1].split('.').next()?.parse().ok()?;
        Some((pair[0].clone(), Duration::from_millis(ends.saturating_sub(now))))
    };
    listed.chunks_exact(2).filter_map(reader).collect()
}

/// The ticket with which a waiter stands in a queue for a name, if it does.
pub(crate) fn ticket(master: &Master, name: &str, waiter: &str) -> Option<u64> {
    QUEUES.iter().find_map(|prefix| {
        let score = master.command(&["ZSCORE", &format!("{prefix}:{{{name}}}"), waiter]);
        score.ok()?.first()?.split('.').next()?.parse().ok()
    })
}

/// Waiters in the queues for a name.
pub(crate) fn waiters(master: &Master, name: &str) -> Vec<String> {
    let in_queue = |prefix: &str| {
        let queue = format!("{prefix}:{{{name}}}");
        master.command(&["ZRANGE", &queue, "0", "-1"]).unwrap_or_default()
    };
    QUEUES.into_iter().flat_map(in_queue).collect()
}

/// All of a name at the moment, `now` since the run began.
pub(crate) fn stored(master: &Master, name: &str, now: Duration) -> Stored {
    let fence = master.command(&["GET", &format!("multilock_fence:{{{name}}}")]);
    let mode = mode(master, name);
    let readers = if mode.as_deref() == Some("read") {
        readers(master, name)
    } else {
        Vec::new()
    };
    let readers = readers.into_iter().map(|(field, left)| Reader {
        owner: shortened(&field),
        ends: now + left,
    });
    let fields = master.fields(name);
    let told = fields.chunks_exact(2).find(|pair| pair[0] == READ_UNTIL);
    let (told, clock) = (
        told.and_then(|pair| pair[1].parse::<u64>().ok()),
        clock_us(master) / 1000,
    );
    Stored {
        name: name.to_owned(),
        owners: owners(master, name),
        mode,
        readers: readers.collect(),
        readers_end: master.time_left(&readers_key(name)).map(|left| now + left),
        told: told.map(|until| now + Duration::from_millis(until.saturating_sub(clock))),
        ends: master.time_left(name).map(|left| now + left),
        fence: fence.ok().and_then(|digits| digits.first()?.parse().ok()),
    }
}

/// Whether a master keeps a name for the rest of a hold's validity, and excludes the clients that the hold has to
/// exclude.
pub(crate) fn covers(
    master: &Master,
    name: &str,
    owner: &str,
    kind: LockKind,
    was: LockKind,
    left: Duration,
) -> bool {
    let now = Duration::ZERO;
    let stored = stored(master, name, now);
    let lasts = |ends: Duration| ends + ROUNDED >= left;
    let is_there = stored.owners.iter().any(|other| other == owner) && stored.ends.is_some_and(lasts);
    let reads = stored
        .readers
        .iter()
        .any(|reader| reader.owner == owner && lasts(reader.ends));
    let mode_is_right = match (kind, stored.mode.as_deref()) {
        (LockKind::Plain, None) | (LockKind::Write, Some("write")) => true,
        (LockKind::Read, Some("read")) => reads,
        // A master that has missed a downgrade is only stricter.
        (LockKind::Read, Some("write")) => was == LockKind::Write,
        _ => false,
    };
    is_there && mode_is_right
}

/// Readers that stand beside names that are not read, as `(key, owner)`.
pub(crate) fn beside(master: &Master, names: &[&str]) -> Vec<(String, String)> {
    let unread = |name: &&&str| mode(master, name).as_deref() != Some("read");
    let listed = |name: &&str| {
        let readers = readers(master, name).into_iter();
        let key = readers_key(name);
        readers
            .map(|(field, _)| (key.clone(), shortened(&field)))
            .collect::<Vec<_>>()
    };
    names.iter().filter(unread).flat_map(listed).collect()
}
