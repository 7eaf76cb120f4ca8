//! Finds the names on the masters that are locked or waited for.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;

use crate::protocol::calls;
use crate::protocol::keys::{self, Listed};
use crate::protocol::reply;
use crate::round::pool::Pool;
use crate::round::{Round, Trust};
use crate::values::policy::Policy;
use crate::values::votes::{Vote, Votes};

/// Names of the namespace that match a pattern, with the namespace, on any master. Fails if too few masters for a
/// majority report all that they have.
pub(crate) async fn names(pool: &Arc<Pool>, pattern: &str) -> Result<BTreeSet<String>, Votes> {
    let namespace = pool
        .config
        .namespace
        .prefix()
        .map(|prefix| keys::escaped(&prefix));
    let pattern = namespace.unwrap_or_default() + pattern;
    let nodes = (0..pool.slots.len()).map(|node| names_on(pool, node, &pattern));
    let (mut names, mut votes) = (BTreeSet::new(), Vec::new());
    for found in join_all(nodes).await {
        votes.push(found.map_or_else(
            |vote| vote,
            |found| {
                names.extend(found);
                Vote::Granted
            },
        ));
    }
    let votes = pool.evidence(&votes);
    if votes.granted() < Policy::RedLock.needed(pool.slots.len()) {
        return Err(votes);
    }
    Ok(names)
}

/// Names on one master.
async fn names_on(pool: &Arc<Pool>, node: usize, pattern: &str) -> Result<Vec<String>, Vote> {
    let mut names = Vec::new();
    for listed in Listed::ALL {
        let (mut cursor, pattern) = (String::from("0"), listed.pattern(pattern));
        loop {
            let request = calls::list(&cursor, &pattern, listed);
            let mut round = Round::begin(pool, &request, Trust::All, |other| other == node);
            let (_, answer) = round.next().await.ok_or(Vote::Pending)?;
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
