//! Number of masters that must grant.

use std::fmt;

use crate::error::InvalidInput;

/// Number of the N masters that must grant a lock.
///
/// A policy is chosen for each lock, over the same masters. Two holders of one name exclude each other under any mix
/// of policies, because each of them needs a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// A majority, N/2+1: available while a minority of the masters is down.
    RedLock,
    /// All N: safe even if all masters but one forget the lock; unavailable as soon as one is down.
    MultiLock,
    /// At least this many, from N/2+1 to N. Any other number is refused before a master is asked.
    AtLeast(usize),
}

impl Policy {
    /// Number of grants needed over `nodes` masters.
    ///
    /// ```
    /// use multilock::Policy;
    /// assert_eq!(Policy::RedLock.needed(5), 3);
    /// assert_eq!(Policy::RedLock.needed(4), 3);
    /// assert_eq!(Policy::MultiLock.needed(5), 5);
    /// assert_eq!(Policy::AtLeast(4).needed(5), 4);
    /// ```
    pub const fn needed(self, nodes: usize) -> usize {
        match self {
            Self::RedLock => nodes / 2 + 1,
            Self::MultiLock => nodes,
            Self::AtLeast(grants) => grants,
        }
    }

    /// Number of masters, of `nodes`, that may vote although they may have forgotten their holders. Every
    /// quorum still meets every other one in a master that remembers. If more masters are in quarantine, none
    /// of them has a vote.
    ///
    /// ```
    /// use multilock::Policy;
    /// assert_eq!(Policy::RedLock.forgetful_allowed(5), 0);
    /// assert_eq!(Policy::RedLock.forgetful_allowed(4), 1);
    /// assert_eq!(Policy::MultiLock.forgetful_allowed(5), 2);
    /// ```
    pub const fn forgetful_allowed(self, nodes: usize) -> usize {
        forgetful_allowed(self.needed(nodes), nodes)
    }

    /// Smallest quorum of any policy. Nobody else is granted names while fewer than so many masters lack their hold.
    pub(crate) const fn smallest_quorum(nodes: usize) -> usize {
        Self::RedLock.needed(nodes)
    }

    /// Number of grants needed over `nodes` masters. An error if two holders could both have that many.
    #[inline]
    pub(crate) fn checked(self, nodes: usize) -> Result<usize, InvalidInput> {
        let needed = self.needed(nodes);
        let majority = Self::smallest_quorum(nodes);
        if (majority..=nodes).contains(&needed) {
            Ok(needed)
        } else {
            Err(InvalidInput::new(
                "policy",
                self,
                format!("AtLeast({majority}) to AtLeast({nodes}) over {nodes} masters"),
            ))
        }
    }
}

/// Number of masters without memory that may vote in a quorum of `needed`.
///
/// The quorum meets every other holder's quorum, a majority at least, in `needed` + majority − `nodes`
/// masters; one of these must remember.
pub(crate) const fn forgetful_allowed(needed: usize, nodes: usize) -> usize {
    let both = needed.saturating_add(Policy::RedLock.needed(nodes));
    both.saturating_sub(nodes.saturating_add(1))
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RedLock => f.write_str("RedLock"),
            Self::MultiLock => f.write_str("MultiLock"),
            Self::AtLeast(grants) => write!(f, "AtLeast({grants})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_meets_every_other_where_something_is_remembered() {
        assert_eq!(forgetful_allowed(3, 5), 0);
        assert_eq!(forgetful_allowed(3, 4), 1);
        assert_eq!(forgetful_allowed(5, 5), 2);
        // Useless policies, and no reason to panic.
        assert_eq!(Policy::AtLeast(0).forgetful_allowed(5), 0);
        assert_eq!(Policy::AtLeast(usize::MAX).forgetful_allowed(5), usize::MAX - 6);
        for nodes in 1..=9_usize {
            let majority = Policy::RedLock.needed(nodes);
            for needed in majority..=nodes {
                let common = needed + majority - nodes;
                assert!(common > forgetful_allowed(needed, nodes));
            }
        }
    }

    #[test]
    fn printed_as_it_is_written() {
        let texts = [Policy::RedLock, Policy::MultiLock, Policy::AtLeast(4)].map(|policy| policy.to_string());
        assert_eq!(texts, ["RedLock", "MultiLock", "AtLeast(4)"]);
    }

    #[test]
    fn any_two_quorums_meet() {
        for nodes in 1..=9 {
            for policy in [Policy::RedLock, Policy::MultiLock] {
                let needed = policy.checked(nodes).expect("always within its range");
                assert!(2 * needed > nodes && needed <= nodes);
            }
            for grants in 0..=nodes + 1 {
                let allowed = 2 * grants > nodes && grants <= nodes;
                assert_eq!(Policy::AtLeast(grants).checked(nodes).is_ok(), allowed);
            }
        }
    }
}
