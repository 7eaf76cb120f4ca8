//! The masters and their locks at one moment, as the page gets them.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use multilock::{Inspection, LockError, NodeState, NodeStatus, Policy, Status};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::list;
use crate::report::{State, as_json, ms, remaining};
use crate::translation::translated;

/// Most locks that the page gets at once.
const MOST_LOCKS: usize = 500;
/// Number of the longest waits.
const LONGEST: usize = 5;

/// Load of the locks at one look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Changes of a holder in a second, as far as looks show them.
    pub(super) grants: f64,
    pub(super) held: usize,
    pub(super) waiting: u64,
}

#[derive(Debug)]
pub(super) struct Snapshot {
    at: Option<Instant>,
    /// Everything but the locks.
    head: Value,
    /// Locks, in the order of their names.
    locks: Vec<(String, Value)>,
}

impl Snapshot {
    /// Snapshot before the first look.
    pub(super) fn none() -> Self {
        Self {
            at: None,
            head: Value::Null,
            locks: Vec::new(),
        }
    }

    pub(super) fn new(
        status: &Status,
        locks: Result<Vec<Inspection>, LockError>,
        curves: &VecDeque<Point>,
        report: &Value,
    ) -> Self {
        let (locks, error) = match locks {
            Ok(locks) => (locks, None),
            Err(error) => (Vec::new(), Some(translated(error))),
        };
        let longest = longest_waits(&locks);
        let number = |number: fn(&Point) -> Value| curves.iter().map(number).collect::<Vec<_>>();
        let head = json!({
            "at": humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            "error": error,
            "ready": [ready(status, "RedLock", Policy::RedLock), ready(status, "MultiLock", Policy::MultiLock)],
            "masters": status.nodes.iter().map(|node| master(node, report)).collect::<Vec<_>>(),
            "curves": {
                "grants": number(|point| point.grants.into()),
                "held": number(|point| point.held.into()),
                "waiting": number(|point| point.waiting.into()),
            },
            "longest": longest,
            "findings": report["findings"],
        });
        Self {
            at: Some(Instant::now()),
            head,
            locks: locks
                .iter()
                .map(|name| (name.name.to_lowercase(), lock(name)))
                .collect(),
        }
    }

    pub(super) fn is_younger_than(&self, age: Duration) -> bool {
        self.at.is_some_and(|at| at.elapsed() < age)
    }

    /// The snapshot with the locks that have the text in their name, or in their holder's label or text. The locks with
    /// the most waiters come first.
    pub(super) fn with_locks(&self, text: &str) -> String {
        let text = text.to_lowercase();
        let has = |value: &Value| {
            value
                .as_str()
                .is_some_and(|value| value.to_lowercase().contains(&text))
        };
        let mut locks: Vec<&Value> = self
            .locks
            .iter()
            .filter(|(name, lock)| name.contains(&text) || has(&lock["holders"]) || has(&lock["about"]))
            .map(|(_, lock)| lock)
            .collect();
        let found = locks.len();
        // Stable: equal ones stay in the order of their names.
        locks.sort_by_key(|lock| Reverse(lock["waiting"].as_u64()));
        locks.truncate(MOST_LOCKS);
        let mut all = self.head.clone();
        all["total"] = self.locks.len().into();
        all["found"] = found.into();
        all["locks"] = locks.into_iter().cloned().collect();
        all.to_string()
    }
}

fn ready(status: &Status, policy: &str, needed: Policy) -> Value {
    let ready_in = status.ready_in(needed);
    json!({"policy": policy, "in_ms": ready_in.map(ms)})
}

/// A master, by the client's knowledge and by the last examination.
fn master(node: &NodeStatus, report: &Value) -> Value {
    let mut examined = report["masters"].as_array().into_iter().flatten();
    let examined = examined.find(|master| master["node"] == *node.node);
    let remembers = examined.map_or(&Value::Null, |master| &master["remembers_ms"]);
    match &node.connection {
        Err(error) => json!({
            "node": *node.node, "state": "away", "why": translated(error), "remembers_ms": remembers,
        }),
        Ok(connection) => {
            let (state, why) = if connection.is_silent {
                ("silent", "it has not answered in time")
            } else if !connection.quarantine.is_zero() {
                ("quarantine", "it may have forgotten locks")
            } else if node.is_overloaded {
                ("overloaded", "too many releases are pending")
            } else {
                ("votes", "")
            };
            json!({
                "node": *node.node,
                "state": state,
                "why": why,
                "version": *connection.version,
                "round_trip_us": u64::try_from(connection.round_trip.as_micros()).unwrap_or(u64::MAX),
                "clock_offset_us": connection.clock_offset_us,
                "quarantine_ms": ms(connection.quarantine),
                "owed_releases": node.owed_releases,
                "remembers_ms": remembers,
            })
        }
    }
}

fn lock(name: &Inspection) -> Value {
    let all = as_json(name);
    let is_there = |state: &NodeState| !matches!(state, NodeState::Free | NodeState::Silent(_));
    let (holds, abouts): (Vec<_>, Vec<_>) = name
        .agreed
        .iter()
        .chain(&name.readers)
        .map(|holder| {
            (
                json!({"holder": holder.to_string(), "hold": crate::report::hold_id(holder)}),
                holder.about(),
            )
        })
        .unzip();
    let holders: Vec<String> = name
        .agreed
        .iter()
        .chain(&name.readers)
        .map(ToString::to_string)
        .collect();
    let left = name.nodes.iter().filter_map(|(_, state)| remaining(state)).max();
    json!({
        "name": name.name,
        "state": State::of(name).word(),
        "holders": holders.join(", "),
        "holds": holds,
        "about": abouts.into_iter().flatten().next(),
        "age_ms": list::age(name).map(ms),
        "expires_in_ms": left.map(ms),
        "fence": all["fence"],
        "on": name.nodes.iter().filter(|(_, state)| is_there(state)).count(),
        "of": name.nodes.len(),
        "waiting": name.waiting,
        "first_waiting": all["first_waiting"],
        "first_waits_ms": all["first_waits_ms"],
    })
}

fn longest_waits(locks: &[Inspection]) -> Vec<Value> {
    let mut waits: Vec<(&Inspection, Duration)> = locks
        .iter()
        .filter_map(|lock| Some((lock, lock.first_waits?)))
        .collect();
    waits.sort_by_key(|(_, waits)| Reverse(*waits));
    let longest = waits.into_iter().take(LONGEST);
    longest
        .map(|(lock, waits)| {
            let waiter = lock.first_waiting.as_ref().map(ToString::to_string);
            json!({"name": lock.name, "waiter": waiter, "waits_ms": ms(waits), "waiting": lock.waiting})
        })
        .collect()
}
