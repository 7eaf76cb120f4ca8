//! Processes that are stopped again and again.

/// A choice of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The client that is between its read and its write.
    Holder,
    /// One of the clients.
    Client,
    /// One of the masters or all of them, as Jepsen's test stopped etcd's leader or all servers.
    Masters,
}

impl Stopped {
    pub(crate) const ALL: [Self; 3] = [Self::Holder, Self::Client, Self::Masters];

    /// Its name above a table.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Holder => "Stopped: the client that holds the lock",
            Self::Client => "Stopped: one of the five clients, at random",
            Self::Masters => "Stopped: one master or all of them, at random",
        }
    }
}
