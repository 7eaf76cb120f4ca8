//! The report for programs.

use multilock::{ClientConnection, Denial, DeniedCommand, Examination, ServerFacts};
use serde_json::{Value, json};

use super::finding::Finding;
use super::watch::{Pool, Watched};
use super::{Diagnosis, together};
use crate::report::ms;
use crate::translation::{page, translated};

pub(super) fn of(diagnosis: &Diagnosis, code: u8) -> Value {
    let masters: Vec<Value> = diagnosis.masters.iter().map(master).collect();
    let findings: Vec<Value> = diagnosis.findings.iter().map(finding).collect();
    json!({
        "exit_code": code,
        "findings": findings,
        "masters": masters,
        "clients": clients(&diagnosis.masters, &diagnosis.watched),
        "watched_ms": ms(diagnosis.watched.lasted),
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "severity": finding.severity.word(),
        "code": finding.code,
        "node": finding.node,
        "seen": translated(&finding.seen),
        "remedy": translated(&finding.remedy),
        "faq": finding.faq,
        "page": finding.faq.map(page),
    })
}

fn master(master: &Examination) -> Value {
    let mut object = match &master.server {
        Ok(facts) => by_facts(facts),
        Err(_) => json!({}),
    };
    object["node"] = (*master.node).into();
    object["error"] = master.server.as_ref().err().map(translated).into();
    object["has_vote"] = together::usable(master)
        .is_some_and(|facts| facts.quarantine.is_zero())
        .into();
    object
}

fn by_facts(facts: &ServerFacts) -> Value {
    let can = facts.capabilities;
    json!({
        "refusal": facts.refusal.as_ref().map(ToString::to_string),
        "version": *facts.version,
        "role": facts.role,
        "run_id": facts.run_id,
        "replication_id": facts.replication_id,
        "other_servers": facts.other_servers,
        "remembers_ms": facts.remembers.map(ms),
        "quarantine_ms": ms(facts.quarantine),
        "clock_offset_us": facts.clock_offset_us,
        "round_trip_us": u64::try_from(facts.round_trip.as_micros()).unwrap_or(u64::MAX),
        "capabilities": {
            "resp3": can.resp3,
            "kill_fence": can.kill_fence,
            "run_known": can.run_known,
            "eviction_known": can.eviction_known,
            "identity_known": can.identity_known,
        },
        "maxmemory": facts.max_memory,
        "maxmemory_policy": facts.eviction_policy,
        "appendonly": facts.append_only,
        "appendfsync": facts.append_fsync,
        "no_appendfsync_on_rewrite": facts.no_fsync_on_rewrite,
        "default_user_writes": facts.default_user_writes,
        "writes_refused": facts.writes_refused,
        "denied": facts.denied.iter().map(denied).collect::<Vec<_>>(),
        "masters": facts.set.map(|set| set.masters),
        "for_tests_ms": facts.set.and_then(|set| set.for_tests).map(ms),
        "redisson_channels": facts.redisson_channels,
        "connections": facts.clients.as_ref().map(|clients| clients.iter().map(connection).collect::<Vec<_>>()),
    })
}

fn denied(denied: &DeniedCommand) -> Value {
    let why = match denied.why {
        Denial::Command => "command",
        Denial::InScript => "in_script",
        Denial::Key => "key",
        Denial::Channel => "channel",
        _ => "other",
    };
    json!({"command": denied.name, "why": why, "needed": denied.is_needed})
}

fn connection(client: &ClientConnection) -> Value {
    json!({
        "pool": client.pool,
        "masters": client.masters,
        "address": client.address,
        "age_ms": ms(client.age),
        "idle_ms": ms(client.idle),
    })
}

fn clients(masters: &[Examination], watched: &Watched) -> Vec<Value> {
    let labels =
        |nodes: Vec<usize>| -> Vec<&str> { nodes.into_iter().map(|node| &*masters[node].node).collect() };
    let client = |(id, pool): (&String, &Pool)| {
        json!({
            "pool": id,
            "masters": pool.masters,
            "addresses": pool.addresses,
            "seen_on": labels(pool.seen_on.iter().copied().collect()),
            "missing_on": labels(watched.missing(pool).collect()),
        })
    };
    watched.pools.iter().map(client).collect()
}
