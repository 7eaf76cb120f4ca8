//! Remedies for a master that a client refuses.

use multilock::{NodeError, Unfit};

use super::finding::Finding;

pub(super) fn finding(error: &NodeError) -> Finding {
    match error {
        NodeError::Unfit(reason) => of(reason),
        NodeError::NotReady(error) => Finding::warning(
            "not_ready",
            error,
            "wait until it has loaded, or ended its script; or raise its maxclients; until then, locks need their majority from the other \
             masters",
        )
        .faq("too few"),
        other => Finding::warning(
            "unreachable",
            other,
            "start it, or check its address and the network; until then, locks need their majority from the other masters",
        )
        .faq("too few"),
    }
}

fn of(reason: &Unfit) -> Finding {
    let seen = reason.to_string();
    // The remedy has a line of its own here.
    let seen = seen.split([';', '(']).next().unwrap_or_default().trim_end();
    let (code, faq, remedy) = remedy(reason);
    let seen = match reason {
        Unfit::Evicts { policy } => format!("{seen} (maxmemory-policy {policy})"),
        // Its label stands before the finding.
        Unfit::OtherSet { set, listed, .. } => {
            format!("it is in a set of {set}, and this client lists {listed}")
        }
        // The server's error helps the reader.
        Unfit::Denied { error } => format!("it denies access: {error}"),
        Unfit::NoScripts { error } => format!("it runs no Lua scripts ({error})"),
        _ => seen.to_owned(),
    };
    Finding::unfit(code, seen, remedy).faq(faq)
}

/// Code of the finding, entry in the FAQ, and remedy.
fn remedy(reason: &Unfit) -> (&'static str, &'static str, &'static str) {
    match reason {
        Unfit::Replica => (
            "replica",
            "replica",
            "list the master that it copies; or make it a master of its own: REPLICAOF NO ONE there",
        ),
        Unfit::Sentinel => (
            "sentinel",
            "replica",
            "list the masters that it watches, each by its own address, and no replica of theirs",
        ),
        Unfit::Cluster => (
            "cluster",
            "cluster",
            "list servers that run without cluster-enabled",
        ),
        Unfit::TooOld { .. } => ("version", "version", "run Redis or Valkey 6.0 or later there"),
        Unfit::SameServer { .. } => (
            "same_server",
            "same server",
            "take one of the two addresses out of every client's list, or put that of another server in its place",
        ),
        Unfit::Evicts { .. } => (
            "eviction",
            "eviction",
            "CONFIG SET maxmemory-policy noeviction there, and the same in its configuration",
        ),
        Unfit::UnknownEviction => (
            "unknown_eviction",
            "unknown eviction",
            "set noeviction if its provider has that setting; then MULTILOCK_ALLOW_UNKNOWN_EVICTION=true in every client",
        ),
        Unfit::UnknownRole => (
            "unknown_role",
            "unknown role",
            "if it certainly is a master and stays one: MULTILOCK_ALLOW_UNKNOWN_ROLE=true in every client",
        ),
        Unfit::ScriptsNotAtomic { .. } => ("atomic_scripts", "atomic scripts", "use Redis or Valkey"),
        Unfit::NoScripts { .. } => (
            "no_scripts",
            "no scripts",
            "load its Lua module, or use a server that has Lua",
        ),
        Unfit::OtherSet { set, listed, .. } if set.masters == listed.masters => (
            "other_set",
            "other set",
            "set MULTILOCK_FOR_TESTS alike in every client; or, once no client uses it otherwise, run DEL multilock_set there",
        ),
        Unfit::OtherSet { .. } => (
            "other_set",
            "other set",
            "list the same masters in every client; if the set was changed on purpose, stop its clients, and then run DEL \
             multilock_set there",
        ),
        Unfit::Denied { .. } => (
            "denied",
            "denied",
            "look at user and password (and the database), and give the user what the ACL SETUSER of docs/servers.md allows; rename no command",
        ),
        _ => ("unfit", "which servers", "replace it by a supported server"),
    }
}
