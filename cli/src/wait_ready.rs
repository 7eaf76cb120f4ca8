//! `multilock wait-ready`: waits until a lock could be granted.

use std::future::pending;

use multilock::{Masters, NodeStatus, Policy};
use tokio::time::sleep;

use crate::args::{MastersArgs, WaitReadyArgs};
use crate::connect::are_unfit;
use crate::exit::{self, Failure};
use crate::say::Rough;

pub(crate) async fn wait_ready(args: &WaitReadyArgs, masters: &MastersArgs) -> Result<u8, Failure> {
    let masters = masters.builder()?.connect_lazy()?;
    let timeout = async {
        match args.wait {
            Some(wait) => sleep(wait).await,
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        ready = masters.ready(args.policy), if !args.all => ready?,
        () = every_vote(&masters), if args.all => {}
        () = timeout => {
            let policy = if args.all { Policy::MultiLock } else { args.policy };
            return Err(not_ready(&masters, policy));
        }
    }
    Ok(0)
}

/// Waits until the answer of every master counts.
async fn every_vote(masters: &Masters) {
    let mut status = masters.watch_status();
    // The masters are not closed here, so the status goes on.
    let _ = status
        .wait_for(|status| status.nodes.iter().all(NodeStatus::has_vote))
        .await;
}

fn not_ready(masters: &Masters, policy: Policy) -> Failure {
    let code = if are_unfit(masters, policy) {
        exit::UNFIT
    } else {
        exit::NO_QUORUM
    };
    let nodes = masters.status().nodes;
    let missing: Vec<String> = nodes.iter().filter_map(lacks).collect();
    let (missing, count) = (missing.join("; "), missing.len());
    Failure::new(
        code,
        format!("{count} of {} masters are not ready: {missing}", nodes.len()),
    )
}

/// Why a master has no vote; `None` if it has one.
fn lacks(node: &NodeStatus) -> Option<String> {
    match &node.connection {
        Err(error) => Some(format!("{}: {error}", node.node)),
        Ok(_) if node.has_vote() => None,
        Ok(connection) if !connection.quarantine.is_zero() => Some(format!(
            "{}: in quarantine for {} more",
            node.node,
            Rough(connection.quarantine)
        )),
        Ok(connection) if connection.is_silent => Some(format!("{}: it does not answer in time", node.node)),
        Ok(_) => Some(format!("{}: too many releases are pending", node.node)),
    }
}
