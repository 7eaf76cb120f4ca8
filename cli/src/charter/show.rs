//! What the masters store of long leases, for people and for programs.

use std::time::Duration;

use comfy_table::{Table, presets};
use multilock::{Charter, CharterState, NodeCharter, NodeError};
use serde_json::{Value, json};

use crate::report::ms;
use crate::say::Rough;
use crate::translation::translated;

/// In one line.
pub(super) fn describe(charter: &Charter) -> String {
    let free = Rough(charter.free);
    match charter.state() {
        CharterState::Nothing => format!("nothing stands: leases of up to {free} need no agreement"),
        CharterState::InForce(lease) => format!("leases of up to {} are in force", Rough(lease)),
        CharterState::Pending { longest, in_force } => format!(
            "leases of up to {} wait to be confirmed by all masters at once; up to {} may be asked for meanwhile",
            Rough(longest),
            Rough(in_force.max(charter.free))
        ),
        CharterState::Differs => "the masters differ".to_owned(),
        _ => "not every master tells".to_owned(),
    }
}

fn word(state: CharterState) -> &'static str {
    match state {
        CharterState::Nothing => "nothing",
        CharterState::InForce(_) => "in force",
        CharterState::Pending { .. } => "pending",
        CharterState::Differs => "differs",
        _ => "unknown",
    }
}

pub(super) fn table(charter: &Charter) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["  master", "longest", "in force", "masters", "stored by"]);
    for (node, told) in &charter.nodes {
        let [longest, in_force, masters, by] = row(told);
        table.add_row([format!("  {node}"), longest, in_force, masters, by]);
    }
    table.trim_fmt()
}

fn row(told: &Result<NodeCharter, NodeError>) -> [String; 4] {
    let stored = match told {
        Ok(stored) => stored,
        Err(error) => return ["silent".into(), String::new(), String::new(), translated(error)],
    };
    let lease = |lease: Duration| {
        if lease.is_zero() {
            "-".to_owned()
        } else {
            Rough(lease).to_string()
        }
    };
    [
        lease(stored.longest),
        lease(stored.in_force),
        stored
            .masters
            .map_or("-".to_owned(), |masters| masters.to_string()),
        stored.raised_by.as_deref().unwrap_or("-").to_owned(),
    ]
}

/// As `--json` prints it.
pub(super) fn as_json(charter: &Charter) -> Value {
    let nodes = charter.nodes.iter().map(|(node, told)| match told {
        Ok(stored) => json!({
            "node": &**node,
            "longest_ms": ms(stored.longest),
            "in_force_ms": ms(stored.in_force),
            "masters": stored.masters,
            "raised_by": stored.raised_by.as_deref(),
        }),
        Err(error) => json!({ "node": &**node, "error": translated(error) }),
    });
    json!({
        "state": word(charter.state()),
        "free_ms": ms(charter.free),
        "nodes": nodes.collect::<Vec<_>>(),
    })
}
