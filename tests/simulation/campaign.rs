//! Many runs: their number, their seeds, their threads, and the report about them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use multilock_test_support::linearizability::Figures;

use crate::plan::{Class, Plan};
use crate::properties::{Violation, judge_counting};
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

/// Result of a campaign.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) runs: u64,
    pub(crate) virtual_time: Duration,
    /// How often holds were passed on inside a process.
    pub(crate) passed: usize,
    pub(crate) violations: usize,
    /// Number of histories and of calls that the linearizability checker judged.
    pub(crate) linearizable: Figures,
    pub(crate) report: String,
    /// By the property that does not hold: the first seed that showed it, and how many did.
    pub(crate) broken: BTreeMap<&'static str, (u64, usize)>,
    /// Of each class, how many schedules there were, and in how many of them a hold was passed on.
    passing: BTreeMap<Class, (u64, u64)>,
}

/// Runs the default number of seeds, unless the environment names another number, or a single seed.
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
                    let Judged {
                        class,
                        time,
                        passed,
                        linearizable,
                        failure,
                    } = judged(seed);
                    let mut summary = summary.lock().expect("not poisoned");
                    summary.runs += 1;
                    summary.virtual_time += time;
                    summary.passed += passed;
                    summary.linearizable += &linearizable;
                    let of_class = summary.passing.entry(class).or_default();
                    of_class.0 += 1;
                    of_class.1 += u64::from(passed > 0);
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

/// Result of one schedule.
struct Judged {
    class: Class,
    time: Duration,
    passed: usize,
    linearizable: Figures,
    failure: Option<Failure>,
}

fn judged(seed: u64) -> Judged {
    let plan = Plan::of_seed(seed);
    let mut judged = Judged {
        class: plan.class,
        time: Duration::ZERO,
        passed: 0,
        linearizable: Figures::default(),
        failure: None,
    };
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
            judged.failure = Some((vec![violation], text));
            return judged;
        }
    };
    judged.time = record.events.last().map_or(Duration::ZERO, |event| event.at);
    judged.passed = record.passes();
    let (violations, linearizable) = judge_counting(&plan, &record);
    judged.linearizable = linearizable;
    if violations.is_empty() {
        if number("SIM_SEED").is_some() {
            println!("{}", record.render(&[]));
        }
        return judged;
    }
    let marked: Vec<usize> = violations.iter().flat_map(|found| found.events.clone()).collect();
    let mut text = format!("\nseed {seed}: {plan:?}\n{}", record.render(&marked));
    for Violation { property, what, .. } in &violations {
        let _ = writeln!(text, "\nviolated: {property}: {what}");
    }
    text += &repeat(seed);
    judged.failure = Some((violations, text));
    judged
}

fn repeat(seed: u64) -> String {
    format!(
        "\nrepeat it by: SIM_SEED={seed} cargo test --test simulation random_schedules -- --nocapture\n\n"
    )
}

/// From this number of schedules of a class on, at least one in [`PASSING`] hands a hold on. In many schedules, tasks
/// of one client want to read, and readers hand nothing on.
const MANY: u64 = 200;
const PASSING: u64 = 6;

impl Summary {
    /// Classes in which too few schedules pass a hold on to show anything of it.
    pub(crate) fn hardly_passing(&self) -> Vec<String> {
        let too_few =
            |(_, (runs, passing)): &(&Class, &(u64, u64))| *runs >= MANY && passing * PASSING < *runs;
        let shown =
            |(class, (runs, passing)): (&Class, &(u64, u64))| format!("{class:?}: {passing} of {runs}");
        self.passing.iter().filter(too_few).map(shown).collect()
    }

    /// The last line of `make sim`.
    pub(crate) fn line(&self) -> String {
        let hours = self.virtual_time.as_secs_f64() / 3600.0;
        let mut broken: Vec<_> = self.broken.iter().collect();
        broken.sort_by_key(|(_, (seed, _))| *seed);
        for (property, (seed, count)) in broken {
            println!("first: seed {seed}: {property} ({count} in all)");
        }
        let passing: u64 = self.passing.values().map(|(_, passing)| passing).sum();
        format!(
            "sim: runs={} virtual_hours={hours:.1} passed={} passing_runs={passing} violations={}",
            self.runs, self.passed, self.violations
        )
    }
}
