//! The votes on one hold, kept small: a process may hold very many, and nearly all of their masters
//! granted.

use crate::votes::Vote;

/// A set of masters by their places in the pool, of which there are at most 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSet(u64);

impl NodeSet {
    /// Those whose vote passes.
    pub(crate) fn of(votes: &[Vote], passes: impl Fn(&Vote) -> bool) -> Self {
        let mut places = Self::default();
        for (place, _) in votes.iter().enumerate().filter(|(_, vote)| passes(vote)) {
            places.insert(place);
        }
        places
    }

    pub(crate) fn insert(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    fn remove(&mut self, place: usize) {
        self.0 &= !(1 << place);
    }

    pub(crate) fn contains(self, place: usize) -> bool {
        self.0 & (1 << place) != 0
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |place| self.contains(*place))
    }
}

/// What every master answered last.
#[derive(Debug)]
pub(crate) struct VoteRecord {
    nodes: u8,
    granted: NodeSet,
    /// What the others answered; nothing here for those that were not waited for.
    #[allow(clippy::box_collection, reason = "a third of the size where there is none")]
    others: Option<Box<Vec<(u8, Vote)>>>,
}

impl VoteRecord {
    pub(crate) fn new(votes: Vec<Vote>) -> Self {
        let mut record = Self {
            nodes: narrow(votes.len()),
            granted: NodeSet::default(),
            others: None,
        };
        for (place, vote) in votes.into_iter().enumerate() {
            record.set(place, vote);
        }
        record
    }

    pub(crate) fn set(&mut self, place: usize, vote: Vote) {
        if let Some(others) = &mut self.others {
            others.retain(|(other, _)| usize::from(*other) != place);
            if others.is_empty() {
                self.others = None;
            }
        }
        self.granted.remove(place);
        match vote {
            Vote::Granted => self.granted.insert(place),
            Vote::Pending => {}
            vote => self.others.get_or_insert_default().push((narrow(place), vote)),
        }
    }

    pub(crate) fn to_vec(&self) -> Vec<Vote> {
        let other = |place: u8| {
            let found = self.others.iter().flat_map(|others| others.iter());
            let vote = found
                .filter(|(other, _)| *other == place)
                .map(|(_, vote)| vote)
                .next();
            vote.cloned().unwrap_or(Vote::Pending)
        };
        (0..self.nodes)
            .map(|place| {
                if self.granted.contains(usize::from(place)) {
                    Vote::Granted
                } else {
                    other(place)
                }
            })
            .collect()
    }
}

/// A place or a number of masters, which configurations keep to 64.
fn narrow(place: usize) -> u8 {
    u8::try_from(place).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_vote() -> impl Strategy<Value = Vote> {
        prop_oneof![
            3 => Just(Vote::Granted),
            1 => Just(Vote::Pending),
            1 => Just(Vote::NotHeld),
            1 => Just(Vote::Unknown { reason: "cut".into() }),
        ]
    }

    proptest! {
        #[test]
        fn says_what_a_list_of_votes_would(
            mut votes in prop::collection::vec(any_vote(), 1..=64),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any_vote()), 0..50),
        ) {
            let mut record = VoteRecord::new(votes.clone());
            for (place, vote) in changes {
                let place = place.index(votes.len());
                record.set(place, vote.clone());
                votes[place] = vote;
                prop_assert_eq!(&record.to_vec(), &votes);
            }
            let granted = NodeSet::of(&votes, |vote| *vote == Vote::Granted);
            for (place, vote) in votes.iter().enumerate() {
                prop_assert_eq!(granted.contains(place), *vote == Vote::Granted);
            }
        }
    }
}
