//! Every alert leads to a section of its own, with instructions.

use std::collections::BTreeMap;

use crate::documents::read;
use crate::tree::{package, text};

const PAGE: &str = "docs/operations.md";

/// The alerts by their names, each with its lines.
fn alerts() -> BTreeMap<String, Vec<String>> {
    let rules = text("contrib/prometheus/alerts.yml");
    let mut alerts = BTreeMap::new();
    let mut last = None;
    for line in rules.lines() {
        if let Some(name) = line.trim_start().strip_prefix("- alert: ") {
            last = Some(name.to_owned());
        }
        if let Some(name) = &last {
            let lines: &mut Vec<String> = alerts.entry(name.clone()).or_default();
            lines.push(line.trim().to_owned());
        }
    }
    assert!(alerts.len() > 10, "hardly anything was read: {:?}", alerts.keys());
    alerts
}

/// The part of the page below a heading.
fn section<'a>(page: &'a str, alert: &str) -> &'a str {
    let (_, rest) = page
        .split_once(&format!("\n### {alert}\n"))
        .unwrap_or_else(|| panic!("{PAGE} has no section {alert}"));
    rest.split("\n#").next().unwrap_or(rest)
}

#[test]
fn every_alert_leads_to_its_section() {
    let repository = package("multilock").repository.as_deref().expect("a repository");
    let page = text(PAGE);
    let anchors = read(PAGE).anchors;
    let alerts = alerts();
    for (alert, lines) in &alerts {
        let anchor = alert.to_lowercase();
        assert!(anchors.contains(&anchor), "{PAGE} has no heading for {alert}");
        let leads = format!("runbook_url: {repository}/blob/HEAD/{PAGE}#{anchor}");
        assert!(lines.contains(&leads), "{alert} has no {leads}");
        for part in ["*Meaning.*", "*First.*", "*Worry*"] {
            assert!(section(&page, alert).contains(part), "{alert} has no {part}");
        }
        // It stands in the table, too.
        assert!(
            page.contains(&format!("| [{alert}](#{anchor}) | ")),
            "{alert} has no row"
        );
    }
    let sections = page.lines().filter(|line| line.starts_with("### Multilock"));
    assert_eq!(sections.count(), alerts.len(), "a section for no alert");
}
