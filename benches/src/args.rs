//! What the program is asked to do.

use anyhow::{Result, bail};

pub enum Args {
    Run(Choice),
    Report,
    /// A process of the bench's own; the order is JSON.
    Worker(String),
}

#[derive(Default)]
pub struct Choice {
    /// A subset of the points, each for a shorter time.
    pub quick: bool,
    /// Scenarios by their names (`S1`); all when empty.
    pub only: Vec<String>,
}

const USAGE: &str = "usage: multilock-bench run [--quick] [S1 S2 ...] | report";

impl Args {
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self> {
        match args.next().as_deref() {
            Some("run") => {
                let mut choice = Choice::default();
                for arg in args {
                    match arg.as_str() {
                        "--quick" => choice.quick = true,
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
