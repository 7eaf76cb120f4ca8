//! S18: a downgrade beside an extension of the same hold: one round each.

use std::time::Instant;

use anyhow::Result;

use super::Bench;
use crate::client::{Settings, Who, masters};
use crate::pairs::fresh_name;
use crate::stats::Durations;
use crate::summary::Line;

const N: usize = 5;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let settings = Settings::default();
    let pool = masters(&bench.cluster.urls(N), settings).connect().await?;
    let (mut extensions, mut downgrades) = (Durations::default(), Durations::default());
    for turn in 0..bench.form(1_000, 5_000) {
        let guard = pool.red_lock(fresh_name()).write().lock().await?;
        let begun = Instant::now();
        guard.extend(settings.lease).await?;
        let extended = begun.elapsed();
        let begun = Instant::now();
        let guard = guard.downgrade().await;
        let took = begun.elapsed();
        guard.unlock().await?;
        // The first ones warm up.
        if turn >= 100 {
            extensions.record(extended);
            downgrades.record(took);
        }
    }
    bench.cluster.settle(N, Who::Ours).await?;
    for (id, quantile) in [("S18.p50", 0.5), ("S18.p99", 0.99)] {
        let (us, extension_us) = (downgrades.at(quantile), extensions.at(quantile));
        let line = Line::new(id, N)
            .with("ours_us", us)
            .with("ours_extension_us", extension_us)
            .with("ratio_extension", us / extension_us);
        bench.summary.line(line);
    }
    Ok(())
}
