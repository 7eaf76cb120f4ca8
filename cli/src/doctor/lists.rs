//! Clients that list other masters. No client can see that by itself.

use std::collections::BTreeSet;

use multilock::Examination;

use super::finding::Finding;
use super::watch::{Pool, Watched};
use crate::say::Rough;

const REMEDY: &str = "list the same masters in every client, here too: two majorities of different lists need not meet, so \
    that one name can have two holders";

pub(super) fn findings(masters: &[Examination], watched: &Watched) -> Vec<Finding> {
    let pools = watched.pools.iter();
    pools
        .filter_map(|(id, pool)| finding(masters, watched, id, pool))
        .collect()
}

fn finding(masters: &[Examination], watched: &Watched, id: &str, pool: &Pool) -> Option<Finding> {
    let names = |nodes: &mut dyn Iterator<Item = usize>| {
        let names: Vec<&str> = nodes.map(|node| &*masters[node].node).collect();
        names.join(", ")
    };
    let who = format!("the client at {} (pool {})", hosts(pool), short(id));
    let on = names(&mut pool.seen_on.iter().copied());
    if pool.masters != masters.len() {
        let seen = format!(
            "{who} lists {} masters, {on} among them, and {} are listed here",
            pool.masters,
            masters.len()
        );
        return Some(Finding::unfit("other_list", seen, REMEDY).faq("other list"));
    }
    let missing = names(&mut watched.missing(pool));
    if missing.is_empty() {
        return None;
    }
    let seen = format!(
        "{who} had no connection to {missing} for {}, and has one to {on}",
        Rough(watched.lasted)
    );
    let remedy = format!("{REMEDY}; if its list has {missing}, find out why its host cannot connect there");
    Some(Finding::unfit("other_list", seen, remedy).faq("other list"))
}

/// Hosts of a client, without its ports: it has one for each master.
fn hosts(pool: &Pool) -> String {
    let host = |address: &String| {
        address
            .rsplit_once(':')
            .map_or(address.clone(), |(host, _)| host.to_owned())
    };
    let hosts: BTreeSet<String> = pool.addresses.iter().map(host).collect();
    hosts.into_iter().collect::<Vec<_>>().join(", ")
}

/// Beginning of an id, long enough to distinguish it in a table.
pub(super) fn short(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}
