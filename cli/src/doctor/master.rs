//! Problems of one master by itself.

use std::net::SocketAddr;

use multilock::{Denial, DeniedCommand, Examination, NodeError, ServerFacts, Unfit};

use super::finding::{Finding, Severity};
use super::refusal;
use crate::say::Rough;

pub(super) fn findings(master: &Examination) -> Vec<Finding> {
    let findings = match &master.server {
        Ok(facts) => of(&master.node, facts),
        Err(error) => vec![refusal::finding(error)],
    };
    findings
        .into_iter()
        .map(|finding| finding.at(&master.node))
        .collect()
}

fn of(node: &str, facts: &ServerFacts) -> Vec<Finding> {
    let denied = facts.denied.iter().map(denied);
    // A command that is denied inside of scripts is a refusal, too.
    let is_denied_by_name =
        matches!(facts.refusal, Some(NodeError::Unfit(Unfit::Denied { .. }))) && !facts.denied.is_empty();
    // Another master is in another set, and the finding is reported there.
    let is_of_another = matches!(&facts.refusal, Some(NodeError::Unfit(Unfit::OtherSet { reported_by, .. })) if **reported_by != *node);
    let refusal = facts
        .refusal
        .iter()
        .filter(|_| !is_denied_by_name && !is_of_another);
    let mut findings: Vec<Finding> = refusal.map(refusal::finding).chain(denied).collect();
    findings.extend(other_servers(&facts.other_servers));
    findings.extend(writes(facts));
    findings.extend(memory(facts));
    findings.extend(abilities(facts));
    findings.extend(accepted(facts));
    findings.extend(default_user(facts));
    findings.extend(redisson(facts));
    if facts.clients.is_none() {
        findings.push(Finding::note(
            "clients_not_told",
            "clients that list other masters are not visible here: the user may not run CLIENT LIST",
            "run doctor as a user with +client|list",
        ));
    }
    findings
}

/// Finding about a name with the addresses of several servers. A client uses any of them, and another client another one.
fn other_servers(addresses: &[SocketAddr]) -> Option<Finding> {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    (!addresses.is_empty()).then(|| {
        let seen = format!(
            "its name leads to other servers, too ({}): two clients can hold one lock",
            addresses.join(", ")
        );
        let remedy = "give the name the addresses of one server, or list that server by an address of its own, in every client";
        Finding::unfit("several_servers", seen, remedy).faq("several servers")
    })
}

/// Finding about a server that takes no writes for now.
fn writes(facts: &ServerFacts) -> Option<Finding> {
    let reason = facts.writes_refused.as_ref()?;
    let seen = format!("it takes no writes now, so it grants no lock: {reason}");
    let remedy = "give it memory or disk, or bring back its replicas, as the reason says";
    Some(Finding::warning("writes_refused", seen, remedy))
}

/// Finding about the user against which a server checks its append-only file.
fn default_user(facts: &ServerFacts) -> Option<Finding> {
    let is_lost = facts.default_user_writes == Some(false) && facts.append_only != Some(false);
    is_lost.then(|| {
        let seen = "the user `default` may not write: a server from before 2026 drops the writes of scripts, such as locks and \
                    tokens, when it loads its append-only file";
        let remedy = "ACL SETUSER default off ~* &* +@all there, and the same in its configuration: nobody can log in as a user that is off";
        Finding::warning("default_user", seen, remedy).faq("default user")
    })
}

/// Finding about clients of Redisson's that clients of this crate do not wake.
fn redisson(facts: &ServerFacts) -> Option<Finding> {
    let channels = facts.redisson_channels.filter(|channels| *channels > 0)?;
    let seen = format!(
        "clients of Redisson's listen to {channels} of its channels, and MULTILOCK_BESIDE_REDISSON is off: if they wait for the \
         same names, a release does not wake them"
    );
    let remedy = "MULTILOCK_BESIDE_REDISSON=true in every client that locks the same names";
    Some(Finding::warning("redisson", seen, remedy))
}

