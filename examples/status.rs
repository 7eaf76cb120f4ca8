//! How does a client see the state of its masters, and its changes?
//!
//! Reading the status sends no message: it comes from answers that the client has already. Stop one of the masters meanwhile.
//!
//! ```text
//! make cluster-up                       # redis://127.0.0.1:7401 … 7405, as in docker-compose.yml
//! cargo run --example status            # or on your own: MULTILOCK_NODES=url,url,url
//! ```

mod common;

use multilock::{Policy, Status};

fn show(status: &Status) {
    for node in &status.nodes {
        match &node.connection {
            Ok(known) => println!(
                "{}: version {}, {:?} away, clock {} us ahead, no vote for {:?}",
                node.node, known.version, known.round_trip, known.clock_offset_us, known.quarantine
            ),
            Err(error) => println!("{}: {error}", node.node),
        }
    }
    let ready = [Policy::RedLock, Policy::MultiLock].map(|policy| status.is_ready(policy));
    println!(
        "{} of {} have a vote; ready for (RedLock, MultiLock): {ready:?}",
        status.voting(),
        status.nodes.len()
    );
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let masters = common::connect().await?;
    // The first change is the present status.
    let mut changes = masters.watch_status();
    while changes.changed().await.is_ok() {
        show(&changes.borrow_and_update());
    }
    Ok(())
}
