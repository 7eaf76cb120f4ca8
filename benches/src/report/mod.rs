//! Draws the figures of the last run and writes them into the page about speed. A run of some scenarios replaces theirs,
//! and the pictures that are drawn from them.

mod canvas;
mod page;
mod pictures;
mod published;
mod targets;

use std::fs;

use anyhow::{Context, Result};

use crate::summary::Summary;

pub fn write() -> Result<()> {
    let summary = Summary::read()?;
    let dir = crate::workspace().join("docs/performance");
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    page::write(&summary, &dir.join("README.md"))?;
    pictures::draw(&summary, &dir)
}
