//! Sets of masters.

use crate::values::votes::Vote;

/// A set of masters by their index in the pool, at most 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSet(u64);

impl NodeSet {
    /// Set of the masters with a vote that `passes`.
    pub(crate) fn of(votes: &[Vote], passes: impl Fn(&Vote) -> bool) -> Self {
        let votes = votes.iter().enumerate();
        votes
            .filter(|(_, vote)| passes(vote))
            .map(|(node, _)| node)
            .collect()
    }

    /// Set of one master.
    pub(crate) fn one(node: usize) -> Self {
        Self(1 << node)
    }

    /// Set of all of so many masters.
    pub(crate) fn all(nodes: usize) -> Self {
        (0..nodes).collect()
    }

    /// The set as a number that an atomic can store.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn insert(&mut self, node: usize) {
        self.0 |= 1 << node;
    }

    pub(crate) fn remove(&mut self, node: usize) {
        self.0 &= !(1 << node);
    }

    /// Masters of either set.
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Masters that the other set does not have.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn contains(self, node: usize) -> bool {
        self.0 & (1 << node) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let node = rest.trailing_zeros();
            // Takes the lowest one out.
            rest &= rest.checked_sub(1)?;
            Some(node as usize)
        })
    }
}

impl FromIterator<usize> for NodeSet {
    fn from_iter<T: IntoIterator<Item = usize>>(nodes: T) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}
