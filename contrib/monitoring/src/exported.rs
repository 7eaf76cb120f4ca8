//! An application exports all metrics that the dashboard and the alerts ask for.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use metrics::set_default_local_recorder;
use multilock::Masters;
use tokio::time::sleep;

use crate::dashboard;
use crate::exporter::exporter;

/// The metrics of this crate that a text names.
fn metrics_of(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    words
        .filter(|word| word.starts_with("multilock_"))
        .map(str::to_owned)
}

fn asked_for() -> BTreeSet<String> {
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let rules = fs::read_to_string(contrib.join("prometheus/alerts.yml")).expect("the rules");
    let rules: Vec<_> = rules
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect();
    let panels = dashboard::panels(&contrib.join("grafana/multilock.json")).expect("the dashboard");
    let queries = panels
        .iter()
        .flat_map(|panel| &panel.targets)
        .map(|target| target.query.as_str());
    rules.into_iter().chain(queries).flat_map(metrics_of).collect()
}

#[tokio::test(start_paused = true)]
async fn what_the_dashboard_and_the_alerts_ask_for_is_exported() {
    let recorder = exporter().expect("bounds for every histogram").build_recorder();
    let scraped = recorder.handle();
    let installed = set_default_local_recorder(&recorder);
    let (masters, _cluster) = Masters::in_memory(3).await.expect("connects");
    let guard = masters.red_lock("a").lock().await.expect("free");
    // Long enough for one renewal.
    sleep(Duration::from_secs(11)).await;
    guard.unlock().await.expect("held");
    sleep(Duration::from_secs(2)).await;
    drop(installed);
    let scraped = scraped.render();
    let asked_for = asked_for();
    assert!(asked_for.len() > 12, "{asked_for:?}");
    let buckets = asked_for.iter().filter(|metric| metric.ends_with("_bucket"));
    assert_eq!(buckets.count(), 4, "{asked_for:?}");
    let is_exported = |metric: &String| {
        let mut names = scraped.lines().map(|line| line.split(['{', ' ']).next());
        names.any(|name| name == Some(metric))
    };
    let missing: Vec<_> = asked_for.iter().filter(|metric| !is_exported(metric)).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}\n{scraped}");
    assert!(!scraped.contains("quantile="), "a histogram without bounds");
    // The buckets distinguish a renewal in time from a renewal that is nearly too late.
    let renewed = |bound: &str| format!("multilock_renew_margin_seconds_bucket{{le=\"{bound}\"}}");
    for (bound, count) in [("5", 0), ("20", 1), ("+Inf", 1)] {
        let line = format!("{} {count}", renewed(bound));
        assert!(scraped.lines().any(|told| told == line), "{line}\n{scraped}");
    }
}
