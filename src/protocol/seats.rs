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

/// Seats that most of some sets have; none if the sets are empty.
pub(crate) fn most_named(sets: &[SeatSet]) -> Vec<u8> {
    let named = |seat: u8| sets.iter().filter(|set| set.contains(seat)).count();
    let most = (1..=MOST_PERMITS).map(named).max().unwrap_or(0).max(1);
    (1..=MOST_PERMITS).filter(|seat| named(*seat) == most).collect()
}

fn bit(seat: u8) -> u64 {
    1 << (u32::from(seat.max(1)) - 1).min(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seats_of_most_sets() {
        let sets = ["1 2 3", "3 5", "2 3 5"].map(|text| SeatSet::parse(text).expect("seats"));
        assert_eq!(most_named(&sets), [3]);
        assert_eq!(most_named(&sets[..1]), [1, 2, 3]);
        assert!(most_named(&[SeatSet::default()]).is_empty());
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
