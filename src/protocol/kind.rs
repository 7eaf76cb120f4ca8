//! Kinds of locks, and their differences on the masters.

use std::fmt;

use crate::protocol::keys::{Key, channel, fair_channels, read_write_channel};

/// Kind of a hold, which decides whether other holds may exist beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum HoldKind {
    /// One owner, as for a lock of Redisson's.
    #[default]
    Plain,
    /// One owner, of a read/write lock.
    Write,
    /// Any number of owners, of a read/write lock.
    Read,
    /// One owner, of a seat of a name with permits. Such names are the seats; all seats have one queue.
    Permit,
}

/// Behind a name with permits: the pool of its seats. A seat is the pool, a colon and a number (`lua/permits.lua`).
const POOL: &str = ":seat";

impl HoldKind {
    /// Word of the scripts for the kind; none for a plain lock.
    pub(crate) fn mode(self) -> Option<&'static str> {
        match self {
            Self::Plain | Self::Permit => None,
            Self::Write => Some("w"),
            Self::Read => Some("r"),
        }
    }

    /// Whether the kind has the layout of a read/write lock.
    pub(crate) fn is_read_write(self) -> bool {
        matches!(self, Self::Write | Self::Read)
    }

    /// Whether many owners have a lock of the kind at once.
    pub(crate) fn is_shared(self) -> bool {
        self == Self::Read
    }

    /// Name whose queue the waiters for `name` are in.
    pub(crate) fn queued_under(self, name: &str) -> &str {
        if self != Self::Permit {
            return name;
        }
        seat_of_pool(name).map_or(name, |(pool, _)| pool)
    }

    /// Channel on which the release is announced to clients of Redisson's.
    pub(crate) fn channel(self, name: &str) -> Key<'_> {
        if self.is_read_write() {
            read_write_channel(name)
        } else {
            channel(name)
        }
    }

    /// Pattern of the channels on which the release is announced to waiters of Redisson's fair lock; no such lock
    /// reads or writes.
    pub(crate) fn fair_channels(self, name: &str) -> Option<String> {
        (self == Self::Plain).then(|| fair_channels(name))
    }

    /// Whether an owner may enter again with the kind `other`: an owner that writes may read, too.
    pub(crate) fn includes(self, other: Self) -> bool {
        self == other || self == Self::Write && other == Self::Read
    }
}

/// Pool of the seats of a name with permits. Its queue is not that of a lock of the name.
pub(crate) fn pool(name: &str) -> String {
    format!("{name}{POOL}")
}

/// Name with permits that has this pool of seats.
pub(crate) fn name_of_pool(pool: &str) -> &str {
    pool.strip_suffix(POOL).unwrap_or(pool)
}

/// Seat of a pool, as a name of its own.
pub(crate) fn seat(pool: &str, number: u8) -> String {
    format!("{pool}:{number}")
}

/// Pool of a seat, and its number.
pub(crate) fn seat_of_pool(seat: &str) -> Option<(&str, u8)> {
    let (pool, number) = seat.rsplit_once(':')?;
    pool.ends_with(POOL).then_some((pool, number.parse().ok()?))
}

/// Number of a seat, by its name.
pub(crate) fn seat_number(seat: &str) -> Option<u8> {
    seat_of_pool(seat).map(|(_, number)| number)
}

impl fmt::Display for HoldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "a plain lock",
            Self::Write => ".write()",
            Self::Read => ".read()",
            Self::Permit => "a permit",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_layout() {
        let words = [HoldKind::Plain, HoldKind::Write, HoldKind::Read]
            .map(|kind| (kind.mode(), kind.is_shared(), kind.channel("a").text()));
        let read_write = "redisson_rwlock:{a}".to_owned();
        assert_eq!(
            words,
            [
                (None, false, "redisson_lock__channel:{a}".into()),
                (Some("w"), false, read_write.clone()),
                (Some("r"), true, read_write),
            ]
        );
    }

    #[test]
    fn a_seat_is_a_name_and_queued_under_its_pool() {
        let third = seat(&pool("gpu:seat:9"), 3);
        assert_eq!(
            (third.as_str(), seat_number(&third)),
            ("gpu:seat:9:seat:3", Some(3))
        );
        assert_eq!(HoldKind::Permit.queued_under(&third), "gpu:seat:9:seat");
        assert_eq!(HoldKind::Plain.queued_under(&third), third);
        assert!(!HoldKind::Permit.is_read_write() && !HoldKind::Permit.includes(HoldKind::Plain));
        assert_eq!(seat_number("gpu"), None);
        let script = include_str!("../../lua/permits.lua");
        assert!(script.contains("'^(.*:seat):%d+$'") && script.contains("pool .. ':' .. n"));
    }

    #[test]
    fn who_writes_may_read() {
        assert!(HoldKind::Write.includes(HoldKind::Read) && !HoldKind::Read.includes(HoldKind::Write));
        assert!(!HoldKind::Plain.includes(HoldKind::Read) && !HoldKind::Write.includes(HoldKind::Plain));
    }
}
