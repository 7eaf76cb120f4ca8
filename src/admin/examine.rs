//! Examines the servers of a list, whether they can be masters or not.

use std::sync::Arc;

use futures::future::join_all;

use crate::admin::examination::{ClientConnection, Examination};
use crate::error::{ConnectError, NodeError, Unfit};
use crate::masters::builder::MastersBuilder;
use crate::masters::config::Config;
use crate::node::trust::membership::Membership;
use crate::node::{Examined, Server};
use crate::protocol::lease_timing::LeaseTiming;

/// Name in `CLIENT LIST` of a connection that only examines. It is not one of a pool.
const CONNECTION_NAME: &str = "multilock-examine";

impl MastersBuilder {
    /// Reads the facts of every master, even if [`connect`](Self::connect) would refuse it. Uses connections
    /// of its own, which end with this call. For operators, and for checks before a service starts.
    ///
    /// Leaves nothing on the masters and ends no connection of other clients, which notice nothing. The
    /// results are in the order of the list. A master that does not answer costs a connect timeout; a master
    /// that becomes silent half-way, eight more.
    ///
    /// ```no_run
    /// # use multilock::{ConnectError, Masters};
    /// # async fn examine() -> Result<(), ConnectError> {
    /// let masters = Masters::builder().nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]);
    /// for master in masters.examine().await? {
    ///     match master.server {
    ///         Ok(facts) => println!("{}: {} {:?}", master.node, facts.version, facts.refusal),
    ///         Err(error) => println!("{}: {error}", master.node),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError::Invalid`], before the client connects. Problems of a master are in its
    /// [`Examination`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its end, every connection is closed again.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn examine(self) -> Result<Vec<Examination>, ConnectError> {
        let config = self.config.clone();
        let servers = self.servers(CONNECTION_NAME.into()).await?;
        let mut examined = join_all(
            servers
                .iter()
                .map(|server| server.examine(config.beside_redisson)),
        )
        .await;
        judge_together(&servers, &mut examined, &config);
        let examinations = servers
            .iter()
            .zip(examined)
            .map(|(server, examined)| Examination {
                node: Arc::clone(&server.address.label),
                server: examined.map(|examined| examined.facts),
            });
        Ok(examinations.collect())
    }

    /// Lists the connections of this crate's clients on every master, which `CLIENT LIST` shows by their names. This
    /// list is the only part of [`examine`](Self::examine) that is worth watching for a while. The results are in the
    /// order of the list; an error is the reason why a master gave no list.
    ///
    /// ```no_run
    /// # use multilock::{ConnectError, Masters};
    /// # async fn pools() -> Result<(), ConnectError> {
    /// let masters = Masters::builder().nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]);
    /// for connection in masters.clients().await?.into_iter().flatten().flatten() {
    ///     println!("{} lists {} masters: {}", connection.address, connection.masters, connection.pool);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError::Invalid`], before the client connects.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its end, every connection is closed again.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn clients(self) -> Result<Vec<Result<Vec<ClientConnection>, NodeError>>, ConnectError> {
        let servers = self.servers(CONNECTION_NAME.into()).await?;
        Ok(join_all(servers.iter().map(Server::clients)).await)
    }
}

/// Adds the facts that need all masters: the time for which each would have no vote, servers that are listed
/// twice, and a master that is in another set.
fn judge_together(servers: &[Server], examined: &mut [Result<Examined, NodeError>], config: &Config) {
    let quarantine = LeaseTiming::new(config).quarantine;
    let labels = servers.iter().map(|server| &server.address.label);
    let membership = Membership::new(config.set(servers.len()), labels);
    for (node, examined) in examined.iter().enumerate() {
        if let Ok(Examined { facts, .. }) = examined {
            membership.note_set(node, facts.set);
        }
    }
    let mut met: Vec<(String, &Arc<str>)> = Vec::new();
    for (server, examined) in servers.iter().zip(examined) {
        let Ok(Examined { facts, identity }) = examined else {
            continue;
        };
        // If there is no record, the first client has the master record that its memory counts from then on.
        facts.quarantine = quarantine.saturating_sub(facts.remembers.unwrap_or_default());
        let twin = met
            .iter()
            .find(|(met, _)| identity.server() == Some(met.as_str()));
        let twin = twin.map(|(_, label)| Unfit::SameServer {
            other: Arc::clone(label),
        });
        let refusal = twin.or(membership.check().err()).map(NodeError::Unfit);
        facts.refusal = facts.refusal.take().or(refusal);
        let met_here = identity.server().map(str::to_owned);
        met.extend(met_here.map(|met_here| (met_here, &server.address.label)));
    }
}
