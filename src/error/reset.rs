//! What lowering the longest lease may answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::faq::Faq;
use super::{ConnectError, NodeError};
use crate::time::rounded::Rounded;

/// What one master says against forgetting the longest lease that clients have agreed upon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Objection {
    /// It does not tell, or will not do as a master.
    #[error("it does not tell: {0}")]
    Silent(#[from] NodeError),
    /// It is the same server as another one of the list.
    #[error("it is the same server as {other}")]
    SameServer {
        /// The address of the other one.
        other: Arc<str>,
    },
    /// It belongs to a set with another number of masters, so these are not all of them.
    #[error("it belongs to a set of {masters} masters, and {listed} are listed here")]
    OtherSet {
        /// The number that it stores under `multilock_masters`.
        masters: u64,
        /// The number that is listed here.
        listed: u64,
    },
    /// It was started less than the longest lease ago, so it may have forgotten who holds.
    #[error(
        "it was started less than the longest lease ago, and may have forgotten who holds; try again in {}",
        Rounded(*.wait)
    )]
    Started {
        /// How long to wait.
        wait: Duration,
    },
    /// It does not say for how long it has remembered: its uptime may not be that of its process, or it was a replica.
    #[error("it does not say for how long it has remembered what it was told")]
    UnknownStart,
    /// It does not tell who is connected.
    #[error("it cannot be told who is connected: {error}")]
    ClientsHidden {
        /// The server's own words, or what is missing in its answer.
        error: String,
    },
    /// A client of this crate is connected, and remembers what was agreed upon.
    #[error("a client is connected from {address}")]
    Connected {
        /// Where from, as the master sees it.
        address: Arc<str>,
    },
    /// A connection has no name, as a client of this crate's has none whose user may not say it.
    #[error(
        "a connection from {address} has no name, and its last command was {command}: it may be a client that may not say it"
    )]
    Nameless {
        /// Where from, as the master sees it.
        address: Arc<str>,
        /// What it has run last.
        command: String,
    },
    /// A lock lives for longer than clients reckon with where nothing is agreed upon.
    #[error("{name:?} is locked for {}", Left(*.left))]
    Lease {
        /// The key.
        name: String,
        /// For how long, unless it is renewed; `None` when it has no expiry.
        left: Option<Duration>,
    },
    /// It stores something else than it did at the first look.
    #[error("somebody has stored a longest lease of {}{}", Rounded(*.longest), By(.by.as_deref()))]
    Raised {
        /// What stands there now; zero where nothing does.
        longest: Duration,
        /// What the client calls itself that has stored it, where it is known.
        by: Option<Arc<str>>,
    },
}

/// Why the longest lease was not lowered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// An option cannot be used. No master was touched.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A lease that is longer than what needs no agreement may live or come to live, or nobody can tell. Nothing was
    /// changed.
    #[error("the charter stays as it is ({faq}): {}{}", Listed(.objections), Labels(.labels), faq = Faq("reset"))]
    Refused {
        /// Each master's address and what it says against it.
        objections: Vec<(Arc<str>, Objection)>,
        /// Where clients are connected: what clients call themselves there. Some may have ended a while ago.
        labels: Vec<String>,
    },
    /// Somebody came in between the look and the end. The charter was put back as it stood.
    #[error("the charter was put back ({faq}), for something came in between: {}{}{}",
        Listed(.objections), Labels(.labels), Missing(.missing), faq = Faq("reset"))]
    PutBack {
        /// Each master's address and what came in between there.
        objections: Vec<(Arc<str>, Objection)>,
        /// Where clients are connected: what clients call themselves there. Some may have ended a while ago.
        labels: Vec<String>,
        /// The masters on which it could not be put back.
        missing: Vec<(Arc<str>, NodeError)>,
    },
    /// The runtime has ended meanwhile. Look at the charter again.
    #[error("the runtime has ended before it was done; look at the charter again ({faq})", faq = Faq("reset"))]
    Interrupted,
}

struct Left(Option<Duration>);

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(left) => write!(f, "{} more unless renewed", Rounded(left)),
            None => f.write_str("ever: it has no expiry"),
        }
    }
}

struct By<'a>(Option<&'a str>);

impl fmt::Display for By<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |by| write!(f, ", {by}"))
    }
}

/// A message names so many.
const SHOWN: usize = 12;

struct Listed<'a>(&'a [(Arc<str>, Objection)]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (node, objection) in self.0.iter().take(SHOWN) {
            write!(f, "{separator}{node}: {objection}")?;
            separator = "; ";
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

struct Labels<'a>(&'a [String]);

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, "; clients have called themselves {}", self.0.join(", "))
    }
}

struct Missing<'a>(&'a [(Arc<str>, NodeError)]);

impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (node, error) in self.0 {
            write!(
                f,
                "; it could not be put back on {node}: {error}; agree upon it anew with MastersBuilder::max_lease"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
