//! Votes on one hold, stored compactly. A process may have very many holds, and nearly all of their masters
//! granted.

use crate::protocol::node_set::NodeSet;
use crate::values::votes::Vote;

/// Last vote of each master.
pub(crate) struct VoteRecord {
    nodes: u8,
    granted: NodeSet,
    not_asked: NodeSet,
    /// Votes of the other masters. A master without an entry was not awaited.
    #[allow(clippy::box_collection, reason = "a third of the size without any")]
    others: Option<Box<Vec<(u8, Vote)>>>,
}

impl VoteRecord {
    pub(crate) fn new(votes: Vec<Vote>) -> Self {
        let mut record = Self {
            nodes: narrow(votes.len()),
            granted: NodeSet::default(),
            not_asked: NodeSet::default(),
            others: None,
        };
        for (node, vote) in votes.into_iter().enumerate() {
            record.set(node, vote);
        }
        record
    }

    pub(crate) fn set(&mut self, node: usize, vote: Vote) {
        if let Some(others) = &mut self.others {
            others.retain(|(other, _)| usize::from(*other) != node);
            if others.is_empty() {
                self.others = None;
            }
        }
        self.granted.remove(node);
        self.not_asked.remove(node);
        match vote {
            Vote::Granted => self.granted.insert(node),
            Vote::NotAsked => self.not_asked.insert(node),
            Vote::Pending => {}
            vote => self.others.get_or_insert_default().push((narrow(node), vote)),
        }
    }

    pub(crate) fn nodes(&self) -> usize {
        usize::from(self.nodes)
    }

    /// Masters with another answer than a grant, or that were not asked. An answer that was not awaited may be a grant.
    pub(crate) fn missing(&self) -> NodeSet {
        let mut missing = self.not_asked;
        for (node, _) in self.others.iter().flat_map(|others| others.iter()) {
            missing.insert(usize::from(*node));
        }
        missing
    }

    pub(crate) fn has_refusal(&self) -> bool {
        let mut others = self.others.iter().flat_map(|others| others.iter());
        others.any(|(_, vote)| matches!(vote, Vote::Refused { .. }))
    }

    pub(crate) fn to_vec(&self) -> Vec<Vote> {
        let other = |node: u8| {
            let found = self.others.iter().flat_map(|others| others.iter());
            let vote = found
                .filter(|(other, _)| *other == node)
                .map(|(_, vote)| vote)
                .next();
            vote.cloned().unwrap_or(Vote::Pending)
        };
        (0..self.nodes)
            .map(|node| {
                if self.granted.contains(usize::from(node)) {
                    Vote::Granted
                } else if self.not_asked.contains(usize::from(node)) {
                    Vote::NotAsked
                } else {
                    other(node)
                }
            })
            .collect()
    }
}

/// An index or a number of masters; configurations limit both to 64.
fn narrow(node: usize) -> u8 {
    u8::try_from(node).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_vote() -> impl Strategy<Value = Vote> {
        prop_oneof![
            3 => Just(Vote::Granted),
            1 => Just(Vote::Pending),
            1 => Just(Vote::NotAsked),
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
            for (node, vote) in changes {
                let node = node.index(votes.len());
                record.set(node, vote.clone());
                votes[node] = vote;
                prop_assert_eq!(&record.to_vec(), &votes);
            }
            let missing = NodeSet::of(&votes, |vote| !matches!(vote, Vote::Granted | Vote::Pending));
            prop_assert_eq!(record.missing(), missing);
        }
    }
}
