//! Placeholders for metrics without the feature `metrics`.

use std::sync::Arc;

use super::observer::EventObserver;

/// Placeholder for the metrics of a client, of a label, and of a master.
#[derive(Clone, Debug)]
pub(crate) struct Unmetered;

impl EventObserver for Unmetered {}

#[allow(clippy::unused_self, reason = "as where figures are kept")]
impl Unmetered {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(super) fn of_node(_: &Arc<str>) -> Self {
        Self
    }

    pub(crate) fn unlabelled(&self) -> Self {
        Self
    }

    pub(crate) fn label(&self, _: &'static str) -> Self {
        Self
    }
}
