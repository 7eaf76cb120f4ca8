//! Capabilities that not every server has.

/// Capabilities of a master, as its connection found them at the set-up. A missing one shortens the time for
/// which the master is trusted, or costs a convenience. None of them is needed for every lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// for node in masters.status().nodes {
///     let Ok(connection) = node.connection else { continue };
///     if !connection.capabilities.kill_fence {
///         println!("{}: what a broken connection still carries may be executed late", node.node);
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Capabilities {
    /// The master speaks RESP3, so that messages come over the connection that carries the calls. Otherwise messages
    /// have a second connection.
    pub resp3: bool,
    /// A connection can end its predecessor by `CLIENT KILL`, so that the predecessor's unread bytes are never
    /// executed. For this the run has to be that of the process ([`run_known`](Self::run_known)). Otherwise a call that
    /// was on its way may be executed late, which keeps a name locked for a lease at most.
    pub kill_fence: bool,
    /// The master reports the run of its process, so that its record shows since when its memory counts. Otherwise
    /// the master is in quarantine after each connection: it may have restarted.
    pub run_known: bool,
    /// The master reports whether it evicts keys when its memory is full. Otherwise an operator has to vouch for that
    /// ([`allow_unknown_eviction`](crate::MastersBuilder::allow_unknown_eviction)).
    pub eviction_known: bool,
    /// The master reports its identity, so that a server that is listed under two addresses is refused. Otherwise
    /// that is not noticed.
    pub identity_known: bool,
}

impl Capabilities {
    /// Capabilities of a server that has all of them.
    #[cfg(feature = "test-util")]
    pub(crate) const ALL: Self = Self {
        resp3: true,
        kill_fence: true,
        run_known: true,
        eviction_known: true,
        identity_known: true,
    };

    /// Missing capabilities, in words.
    pub(crate) fn missing(self) -> Vec<&'static str> {
        let each = [
            (self.resp3, "RESP3"),
            (self.kill_fence, "CLIENT KILL of a connection's predecessor"),
            (self.run_known, "which run of its process this is"),
            (self.eviction_known, "whether it evicts"),
            (self.identity_known, "which server it is"),
        ];
        let missing = each.into_iter().filter(|(there, _)| !there);
        missing.map(|(_, what)| what).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert!(Capabilities::ALL.missing().is_empty());
        let some = Capabilities {
            resp3: false,
            identity_known: false,
            ..Capabilities::ALL
        };
        assert_eq!(some.missing(), ["RESP3", "which server it is"]);
    }
}
