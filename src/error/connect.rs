//! Errors of connecting.

use std::sync::Arc;

use super::InvalidInput;
use super::faq::Faq;
use crate::values::master_set::MasterSet;

/// Reason why a server cannot serve as an independent master.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The server replicates another one, so it has no vote of its own.
    #[error("it is a replica, not a master ({faq})", faq = Faq("replica"))]
    Replica,
    /// The server is a Sentinel, which watches masters and stores no locks.
    #[error("it is a Sentinel, which watches masters and is none; list the masters ({faq})", faq = Faq("replica"))]
    Sentinel,
    /// The server is part of a Redis Cluster, which is not one independent vote.
    #[error("it is a node of a Redis Cluster; an independent master is needed ({faq})", faq = Faq("cluster"))]
    Cluster,
    /// The server's version lacks commands that the protocol needs.
    #[error("its version {version} is older than {needed} ({faq})", faq = Faq("version"))]
    TooOld {
        /// Server's version by its own report.
        version: String,
        /// Oldest version that is accepted.
        needed: &'static str,
    },
    /// The server is listed under another address, too.
    #[error("it is the same server as {other} ({faq})", faq = Faq("same server"))]
    SameServer {
        /// Node that was connected first.
        other: Arc<str>,
    },
    /// The server may evict lock keys when its memory is full.
    #[error(
        "it evicts keys under memory pressure (maxmemory-policy {policy}); set noeviction or allow it in the builder \
         ({faq})",
        faq = Faq("eviction")
    )]
    Evicts {
        /// The server's `maxmemory-policy`.
        policy: String,
    },
    /// The server does not report whether it evicts keys, so it may forget a lock.
    #[error(
        "it does not say whether it evicts keys (its INFO has no maxmemory_policy); if it is known to evict none, \
         set MastersBuilder::allow_unknown_eviction ({faq})",
        faq = Faq("unknown eviction")
    )]
    UnknownEviction,
    /// The server does not report whether it is a master.
    #[error(
        "it does not say whether it is a master (neither INFO nor ROLE does); if it is known to be one, set \
         MastersBuilder::allow_unknown_role ({faq})",
        faq = Faq("unknown role")
    )]
    UnknownRole,
    /// Other clients' commands come in between those of a script, so two clients can be granted the same
    /// name.
    #[error(
        "it is {server}, which does not run scripts atomically; use Redis or Valkey ({faq})",
        faq = Faq("atomic scripts")
    )]
    ScriptsNotAtomic {
        /// Name of the server by its own report.
        server: String,
    },
    /// The server runs no Lua scripts, which are the protocol.
    #[error(
        "it runs no Lua scripts ({error}); load its Lua module, or use a server that has Lua ({faq})",
        faq = Faq("no scripts")
    )]
    NoScripts {
        /// Error of the server, in its own words.
        error: String,
    },
    /// A master of the list is in another set: with another number of masters, or another set [for
    /// tests](crate::MastersBuilder::for_tests). The client uses none of its masters until that is corrected.
    #[error(
        "{reported_by} is in a set of {set}, and this client lists {listed}; {}, or, once no client uses {reported_by} \
         otherwise, run DEL multilock_set there ({faq})",
        to_agree(*.set, *.listed),
        faq = Faq("other set")
    )]
    OtherSet {
        /// Label of the master that is in another set.
        reported_by: Arc<str>,
        /// Set that the master has recorded under the key `multilock_set`.
        set: MasterSet,
        /// Set that this client lists.
        listed: MasterSet,
    },
    /// The server does not let this client in, or denies a command that the protocol needs.
    #[error("it denies access: {error} ({faq})", faq = Faq("denied"))]
    Denied {
        /// Error of the server, in its own words.
        error: String,
    },
}

/// Change that lets the clients describe one set.
fn to_agree(set: MasterSet, listed: MasterSet) -> &'static str {
    if set.masters == listed.masters {
        "set MastersBuilder::for_tests / MULTILOCK_FOR_TESTS alike in every client"
    } else {
        "let every client list the same masters"
    }
}

/// Reason why a node is not connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The server answered, and cannot be used until its configuration or this client's changes.
    #[error("{0}")]
    Unfit(#[from] Unfit),
    /// The server could not be reached.
    #[error("{0}")]
    Unavailable(String),
    /// The server answered with an error that may pass: it loads its data set, runs a long script, or has as many clients as
    /// it takes.
    #[error("{0}")]
    NotReady(String),
    /// The first attempt to connect is still in progress.
    #[error("not connected yet")]
    Connecting,
}

impl NodeError {
    /// Whether the error may end without a change of configuration. A master is a replica for a moment during
    /// a failover, and two addresses lead to one server while servers swap addresses.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_)
            | Self::NotReady(_)
            | Self::Connecting
            | Self::Unfit(Unfit::Replica | Unfit::SameServer { .. }) => true,
            Self::Unfit(_) => false,
        }
    }
}

/// Error of [`MastersBuilder::connect`](crate::MastersBuilder::connect).
///
/// ```no_run
/// # async fn job() -> Result<(), Box<dyn std::error::Error>> {
/// use multilock::{ConnectError, Masters, NodeError, Unfit};
///
/// match Masters::from_env().await {
///     Ok(masters) => println!("connected to {} masters", masters.len()),
///     // A setting has to be changed first.
///     Err(ConnectError::Invalid(invalid)) => eprintln!("{}: {}", invalid.field, invalid.allowed),
///     Err(ConnectError::Unfit { node, reason: Unfit::Replica }) => eprintln!("{node}: list its master"),
///     Err(ConnectError::Unfit { node, reason }) => eprintln!("{node}: {reason}"),
///     // Worth trying again: fewer than a majority were connected.
///     Err(ConnectError::TooFew { nodes, .. }) => {
///         for (node, error) in nodes {
///             if let Some(NodeError::Unavailable(why)) = error {
///                 eprintln!("{node}: {why}");
///             }
///         }
///     }
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// An option is out of its range. The client did not connect.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// Too many masters are unfit for a majority of fit ones. With
    /// [`require_all`](crate::MastersBuilder::require_all), one unfit master is too many.
    #[error("{node} cannot be used: {reason}")]
    Unfit {
        /// Address of the unfit master, or of the first one of several.
        node: Arc<str>,
        /// Reason why the master is unfit.
        reason: Unfit,
    },
    /// Fewer than a majority of the masters are connected. The other masters are out of reach, or unfit.
    #[error("only {reached} of {} masters can be used, {needed} are needed ({faq}): {}", .nodes.len(), node_report(.nodes), faq = Faq("too few"))]
    TooFew {
        /// Masters that are connected.
        reached: usize,
        /// Majority of the masters.
        needed: usize,
        /// Error of every node; `None` for a connected one.
        nodes: Vec<(Arc<str>, Option<NodeError>)>,
    },
}

/// Lists the state of every node, for people.
fn node_report(nodes: &[(Arc<str>, Option<NodeError>)]) -> String {
    let state = |(node, error): &(Arc<str>, Option<NodeError>)| match error {
        Some(error) => format!("{node}: {error}"),
        None => format!("{node}: connected"),
    };
    nodes.iter().map(state).collect::<Vec<_>>().join("; ")
}
