//! What masters store of long leases, and what that comes to.

use std::sync::Arc;
use std::time::Duration;

use crate::client_label;
use crate::error::NodeError;

/// What the masters store of leases that are longer than what needs no agreement:
/// [`MastersBuilder::charter`](crate::MastersBuilder::charter).
///
/// ```no_run
/// # fn show(charter: &multilock::Charter) {
/// for (node, stored) in &charter.nodes {
///     match stored {
///         Ok(stored) => println!("{node}: {:?}, stored by {:?}", stored.longest, stored.raised_by),
///         Err(error) => println!("{node}: {error}"),
///     }
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Charter {
    /// Every master's address and what it stores, or why it does not tell, in the order of the configuration.
    pub nodes: Vec<(Arc<str>, Result<NodeCharter, NodeError>)>,
    /// Leases of up to this length need no agreement: 30 s, unless the builder says otherwise.
    pub free: Duration,
}

/// What one master stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeCharter {
    /// The longest lease that anybody may come to ask for. Zero where nothing stands.
    pub longest: Duration,
    /// The longest lease that may be asked for now, because every master has confirmed it.
    pub in_force: Duration,
    /// What the client calls itself that has stored the longest lease on this master
    /// ([`client_label`](crate::MastersBuilder::client_label)). `None` where nothing stands, or an older client or an operator
    /// has stored it.
    pub raised_by: Option<Arc<str>>,
    /// Of how many masters the set is. `None` where no client has told it yet.
    pub masters: Option<u64>,
}

/// What the masters' answers come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CharterState {
    /// Nothing stands on any master.
    Nothing,
    /// Every master tells that leases of this length may be asked for, and of no longer ones.
    InForce(Duration),
    /// Every master tells the same, and that leases of up to `longest` wait to be confirmed by all at once.
    Pending {
        /// What is to be agreed upon.
        longest: Duration,
        /// What may be asked for meanwhile; zero where that is what needs no agreement.
        in_force: Duration,
    },
    /// The masters tell different things, or one belongs to a set of another size.
    Differs,
    /// Those that tell anything tell the same, and some do not tell.
    Unknown,
}

impl Charter {
    /// Whether the masters agree, and upon what.
    pub fn state(&self) -> CharterState {
        let masters = self.nodes.len() as u64;
        let told = || self.nodes.iter().filter_map(|(_, told)| told.as_ref().ok());
        let is_of_another_set = |node: &NodeCharter| node.masters.is_some_and(|told| told != masters);
        let Some(first) = told().next() else {
            return CharterState::Unknown;
        };
        let leases = |node: &NodeCharter| (node.longest, node.in_force);
        if told().any(|node| leases(node) != leases(first) || is_of_another_set(node)) {
            CharterState::Differs
        } else if told().count() < self.nodes.len() {
            CharterState::Unknown
        } else if first.longest.is_zero() {
            CharterState::Nothing
        } else if first.in_force < first.longest {
            CharterState::Pending {
                longest: first.longest,
                in_force: first.in_force,
            }
        } else {
            CharterState::InForce(first.in_force)
        }
    }

    /// The longest lease that any master tells of. Zero where nothing stands.
    ///
    /// ```
    /// # fn show(charter: &multilock::Charter) {
    /// let rest = charter.longest().max(charter.free);
    /// println!("a master that is started again has no vote for {rest:?} and the drift of its clock");
    /// # }
    /// ```
    pub fn longest(&self) -> Duration {
        let told = self.nodes.iter().filter_map(|(_, told)| told.as_ref().ok());
        told.map(|node| node.longest).max().unwrap_or_default()
    }
}

impl NodeCharter {
    /// By what stands under the keys.
    pub(crate) fn parse(charter: &str, masters: &str) -> Self {
        let mut words = charter.splitn(3, ' ');
        let mut lease = || {
            let ms = words.next().and_then(|word| word.parse().ok());
            Duration::from_millis(ms.unwrap_or(0))
        };
        Self {
            longest: lease(),
            in_force: lease(),
            raised_by: words.next().and_then(client_label::told),
            masters: masters.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests;
