//! What masters say against forgetting the charter.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;

use super::master::{Master, Stored};
use super::{clients, leases};
use crate::config::{Config, Quarantine};
use crate::error::{NodeError, Objection};
use crate::node::{Peer, questions};
use crate::time::rounded::Rounded;
use crate::time::validity::outlived;

/// A master that has so many keys that it takes longer is not looked through.
const WITHIN: Duration = Duration::from_secs(60);

/// What clients reckon with where nothing is agreed upon, and what this operator says of the masters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The longest lease that needs no agreement.
    pub(super) free: Duration,
    drift_factor: f64,
    quarantine: Quarantine,
}

impl Rules {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            free: config.lease_without_charter,
            drift_factor: config.drift_factor,
            quarantine: config.quarantine,
        }
    }

    /// How long ago a master must have been started at least for its memory to be whole. What it has forgotten of the
    /// leases that need no agreement is what every client reckons with.
    fn memory(&self, longest: Duration) -> Duration {
        let outlived = outlived(longest, self.drift_factor);
        match self.quarantine {
            Quarantine::Off => Duration::ZERO,
            _ if longest <= self.free => Duration::ZERO,
            Quarantine::Auto => outlived,
            Quarantine::For(quarantine) => quarantine.max(outlived),
        }
    }
}

/// What one master has told.
pub(super) struct Told {
    pub(super) stored: Stored,
    peer: Peer,
    /// Who is connected, and what is locked for long.
    in_use: Vec<Objection>,
}

/// Looks at one master. Who is connected is asked before what is locked: a client that is not seen any more has had all
/// it asked for executed by then, so what it holds is seen; one that is still there is seen itself.
async fn look(master: &Master, rules: Rules) -> Result<Told, NodeError> {
    let peer = master.introduction().await?;
    let stored = master.stored().await?;
    let mut in_use = match master.answer(&questions::client_list()).await {
        Ok(list) => match questions::text(&list) {
            Some(list) => clients::objections(&list, master.name(), master.client_id()),
            None => return Err(questions::unexpected("CLIENT LIST", &list)),
        },
        Err(NodeError::Unfit(denied)) => vec![Objection::ClientsHidden {
            error: denied.to_string(),
        }],
        Err(error) => return Err(error),
    };
    in_use.extend(leases::longer_than(rules.free, master).await?);
    Ok(Told { stored, peer, in_use })
}

/// All masters at once.
pub(super) async fn look_at_all(masters: &[Master], rules: Rules) -> Vec<Result<Told, NodeError>> {
    let looking = masters.iter().map(async |master| {
        let late = || NodeError::Unavailable(format!("its keys take more than {}", Rounded(WITHIN)));
        timeout(WITHIN, look(master, rules))
            .await
            .unwrap_or_else(|_| Err(late()))
    });
    join_all(looking).await
}

pub(super) type Objections = Vec<(Arc<str>, Objection)>;

/// What the masters say against it. `longest` is the longest lease that any of them has told of.
pub(super) fn objections(
    masters: &[Master],
    told: &[Result<Told, NodeError>],
    rules: Rules,
    longest: Duration,
) -> Objections {
    let mut objections = Objections::new();
    for (at, (master, answer)) in masters.iter().zip(told).enumerate() {
        let mut object = |objection| objections.push((Arc::clone(&master.label), objection));
        let told_here = match answer {
            Ok(told) => told,
            Err(error) => {
                object(error.clone().into());
                continue;
            }
        };
        let same = |other: &Result<Told, NodeError>| {
            let server = |told: &Told| told.peer.identity.server().map(str::to_owned);
            let here = server(told_here);
            here.is_some() && other.as_ref().is_ok_and(|other| server(other) == here)
        };
        if let Some(other) = told[..at].iter().position(same) {
            let other = Arc::clone(&masters[other].label);
            object(Objection::SameServer { other });
        }
        let listed = masters.len() as u64;
        if let Some(masters) = told_here.stored.charter.masters.filter(|told| *told != listed) {
            object(Objection::OtherSet { masters, listed });
        }
        if let Some(objection) = forgetful(&told_here.peer, rules.memory(longest)) {
            object(objection);
        }
        told_here.in_use.iter().cloned().for_each(object);
    }
    objections
}

/// What is wrong with a memory that has to reach back so far.
fn forgetful(peer: &Peer, needed: Duration) -> Option<Objection> {
    if needed.is_zero() {
        return None;
    }
    if !peer.memory.vouched {
        return Some(Objection::UnknownStart);
    }
    let wait = needed.saturating_sub(peer.memory.told);
    (!wait.is_zero()).then_some(Objection::Started { wait })
}
