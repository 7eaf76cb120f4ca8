//! Answers of the masters about a name, for people and for programs.

use std::collections::HashMap;
use std::time::Duration;

use multilock::{FencingToken, Holder, Inspection, LastForce, NodeState, Policy};
use serde_json::{Value, json};

use crate::say::{Rough, visible};
use crate::translation::translated;

/// Redis type of a key that a force deletes although it may be no lock: other libraries lock with it.
const STRING: &str = "string";
/// Words for such a key.
pub(crate) const OTHERS: &str = "another library's lock, or a foreign key";

/// Ending for a time that a renewal prolongs.
const UNLESS: &str = " unless renewed";

/// State of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Enough masters have the same holder.
    Held,
    /// Enough masters have the same readers.
    Read,
    /// Enough masters have something under the name, and it has no holder: contenders got a part each, or the
    /// key is no lock.
    Kept,
    /// Enough masters have nothing under the name.
    Free,
    /// Too few masters answered.
    Unknown,
}

impl State {
    /// The inspection was made with the same policy.
    pub(crate) fn of(name: &Inspection, policy: Policy) -> Self {
        if name.agreed.is_some() {
            return Self::Held;
        }
        if !name.readers.is_empty() {
            return Self::Read;
        }
        let all = name.nodes.len();
        let needed = policy.needed(all);
        // The answer of a master that may have forgotten its holders does not count.
        let tells = |node: &str| !name.quarantined.iter().any(|(label, _)| **label == *node);
        let (mut free, mut doubtful, mut silent) = (0, 0, 0);
        let mut holds: HashMap<&Holder, usize> = HashMap::new();
        for (node, state) in &name.nodes {
            match state {
                NodeState::Free if tells(node) => free += 1,
                NodeState::Free => doubtful += 1,
                NodeState::Silent(_) => silent += 1,
                NodeState::Held { holder, count, .. } | NodeState::Write { holder, count, .. }
                    if *count > 0 =>
                {
                    *holds.entry(holder).or_default() += 1;
                }
                NodeState::Read { holders, .. } => {
                    for holder in holders {
                        *holds.entry(holder).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
        let undecided = doubtful + silent;
        let most = holds.into_values().max().unwrap_or(0);
        let is_allowed = doubtful <= policy.forgetful_allowed(all);
        let grants = if is_allowed { free + doubtful } else { free };
        if most + undecided >= needed {
            // That holder may have the other masters, too.
            Self::Unknown
        } else if grants >= needed {
            Self::Free
        } else if free + undecided < needed {
            Self::Kept
        } else {
            Self::Unknown
        }
    }

    /// State of several names: free if one of them is free, held if all of them are held.
    pub(crate) fn of_all(names: &[Inspection], policy: Policy) -> Self {
        let states: Vec<Self> = names.iter().map(|name| Self::of(name, policy)).collect();
        let open = [Self::Free, Self::Unknown]
            .into_iter()
            .find(|state| states.contains(state));
        open.or(states.first().copied()).unwrap_or(Self::Unknown)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Read => "read",
            Self::Kept => "kept",
            Self::Free => "free",
            Self::Unknown => "unknown",
        }
    }
}

/// Describes a name in one line.
pub(crate) fn describe(name: &Inspection, policy: Policy) -> String {
    let state = match State::of(name, policy) {
        State::Held => format!("held by {}{}", holders(name), left(name, UNLESS)),
        State::Read => format!("read by {}{}", holders(name), left(name, UNLESS)),
        State::Kept if has_string(name) => {
            format!("kept from being locked by {OTHERS}{}", left(name, UNLESS))
        }
        State::Kept => format!("kept from being locked, and held by nobody{}", left(name, "")),
        State::Free => "free".to_owned(),
        State::Unknown => format!("not known to be held or free ({})", missing(name)),
    };
    let forced = name.last_force.as_ref();
    let forced = forced.map_or(String::new(), |force| {
        format!(", taken away {}", visible(&force.to_string()))
    });
    format!(
        "{} {state}, {} waiting{forced}",
        visible(&name.name),
        name.waiting
    )
}

/// Whether any master has a string under the name.
pub(crate) fn has_string(name: &Inspection) -> bool {
    let is_string = |state: &NodeState| matches!(state, NodeState::Foreign { kind, .. } if kind == STRING);
    name.nodes.iter().any(|(_, state)| is_string(state))
}

/// Holders that enough masters agree on.
pub(crate) fn holders(name: &Inspection) -> String {
    let holders = name.agreed.iter().chain(&name.readers).map(with_about);
    holders.collect::<Vec<_>>().join(", ")
}

/// A holder with its text about the hold, if it has set one.
fn with_about(holder: &Holder) -> String {
    let shown = match holder.about() {
        Some(about) => format!("{holder} ({about})"),
        None => holder.to_string(),
    };
    visible(&shown).into_owned()
}

/// Id of a hold: enough to distinguish it from every other one, and too little to release it.
pub(crate) fn hold_id(holder: &Holder) -> String {
    holder.redacted_owner().to_string().replace('…', "")
}

/// Whether a field belongs to the hold with this id. A writer of Redisson's that reads as well has a field for each, and an
/// inspection shows the writer's alone.
pub(crate) fn belongs_to(holder: &Holder, hold: &str) -> bool {
    let id = hold_id(holder);
    hold == id || hold.strip_suffix(":write") == Some(&id)
}

/// A holder with its hold.
pub(crate) fn shown(holder: &Holder) -> String {
    let id = hold_id(holder);
    let holder_and_hold = match holder.client_label() {
        Some(label) => format!("{label} ({id})"),
        None => id,
    };
    let shown = match holder.about() {
        Some(about) => format!("{holder_and_hold}: {about}"),
        None => holder_and_hold,
    };
    visible(&shown).into_owned()
}

/// Reason why too few masters count.
fn missing(name: &Inspection) -> String {
    let is_silent = |(_, state): &&(_, NodeState)| matches!(state, NodeState::Silent(_));
    let silent = name.nodes.iter().filter(is_silent).count();
    let mut reasons = Vec::new();
    if let Some(longest) = name.quarantined.iter().map(|(_, left)| *left).max() {
        let (count, longest) = (name.quarantined.len(), Rough(longest));
        reasons.push(format!("{count} in quarantine, for {longest} more"));
    }
    if silent > 0 {
        reasons.push(format!("{silent} without an answer"));
    }
    let all = name.nodes.len();
    if reasons.is_empty() {
        format!("the {all} masters differ")
    } else {
        format!("of {all} masters {}", reasons.join(", "))
    }
}

fn left(name: &Inspection, condition: &str) -> String {
    let left = name.nodes.iter().filter_map(|(_, state)| remaining(state)).max();
    left.map_or(String::new(), |left| format!(" for {}{condition}", Rough(left)))
}

/// Longest time for which a master keeps the name locked.
pub(crate) fn remaining(state: &NodeState) -> Option<Duration> {
    match state {
        NodeState::Held { remaining, .. }
        | NodeState::Write { remaining, .. }
        | NodeState::Read { remaining, .. }
        | NodeState::Foreign { remaining, .. } => *remaining,
        _ => None,
    }
}

/// State, holder and remaining time of one master.
pub(crate) fn row(name: &Inspection, node: &str, state: &NodeState) -> [String; 3] {
    let (word, detail) = match state {
        NodeState::Free => ("free", String::new()),
        NodeState::Held { holder, .. } => ("held", shown(holder)),
        NodeState::Write { holder, .. } => ("written", shown(holder)),
        NodeState::Read { holders, .. } => {
            let holders: Vec<String> = holders.iter().map(shown).collect();
            ("read", holders.join(", "))
        }
        NodeState::Foreign { kind, .. } if kind == STRING => ("a string", OTHERS.to_owned()),
        NodeState::Foreign { kind, .. } => ("no lock", format!("a {kind}")),
        NodeState::Silent(_) => ("silent", String::new()),
        _ => ("unknown", String::new()),
    };
    let quarantined = name.quarantined.iter().find(|(label, _)| **label == *node);
    let word = quarantined.map_or(word.to_owned(), |(_, left)| {
        format!("{word}, in quarantine for {}", Rough(*left))
    });
    let left = remaining(state).map_or(String::new(), |left| Rough(left).to_string());
    [word, detail, left]
}

/// Reasons of the masters that did not answer, each with the masters that have it.
pub(crate) fn silences(name: &Inspection) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (node, state) in &name.nodes {
        let NodeState::Silent(vote) = state else { continue };
        let reason = translated(vote);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, nodes)) => nodes.push(node),
            None => reasons.push((reason, vec![node])),
        }
    }
    let line = |(reason, nodes): (String, Vec<&str>)| format!("{}: {reason}", nodes.join(", "));
    reasons.into_iter().map(line).collect()
}

