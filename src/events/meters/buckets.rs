//! Bounds of the histograms, for exporters that need them.

/// Each histogram, with the upper bounds of its buckets in seconds.
const BUCKETS: [(&str, &[f64]); 5] = [
    ("multilock_acquire_duration_seconds", ACQUIRE),
    ("multilock_round_duration_seconds", ROUND),
    ("multilock_node_call_duration_seconds", NODE_CALL),
    ("multilock_hold_duration_seconds", HOLD),
    ("multilock_renew_margin_seconds", RENEW_MARGIN),
];

/// Bounds from a grant on loopback to a wait of a minute.
const ACQUIRE: &[f64] = &[
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0,
];

/// Bounds of rounds. A round ends at the node timeout, which is 50 ms by default.
const ROUND: &[f64] = &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.5, 1.0];

const NODE_CALL: &[f64] = &[
    0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.5, 1.0, 5.0,
];

const HOLD: &[f64] = &[
    0.001, 0.01, 0.1, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0,
];

/// Bounds of margins. A sixth of 30 s is 5 s; a renewal in time leaves a little less than two thirds, 20 s.
const RENEW_MARGIN: &[f64] = &[
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 18.0, 19.0, 20.0, 25.0, 30.0,
];

/// Buckets for the histograms of the feature `metrics`: the name of each, and the upper bounds of its buckets in seconds.
///
/// A Prometheus exporter needs bounds for each histogram. Without bounds, `metrics-exporter-prometheus` renders a summary: then
/// the alerts and the dashboard in `contrib/` find no `_bucket` series. The bounds fit a lease of 30 s and a node timeout of
/// 50 ms, which are the defaults. For a shorter lease, `multilock_renew_margin_seconds` needs bounds around a sixth of the lease
/// and around two thirds of it.
///
/// ```
/// for (metric, bounds) in multilock::metrics_buckets() {
///     assert!(metric.starts_with("multilock_") && metric.ends_with("_seconds"));
///     // `metrics-exporter-prometheus` takes them by `set_buckets_for_metric(Matcher::Full(metric.to_owned()), bounds)`.
///     println!("{metric}: {bounds:?}");
/// }
/// ```
///
/// `docs/operations.md` has the lines for `metrics-exporter-prometheus`.
pub fn metrics_buckets() -> impl ExactSizeIterator<Item = (&'static str, &'static [f64])> {
    BUCKETS.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::masters::config::Config;

    #[test]
    fn bounds_ascend() {
        for (metric, bounds) in metrics_buckets() {
            assert!(bounds.len() > 5 && bounds[0] > 0.0, "{metric}");
            assert!(
                bounds.is_sorted_by(|one, next| one < next),
                "{metric}: {bounds:?}"
            );
        }
    }

    #[test]
    fn bounds_lie_where_the_defaults_need_them() {
        let of = |name: &str| {
            let (_, bounds) = metrics_buckets()
                .find(|(metric, _)| metric.contains(name))
                .expect("a metric of the table");
            bounds
        };
        let config = Config::default();
        let (lease, timeout) = (
            config.default_lease().as_secs_f64(),
            config.node_timeout.as_secs_f64(),
        );
        for share in [lease / 6.0, lease * 2.0 / 3.0, lease] {
            assert!(of("margin").contains(&share), "{share}");
        }
        for metric in ["round", "call"] {
            let near = |bound: &&f64| (timeout * 0.7..=timeout * 1.3).contains(*bound);
            assert_eq!(of(metric).iter().filter(near).count(), 2, "{metric}");
        }
    }
}
