//! How does one process of several do a job that never ends, and another one go on as soon as it fails? And how does
//! a client that is no candidate find the leader?
//!
//! There are two candidates. The first term ends when an operator takes the name away; the loss of a majority of the
//! masters would end it, too. The second term ends when its leader steps down, and the third when its process is asked to
//! stop. Every term has a larger token, which the leader passes with every write. A third client watches.
//!
//! ```text
//! make cluster-up && cargo run --example leader
//! ```
//! or `MULTILOCK_NODES=redis://a:6379,redis://b:6379,… cargo run --example leader`.

mod common;

use std::time::Duration;

use anyhow::{Context, Result};
use multilock::{CancellationToken, FencingToken, Leadership, Masters, RunError};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

const NAME: &str = "example:scheduler";

#[tokio::main]
async fn main() -> Result<()> {
    // Each process would have masters of its own.
    let (here, there, elsewhere) = (connect().await?, connect().await?, connect().await?);
    let mut watched = elsewhere.watch_leader(NAME)?;
    let (terms, mut begun) = unbounded_channel();
    let shutdown = CancellationToken::new();
    let leaders = [("the first", &here), ("the second", &there)].map(|(who, masters)| {
        let leading = lead(masters.clone(), who, shutdown.clone(), terms.clone());
        tokio::spawn(leading)
    });
    let mut last = FencingToken::NONE;
    for term in 1..=3 {
        let leadership = begun.recv().await.context("nobody leads")?;
        let token = leadership.fencing_token();
        anyhow::ensure!(token > last, "a later term has the larger token");
        last = token;
        // A hint for other clients: the address for a request, and the token that it is meant for.
        let is_shown = watched.wait_for(|leader| leader.as_ref().is_some_and(|leader| leader.token == token));
        let leader = timeout(Duration::from_secs(60), is_shown).await??.clone();
        let about = leader
            .and_then(|leader| leader.about)
            .context("it says who it is")?;
        println!("term {term}: {about} leads, with token {token}");
        sleep(Duration::from_millis(200)).await;
        match term {
            1 => drop(here.red_lock(NAME).force_release().await?),
            2 => leadership.step_down(),
            _ => shutdown.cancel(),
        }
    }
    for leader in leaders {
        if let Some(rounds) = leader.await?? {
            println!("rounds in its last term: {rounds}");
        }
    }
    Ok(())
}

/// A loss by force is found out with the next renewal, which is within a third of the lease: 10 s, unless it is set.
async fn connect() -> Result<Masters> {
    let connecting = common::builder()?.lease(Duration::from_secs(3)).connect();
    connecting
        .await
        .context("no majority of the masters; try `make cluster-up`")
}

/// Leads whenever it is its turn, until `shutdown`. Returns the number of rounds of its last term, if it led by then.
async fn lead(
    masters: Masters,
    who: &'static str,
    shutdown: CancellationToken,
    terms: UnboundedSender<Leadership>,
) -> Result<Option<u32>, RunError<u32>> {
    // After step_down this body ends only by being dropped, so that the candidate stands again: at once.
    let lock = masters.red_lock(NAME).about(who).grace(Duration::from_secs(1));
    lock.lead_until(shutdown.cancelled(), async |leadership| {
        let _ = terms.send(leadership.clone());
        let is_over = leadership.cancellation_token();
        let mut rounds = 0;
        // A round of the job: every write with the token, and nothing that a drop at an await would leave half done.
        while !shutdown.is_cancelled() {
            sleep(Duration::from_millis(50)).await;
            rounds += u32::from(!is_over.is_cancelled());
        }
        rounds
    })
    .await
}
