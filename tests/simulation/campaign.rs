//! Many runs: how many, which, on how many threads, and what is told of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::plan::Plan;
use crate::properties::{Violation, judge};
use crate::run::run;

/// The seeds of a plain `cargo test` begin here.
const BASE: u64 = 1_000_000;
/// Failures that are shown; more would hide them.
const SHOWN: usize = 3;

/// A number from the environment.
pub(crate) fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
    )
}

/// What came of a campaign.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) runs: u64,
    pub(crate) virtual_time: Duration,
    pub(crate) violations: usize,
    pub(crate) report: String,
    /// By the property that does not hold: the first seed that showed it, and how many did.
    pub(crate) broken: BTreeMap<&'static str, (u64, usize)>,
}

/// Runs so many seeds, or the one that the environment names.
pub(crate) fn campaign(default_runs: u64) -> Summary {
    let (first, runs) = match number("SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (
            number("SIM_BASE").unwrap_or(BASE),
            number("SIM_RUNS").unwrap_or(default_runs),
        ),
    };
    // One class alone, where somebody asks for it.
    let class = std::env::var("SIM_CLASS").ok();
    let only = |class: &String| {
        (first..first + Plan::CLASSES).find(|seed| format!("{:?}", Plan::of_seed(*seed).class) == *class)
    };
    let (first, step) = match class {
        Some(class) if runs > 1 => (only(&class).expect("a class"), Plan::CLASSES),
        _ => (first, 1),
    };
    let next = AtomicU64::new(0);
    let summary = Mutex::new(Summary::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= runs {
                        return;
                    }
                    let seed = first + number * step;
                    let (time, failure) = judged(seed);
                    let mut summary = summary.lock().expect("not poisoned");
                    summary.runs += 1;
                    summary.virtual_time += time;
                    if let Some((violations, text)) = failure {
                        if summary.violations < SHOWN {
                            summary.report += &text;
                        }
                        summary.violations += violations.len();
                        for Violation { property, .. } in violations {
                            let (first, count) = summary.broken.entry(property).or_insert((seed, 0));
                            *first = seed.min(*first);
                            *count += 1;
                        }
                        if std::env::var_os("SIM_STOP").is_some() {
                            next.store(runs, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    summary.into_inner().expect("not poisoned")
}

type Failure = (Vec<Violation>, String);

fn judged(seed: u64) -> (Duration, Option<Failure>) {
    let plan = Plan::of_seed(seed);
    let record = match std::panic::catch_unwind(|| run(seed)) {
        Ok(record) => record,
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or(panic.downcast_ref::<&str>().copied());
            let violation = Violation {
                property: "no panic",
                what: words.unwrap_or("a panic").to_owned(),
                events: Vec::new(),
            };
            let text = format!(
                "seed {seed}, {:?}: {}\n{}",
                plan.class,
                violation.what,
                repeat(seed)
            );
            return (Duration::ZERO, Some((vec![violation], text)));
        }
    };
    let time = record.events.last().map_or(Duration::ZERO, |event| event.at);
    let violations = judge(&plan, &record);
    if violations.is_empty() {
        if number("SIM_SEED").is_some() {
            println!("{}", record.render(&[]));
        }
        return (time, None);
    }
    let marked: Vec<usize> = violations.iter().flat_map(|found| found.events.clone()).collect();
    let mut text = format!("\nseed {seed}: {plan:?}\n{}", record.render(&marked));
    for Violation { property, what, .. } in &violations {
        let _ = writeln!(text, "\nviolated: {property}: {what}");
    }
    text += &repeat(seed);
    (time, Some((violations, text)))
}

fn repeat(seed: u64) -> String {
    format!(
        "\nrepeat it by: SIM_SEED={seed} cargo test --test simulation random_schedules -- --nocapture\n\n"
    )
}

impl Summary {
    /// The last line of `make sim`.
    pub(crate) fn line(&self) -> String {
        let hours = self.virtual_time.as_secs_f64() / 3600.0;
        let mut broken: Vec<_> = self.broken.iter().collect();
        broken.sort_by_key(|(_, (seed, _))| *seed);
        for (property, (seed, count)) in broken {
            println!("first: seed {seed}: {property} ({count} in all)");
        }
        format!(
            "sim: runs={} virtual_hours={hours:.1} violations={}",
            self.runs, self.violations
        )
    }
}
