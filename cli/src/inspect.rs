//! `multilock inspect`, `held` and `watch`: the holders of names.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use comfy_table::{Table, presets};
use multilock::{Inspection, Masters, NodeState, Policy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::args::{HeldArgs, InspectArgs, WatchArgs};
use crate::exit::{self, Failure};
use crate::report::{State, as_json, describe, row, silences};
use crate::say::{Voice, escape, lines};
use crate::writer;

pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// Interval at which a command that prints nothing checks that stdout is still read.
const LOOK: Duration = Duration::from_millis(250);

pub(crate) async fn inspect(args: &InspectArgs, masters: &Masters, voice: Voice) -> Result<u8, Failure> {
    loop {
        let names = look(masters, &args.names, args.policy, args.seats).await?;
        let text = if args.json {
            let names: Vec<Value> = names.iter().map(|name| as_json(name, args.policy)).collect();
            as_text(&Value::from(names), args.watch)
        } else {
            names.iter().map(|name| table(name, args.policy)).collect()
        };
        if !show(&text, args.watch)? {
            return Ok(0);
        }
        if !args.watch {
            let mut code = 0;
            let is_unknown = |name: &&Inspection| State::of(name, args.policy) == State::Unknown;
            for name in names.iter().filter(is_unknown) {
                voice.warn(too_few(name));
                code = exit::code_of_too_few(masters, args.policy);
            }
            return Ok(code);
        }
        if !is_read_for(EVERY).await {
            return Ok(0);
        }
    }
}

pub(crate) async fn held(args: &HeldArgs, masters: &Masters, voice: Voice) -> Result<u8, Failure> {
    let policy = Policy::RedLock;
    let names = look(masters, &args.names, policy, args.seats).await?;
    Ok(match State::of_all(&names, policy) {
        State::Held | State::Read | State::Kept => 0,
        State::Free => exit::FREE,
        State::Unknown => {
            let is_unknown = |name: &&Inspection| State::of(name, policy) == State::Unknown;
            for name in names.iter().filter(is_unknown) {
                voice.warn(format_args!(
                    "{}\n{}",
                    too_few(name),
                    table(name, policy).trim_end()
                ));
            }
            exit::code_of_too_few(masters, policy)
        }
    })
}

/// Message for too few answers to know the holder, with the number of masters that answered.
fn too_few(name: &Inspection) -> String {
    let silent = |(_, state): &&(_, NodeState)| matches!(state, NodeState::Silent(_));
    let (all, silent) = (name.nodes.len(), name.nodes.iter().filter(silent).count());
    let quarantined = match name.quarantined.len() {
        0 => String::new(),
        count => format!(", {count} of them in quarantine"),
    };
    format!(
        "{}: {} of {all} masters answered{quarantined}: too few to tell (`multilock doctor` says what is wrong)",
        name.name,
        all - silent
    )
}

pub(crate) async fn watch(args: &WatchArgs, masters: &Masters) -> Result<u8, Failure> {
    let mut seen = Vec::new();
    loop {
        let names = look(masters, &args.names, args.policy, args.seats).await?;
        seen.resize(names.len(), Value::Null);
        for (name, seen) in names.iter().zip(&mut seen) {
            let mut line = as_json(name, args.policy);
            let state = what_counts(&line);
            if *seen != state {
                *seen = state;
                line["at"] = humantime::format_rfc3339_millis(SystemTime::now())
                    .to_string()
                    .into();
                if !print(&as_text(&line, true))? {
                    return Ok(0);
                }
            }
        }
        if !is_read_for(args.every).await {
            return Ok(0);
        }
    }
}

/// JSON as text: one line for each look of a watch, so that a program can read it line by line.
pub(crate) fn as_text(value: &Value, is_watched: bool) -> String {
    let text = if is_watched {
        format!("{value}\n")
    } else {
        format!("{value:#}\n")
    };
    // JSON needs it below 0x20 only.
    escape(&text, |letter| format!("\\u{:04x}", u32::from(letter))).into_owned()
}

/// Waits for `time`. Returns false as soon as stdout is no longer read: a write would show that only at the
/// next change.
pub(crate) async fn is_read_for(time: Duration) -> bool {
    let end = Instant::now() + time;
    loop {
        if is_closed(&io::stdout()) {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        sleep(left.min(LOOK)).await;
    }
}

/// Whether the other end of a pipe, a socket or a terminal is closed.
fn is_closed(output: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(output, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // If the output cannot be polled, the next write shows its end.
    poll(&mut polled, Some(&at_once)).is_ok()
        && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Part of the state with changes that are printed. A renewal does not change this part.
fn what_counts(line: &Value) -> Value {
    let mut state = line.clone();
    state["first_waits_ms"] = Value::Null;
    for node in state["nodes"].as_array_mut().into_iter().flatten() {
        node["expires_in_ms"] = Value::Null;
        node["quarantine_ms"] = node["quarantine_ms"].is_null().into();
        // The reason contains figures that change.
        node["reason"] = Value::Null;
    }
    state
}

/// Looks at the names, or at the seats of each of them.
async fn look(
    masters: &Masters,
    names: &[String],
    policy: Policy,
    seats: Option<u32>,
) -> Result<Vec<Inspection>, Failure> {
    let Some(seats) = seats else {
        return Ok(masters.lock(names, policy).inspect().await?);
    };
    let mut all = Vec::new();
    for name in names {
        let permits = masters.permits(name, seats).policy(policy);
        all.extend(permits.inspect().await?);
    }
    Ok(all)
}

fn table(name: &Inspection, policy: Policy) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["  master", "state", "holder", "expires in"]);
    for (node, state) in &name.nodes {
        let [state, holder, left] = row(name, node, state);
        table.add_row([format!("  {node}"), state, holder, left]);
    }
    let mut shown = vec![describe(name, policy), table.trim_fmt()];
    shown.extend(silences(name).iter().map(|line| format!("   {line}")));
    shown.join("\n") + "\n"
}

/// Writes to stdout, in place of what was there if it is shown again and again. Returns false if stdout is no longer read.
pub(crate) fn show(text: &str, again: bool) -> Result<bool, Failure> {
    let clear = again && io::stdout().is_terminal();
    let clear = if clear { "\x1b[H\x1b[2J" } else { "" };
    print_coloured(&format!("{clear}{}", lines(text)))
}

/// Writes to stdout. Returns false if stdout is no longer read.
pub(crate) fn print(text: &str) -> Result<bool, Failure> {
    print_coloured(&lines(text))
}

/// Writes text with colours of its own to stdout, and without these if stdout is no terminal.
pub(crate) fn print_coloured(text: &str) -> Result<bool, Failure> {
    writer::settle();
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}
