//! `multilock force-release`: takes names away from their holders.

use std::collections::HashSet;

use multilock::{Holder, Inspection, Masters, NodeState, Policy};

use crate::args::ForceArgs;
use crate::exit::{self, Failure};
use crate::inspect::print;
use crate::report::{OTHERS, belongs_to, describe, has_string, hold_id, shown};
use crate::say::{Voice, confirmed, visible};

const POLICY: Policy = Policy::RedLock;

pub(crate) async fn force_release(args: &ForceArgs, masters: &Masters, voice: Voice) -> Result<u8, Failure> {
    let lock = masters.lock(&*args.names, POLICY);
    let seen = lock.inspect().await?;
    let meant = Meant::new(args);
    // It takes all of the names or none. The masters spare a hold that comes after the library has looked.
    if let Some(other) = seen.iter().find(|name| !meant.has(name)) {
        let (state, holds) = (describe(other, POLICY), seen_on(other));
        let unmet = meant.unmet(other);
        let message = format!("{state}{holds}: nothing was taken away, as no holder of it matches {unmet}");
        return Err(Failure::new(exit::FREE, message));
    }
    let mut states: Vec<String> = seen.iter().map(|name| describe(name, POLICY)).collect();
    let strings = seen.iter().filter(|name| has_string(name));
    let deleted = |name: &Inspection| {
        format!(
            "{}: a string is taken for another library's lock: the key is deleted",
            name.name
        )
    };
    states.extend(strings.map(deleted));
    let question = "Take it away? Its holder learns of it at the next renewal only.";
    if !args.yes && !confirmed(&states, question)? {
        return Err(Failure::new(exit::FREE, "nothing was taken away"));
    }
    let lock = match &args.reason {
        Some(reason) => lock.force_reason(reason),
        None => lock,
    };
    // The answer was about the holders that were shown. A later one is spared.
    let shown: HashSet<&Holder> = seen.iter().flat_map(holders).collect();
    let is_string_shown = seen.iter().any(has_string);
    let was_shown = |holder: &Holder| shown.contains(holder) || (is_string_shown && is_string(holder));
    let is_of_one_shown = |holder: &Holder| {
        let mut shown = shown.iter();
        shown.any(|shown| meant.is(shown) && belongs_to(holder, &hold_id(shown)))
    };
    let is_meant =
        |holder: &Holder| meant.is(holder) && (args.yes || was_shown(holder)) || is_of_one_shown(holder);
    let forced = lock.force_release_from(is_meant).await?;
    if forced.former.is_empty() {
        let names = args.names.join(", ");
        print(&format!("{names}: nobody held it, nothing was taken away\n"))?;
    } else {
        let names = taken(&seen, &forced.former);
        let mut former: Vec<String> = forced.former.iter().map(shown_former).collect();
        former.dedup();
        print(&format!("{names}: taken away from {}\n", former.join(", ")))?;
    }
    for spared in &forced.spared {
        voice.warn(format_args!(
            "{} is a {} on {} and no lock: left as it is",
            spared.name, spared.kind, spared.node
        ));
    }
    let is_done = !forced.former.is_empty() && forced.spared.is_empty();
    Ok(if is_done { 0 } else { exit::FREE })
}

/// Names of the former holders; all names if the holders came after the look.
fn taken(seen: &[Inspection], former: &[Holder]) -> String {
    let had = |name: &&Inspection| {
        holders(name).any(|holder| former.contains(holder))
            || (has_string(name) && former.iter().any(is_string))
    };
    let names = |names: Vec<&Inspection>| {
        names
            .iter()
            .map(|name| &*name.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let taken: Vec<&Inspection> = seen.iter().filter(had).collect();
    names(if taken.is_empty() {
        seen.iter().collect()
    } else {
        taken
    })
}

/// A former holder as an inspection shows it.
fn shown_former(holder: &Holder) -> String {
    if is_string(holder) {
        OTHERS.to_owned()
    } else {
        visible(&holder.to_string()).into_owned()
    }
}

/// Holders that are to lose the names.
struct Meant<'a> {
    label: Option<&'a str>,
    hold: Option<String>,
}

impl<'a> Meant<'a> {
    fn new(args: &'a ForceArgs) -> Self {
        Self {
            label: args.if_holder.as_deref(),
            // The library's log has this character in the middle.
            hold: args.if_hold.as_ref().map(|hold| hold.replace('…', "")),
        }
    }

    fn is(&self, holder: &Holder) -> bool {
        self.label.is_none_or(|label| holder.to_string() == label)
            && self.hold.as_ref().is_none_or(|hold| hold_id(holder) == *hold)
    }

    /// Conditions that no holder of the name meets; all of them if each has a holder of its own.
    fn unmet(&self, name: &Inspection) -> String {
        let label = self.label.map(|label| {
            let is_met = holders(name).any(|holder| holder.to_string() == label);
            (is_met, format!("--if-holder {label:?}"))
        });
        let hold = self.hold.as_ref().map(|hold| {
            let is_met = holders(name).any(|holder| hold_id(holder) == *hold);
            (is_met, format!("--if-hold {hold:?}"))
        });
        let given: Vec<(bool, String)> = label.into_iter().chain(hold).collect();
        let is_any_unmet = given.iter().any(|(is_met, _)| !is_met);
        let unmet = given.into_iter().filter(|(is_met, _)| !(is_any_unmet && *is_met));
        unmet
            .map(|(_, condition)| condition)
            .collect::<Vec<_>>()
            .join(" and ")
    }

    /// Whether such a holder has the name on any master. Without a condition, none is needed.
    fn has(&self, name: &Inspection) -> bool {
        (self.label.is_none() && self.hold.is_none()) || holders(name).any(|holder| self.is(holder))
    }
}

/// All holders of the name on any master.
fn holders(name: &Inspection) -> impl Iterator<Item = &Holder> {
    name.nodes.iter().flat_map(|(_, state)| match state {
        NodeState::Held { holder, .. } | NodeState::Write { holder, .. } => std::slice::from_ref(holder),
        NodeState::Read { holders, .. } => holders,
        _ => &[],
    })
}

/// Whether the library names a string so, which an inspection shows without a holder.
fn is_string(holder: &Holder) -> bool {
    holder.client_label().is_none() && holder.redacted_owner().to_string().starts_with("string:")
}

/// Holds on the masters, as text; empty without any.
fn seen_on(name: &Inspection) -> String {
    let mut seen: Vec<String> = holders(name).map(shown).collect();
    seen.sort_unstable();
    seen.dedup();
    if seen.is_empty() {
        String::new()
    } else {
        format!(", by {}", seen.join(", "))
    }
}
