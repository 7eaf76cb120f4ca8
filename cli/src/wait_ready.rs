//! `multilock wait-ready`: waits until a lock could be granted.

use std::future::pending;
use std::time::Duration;

use multilock::{Masters, NodeStatus, Policy};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::args::{MastersArgs, WaitReadyArgs};
use crate::connect::{CONNECT_TIMEOUT, all_have_answered};
use crate::exit::{self, Failure};
use crate::say::{Rough, Voice};
use crate::translation::translated;

/// Time between two lines about the wait.
const LINE_EVERY: Duration = Duration::from_secs(60);

pub(crate) async fn wait_ready(
    args: &WaitReadyArgs,
    masters: &MastersArgs,
    voice: Voice,
) -> Result<u8, Failure> {
    let first_after = masters.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    let masters = masters.builder()?.connect_lazy()?;
    let wait_is_over = async {
        let Some(wait) = args.wait else {
            return pending().await;
        };
        // As for `run`, one attempt to connect may take its time.
        let end = Instant::now() + wait;
        let mut status = masters.watch_status();
        let _ = timeout(first_after, status.wait_for(all_have_answered)).await;
        sleep_until(end).await;
    };
    let policy = if args.all { Policy::MultiLock } else { args.policy };
    tokio::select! {
        biased;
        ready = masters.ready(args.policy), if !args.all => ready?,
        () = every_vote(&masters), if args.all => {}
        () = show_missing(&masters, policy, first_after, |line| voice.warn(line)) => {}
        () = wait_is_over => {
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

/// Shows the wait after the first attempts to connect, and each minute. Never ends.
async fn show_missing(masters: &Masters, policy: Policy, first_after: Duration, mut say: impl FnMut(&str)) {
    let begun = Instant::now();
    sleep(first_after).await;
    loop {
        let missing = not_ready(masters, policy).message;
        say(&format!("waiting for {}: {missing}", Rough(begun.elapsed())));
        sleep(LINE_EVERY).await;
    }
}

fn not_ready(masters: &Masters, policy: Policy) -> Failure {
    let code = exit::code_of_too_few(masters, policy);
    let nodes = masters.status().nodes;
    let missing: Vec<String> = nodes.iter().filter_map(lacks).collect();
    let (missing, count) = (missing.join("; "), missing.len());
    let are = if count == 1 { "is" } else { "are" };
    Failure::new(
        code,
        format!("{count} of {} masters {are} not ready: {missing}", nodes.len()),
    )
}

/// Why a master has no vote; `None` if it has one.
fn lacks(node: &NodeStatus) -> Option<String> {
    match &node.connection {
        Err(error) => Some(format!("{}: {}", node.node, translated(error))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_told_after_the_first_attempt_and_each_minute() {
        let (masters, cluster) = Masters::in_memory(3).await.expect("masters");
        cluster.master(0).crash();
        sleep(LINE_EVERY).await;
        let mut lines = Vec::new();
        let showing = show_missing(&masters, Policy::MultiLock, CONNECT_TIMEOUT, |line| {
            lines.push(line.to_owned());
        });
        let _ = timeout(LINE_EVERY * 3 / 2, showing).await;
        let starts = [
            "waiting for 1.0s: 1 of 3 masters is not ready: ",
            "waiting for 1m 1s: 1 of 3 ",
        ];
        assert_eq!(lines.len(), starts.len(), "{lines:?}");
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }
}
