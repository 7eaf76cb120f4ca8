//! The N masters, as a service uses them.

pub(crate) mod builder;
pub(crate) mod client_label;
pub(crate) mod closing;
pub(crate) mod config;
pub(crate) mod connecting;
pub(crate) mod credentials;
pub(crate) mod env;
pub(crate) mod namespace;
pub(crate) mod node_options;
pub(crate) mod status;

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::error::LockError;
use crate::hold::client::ClientCore;
use crate::masters::status::Status;
use crate::values::policy::Policy;

/// N independent Redis masters, their connections and their background work.
///
/// Make one per process, by [`Masters::builder`] or [`Masters::from_env`]. `Masters` is cheap to clone, has one
/// connection per master, and is shared by all locks. When the last clone and the last guard are gone, every
/// connection is closed and no task is left.
///
/// ```no_run
/// # async fn job() -> Result<(), Box<dyn std::error::Error>> {
/// use multilock::Masters;
///
/// let masters = Masters::builder()
///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
///     .connect()
///     .await?;
/// let clone = masters.clone();
/// let job = tokio::spawn(async move { clone.red_lock("report").lock().await });
/// # Ok(()) }
/// ```
///
/// # Runtimes
///
/// Connections and renewals live on the tokio runtime in which `connect` was awaited or `connect_lazy`
/// called, and need that runtime to be driven. Locks and guards may be used on any other runtime. Each call
/// ends by its own deadline there, also while the first runtime does not run; its votes report that. A
/// runtime has to have its timer enabled.
///
/// Once the first runtime has ended, its connections are gone. Every method of a lock, waiters included,
/// answers [`LockError::Closed`](crate::LockError::Closed), and holds last until their leases end. So do not
/// share `Masters` among tests that have a runtime each, as `#[tokio::test]` gives them. Either connect in
/// each of them, or keep one runtime in a `static` and `block_on` it in plain tests.
///
/// Outside of any runtime a call cannot wait. If it has to ask a master, it ends with
/// [`LockError::Unreachable`](crate::LockError::Unreachable), or the equivalent of its own error, and the
/// votes in it report that. A guard may be dropped anywhere. That a lease has ended is told there while the
/// runtime of the connections is driven.
#[derive(Clone)]
pub struct Masters {
    pub(crate) client: Arc<ClientCore>,
}

impl Masters {
    /// Number of masters, reachable or not.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// assert_eq!(masters.len(), 3);
    /// # Ok(()) }
    /// ```
    #[allow(clippy::len_without_is_empty, reason = "there is always at least one")]
    pub fn len(&self) -> usize {
        self.client.pool.slots.len()
    }

    /// Returns this client's knowledge of its masters. Sends nothing and waits for nothing.
    ///
    /// ```no_run
    /// # fn show(masters: &multilock::Masters) {
    /// for node in masters.status().nodes {
    ///     match node.connection {
    ///         Ok(connection) => println!("{}: {} in {:?}", node.node, connection.version, connection.round_trip),
    ///         Err(error) => println!("{}: {error}", node.node),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn status(&self) -> Status {
        self.client.status()
    }

    /// Watches the status, for changes that a program may act upon:
    /// - a master is connected or disconnected, or is disconnected for another reason,
    /// - a master loses its vote by a quarantine, or gets it back,
    /// - a master has missed a deadline, or answers again, which is noticed within a second,
    /// - a master begins, or stops, to answer calls for locks with errors,
    /// - a master's version or capabilities change,
    /// - a master's backlog of releases becomes too large, or small enough,
    /// - the client is closed.
    ///
    /// The present status counts as the first change: `changed()` of the receiver returns with it at once. So
    /// a loop that waits for changes needs no status before it, and misses nothing.
    ///
    /// The receiver is not woken by holds, waiters, round trips, clock offsets and the number of pending
    /// releases. It has their values from its last change, and [`status`](Self::status) has the present ones.
    /// The receiver ends when the last clone of the masters and the last guard are gone; it keeps neither
    /// alive.
    ///
    /// ```no_run
    /// # async fn watch(masters: &multilock::Masters) {
    /// let mut status = masters.watch_status();
    /// while status.changed().await.is_ok() {
    ///     println!("{} masters have a vote", status.borrow_and_update().voting());
    /// }
    /// # }
    /// ```
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.client.watch_status()
    }

    /// Waits until a lock under this policy can be granted: enough masters are connected and fit, and their
    /// quarantine is over. The call waits for as long as that takes; [`Status::ready_in`] estimates it. Sends nothing
    /// to the masters.
    ///
    /// For the start of a service: after [`connect_lazy`](crate::MastersBuilder::connect_lazy), with masters
    /// that have just started, and before a policy that needs more masters than a majority.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use multilock::sim::{Cluster, Keep};
    /// use multilock::{Masters, Policy};
    ///
    /// let cluster = Cluster::new(3);
    /// cluster.iter().for_each(|master| master.restart(Keep::Nothing));
    /// let masters = cluster.connect_lazy(Masters::builder())?;
    /// masters.ready(Policy::RedLock).await?;
    /// // About 31 s later.
    /// masters.red_lock("a").try_lock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::Invalid`] for a policy that these masters do not allow,
    /// - [`LockError::Closed`] once the masters are closed.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any time, and made again.
    pub async fn ready(&self, policy: Policy) -> Result<(), LockError> {
        policy.checked(self.len())?;
        let mut status = self.watch_status();
        let ready = status.wait_for(|status| status.closed || status.is_ready(policy));
        match ready.await {
            Ok(status) if !status.closed => Ok(()),
            _ => Err(LockError::Closed),
        }
    }
}

impl fmt::Debug for Masters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.client.pool.slots.iter().map(|slot| slot.label()))
            .finish()
    }
}
