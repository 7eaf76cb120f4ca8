//! A service that locks, with its metrics for a Prometheus.
//!
//! ```text
//! make cluster-up                                       # redis://127.0.0.1:7401 … 7405, as in docker-compose.yml
//! cargo run --example metrics --features metrics        # or on your own: MULTILOCK_NODES=url,url,url
//! curl http://127.0.0.1:9000/metrics
//! ```
//!
//! It ends after a minute. Another address and another time are arguments: `-- 127.0.0.1:9100 300`.

mod common;

use std::env;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use multilock::{Closing, Masters};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Exporter for histograms with the buckets that the dashboard and the alerts need.
fn exporter() -> Result<PrometheusBuilder, BuildError> {
    let mut exporter = PrometheusBuilder::new();
    for (metric, bounds) in multilock::metrics_buckets() {
        exporter = exporter.set_buckets_for_metric(Matcher::Full(metric.to_owned()), bounds)?;
    }
    Ok(exporter)
}

/// Two of these contend for an invoice.
async fn charge(masters: Masters) {
    let lock = masters.red_lock("invoice:42").metric_label("invoice");
    loop {
        match lock.clone().wait(Duration::from_secs(2)).lock().await {
            Ok(guard) => {
                sleep(Duration::from_millis(15)).await;
                // Its outcome is in the metrics.
                let _ = guard.unlock().await;
            }
            Err(error) => println!("not charged: {error}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Holds a lock that is renewed for as long as the service runs.
async fn lead(masters: Masters) {
    let lock = masters.red_lock("leader").metric_label("leader");
    loop {
        match lock.clone().wait(Duration::from_secs(2)).lock().await {
            Ok(guard) => println!("the lead is lost: {}", guard.lost().await),
            Err(error) => println!("not leading: {error}"),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:9000".to_owned());
    let seconds = args.next().unwrap_or_else(|| "60".to_owned());
    let (address, seconds): (SocketAddr, u64) = (address.parse()?, seconds.parse()?);
    // Before the masters are connected: a client makes its series then. Without an address the exporter listens on 0.0.0.0:9000.
    exporter()?
        .with_http_listener(address)
        .install()
        .with_context(|| format!("the exporter cannot listen on {address}"))?;
    println!("metrics at http://{address}/metrics");

    let masters = common::connect().await?;
    let mut jobs = JoinSet::new();
    jobs.spawn(charge(masters.clone()));
    jobs.spawn(charge(masters.clone()));
    jobs.spawn(lead(masters.clone()));
    sleep(Duration::from_secs(seconds)).await;
    jobs.shutdown().await;
    masters.close(Closing::Release).await;
    println!("closed after {seconds} s");
    Ok(())
}