/// Whether no client has used the server as a master. Its quarantine begins with the first client, which leaves a record there.
pub(super) fn is_new(facts: &ServerFacts) -> bool {
    let has_record = facts.set.is_some() || facts.remembers.is_some();
    // A user that lacks a command that is needed may be unable to read the record.
    let is_told = facts.denied.iter().all(|denied| !denied.is_needed);
    !facts.quarantine.is_zero() && !has_record && is_told
}

/// Findings about its memory, and the time for which it reaches back.
fn memory(facts: &ServerFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if is_new(facts) {
        let seen = format!(
            "no client has used it yet: its {} without a vote begin with the first one",
            Rough(facts.quarantine)
        );
        let remedy =
            "start a client: multilock wait-ready --all is one, and ends when every master has its vote";
        findings.push(Finding::warning("quarantine", seen, remedy).faq("quarantine"));
    } else if !facts.quarantine.is_zero() {
        let seen = format!(
            "it may have lost locks, so it has no vote for {} more",
            Rough(facts.quarantine)
        );
        let remedy = "wait; if this comes again, find out why the server restarts or loses its data, or does not report the run of its process";
        findings.push(Finding::warning("quarantine", seen, remedy).faq("quarantine"));
    }
    let finding = match (facts.append_only, facts.append_fsync.as_deref()) {
        (Some(false), _) => Finding::warning(
            "append_only",
            "it writes no append-only file: after a restart it has forgotten who holds",
            "CONFIG SET appendonly yes and appendfsync always there, and the same in its configuration",
        ),
        (Some(true), Some("always")) if facts.no_fsync_on_rewrite == Some(true) => Finding::warning(
            "append_fsync",
            "while it saves a snapshot or rewrites its append-only file, it answers before its writes are on its disk (no-appendfsync-on-rewrite yes)",
            "CONFIG SET no-appendfsync-on-rewrite no there, and the same in its configuration",
        ),
        (Some(true), Some("always")) => return findings,
        (Some(true), Some(fsync)) => Finding::warning(
            "append_fsync",
            format_args!("it answers before its writes are on its disk (appendfsync {fsync})"),
            "CONFIG SET appendfsync always there, and the same in its configuration",
        ),
        _ => Finding::note(
            "append_not_told",
            "it does not show whether its acknowledged writes are on its disk",
            "look at appendonly and appendfsync there, or run doctor as a user with +config|get",
        ),
    };
    findings.push(finding.faq("append-only file"));
    findings
}

/// Findings about missing abilities.
fn abilities(facts: &ServerFacts) -> Vec<Finding> {
    let can = facts.capabilities;
    let is_denied = facts
        .denied
        .iter()
        .any(|denied| denied.name.starts_with("client|"));
    let each = [
        (
            can.resp3,
            Finding::note(
                "resp3",
                "it speaks RESP2 alone: each client has a second connection to it",
                "choose RESP3 where its provider has that setting",
            ),
        ),
        (
            // Without the run, no connection knows its predecessor: one cause, one finding.
            can.kill_fence || is_denied || !can.run_known,
            Finding::warning(
                "kill_fence",
                "it lacks CLIENT ID or CLIENT KILL: a late command of a lost connection may lock a name for a lease",
                "none is needed for safe locks; to avoid that wait, use Redis or Valkey",
            ),
        ),
        (
            can.run_known,
            Finding::warning(
                "run",
                "it does not say which run of its process this is: each client waits a quarantine for its vote, and a late command may lock a name for a lease",
                "if it loses no acknowledged write at a restart: MULTILOCK_QUARANTINE=off in every client",
            )
            .faq("quarantine"),
        ),
        (
            can.identity_known,
            Finding::warning(
                "identity",
                "it does not say which server it is: a second address of it would not be noticed",
                "make sure that no other address of the list leads to it",
            )
            .faq("same server"),
        ),
    ];
    let missing = each.into_iter().filter(|(there, _)| !there);
    missing.map(|(_, finding)| finding).collect()
}

