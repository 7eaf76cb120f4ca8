//! Draws the figures of the last run and writes them into the page about speed.

mod canvas;
mod page;
mod pictures;
mod targets;

use std::fs;

use anyhow::{Context, Result};

use crate::summary::Summary;

pub fn write() -> Result<()> {
    let summary = Summary::read()?;
    let dir = crate::workspace().join("docs/performance");
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    pictures::draw(&summary, &dir)?;
    page::write(&summary, &dir.join("README.md"))
}
