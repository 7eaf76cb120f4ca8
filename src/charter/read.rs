//! Asks masters for the charter, over sessions.

use std::sync::Arc;

use futures::future::join_all;

use super::commands::TALK;
use super::master::Master;
use crate::builder::MastersBuilder;
use crate::error::ConnectError;
use crate::stored_charter::Charter;
use crate::time::random::Chance;

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
    /// [`ConnectError::Invalid`] before any master is touched, and where a certificate cannot be read. A master that does
    /// not tell has its error in [`Charter::nodes`], after the connect timeout for each question at most.
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
    pub(super) async fn open(self) -> Result<Vec<Master>, ConnectError> {
        // Not named as clients are, of which it is none.
        let name: Arc<str> = format!("{TALK}{}", Chance::from_host().uuid()).into();
        let servers = self.servers(name).await?;
        Ok(join_all(servers.into_iter().map(Master::open)).await)
    }
}
