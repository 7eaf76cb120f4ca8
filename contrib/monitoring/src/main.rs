//! A service under a real Prometheus while its masters fail: draws the panels of the dashboard, and checks the alerts.
//!
//! ```text
//! make monitoring        # about 90 s; draws docs/monitoring.svg
//! ```
//!
//! * `service.rs` locks as a service does, and lets itself be scraped.
//! * `exporter.rs` makes the exporter, as `docs/operations.md` shows it.
//! * `play.rs` kills, freezes and revives masters.
//! * `prometheus.rs` keeps the Prometheus, with the rules of `contrib/prometheus/alerts.yml`.
//! * `dashboard.rs` reads the queries of the panels of `contrib/grafana/multilock.json`.
//! * `legends.rs` checks that the answers show every instance, by legends that differ.
//! * `picture.rs` draws the answers of one instance.
//!
//! It ends with an error if an alert that has to fire did not, or if a panel does not show every instance.

mod dashboard;
#[cfg(test)]
mod exported;
mod exporter;
#[cfg(test)]
mod failing;
mod legends;
mod picture;
mod play;
mod prometheus;
mod service;
#[cfg(test)]
mod twenty;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;

use legends::{curves, instances, of_one};
use play::Play;
use prometheus::Prometheus;
use service::Service;

/// Time after which the program ends in any case.
const AT_MOST: Duration = Duration::from_secs(180);
/// Alerts that the faults of the play have to raise.
const EXPECTED: [&str; 2] = ["MultilockHoldLost", "MultilockNoQuorum"];

#[tokio::main]
async fn main() -> Result<()> {
    timeout(AT_MOST, watch())
        .await
        .with_context(|| format!("took longer than {AT_MOST:?} and was ended"))?
}

async fn watch() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let panels = dashboard::panels(&root.join("contrib/grafana/multilock.json"))?;

    let metrics = service::export()?;
    let play = Play::start().await?;
    let service = Service::start(play.nodes()).await?;
    // One: the answers of twenty take Prometheus longer than the play. `twenty.rs` has them, for a shorter time.
    let instances = instances(1);
    let rules = root.join("contrib/prometheus/alerts.yml");
    let prometheus = Prometheus::start(metrics, &instances, &rules).await?;
    let events = play.perform().await?;
    service.stop().await;

    let mut drawn = Vec::new();
    for panel in &panels {
        let curves = curves(&prometheus, panel, &instances).await?;
        drawn.push(of_one(panel, curves, &instances[0]));
    }
    let fired = prometheus.fired().await?;
    picture::draw(
        &root.join("docs/monitoring.svg"),
        &drawn,
        &events,
        prometheus.begun(),
    )?;
    println!("alerts that fired: {}", fired.join(", "));
    println!("drawn: docs/monitoring.svg, {} panels", drawn.len());
    for expected in EXPECTED {
        ensure!(
            fired.iter().any(|name| name == expected),
            "{expected} did not fire"
        );
    }
    Ok(())
}