/// Findings about flaws that an option makes a client accept.
fn accepted(facts: &ServerFacts) -> Vec<Finding> {
    if matches!(facts.refusal, Some(NodeError::Unfit(_))) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let evicts = facts.max_memory != Some(0) && facts.eviction_policy.as_deref() != Some("noeviction");
    if evicts {
        let policy = facts.eviction_policy.as_deref().unwrap_or("is not told");
        let seen = format!(
            "it may evict locks when its memory is full (maxmemory-policy {policy}), which is allowed here"
        );
        let remedy = "CONFIG SET maxmemory-policy noeviction there, and the same in its configuration";
        findings.push(Finding::warning("eviction", seen, remedy).faq("eviction"));
    }
    if facts.role.is_none() {
        let seen = "it does not say whether it is a master, which is allowed here";
        let remedy =
            "make sure that it is a master, and that a server in its place has all acknowledged writes";
        findings.push(Finding::warning("unknown_role", seen, remedy).faq("unknown role"));
    }
    findings
}

fn denied(denied: &DeniedCommand) -> Finding {
    let name = &denied.name;
    let (seen, remedy) = match denied.why {
        Denial::Key => (
            format!("the user may not use the keys that {name} needs"),
            "ACL SETUSER … ~multilock_* there".to_owned(),
        ),
        // A pattern is allowed by all channels, or by the same pattern.
        Denial::Channel if name == "psubscribe" => (
            "the user may not psubscribe to the channels of Redisson's fair locks".to_owned(),
            "ACL SETUSER … allchannels there".to_owned(),
        ),
        Denial::Channel => (
            format!("the user may not {name} to the channels of clients"),
            "ACL SETUSER … &multilock:* there".to_owned(),
        ),
        Denial::InScript => (
            format!("the user may not run {name} in a script"),
            format!("ACL SETUSER … +{name} there"),
        ),
        _ => (
            format!("the user may not run {name}"),
            format!("ACL SETUSER … +{name} there"),
        ),
    };
    if denied.is_needed {
        return Finding::unfit("denied", seen, remedy).faq("denied");
    }
    let (severity, so) = without(name);
    Finding::of(severity, "denied_in_part", format_args!("{seen}: {so}"), remedy).faq("denied")
}

/// Severity and effect of a missing command that is not needed.
fn without(command: &str) -> (Severity, &'static str) {
    match command {
        "client|setinfo" => (Severity::Note, "CLIENT LIST does not show the library"),
        "client|setname" => (
            Severity::Warning,
            "CLIENT LIST does not show clients that list other masters",
        ),
        "client|id" | "client|kill" => (
            Severity::Warning,
            "a late command of a lost connection may lock a name for a lease",
        ),
        "subscribe" | "unsubscribe" | "publish" => {
            (Severity::Warning, "waiters wake by their timers, in no order")
        }
        "psubscribe" | "punsubscribe" | "lrange" => (
            Severity::Note,
            "waiters of this client and of Redisson's fair locks do not wake each other",
        ),
        "pubsub" => (
            Severity::Warning,
            "waiters that have ended delay the waiters behind them for some seconds",
        ),
        _ => (
            Severity::Warning,
            "one of the ways to give a restarted server the scripts is missing",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_several_servers_is_an_error_with_their_addresses() {
        assert!(other_servers(&[]).is_none());
        let addresses = ["10.0.0.2:6379", "[::1]:6379"].map(|address| address.parse().expect("an address"));
        let finding = other_servers(&addresses).expect("a finding");
        assert_eq!(
            (finding.severity, finding.code),
            (Severity::Unfit, "several_servers")
        );
        assert!(
            finding.seen.contains("(10.0.0.2:6379, [::1]:6379)"),
            "{}",
            finding.seen
        );
    }
}
