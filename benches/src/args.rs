//! Arguments of the program.

use std::num::NonZeroU32;

use anyhow::{Context, Result, bail};

pub enum Args {
    Run(Choice),
    Report,
    /// A process of the bench's own; the order is JSON.
    Worker(String),
}

pub struct Choice {
    /// A subset of the points, each for a shorter time.
    pub quick: bool,
    /// Scenarios by their names (`S1`); all when empty.
    pub only: Vec<String>,
    /// Number of runs, one after the other, over which medians are taken.
    pub runs: NonZeroU32,
}

const USAGE: &str = "usage: multilock-bench run [--quick] [--runs K] [S1 S2 ...] | report";

impl Args {
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self> {
        match args.next().as_deref() {
            Some("run") => {
                let mut choice = Choice {
                    quick: false,
                    only: Vec::new(),
                    runs: NonZeroU32::MIN,
                };
                while let Some(arg) = args.next() {
                    match arg.as_str() {
                        "--quick" => choice.quick = true,
                        "--runs" => {
                            let runs = args.next().and_then(|runs| runs.parse().ok());
                            choice.runs = runs.with_context(|| format!("--runs and a number: {USAGE}"))?;
                        }
                        name if name.starts_with('S') => choice.only.push(arg),
                        _ => bail!("{arg}: {USAGE}"),
                    }
                }
                Ok(Self::Run(choice))
            }
            Some("report") => Ok(Self::Report),
            Some("worker") => match args.next() {
                Some(order) => Ok(Self::Worker(order)),
                None => bail!("a worker has an order"),
            },
            _ => bail!("{USAGE}"),
        }
    }
}

impl Choice {
    pub fn wants(&self, scenario: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == scenario)
    }
}
