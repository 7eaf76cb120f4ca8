//! Many at once want one name, while the masters are killed and come back.

use std::time::Duration;

use multilock_test_support::{Keep, Server, three, undisturbed};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::stage::{Witness, multilock, said, urls};

/// A standstill of the machine for which the drift of the leases leaves time.
const STANDS: Duration = Duration::from_millis(300);

/// Outcomes of the commands of a crowd.
#[derive(Debug, Default)]
struct Outcome {
    ran: usize,
    timed_out: usize,
    no_quorum: usize,
    lost: usize,
    other: Vec<String>,
}

async fn contend(servers: &[Server], witness: &Witness, crowd: usize) -> Outcome {
    let script = witness.script("say run; sleep 0.05");
    let mut all = JoinSet::new();
    for _ in 0..crowd {
        let mut command = multilock(&urls(servers));
        command
            .env("MULTILOCK_FOR_TESTS", "2s")
            .env("MULTILOCK_QUARANTINE", "auto")
            .env("MULTILOCK_NODE_TIMEOUT", "500ms")
            // On a busy machine a program may be killed later than it should be.
            .env("MULTILOCK_DRIFT_FACTOR", "0.2")
            .args(["run", "a", "-w", "60s", "-c", "--", &script]);
        all.spawn(async move { said(command.spawn().expect("the command")).await });
    }
    let mut outcome = Outcome::default();
    while let Some(ended) = all.join_next().await {
        let ended = ended.expect("no panic");
        match ended.code {
            Some(0) => outcome.ran += 1,
            Some(75) => outcome.timed_out += 1,
            Some(69) => outcome.no_quorum += 1,
            Some(124) => outcome.lost += 1,
            _ => outcome.other.push(format!("{ended:?}")),
        }
    }
    outcome
}

/// Kills one master after the other, and starts it again without its data.
async fn trouble(servers: &[Server]) {
    for server in servers.iter().cycle() {
        // Longer than the quarantine of the master before, which is a lease with its drift.
        sleep(Duration::from_secs(3)).await;
        server.kill().await;
        sleep(Duration::from_millis(300)).await;
        server.restart(Keep::Nothing).await;
    }
}

async fn crowd(crowd: usize, least: usize) {
    let servers = three(&[]).await;
    let witness = Witness::new();
    let begun = Instant::now();
    let outcome = tokio::select! {
        outcome = contend(&servers, &witness, crowd) => outcome,
        () = trouble(&servers) => unreachable!("it goes on"),
    };
    let lines = witness.lines();
    println!(
        "{crowd} at once, {:?}: {outcome:?}, {} lines",
        begun.elapsed(),
        lines.len()
    );
    assert!(!witness.has("OVERLAP"), "two at once: {outcome:?}");
    assert_eq!(outcome.other, Vec::<String>::new());
    assert!(outcome.ran >= least, "{outcome:?}");
    assert!(
        lines.len() >= outcome.ran && lines.len() <= outcome.ran + outcome.lost,
        "{outcome:?}"
    );
    for server in &servers {
        // One may have been killed when they ended.
        if server.pid().is_none() {
            server.restart(Keep::Data).await;
        }
    }
    // A lease and a queue end by themselves; nothing is left that does not.
    let deadline = Instant::now() + Duration::from_secs(20);
    for server in &servers {
        while !server.keys().await.is_empty() {
            assert!(Instant::now() < deadline, "left: {:?}", server.keys().await);
            sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn a_few_run_one_by_one_while_masters_come_and_go() {
    undisturbed(STANDS, async || crowd(24, 20).await).await;
}

#[tokio::test]
#[ignore = "takes a minute"]
async fn two_hundred_run_one_by_one_while_masters_come_and_go() {
    undisturbed(STANDS, async || crowd(200, 50).await).await;
}
