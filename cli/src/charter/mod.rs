//! `multilock charter`: the longest lease that clients have agreed upon.

mod show;

use std::time::Duration;

use multilock::{Charter, CharterState, Closing, MastersBuilder, Quarantine};
use tokio::time::{Instant, sleep};

use self::show::{as_json, describe, table};
use crate::args::{CharterArgs, MastersArgs};
use crate::connect::{Patience, connect};
use crate::exit::{self, Failure};
use crate::inspect::print;
use crate::say::{Rough, Voice, confirmed};
use crate::translation::page;

/// Between two looks whether every master has confirmed.
const EVERY: Duration = Duration::from_millis(100);

pub(crate) async fn charter(args: &CharterArgs, masters: &MastersArgs, voice: Voice) -> Result<u8, Failure> {
    let builder = masters.builder()?;
    if args.reset {
        return reset(args, builder).await;
    }
    let is_thrown_away = masters.quarantine == Some(Quarantine::Off);
    let charter = match args.agree {
        Some(_) if is_thrown_away => {
            let error = "--quarantine: off is not allowed; allowed: auto or a duration, where a longer lease is to be agreed upon";
            return Err(Failure::usage(error));
        }
        Some(lease) => agree(args, builder, lease, voice).await?,
        None => builder.charter().await?,
    };
    let text = if args.json {
        format!("{:#}\n", as_json(&charter))
    } else {
        format!("{}\n{}\n", describe(&charter), table(&charter))
    };
    print(&text)?;
    Ok(if args.agree.is_some() { 0 } else { code(&charter) })
}

/// Has every master store that leases of this length may be asked for, and waits until each has confirmed it.
async fn agree(
    args: &CharterArgs,
    builder: MastersBuilder,
    lease: Duration,
    voice: Voice,
) -> Result<Charter, Failure> {
    let end = Instant::now() + args.wait;
    let charter = builder.clone().charter().await?;
    if lease <= charter.free {
        let free = Rough(charter.free);
        voice.warn(format_args!(
            "leases of up to {free} need no agreement: nothing was stored"
        ));
        return Ok(charter);
    }
    // The services' own way: a client that may come to ask for such a lease.
    let client = connect(builder.clone(), Patience::Until(end), voice).await?;
    let agreed = loop {
        let charter = builder.clone().charter().await?;
        let missing = unconfirmed(&charter, lease);
        if missing.is_empty() {
            break Ok(charter);
        }
        if Instant::now() >= end {
            let (lease, missing) = (Rough(lease), missing.join("; "));
            let message = format!(
                "a lease of {lease} is not in force: {missing}; all masters must be connected at once for that (see {})",
                page("long lease")
            );
            break Err(Failure::new(exit::NO_QUORUM, message));
        }
        sleep(EVERY).await;
    };
    client.close(Closing::Release).await;
    agreed
}

/// The masters on which such a lease is not in force, each with what it says.
fn unconfirmed(charter: &Charter, lease: Duration) -> Vec<String> {
    let nodes = charter.nodes.iter().filter_map(|(node, told)| match told {
        Ok(stored) if stored.in_force >= lease => None,
        Ok(stored) if stored.longest >= lease => Some(format!("{node} waits for the others")),
        Ok(_) => Some(format!("{node} has not stored it")),
        Err(error) => Some(format!("{node}: {error}")),
    });
    nodes.collect()
}

async fn reset(args: &CharterArgs, builder: MastersBuilder) -> Result<u8, Failure> {
    if !args.yes {
        let charter = builder.clone().charter().await?;
        let told = [describe(&charter), table(&charter)];
        if !confirmed(
            &told,
            "Lower it? Every service that locks on these masters has to be stopped.",
        )? {
            return Err(Failure::new(exit::FREE, "nothing was lowered"));
        }
    }
    let before = builder.reset_charter().await?;
    let free = Rough(before.free);
    print(&if before.state() == CharterState::Nothing {
        format!("nothing stood there: leases of up to {free} need no agreement\n")
    } else {
        let longest = Rough(before.longest());
        format!("lowered from {longest} to {free}, which need no agreement\n")
    })?;
    Ok(0)
}

fn code(charter: &Charter) -> u8 {
    match charter.state() {
        CharterState::Nothing | CharterState::InForce(_) => 0,
        CharterState::Unknown => exit::NO_QUORUM,
        _ => exit::UNFIT,
    }
}