/// JSON of `inspect --json` and `watch`.
pub(crate) fn as_json(name: &Inspection, policy: Policy) -> Value {
    let nodes: Vec<Value> = name
        .nodes
        .iter()
        .map(|(node, state)| node_as_json(name, node, state))
        .collect();
    json!({
        "name": name.name,
        "state": State::of(name, policy).word(),
        "holder": name.agreed.as_ref().map(ToString::to_string),
        "hold": name.agreed.as_ref().map(hold_id),
        "about": name.agreed.as_ref().and_then(Holder::about),
        "readers": name.readers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "reading_holds": name.readers.iter().map(hold_id).collect::<Vec<_>>(),
        "reading_about": name.readers.iter().map(Holder::about).collect::<Vec<_>>(),
        "waiting": name.waiting,
        "waiting_to_read": name.waiting_to_read,
        "first_waiting": name.first_waiting.as_ref().map(ToString::to_string),
        "first_waits_ms": name.first_waits.map(ms),
        "fence": name.fence.map(FencingToken::get),
        "last_force": name.last_force.as_ref().map(force_as_json),
        "nodes": nodes,
    })
}

fn force_as_json(force: &LastForce) -> Value {
    json!({
        "at": humantime::format_rfc3339_millis(force.at).to_string(),
        "by": force.by.as_deref(),
        "reason": force.reason.as_deref(),
    })
}

