//! Growth of a process and its masters over the minutes: pure functions over the samples.

use std::fmt;

/// Sample of one idle second at the end of a minute.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub pairs: u64,
    /// Of the workers that live as long as the soak: the largest of them, in KiB.
    pub resident: u64,
    /// Tasks of its runtime, of the worker with the most.
    pub tasks: u64,
    /// Open files and sockets, of the worker with the most.
    pub descriptors: u64,
    /// Wake-ups of the worker that woke most often.
    pub wakes: u64,
    /// Clients on all masters.
    pub connections: u64,
    /// Keys on all masters.
    pub keys: u64,
    /// Scripts that ran on all masters.
    pub scripts: u64,
}

/// A figure, and its bound.
struct Figure {
    name: &'static str,
    of: fn(&Sample) -> u64,
    most: Most,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Most {
    /// From the first third of the minutes to the last one, each by its median.
    Growth(u64),
    /// In any minute.
    Level(u64),
}

/// A figure of the whole soak.
#[derive(Clone, Debug)]
pub struct Grown {
    pub name: &'static str,
    /// The growth, or the highest level.
    pub by: i64,
    pub most: Most,
}

/// Bounds for all processes and all masters.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub connections: u64,
    pub keys: u64,
}

/// The allocator's own doings are far below it, and a leak of ten bytes a pair is above it in half an hour.
const RESIDENT_KIB: u64 = 4096;
/// One in a connection's change more or less.
const FEW: u64 = 3;

pub fn grown(samples: &[Sample], limits: Limits) -> Vec<Grown> {
    let figures = [
        Figure {
            name: "resident_kib",
            of: |sample| sample.resident,
            most: Most::Growth(RESIDENT_KIB),
        },
        Figure {
            name: "tasks",
            of: |sample| sample.tasks,
            most: Most::Growth(FEW),
        },
        Figure {
            name: "descriptors",
            of: |sample| sample.descriptors,
            most: Most::Growth(FEW),
        },
        Figure {
            name: "wakes",
            of: |sample| sample.wakes,
            most: Most::Growth(50),
        },
        Figure {
            name: "connections",
            of: |sample| sample.connections,
            most: Most::Level(limits.connections),
        },
        Figure {
            name: "keys",
            of: |sample| sample.keys,
            most: Most::Level(limits.keys),
        },
        Figure {
            name: "scripts",
            of: |sample| sample.scripts,
            most: Most::Level(0),
        },
    ];
    figures.iter().map(|figure| figure.over(samples)).collect()
}

impl Figure {
    fn over(&self, samples: &[Sample]) -> Grown {
        let values: Vec<u64> = samples.iter().map(self.of).collect();
        let by = match self.most {
            Most::Growth(_) => growth(&values),
            Most::Level(_) => signed(values.iter().copied().max().unwrap_or(0)),
        };
        Grown {
            name: self.name,
            by,
            most: self.most,
        }
    }
}

/// The first minute of several is left out, for things that are made only once.
fn growth(values: &[u64]) -> i64 {
    let steady = if values.len() > 2 { &values[1..] } else { values };
    let third = steady.len().div_ceil(3);
    median(&steady[steady.len() - third..]) - median(&steady[..third])
}

fn median(values: &[u64]) -> i64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len() / 2).copied().map_or(0, signed)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Grown {
    pub fn is_too_much(&self) -> bool {
        let (Most::Growth(most) | Most::Level(most)) = self.most;
        self.by > signed(most)
    }
}

impl fmt::Display for Grown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, by) = (self.name, self.by);
        match self.most {
            Most::Growth(most) => write!(f, "{name} {by:+} (at most +{most})"),
            Most::Level(most) => write!(f, "{name} {by} (at most {most})"),
        }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pairs={} resident_kib={} tasks={} descriptors={} wakes={} connections={} keys={} scripts={}",
            self.pairs,
            self.resident,
            self.tasks,
            self.descriptors,
            self.wakes,
            self.connections,
            self.keys,
            self.scripts
        )
    }
}
