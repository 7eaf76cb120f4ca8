//! The lines that are printed, and the file that pictures are drawn from.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::client::Who;
use crate::machine::Machine;
use crate::stats::Durations;

#[derive(Debug, Serialize, Deserialize)]
pub struct Summary {
    pub machine: Machine,
    pub quick: bool,
    pub seconds: f64,
    pub lines: Vec<Line>,
    pub distributions: Vec<Distribution>,
}

/// One point of a scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    pub scenario: String,
    /// Masters.
    pub n: usize,
    /// In the order in which they are printed.
    pub figures: Vec<(String, Figure)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figure {
    Number(f64),
    /// What is said where there is no number: `hangs`, `fails`.
    Word(String),
}

/// Everything that was recorded of one contender in one scenario.
#[derive(Debug, Serialize, Deserialize)]
pub struct Distribution {
    pub scenario: String,
    pub who: Who,
    /// In microseconds, by quantile.
    pub percentiles: BTreeMap<String, f64>,
    /// The upper end of each bucket in nanoseconds, and its count.
    pub histogram: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
pub enum Better {
    Less,
    More,
}

impl Line {
    pub fn new(scenario: impl Into<String>, n: usize) -> Self {
        Self {
            scenario: scenario.into(),
            n,
            figures: Vec::new(),
        }
    }

    pub fn with(mut self, key: impl Into<String>, value: f64) -> Self {
        self.figures.push((key.into(), Figure::Number(value)));
        self
    }

    /// One figure of everybody, and ours as a ratio to the limit's and to the best peer's.
    pub fn compare(mut self, what: &str, better: Better, figures: &[(Who, Figure)], ours: Who) -> Self {
        let of = |who: Who| figures.iter().find(|(other, _)| *other == who);
        for (who, figure) in figures.iter().filter(|(who, _)| !who.is_ours() || *who == ours) {
            let key = format!("{}_{what}", who.prefix());
            self.figures.push((key, figure.clone()));
        }
        let Some((_, Figure::Number(mine))) = of(ours) else {
            return self;
        };
        if let Some((_, Figure::Number(limit))) = of(Who::Limit) {
            self = self.ratio("ratio_limit", *mine, *limit);
        }
        let peers = figures.iter().filter_map(|(who, figure)| match figure {
            Figure::Number(number) if who.is_peer() => Some(*number),
            _ => None,
        });
        let best = peers.reduce(|a, b| match better {
            Better::Less => a.min(b),
            Better::More => a.max(b),
        });
        match best {
            Some(best) => self.ratio("ratio_best_peer", *mine, best),
            None => self,
        }
    }

    /// Left out where there is nothing to divide by.
    fn ratio(self, key: &str, mine: f64, other: f64) -> Self {
        if other == 0.0 {
            self
        } else {
            self.with(key, mine / other)
        }
    }

    pub fn number(&self, key: &str) -> Option<f64> {
        let (_, figure) = self.figures.iter().find(|(other, _)| other == key)?;
        match figure {
            Figure::Number(number) => Some(*number),
            Figure::Word(_) => None,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scenario={} n={}", self.scenario, self.n)?;
        for (key, figure) in &self.figures {
            write!(f, " {key}={figure}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Number(number) if number.abs() >= 100.0 => write!(f, "{number:.0}"),
            Self::Number(number) if number.abs() >= 10.0 => write!(f, "{number:.1}"),
            Self::Number(number) => write!(f, "{number:.3}"),
        }
    }
}

impl Summary {
    pub fn line(&mut self, line: Line) {
        println!("{line}");
        self.lines.push(line);
    }

    pub fn distribution(&mut self, scenario: &str, who: Who, durations: &Durations) {
        let quantiles = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0];
        self.distributions.push(Distribution {
            scenario: scenario.to_owned(),
            who,
            percentiles: quantiles
                .iter()
                .map(|quantile| (quantile.to_string(), durations.at(*quantile)))
                .collect(),
            histogram: durations.buckets(),
        });
    }

    pub fn find(&self, scenario: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.scenario == scenario)
    }

    pub fn write(&self) -> Result<PathBuf> {
        let path = path();
        let dir = path.parent().context("a directory")?;
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        fs::write(&path, serde_json::to_vec(self)?).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    pub fn read() -> Result<Self> {
        let path = path();
        let text = fs::read(&path).with_context(|| format!("{}: run `make bench` first", path.display()))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// In the workspace's `target`, wherever cargo builds.
fn path() -> PathBuf {
    crate::workspace().join("target/bench/summary.json")
}
