//! The charter, by which clients agree upon leases of more than 30 s, as an operator sees it: what every master stores,
//! and how to lower it again.

mod clients;
mod commands;
mod leases;
mod look;
mod master;
mod reset;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use self::commands::TALK;
use self::master::Master;
use crate::builder::MastersBuilder;
use crate::client_label;
use crate::error::{ConnectError, NodeError};
use crate::time::random::Chance;

/// What the masters store of leases that are longer than what needs no agreement:
/// [`MastersBuilder::charter`].
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
    /// ([`client_label`](MastersBuilder::client_label)). `None` where nothing stands, or an older client or an operator
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

    /// The longest lease that any master tells of.
    pub(crate) fn longest(&self) -> Duration {
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

impl MastersBuilder {
    /// Asks every master what it stores of leases that are longer than 30 s, over a connection of its own. It is no client
    /// of theirs: it changes nothing, and agrees to nothing, whatever [`max_lease`](Self::max_lease) says.
    ///
    /// ```no_run
    /// # use multilock::{CharterState, Masters};
    /// # async fn show() -> Result<(), multilock::ConnectError> {
    /// let charter = Masters::builder().node("redis://10.0.0.1").charter().await?;
    /// if let CharterState::InForce(lease) = charter.state() {
    ///     println!("leases of up to {lease:?} may be asked for");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError::Invalid`] before any master is touched, and where a certificate cannot be read. A master that does not tell has its error in
    /// [`Charter::nodes`], after the connect timeout for each question at most.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, its connections are closed.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn charter(self) -> Result<Charter, ConnectError> {
        let free = self.config.lease_without_charter;
        let masters = self.open().await?;
        let read = async |master: &Master| {
            let read = master.stored().await;
            (Arc::clone(&master.label), read.map(|stored| stored.charter))
        };
        let nodes = join_all(masters.iter().map(read)).await;
        Ok(Charter { nodes, free })
    }

    /// A session with each master.
    async fn open(self) -> Result<Vec<Master>, ConnectError> {
        // Not named as clients are, of which it is none.
        let name: Arc<str> = format!("{TALK}{}", Chance::from_host().uuid()).into();
        let servers = self.servers(name).await?;
        Ok(join_all(servers.into_iter().map(Master::open)).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charter(nodes: &[(&str, &str)]) -> Charter {
        let node = |(charter, masters): &(&str, &str)| {
            let told = match *charter {
                "?" => Err(NodeError::Unavailable("down".into())),
                charter => Ok(NodeCharter::parse(charter, masters)),
            };
            ("m".into(), told)
        };
        Charter {
            nodes: nodes.iter().map(node).collect(),
            free: Duration::from_secs(30),
        }
    }

    #[test]
    fn what_stands_is_read_whoever_wrote_it() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let read = |text: &str| NodeCharter::parse(text, "3");
        let of = |longest, in_force, who: Option<&str>| NodeCharter {
            longest: minutes(longest),
            in_force: minutes(in_force),
            raised_by: who.map(Into::into),
            masters: Some(3),
        };
        assert_eq!(read("300000"), of(5, 0, None), "by hand");
        assert_eq!(read("300000 60000"), of(5, 1, None), "by an older client");
        assert_eq!(read("300000 60000 job@host:7"), of(5, 1, Some("job@host:7")));
        assert_eq!(
            read("300000 300000 the münchen job"),
            of(5, 5, Some("the münchen job"))
        );
        assert_eq!(read("300000 0 a\u{7}b"), of(5, 0, None), "no client's label");
        for nothing in ["", "soon", "-1 -1"] {
            assert_eq!(read(nothing), of(0, 0, None), "{nothing}");
        }
        assert_eq!(NodeCharter::parse("", ""), NodeCharter::default());
    }

    #[test]
    fn masters_agree_where_all_of_them_tell_the_same() {
        let seconds = Duration::from_secs;
        let state = |nodes: &[_]| charter(nodes).state();
        assert_eq!(state(&[("", ""), ("", "3"), ("", "3")]), CharterState::Nothing);
        let old = ("60000 60000", "3");
        let new = ("60000 60000 a", "3");
        assert_eq!(
            state(&[old, new, new]),
            CharterState::InForce(seconds(60)),
            "whoever has stored it"
        );
        let pending = ("60000 40000 a", "3");
        let waits = CharterState::Pending {
            longest: seconds(60),
            in_force: seconds(40),
        };
        assert_eq!(state(&[pending; 3]), waits);
        for other in [pending, ("", "3"), ("60000 60000", "5")] {
            assert_eq!(state(&[new, other, new]), CharterState::Differs, "{other:?}");
            assert_eq!(
                state(&[new, ("?", ""), other]),
                CharterState::Differs,
                "{other:?}"
            );
        }
        assert_eq!(state(&[new, ("?", ""), new]), CharterState::Unknown);
        assert_eq!(state(&[("?", ""); 3]), CharterState::Unknown);
    }
}
