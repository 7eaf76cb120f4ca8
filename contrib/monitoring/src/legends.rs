//! Instances under one dashboard: each panel shows all of them, and no two curves have one legend.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::dashboard::Panel;
use crate::picture::{Chart, Curve};
use crate::prometheus::Prometheus;

/// Names of the instances. One process stands for all of them.
pub(crate) fn instances(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("web-{number:02}")).collect()
}

/// The curves of a panel that have a value. An error if an instance has none, or two of them cannot be told apart.
pub(crate) async fn curves(
    prometheus: &Prometheus,
    panel: &Panel,
    instances: &[String],
) -> Result<Vec<Curve>> {
    let mut all = Vec::new();
    for target in &panel.targets {
        let mut curves = prometheus.range(target).await?;
        curves.retain(|curve| !curve.points.is_empty());
        for instance in instances {
            let is_shown = curves.iter().any(|curve| is_of(curve, instance));
            ensure!(
                is_shown,
                "the panel '{}' does not show {instance}: {}",
                panel.title,
                target.query
            );
        }
        all.append(&mut curves);
    }
    let mut seen = BTreeSet::new();
    for curve in &all {
        ensure!(
            seen.insert(&curve.label),
            "the panel '{}' has two curves with the legend {}",
            panel.title,
            curve.label
        );
    }
    Ok(all)
}

fn is_of(curve: &Curve, instance: &str) -> bool {
    curve.label.split(' ').next() == Some(instance)
}

/// The curves of one instance alone, without its name.
pub(crate) fn of_one(panel: &Panel, curves: Vec<Curve>, instance: &str) -> Chart {
    let of_it = curves.into_iter().filter(|curve| is_of(curve, instance));
    let own = of_it.map(|curve| Curve {
        label: curve.label[instance.len()..].trim_start().to_owned(),
        points: curve.points,
    });
    Chart {
        title: panel.title.clone(),
        curves: own.collect(),
    }
}
