//! Finds the names on the masters that are locked or waited for.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;

use crate::error::LockError;
use crate::protocol::calls;
use crate::protocol::command::Request;
use crate::protocol::fault::Fault;
use crate::protocol::keys::{self, Listed};
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::{self, Reply};
use crate::protocol::tally::{Outcome, Tally};
use crate::round::pool::Pool;
use crate::round::{NodeAnswer, Round, Trust};
use crate::values::policy::Policy;
use crate::values::votes::Vote;

/// Attempts for a page. A busy master has a late answer now and then, and a long list has hundreds of pages.
const ATTEMPTS: usize = 5;

/// Names of the namespace that match a pattern, with the namespace, on any master. Fails if too few masters for a
/// majority report all that they have.
pub(crate) async fn names(pool: &Arc<Pool>, pattern: &str) -> Result<BTreeSet<String>, LockError> {
    let namespace = pool
        .config
        .namespace
        .prefix()
        .map(|prefix| keys::escaped(&prefix));
    let pattern = namespace.unwrap_or_default() + pattern;
    let nodes = (0..pool.slots.len()).map(|node| names_on(pool, node, &pattern));
    let mut tally = Tally::new(pool.slots.len(), Policy::RedLock.needed(pool.slots.len()));
    let (mut names, mut votes) = (BTreeSet::new(), Vec::new());
    for found in join_all(nodes).await {
        let reply = found.map_or_else(
            |reply| reply,
            |found| {
                names.extend(found);
                Vote::Granted.into()
            },
        );
        tally.count(&reply);
        votes.push(reply.vote);
    }
    let votes = pool.evidence(&votes);
    match tally.outcome() {
        Outcome::Won => Ok(names),
        _ if tally.final_faults >= tally.blocking() => Err(LockError::Misconfigured { votes }),
        _ => Err(LockError::Unreachable { votes }),
    }
}

/// Names on one master.
async fn names_on(pool: &Arc<Pool>, node: usize, pattern: &str) -> Result<Vec<String>, Reply> {
    let mut names = Vec::new();
    for listed in Listed::ALL {
        let (mut cursor, pattern) = (String::from("0"), listed.pattern(pattern));
        loop {
            let request = calls::list(&cursor, &pattern, listed);
            let (_, answer) = page(pool, node, &request).await.ok_or(Vote::Pending)?;
            let (next, keys) = reply::listed(answer)?;
            names.extend(
                keys.iter()
                    .filter_map(|key| listed.name_of(key))
                    .map(str::to_owned),
            );
            if next == "0" {
                break;
            }
            cursor = next;
        }
    }
    Ok(names)
}

/// One master's answer to a request that may be sent again.
async fn page(pool: &Arc<Pool>, node: usize, request: &Arc<Request>) -> Option<NodeAnswer> {
    let mut attempt = 1;
    loop {
        let mut round = Round::begin(pool, request, Trust::All, NodeSet::one(node));
        match round.next().await {
            Some((_, Err(Fault::Late { .. }))) if attempt < ATTEMPTS => attempt += 1,
            answer => return answer,
        }
    }
}
