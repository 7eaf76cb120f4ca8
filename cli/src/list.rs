//! `multilock list`: every lock that is held or waited for.

use std::cmp::Reverse;
use std::time::{Duration, SystemTime};

use comfy_table::{Table, presets};
use futures::TryStreamExt;
use multilock::{Inspection, Masters, NodeState, Policy};
use serde_json::Value;

use crate::args::{ListArgs, Sort};
use crate::exit::{self, Failure, unanswered};
use crate::inspect::{EVERY, as_text, is_read_for, show};
use crate::report::{State, as_json, holders, remaining};
use crate::say::{Rough, Voice, visible};

/// The library looks for the holders of this policy.
pub(crate) const POLICY: Policy = Policy::RedLock;

pub(crate) async fn list(args: &ListArgs, masters: &Masters, voice: Voice) -> Result<u8, Failure> {
    let mut is_told = false;
    loop {
        let found = masters.held(&args.pattern).try_collect::<Vec<Inspection>>().await;
        let mut locks = match found.map_err(|error| unanswered(error, masters, POLICY)) {
            Ok(locks) => locks,
            // As `inspect` and `watch`, it goes on while masters are out of reach.
            Err(failure) if args.watch && matches!(failure.code, exit::NO_QUORUM | exit::UNFIT) => {
                if !std::mem::replace(&mut is_told, true) {
                    voice.warn(format_args!("the locks are unknown: {}", failure.message));
                }
                if !is_read_for(EVERY).await {
                    return Ok(0);
                }
                continue;
            }
            Err(failure) => return Err(failure),
        };
        is_told = false;
        sort(&mut locks, args.sort);
        let text = if args.json {
            let locks: Vec<Value> = locks.iter().map(|lock| as_json(lock, POLICY)).collect();
            as_text(&Value::from(locks), args.watch)
        } else {
            table(&locks)
        };
        if !show(&text, args.watch)? || !args.watch || !is_read_for(EVERY).await {
            return Ok(0);
        }
    }
}

/// Sorts locks, which are in the order of their names.
fn sort(locks: &mut [Inspection], by: Sort) {
    match by {
        Sort::Name => {}
        // A lock without a token has an unknown age.
        Sort::Age => locks.sort_by_key(|lock| (lock.fence.is_none(), lock.fence)),
        Sort::Waiters => locks.sort_by_key(|lock| Reverse(lock.waiting)),
    }
}

fn table(locks: &[Inspection]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        "name",
        "state",
        "holder",
        "since",
        "expires in",
        "token",
        "masters",
        "waiting",
        "next",
    ]);
    for lock in locks {
        table.add_row(row(lock));
    }
    let noun = if locks.len() == 1 { "lock" } else { "locks" };
    format!("{}\n{} {noun}\n", table.trim_fmt(), locks.len())
}

fn row(lock: &Inspection) -> [String; 9] {
    let is_there = |state: &NodeState| !matches!(state, NodeState::Free | NodeState::Silent(_));
    let on = lock.nodes.iter().filter(|(_, state)| is_there(state)).count();
    let left = lock.nodes.iter().filter_map(|(_, state)| remaining(state)).max();
    [
        visible(&lock.name).into_owned(),
        State::of(lock, POLICY).word().to_owned(),
        holders(lock),
        age(lock).map_or(String::new(), |age| format!("{} ago", Rough(age))),
        left.map_or(String::new(), |left| Rough(left).to_string()),
        lock.fence.map_or(String::new(), |fence| fence.to_string()),
        format!("{on} of {}", lock.nodes.len()),
        lock.waiting.to_string(),
        first_waiting(lock),
    ]
}

/// The next waiter, and for how long it has waited.
fn first_waiting(lock: &Inspection) -> String {
    match (&lock.first_waiting, lock.first_waits) {
        (Some(waiter), Some(waits)) => format!("{}, for {}", visible(&waiter.to_string()), Rough(waits)),
        _ => String::new(),
    }
}

/// Time since the hold began: its token counts the microseconds since 1970. A renewal does not change it.
pub(crate) fn age(lock: &Inspection) -> Option<Duration> {
    let is_held = matches!(State::of(lock, POLICY), State::Held | State::Read);
    let fence = lock.fence.filter(|_| is_held)?;
    let begun = SystemTime::UNIX_EPOCH + Duration::from_micros(fence.get());
    Some(begun.elapsed().unwrap_or_default())
}
