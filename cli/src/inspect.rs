//! `multilock inspect`, `held` and `watch`: who holds what.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, SystemTime};

use comfy_table::{Table, presets};
use multilock::{Inspection, Masters, Policy};
use serde_json::Value;
use tokio::time::sleep;

use crate::args::{HeldArgs, InspectArgs, WatchArgs};
use crate::exit::{self, Failure};
use crate::report::{State, as_json, describe, row};

const EVERY: Duration = Duration::from_secs(1);

pub(crate) async fn inspect(args: &InspectArgs, masters: &Masters) -> Result<u8, Failure> {
    loop {
        let names = look(masters, &args.names, args.policy).await?;
        let text = if args.json {
            let names: Vec<Value> = names.iter().map(as_json).collect();
            format!("{:#}\n", Value::from(names))
        } else {
            names.iter().map(table).collect()
        };
        let clear = args.watch && io::stdout().is_terminal();
        if !print(&format!("{}{text}", if clear { "\x1b[H\x1b[2J" } else { "" }))? {
            return Ok(0);
        }
        if !args.watch {
            let is_told = names.iter().all(|name| State::of(name) != State::Unknown);
            return Ok(if is_told { 0 } else { exit::NO_QUORUM });
        }
        sleep(EVERY).await;
    }
}

pub(crate) async fn held(args: &HeldArgs, masters: &Masters) -> Result<u8, Failure> {
    let names = look(masters, &args.names, Policy::RedLock).await?;
    Ok(match State::of_all(&names) {
        State::Held | State::Read | State::Kept => 0,
        State::Free => exit::FREE,
        State::Unknown => exit::NO_QUORUM,
    })
}

pub(crate) async fn watch(args: &WatchArgs, masters: &Masters) -> Result<u8, Failure> {
    let mut told = vec![Value::Null; args.names.len()];
    loop {
        let names = look(masters, &args.names, args.policy).await?;
        for (name, told) in names.iter().zip(&mut told) {
            let mut line = as_json(name);
            let state = what_counts(&line);
            if *told != state {
                *told = state;
                line["at"] = humantime::format_rfc3339_millis(SystemTime::now())
                    .to_string()
                    .into();
                if !print(&format!("{line}\n"))? {
                    return Ok(0);
                }
            }
        }
        sleep(args.every).await;
    }
}

/// What is told when it changes: not what a renewal moves.
fn what_counts(line: &Value) -> Value {
    let mut state = line.clone();
    for node in state["nodes"].as_array_mut().into_iter().flatten() {
        node["expires_in_ms"] = Value::Null;
        node["quarantine_ms"] = node["quarantine_ms"].is_null().into();
        // It has figures in it.
        node["reason"] = Value::Null;
    }
    state
}

async fn look(masters: &Masters, names: &[String], policy: Policy) -> Result<Vec<Inspection>, Failure> {
    Ok(masters.lock(names, policy).inspect().await?)
}

fn table(name: &Inspection) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["  master", "state", "holder", "expires in"]);
    for (node, state) in &name.nodes {
        let [state, holder, left] = row(name, node, state);
        table.add_row([format!("  {node}"), state, holder, left]);
    }
    format!("{}\n{}\n", describe(name), table.trim_fmt())
}

/// Writes to stdout; false where nobody reads it any more.
pub(crate) fn print(text: &str) -> Result<bool, Failure> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}
