//! The exporter of an application, as `docs/operations.md` shows it.

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};

/// Exporter for histograms with the buckets that the dashboard and the alerts need.
pub(crate) fn exporter() -> Result<PrometheusBuilder, BuildError> {
    let mut exporter = PrometheusBuilder::new();
    for (metric, bounds) in multilock::metrics_buckets() {
        exporter = exporter.set_buckets_for_metric(Matcher::Full(metric.to_owned()), bounds)?;
    }
    Ok(exporter)
}
