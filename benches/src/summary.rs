//! The lines that are printed, and the file that pictures are drawn from.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::client::Who;
use crate::machine::Machine;
use crate::stats::{Durations, median};

#[derive(Debug, Serialize, Deserialize)]
pub struct Summary {
    pub machine: Machine,
    pub quick: bool,
    /// Number of runs. Each figure is the median over them.
    #[serde(default = "one")]
    pub runs: usize,
    /// All of them together.
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
    /// Word in place of a number: `hangs`, `fails`.
    Word(String),
}

/// Everything that was recorded of one contender in one scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
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

impl Line {
    /// Of the same line in several runs.
    fn median(of_each: &[&Self]) -> Self {
        let mut all = Self::new(of_each[0].scenario.clone(), of_each[0].n);
        for (key, _) in of_each.iter().flat_map(|line| &line.figures) {
            if all.figures.iter().any(|(known, _)| known == key) {
                continue;
            }
            let figures = of_each.iter().flat_map(|line| &line.figures);
            let of_key = figures
                .filter(|(other, _)| other == key)
                .map(|(_, figure)| figure);
            all.figures.push((key.clone(), Figure::median(of_key)));
        }
        all
    }
}

impl Distribution {
    /// Adds the records of another run, as if both had been one run.
    fn add(&mut self, other: &Self) {
        let mut counts: BTreeMap<u64, u64> = self.histogram.iter().copied().collect();
        for (bucket, count) in &other.histogram {
            *counts.entry(*bucket).or_default() += count;
        }
        self.histogram = counts.into_iter().collect();
        self.percentiles = percentiles(&self.histogram);
    }
}

/// In microseconds, by quantile.
fn percentiles(histogram: &[(u64, u64)]) -> BTreeMap<String, f64> {
    let total: u64 = histogram.iter().map(|(_, count)| count).sum();
    let at = |quantile: f64| {
        let mut so_far = 0;
        let found = histogram.iter().find(|(_, count)| {
            so_far += count;
            so_far as f64 >= (quantile * total as f64).max(1.0)
        });
        found.map_or(0.0, |(bucket, _)| *bucket as f64 / 1e3)
    };
    let quantiles = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0];
    quantiles
        .iter()
        .map(|quantile| (quantile.to_string(), at(*quantile)))
        .collect()
}

