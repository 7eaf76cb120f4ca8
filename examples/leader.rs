//! How does one process of several do a job that never ends, and another one go on as soon as it fails?
//!
//! Two candidates stand; each term ends when an operator takes the name away, as the loss of a majority of the masters
//! would end it. Every term has a larger token, which the leader hands to whatever it writes to.
//!
//! ```text
//! make cluster-up && cargo run --example leader
//! ```
//! or `MULTILOCK_NODES=redis://a:6379,redis://b:6379,… cargo run --example leader`.

mod common;

use std::time::Duration;

use anyhow::{Context, Result};
use multilock::{FencingToken, Masters, RunError};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::sleep;

const NAME: &str = "example:scheduler";

#[tokio::main]
async fn main() -> Result<()> {
    // Two processes would have masters of their own.
    let (here, there) = (connect().await?, connect().await?);
    let (terms, mut begun) = unbounded_channel();
    let leaders = [("the first", &here), ("the second", &there)]
        .map(|(who, masters)| tokio::spawn(lead(masters.clone(), who, terms.clone())));
    let mut last = FencingToken::NONE;
    for term in 1..=3 {
        let (who, token) = begun.recv().await.context("nobody leads")?;
        println!("term {term}: {who} leads, with token {token}");
        anyhow::ensure!(token > last, "a later term has the larger token");
        last = token;
        sleep(Duration::from_millis(200)).await;
        here.red_lock(NAME).force_release().await?;
    }
    for leader in leaders {
        leader.abort();
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

/// Leads whenever it is its turn, until its task is ended.
async fn lead(
    masters: Masters,
    who: &'static str,
    terms: UnboundedSender<(&'static str, FencingToken)>,
) -> Result<(), RunError<()>> {
    let lock = masters.red_lock(NAME);
    lock.lead(async |leadership| {
        let _ = terms.send((who, leadership.fencing_token()));
        // The job: every write with the token, and nothing that a drop at an await would leave half done.
        std::future::pending::<()>().await;
    })
    .await
}
