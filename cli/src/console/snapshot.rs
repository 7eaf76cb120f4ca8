//! The masters and their locks at one moment, as the page gets them.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use multilock::{FencingToken, Holder, Inspection, NodeError, NodeState, NodeStatus, Policy, Status};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::list;
use crate::report::{State, hold_id, ms, remaining};
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

/// Report of `doctor`, and its time.
#[derive(Clone, Debug)]
pub(super) struct Examined {
    pub(super) at: Instant,
    pub(super) report: Value,
}

/// Order of the locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// The most waiters first, and of these the longest wait.
    #[default]
    Waiting,
    Name,
    /// The oldest hold first.
    Age,
}

impl Order {
    pub(super) fn of(word: &str) -> Self {
        match word {
            "name" => Self::Name,
            "age" => Self::Age,
            _ => Self::Waiting,
        }
    }
}

/// Result of reading the locks once.
#[derive(Debug)]
pub(super) struct Listed {
    at: Instant,
    error: Option<String>,
    longest: Vec<Value>,
    curves: Value,
    /// Locks, in the order of their names.
    locks: Vec<Lock>,
}

impl Listed {
    pub(super) fn new(locks: Result<Vec<Inspection>, String>, curves: &VecDeque<Option<Point>>) -> Self {
        let (locks, error) = match locks {
            Ok(locks) => (locks, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let number = |number: fn(&Point) -> Value| {
            let points = curves.iter().map(Option::as_ref);
            points
                .map(|point| point.map_or(Value::Null, number))
                .collect::<Vec<_>>()
        };
        Self {
            at: Instant::now(),
            error,
            longest: longest_waits(&locks),
            curves: json!({
                "grants": number(|point| point.grants.into()),
                "held": number(|point| point.held.into()),
                "waiting": number(|point| point.waiting.into()),
            }),
            locks: locks.iter().map(Lock::new).collect(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Snapshot {
    at: Instant,
    /// Members of the JSON object but the locks.
    head: String,
    /// `None` before the locks have been read for the first time.
    listed: Option<Arc<Listed>>,
}

/// A lock, ready to be sent.
#[derive(Debug)]
struct Lock {
    /// Name, holders and texts in small letters, for the search.
    words: String,
    waiting: u64,
    waits: Option<Duration>,
    age: Option<Duration>,
    json: String,
}

impl Snapshot {
    pub(super) fn new(status: &Status, listed: Option<Arc<Listed>>, examined: Option<&Examined>) -> Self {
        let locks = listed.as_deref();
        let judged = judged(status, examined);
        let head = json!({
            "at": humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            "ready": [ready(&judged, "RedLock", Policy::RedLock), ready(&judged, "MultiLock", Policy::MultiLock)],
            "masters": status.nodes.iter().map(|node| master(node, examined)).collect::<Vec<_>>(),
            "findings": examined.map(|examined| &examined.report["findings"]),
            "examined_age_ms": examined.map(|examined| ms(examined.at.elapsed())),
            "error": locks.map(|locks| &locks.error),
            "curves": locks.map(|locks| &locks.curves),
            "longest": locks.map(|locks| &locks.longest),
            "total": locks.filter(|locks| locks.error.is_none()).map(|locks| locks.locks.len()),
            "locks_age_ms": locks.map(|locks| ms(locks.at.elapsed())),
        });
        let head = head.to_string();
        Self {
            at: Instant::now(),
            head: head.strip_suffix('}').unwrap_or_default().to_owned(),
            listed,
        }
    }

    pub(super) fn is_younger_than(&self, age: Duration) -> bool {
        self.at.elapsed() < age
    }

    /// The snapshot with the locks that have the text in their name, or in the label or text of a holder.
    pub(super) fn with_locks(&self, text: &str, order: Order) -> String {
        let text = text.to_lowercase();
        let locks = self.listed.iter().flat_map(|listed| &listed.locks);
        let mut found: Vec<&Lock> = locks.filter(|lock| lock.words.contains(&text)).collect();
        // Stable: equal ones stay in the order of their names.
        match order {
            Order::Waiting => found.sort_by_key(|lock| Reverse((lock.waiting, lock.waits))),
            Order::Name => {}
            Order::Age => found.sort_by_key(|lock| Reverse(lock.age)),
        }
        let shown: Vec<&str> = found
            .iter()
            .take(MOST_LOCKS)
            .map(|lock| lock.json.as_str())
            .collect();
        format!(
            "{},\"found\":{},\"locks\":[{}]}}",
            self.head,
            found.len(),
            shown.join(",")
        )
    }
}

impl Lock {
    fn new(name: &Inspection) -> Self {
        let holders: Vec<&Holder> = name.agreed.iter().chain(&name.readers).collect();
        let labels: Vec<String> = holders.iter().map(ToString::to_string).collect();
        let abouts: Vec<&str> = holders.iter().filter_map(|holder| holder.about()).collect();
        let words = [name.name.as_str(), &labels.join(" "), &abouts.join(" ")].join(" ");
        let is_there = |state: &NodeState| !matches!(state, NodeState::Free | NodeState::Silent(_));
        let left = name.nodes.iter().filter_map(|(_, state)| remaining(state)).max();
        let holds = holders.iter().zip(&labels);
        let holds: Vec<Value> = holds
            .map(|(holder, label)| json!({"holder": label, "hold": hold_id(holder)}))
            .collect();
        let age = list::age(name);
        let json = json!({
            "name": name.name,
            "state": State::of(name, list::POLICY).word(),
            "holders": labels.join(", "),
            "holds": holds,
            "about": abouts.join(", "),
            "age_ms": age.map(ms),
            "expires_in_ms": left.map(ms),
            "fence": name.fence.map(FencingToken::get),
            "on": name.nodes.iter().filter(|(_, state)| is_there(state)).count(),
            "of": name.nodes.len(),
            "waiting": name.waiting,
            "first_waiting": name.first_waiting.as_ref().map(ToString::to_string),
            "first_waits_ms": name.first_waits.map(ms),
        });
        Self {
            words: words.to_lowercase(),
            waiting: name.waiting,
            waits: name.first_waits,
            age,
            json: json.to_string(),
        }
    }
}

fn ready(status: &Status, policy: &str, needed: Policy) -> Value {
    let ready_in = status.ready_in(needed);
    json!({"policy": policy, "in_ms": ready_in.map(ms)})
}

/// Report of the last examination about a master.
fn report<'a>(examined: Option<&'a Examined>, node: &str) -> Option<&'a Value> {
    let mut masters = examined?.report["masters"].as_array()?.iter();
    masters.find(|master| master["node"] == node)
}

/// Reason why a master gives no vote although it is connected and remembers. A connection learns that by a vote, and
/// nothing here asks for one.
fn refusal(report: &Value) -> Option<String> {
    if let Some(refusal) = report["refusal"].as_str() {
        // The finding has the address of the entry in the FAQ.
        let reason = refusal.split(" (see ").next().unwrap_or(refusal);
        return Some(translated(reason));
    }
    if let Some(reason) = report["writes_refused"].as_str() {
        return Some(format!("it takes no writes now: {reason}"));
    }
    let mut denied = report["denied"].as_array()?.iter();
    let denied = denied.find(|denied| denied["needed"] == true)?;
    Some(format!("the user may not run {}", denied["command"].as_str()?))
}

/// The status, with the masters away that the last examination found to give no vote.
fn judged(status: &Status, examined: Option<&Examined>) -> Status {
    let mut judged = status.clone();
    for node in &mut judged.nodes {
        if let Some(why) = report(examined, &node.node).and_then(refusal)
            && node.connection.is_ok()
        {
            node.connection = Err(NodeError::Unavailable(why));
        }
    }
    judged
}

/// A master, by the client's knowledge and by the last examination.
fn master(node: &NodeStatus, examined: Option<&Examined>) -> Value {
    let report = report(examined, &node.node);
    let refusal = report.and_then(refusal);
    let mut object = match &node.connection {
        Err(error) => json!({"state": "away", "why": translated(error)}),
        Ok(connection) => {
            let (state, why) = if connection.is_silent {
                ("silent", "it does not answer in time")
            } else if let Some(why) = &refusal {
                ("refused", why.as_str())
            } else if !connection.quarantine.is_zero() {
                ("quarantine", "it may have forgotten locks")
            } else if node.is_overloaded {
                ("overloaded", "too many releases are pending")
            } else {
                ("votes", "")
            };
            json!({
                "state": state,
                "why": why,
                "version": *connection.version,
                "quarantine_ms": ms(connection.quarantine),
                "pending_releases": node.pending_releases,
            })
        }
    };
    object["node"] = (*node.node).into();
    // Of a master that is away nothing is known of now.
    if let (Ok(_), Some(examined)) = (&node.connection, examined) {
        let remembers = report.and_then(|report| report["remembers_ms"].as_u64());
        object["remembers_ms"] = remembers.map(|then| then + ms(examined.at.elapsed())).into();
        // The connection knows those of its set-up, because nothing here asks for a vote.
        for fact in ["round_trip_us", "clock_offset_us"] {
            object[fact] = report.map_or(Value::Null, |report| report[fact].clone());
        }
    }
    object
}

fn longest_waits(locks: &[Inspection]) -> Vec<Value> {
    let waits = |lock: &Inspection| lock.first_waits.filter(|_| lock.first_waiting.is_some());
    let mut longest: Vec<&Inspection> = locks.iter().filter(|lock| waits(lock).is_some()).collect();
    longest.sort_by_key(|lock| Reverse(lock.first_waits));
    let longest = longest.into_iter().take(LONGEST);
    longest
        .map(|lock| {
            let waiter = lock.first_waiting.as_ref().map(ToString::to_string);
            json!({"name": lock.name, "waiter": waiter, "waits_ms": waits(lock).map(ms), "waiting": lock.waiting})
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use multilock::Masters;

    use super::*;

    async fn status() -> Status {
        let (masters, _) = Masters::in_memory(3).await.expect("masters");
        masters.status()
    }

    /// A snapshot as the page gets it, after an examination with this report of the first master.
    fn shown(status: &Status, report: Value) -> Value {
        let mut report = report;
        report["node"] = (*status.nodes[0].node).into();
        let examined = Examined {
            at: Instant::now(),
            report: json!({"findings": [], "masters": [report]}),
        };
        let snapshot = Snapshot::new(status, None, Some(&examined));
        serde_json::from_str(&snapshot.with_locks("", Order::Name)).expect("JSON")
    }

    /// Nothing here asks for a vote, so no connection learns of it.
    #[tokio::test(start_paused = true)]
    async fn a_master_that_the_examination_refuses_has_no_vote() {
        let status = status().await;
        for (report, why) in [
            (
                json!({"refusal": "it is a replica, not a master (see https://a#replica)"}),
                "it is a replica, not a master",
            ),
            (json!({"writes_refused": "OOM"}), "it takes no writes now: OOM"),
            (
                json!({"denied": [{"command": "pubsub", "needed": false}, {"command": "hset", "needed": true}]}),
                "the user may not run hset",
            ),
        ] {
            let seen = shown(&status, report);
            let [first, second] = [&seen["masters"][0], &seen["masters"][1]];
            assert_eq!((&first["state"], &first["why"]), (&"refused".into(), &why.into()));
            assert_eq!(second["state"], "votes", "{seen:#}");
            assert_eq!(seen["ready"][1]["in_ms"], Value::Null, "{seen:#}");
            assert_eq!(seen["ready"][0]["in_ms"], 0, "{seen:#}");
        }
        let denied = json!({"denied": [{"command": "pubsub", "needed": false}], "has_vote": false});
        assert_eq!(shown(&status, denied)["masters"][0]["state"], "votes");
    }

    #[tokio::test(start_paused = true)]
    async fn round_trip_and_clock_are_those_of_the_examination() {
        let seen = shown(
            &status().await,
            json!({"round_trip_us": 1234, "clock_offset_us": -56}),
        );
        let [first, second] = [&seen["masters"][0], &seen["masters"][1]];
        assert_eq!(first["round_trip_us"], 1234, "{seen:#}");
        assert_eq!(first["clock_offset_us"], -56, "{seen:#}");
        assert_eq!(second["round_trip_us"], Value::Null, "not examined: {seen:#}");
    }
}