impl Figure {
    fn median<'a>(of_each: impl Iterator<Item = &'a Self>) -> Self {
        let (mut numbers, mut words) = (Vec::new(), Vec::new());
        for figure in of_each {
            match figure {
                Self::Number(number) => numbers.push(*number),
                Self::Word(word) => words.push(word.clone()),
            }
        }
        if words.len() > numbers.len() {
            return Self::Word(words.swap_remove(0));
        }
        Self::Number(median(numbers))
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

/// As it is printed.
impl FromStr for Line {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let not_one = || format!("not a line: {text}");
        let mut words = text.split(' ').map(|word| word.split_once('='));
        let mut next = |key: &str| match words.next().flatten() {
            Some((found, value)) if found == key => Ok(value),
            _ => Err(anyhow!(not_one())),
        };
        let mut line = Self::new(next("scenario")?, next("n")?.parse().with_context(not_one)?);
        for word in words {
            let (key, value) = word.with_context(not_one)?;
            let figure = value.parse().map(Figure::Number);
            let figure = figure.unwrap_or_else(|_| Figure::Word(value.to_owned()));
            line.figures.push((key.to_owned(), figure));
        }
        Ok(line)
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
    /// Summary of several runs, with the machine as it was before the first. If some runs lack a line or a figure, the median
    /// is over the other runs. If most runs have a word for a figure, the figure is that word. A ratio is the median of the
    /// ratios, not the ratio of medians: its two halves were taken side by side.
    pub fn median(runs: &[Self]) -> Self {
        let mut all = Self {
            machine: runs[0].machine.clone(),
            quick: runs[0].quick,
            runs: runs.len(),
            seconds: runs.iter().map(|run| run.seconds).sum(),
            lines: Vec::new(),
            distributions: Vec::new(),
        };
        for line in runs.iter().flat_map(|run| &run.lines) {
            if all.find(&line.scenario).is_none() {
                let of_each: Vec<&Line> = runs.iter().filter_map(|run| run.find(&line.scenario)).collect();
                all.lines.push(Line::median(&of_each));
            }
        }
        for one in runs.iter().flat_map(|run| &run.distributions) {
            match all
                .distributions
                .iter_mut()
                .find(|other| other.scenario == one.scenario && other.who == one.who)
            {
                Some(other) => other.add(one),
                None => all.distributions.push(one.clone()),
            }
        }
        all
    }

    pub fn runs_told(&self) -> String {
        let seconds = self.seconds / self.runs as f64;
        match self.runs {
            1 => format!("{seconds:.0} s"),
            runs => format!("median of {runs} runs of {seconds:.0} s"),
        }
    }

    pub fn line(&mut self, line: Line) {
        println!("{line}");
        self.lines.push(line);
    }

    pub fn distribution(&mut self, scenario: &str, who: Who, durations: &Durations) {
        let histogram = durations.buckets();
        self.distributions.push(Distribution {
            scenario: scenario.to_owned(),
            who,
            percentiles: percentiles(&histogram),
            histogram,
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

/// Number of runs in an older summary, which does not store it.
fn one() -> usize {
    1
}

/// In the workspace's `target`, wherever cargo builds.
fn path() -> PathBuf {
    crate::workspace().join("target/bench/summary.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(figures: &[(&str, Figure)], durations: &[u64]) -> Summary {
        let mut line = Line::new("S0", 5);
        for (key, figure) in figures {
            line.figures.push(((*key).to_owned(), figure.clone()));
        }
        let mut recorded = Durations::default();
        for nanoseconds in durations {
            recorded.record(std::time::Duration::from_nanos(*nanoseconds));
        }
        let mut summary = Summary {
            machine: Machine::default(),
            quick: true,
            runs: 1,
            seconds: 2.0,
            lines: vec![line],
            distributions: Vec::new(),
        };
        summary.distribution("S0", Who::Ours, &recorded);
        summary
    }

    #[test]
    fn each_figure_is_the_median_of_its_own_over_the_runs() {
        let number = |number| Figure::Number(number);
        let hangs = || Figure::Word("hangs".to_owned());
        let runs = [
            run(
                &[("a", number(1.0)), ("b", hangs()), ("c", hangs())],
                &[1_000, 2_000],
            ),
            run(
                &[("a", number(9.0)), ("b", hangs()), ("c", number(4.0))],
                &[1_000],
            ),
            run(&[("a", number(2.0)), ("b", number(5.0)), ("c", number(6.0))], &[]),
        ];
        let median = Summary::median(&runs);
        assert_eq!(median.runs, 3);
        assert_eq!(median.runs_told(), "median of 3 runs of 2 s");
        let wanted = run(&[("a", number(2.0)), ("b", hangs()), ("c", number(5.0))], &[]);
        assert_eq!(median.lines.len(), 1);
        assert_eq!(median.lines[0].figures, wanted.lines[0].figures);
        let [one] = &median.distributions[..] else {
            panic!("{:?}", median.distributions);
        };
        assert_eq!(one.histogram, [(1_000, 2), (2_000, 1)]);
        assert!((one.percentiles["0.5"] - 1.0).abs() < 1e-9);
        assert!((one.percentiles["1"] - 2.0).abs() < 1e-9);
    }

    #[test]
    fn one_run_is_its_own_median() {
        let one = run(&[("a", Figure::Number(1.5))], &[3_000]);
        let median = Summary::median(std::slice::from_ref(&one));
        assert_eq!(median.lines[0].figures, one.lines[0].figures);
        assert_eq!(median.runs_told(), "2 s");
    }
}
