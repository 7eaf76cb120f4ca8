//! What a master keeps of a name, as the properties look at it.

use std::time::Duration;

use multilock::sim::Master;

use crate::guard::LockKind;
use crate::history::{Reader, Stored, shortened};
use crate::world::clock_us;

/// What may be off in a time that a master tells in whole milliseconds.
const ROUNDED: Duration = Duration::from_millis(1);

/// The field beside a read/write lock's owners.
const MODE: &str = "mode";

/// The owner fields under a name, as they are stored.
pub(crate) fn owner_fields(master: &Master, name: &str) -> Vec<String> {
    let fields = master.fields(name).into_iter().step_by(2);
    fields.filter(|field| field != MODE).collect()
}

/// The same in the form in which the crate shows them.
pub(crate) fn owners(master: &Master, name: &str) -> Vec<String> {
    let fields = owner_fields(master, name);
    fields.iter().map(|field| shortened(field)).collect()
}

pub(crate) fn mode(master: &Master, name: &str) -> Option<String> {
    let mode = master.command(&["HGET", name, MODE]).ok()?;
    mode.into_iter().next().filter(|mode| !mode.is_empty())
}

/// The readers that stand beside a name, each with how long its lease lasts from now, and its time-out key.
fn readers(master: &Master, name: &str) -> Vec<(String, Duration, Duration)> {
    let key = format!("multilock_readers:{{{name}}}");
    let listed = master.command(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]);
    let (listed, now) = (listed.unwrap_or_default(), clock_us(master) / 1000);
    let reader = |pair: &[String]| {
        let ends: u64 = pair[1].split('.').next()?.parse().ok()?;
        let timeout = master.time_left(&format!("{{{name}}}:{}:rwlock_timeout:1", pair[0]));
        let left = Duration::from_millis(ends.saturating_sub(now));
        Some((pair[0].clone(), left, timeout.unwrap_or_default()))
    };
    listed.chunks_exact(2).filter_map(reader).collect()
}

/// Those that stand in the queue for a name.
pub(crate) fn waiters(master: &Master, name: &str) -> Vec<String> {
    let queue = format!("multilock_queue:{{{name}}}");
    master.command(&["ZRANGE", &queue, "0", "-1"]).unwrap_or_default()
}

/// All of a name at the moment, `now` since the run began.
pub(crate) fn stored(master: &Master, name: &str, now: Duration) -> Stored {
    let fence = master.command(&["GET", &format!("multilock_fence:{{{name}}}")]);
    let fields = master.fields(name);
    let mut pairs = fields.chunks_exact(2);
    let mode = pairs.find(|pair| pair[0] == MODE).map(|pair| pair[1].clone());
    let owners = fields.iter().step_by(2).filter(|field| *field != MODE);
    let readers = if mode.is_some() {
        readers(master, name)
    } else {
        Vec::new()
    };
    let readers = readers.into_iter().map(|(field, left, timeout)| Reader {
        owner: shortened(&field),
        ends: now + left,
        timeout: now + timeout,
    });
    Stored {
        name: name.to_owned(),
        owners: owners.map(|field| shortened(field)).collect(),
        mode,
        readers: readers.collect(),
        ends: master.time_left(name).map(|left| now + left),
        fence: fence.ok().and_then(|digits| digits.first()?.parse().ok()),
    }
}

/// Whether a master keeps a name for a hold of so much validity, and keeps out whom it has to.
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
        .any(|reader| reader.owner == owner && lasts(reader.ends) && lasts(reader.timeout));
    let mode_is_right = match (kind, stored.mode.as_deref()) {
        (LockKind::Plain, None) | (LockKind::Write, Some("write")) => true,
        (LockKind::Read, Some("read")) => reads,
        // One that has not heard of a downgrade is only stricter.
        (LockKind::Read, Some("write")) => was == LockKind::Write,
        _ => false,
    };
    is_there && mode_is_right
}

/// What stands beside the names for readers, as `(key, owner)`.
pub(crate) fn beside(master: &Master, names: &[&str]) -> Vec<(String, String)> {
    let of_name = |name: &&str| {
        let readers = readers(master, name).into_iter();
        let listed = readers.map(|(field, ..)| (format!("multilock_readers:{{{name}}}"), shortened(&field)));
        let (before, behind) = (format!("{{{name}}}:"), ":rwlock_timeout:1");
        let timeout = move |key: String| {
            let field = key.strip_prefix(&before)?.strip_suffix(behind)?;
            let owner = shortened(field);
            Some((key, owner))
        };
        listed
            .chain(master.keys().into_iter().filter_map(timeout))
            .collect::<Vec<_>>()
    };
    names.iter().flat_map(of_name).collect()
}
