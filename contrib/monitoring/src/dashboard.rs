//! The queries of the dashboard's panels.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) query: String,
    /// `{{name}}` stands for a label.
    pub(crate) legend: String,
}

/// Values in place of the dashboard's variables. Rates are over five scrapes.
const VARIABLES: [(&str, &str); 4] = [
    ("$__rate_interval", "5s"),
    ("$job", ".*"),
    ("$instance", ".*"),
    ("$label", ".*"),
];

pub(crate) fn panels(path: &Path) -> Result<Vec<Panel>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let dashboard: Value = serde_json::from_reader(file)?;
    let panels = dashboard["panels"]
        .as_array()
        .context("the dashboard has panels")?;
    panels.iter().map(panel).collect()
}

fn panel(panel: &Value) -> Result<Panel> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let targets = panel["targets"].as_array().context("a panel has targets")?;
    let target = |target: &Value| {
        let query = text(&target["expr"])?;
        Some(Target {
            query: VARIABLES
                .iter()
                .fold(query, |query, (name, value)| query.replace(name, value)),
            legend: text(&target["legendFormat"])?,
        })
    };
    Ok(Panel {
        title: text(&panel["title"]).context("a panel has a title")?,
        targets: targets
            .iter()
            .map(target)
            .collect::<Option<_>>()
            .context("a target has a query and a legend")?,
    })
}