fn node_as_json(name: &Inspection, node: &str, state: &NodeState) -> Value {
    let quarantined = name.quarantined.iter().find(|(label, _)| **label == *node);
    let mut node_json = json!({
        "node": node,
        "expires_in_ms": remaining(state).map(ms),
        "quarantine_ms": quarantined.map(|(_, left)| ms(*left)),
    });
    match state {
        NodeState::Free => node_json["state"] = "free".into(),
        NodeState::Held { holder, count, .. } | NodeState::Write { holder, count, .. } => {
            let is_written = matches!(state, NodeState::Write { .. });
            node_json["state"] = if is_written { "written" } else { "held" }.into();
            node_json["holder"] = holder.to_string().into();
            node_json["hold"] = hold_id(holder).into();
            node_json["about"] = holder.about().into();
            node_json["count"] = (*count).into();
        }
        NodeState::Read { holders, .. } => {
            node_json["state"] = "read".into();
            node_json["readers"] = holders.iter().map(ToString::to_string).collect::<Vec<_>>().into();
            node_json["reading_holds"] = holders.iter().map(hold_id).collect::<Vec<_>>().into();
            node_json["reading_about"] = holders.iter().map(Holder::about).collect::<Vec<_>>().into();
        }
        NodeState::Foreign { kind, .. } => {
            node_json["state"] = "foreign".into();
            node_json["kind"] = kind.as_str().into();
        }
        NodeState::Silent(vote) => {
            node_json["state"] = "silent".into();
            node_json["reason"] = translated(vote).into();
        }
        _ => node_json["state"] = "unknown".into(),
    }
    node_json
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use multilock::sim::Keep;
    use multilock::{Masters, Quarantine};

    use super::*;

    /// A lock of all masters may be granted by one that was restarted, and one of a majority may not.
    #[tokio::test(start_paused = true)]
    async fn masters_in_quarantine_count_as_the_policy_has_it() {
        let (_, cluster) = Masters::in_memory(3).await.expect("masters");
        let restart = |place| {
            cluster.master(place).crash();
            cluster.master(place).restart(Keep::Nothing);
        };
        let states = async || {
            let builder = Masters::builder().quarantine(Quarantine::Auto);
            let masters = cluster.connect(builder).await.expect("connected");
            let mut states = Vec::new();
            for policy in [Policy::RedLock, Policy::MultiLock] {
                let names = masters.lock("a", policy).inspect().await.expect("answers");
                states.push(State::of(&names[0], policy));
            }
            states
        };
        tokio::time::sleep(Duration::from_secs(60)).await;
        restart(0);
        assert_eq!(states().await, [State::Free, State::Free]);
        restart(1);
        assert_eq!(states().await, [State::Unknown, State::Unknown]);
    }

    /// A long reason for all masters made the table a screen wide for each.
    #[tokio::test(start_paused = true)]
    async fn masters_with_one_reason_for_their_silence_share_a_line() {
        let (_, cluster) = Masters::in_memory(3).await.expect("masters");
        let masters = cluster.connect(Masters::builder()).await.expect("connected");
        let lock = masters.red_lock("a");
        let first = lock.inspect().await.expect("answers");
        assert!(silences(&first[0]).is_empty());
        cluster.iter().take(2).for_each(multilock::sim::Master::crash);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let names = lock.inspect().await.expect("one answers");
        let lines = silences(&names[0]);
        let masters: Vec<_> = names[0].nodes.iter().map(|(node, _)| &**node).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let both = format!("{}, {}: not sent: ", masters[0], masters[1]);
        assert!(lines[0].starts_with(&both), "{lines:?}");
        let cell = row(&names[0], masters[0], &names[0].nodes[0].1);
        assert_eq!(cell, ["silent", "", ""]);
    }
}
