//! Seats of a name with permits.

/// Most permits of a name: a set of seats fits into a word, and a script looks at each seat.
pub(crate) const MOST_PERMITS: u8 = 64;

/// Some of the seats of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeatSet(u64);

impl SeatSet {
    /// Parses numbers with spaces between them, as `lua/permit.lua` gives them.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut seats = Self::default();
        for number in text.split_ascii_whitespace() {
            seats.insert(
                number
                    .parse()
                    .ok()
                    .filter(|number| (1..=MOST_PERMITS).contains(number))?,
            );
        }
        Some(seats)
    }

    pub(crate) fn insert(&mut self, seat: u8) {
        self.0 |= bit(seat);
    }

    pub(crate) fn remove(&mut self, seat: u8) {
        self.0 &= !bit(seat);
    }

    pub(crate) fn contains(self, seat: u8) -> bool {
        self.0 & bit(seat) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u8> {
        (1..=MOST_PERMITS).filter(move |seat| self.contains(*seat))
    }
}

/// Free seats of each master, as far as its answers in one try for any seat have shown them.
pub(crate) struct FreeSeats(Vec<Option<SeatSet>>);

impl FreeSeats {
    pub(crate) fn unknown(nodes: usize) -> Self {
        Self(vec![None; nodes])
    }

    /// Notes the seats that a master would give.
    pub(crate) fn refused(&mut self, node: usize, open: SeatSet) {
        self.0[node] = Some(open);
    }

    /// Notes that a master gave a seat. Its other free seats stay unknown if they were.
    pub(crate) fn granted(&mut self, node: usize, seat: u8) {
        if let Some(open) = &mut self.0[node] {
            open.insert(seat);
        }
    }

    /// Seats that most masters would give, of those that a quorum may give. A master with unknown seats may give any.
    pub(crate) fn most_named(&self, needed: usize) -> Vec<u8> {
        let known = || self.0.iter().flatten();
        let unknown = self.0.len() - known().count();
        let named = |seat: u8| known().filter(|open| open.contains(seat)).count();
        let most = (1..=MOST_PERMITS).map(named).max().unwrap_or(0).max(1);
        if most + unknown < needed {
            return Vec::new();
        }
        (1..=MOST_PERMITS).filter(|seat| named(*seat) == most).collect()
    }
}

fn bit(seat: u8) -> u64 {
    1 << (u32::from(seat.max(1)) - 1).min(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_has_the_same_bound() {
        let script = include_str!("../../lua/permits.lua");
        assert!(script.contains(&format!("or 0, {MOST_PERMITS})")));
    }

    #[test]
    fn the_seats_of_most_masters_are_those_that_a_quorum_may_give() {
        let seats = |text| SeatSet::parse(text).expect("seats");
        let mut free = FreeSeats::unknown(3);
        free.refused(0, seats("1 2 3"));
        assert_eq!(free.most_named(2), [1, 2, 3], "the others may have them");
        free.refused(1, seats("3 5"));
        free.refused(2, seats("2 3 5"));
        assert_eq!((free.most_named(3), free.most_named(2)), (vec![3], vec![3]));
        free.refused(0, seats("1"));
        free.refused(1, seats("2"));
        free.refused(2, seats(""));
        assert!(free.most_named(2).is_empty(), "no seat is free on two");
        free.granted(2, 1);
        assert_eq!(free.most_named(2), [1]);
        let mut full = FreeSeats::unknown(1);
        full.refused(0, seats(""));
        assert!(full.most_named(1).is_empty());
    }

    #[test]
    fn seats_are_counted_from_1_to_64() {
        let mut seats = SeatSet::parse("1 7 64").expect("three seats");
        assert_eq!(seats.iter().collect::<Vec<_>>(), [1, 7, 64]);
        seats.remove(7);
        assert!(!seats.contains(7) && seats.contains(64) && !seats.is_empty());
        assert_eq!(SeatSet::parse(""), Some(SeatSet::default()));
        for odd in ["0", "65", "x", "-1"] {
            assert_eq!(SeatSet::parse(odd), None, "{odd}");
        }
    }
}
