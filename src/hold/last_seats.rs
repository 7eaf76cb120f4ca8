//! Seats that a client has given up last: it asks for one of them first, because other clients prefer their own.

use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::Mutex;

use crate::hold::grant::Grant;
use crate::protocol::kind::{HoldKind, seat_of_pool};
use crate::protocol::seats::SeatSet;

/// For a permit, the pool and the number of its seat.
pub(crate) fn seat_of(grant: &Grant) -> Option<(&str, u8)> {
    if grant.granted != HoldKind::Permit {
        return None;
    }
    let seat = grant.names.iter().next()?;
    seat_of_pool(seat)
}

/// Number of sets. Names may share a set: a seat of another name costs a question, at most.
const SETS: usize = 64;

/// Seats by their pools.
pub(crate) struct LastSeats(Mutex<[SeatSet; SETS]>);

impl Default for LastSeats {
    fn default() -> Self {
        Self(Mutex::new([SeatSet::default(); SETS]))
    }
}

impl LastSeats {
    /// Notes a seat that was given up.
    pub(crate) fn given_up(&self, name: &str, seat: u8) {
        self.with(name, |seats| seats.insert(seat));
    }

    /// Takes a seat, of as many as there are permits.
    pub(crate) fn take(&self, name: &str, permits: u8) -> Option<u8> {
        self.with(name, |seats| {
            let seat = seats.iter().find(|seat| *seat <= permits)?;
            seats.remove(seat);
            Some(seat)
        })
    }

    fn with<T>(&self, name: &str, change: impl FnOnce(&mut SeatSet) -> T) -> T {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let index = hasher.finish() % SETS as u64;
        let mut sets = self.0.lock();
        change(&mut sets[usize::try_from(index).unwrap_or(0)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_that_was_given_up_is_taken_once() {
        let seats = LastSeats::default();
        assert_eq!(seats.take("gpu", 4), None);
        seats.given_up("gpu", 7);
        seats.given_up("gpu", 2);
        assert_eq!((seats.take("gpu", 4), seats.take("gpu", 4)), (Some(2), None));
        assert_eq!(seats.take("gpu", 8), Some(7));
    }
}
