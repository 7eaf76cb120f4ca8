//! Properties that must hold in every run: pure functions over the record, one file each.

mod calm;
mod done_once;
mod exclusion;
mod forced_out;
mod freed;
mod known_loss;
mod linearizable;
mod lost_in_time;
mod no_stall;
mod nothing_left;
mod order;
mod orphans;
mod overtaken;
mod polite;
mod progress;
mod store;
mod terms;
mod tokens;
mod whole_holds;

use std::collections::BTreeMap;
use std::time::Duration;

use multilock_test_support::linearizability::Figures;

use crate::history::{Kind, Record};
use crate::plan::{Class, Plan};

/// A property that does not hold, and where that shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Violation {
    pub(crate) property: &'static str,
    pub(crate) what: String,
    /// The events involved.
    pub(crate) events: Vec<usize>,
}

/// Facts by which a property judges.
pub(crate) struct Case<'a> {
    pub(crate) class: Class,
    pub(crate) record: &'a Record,
    /// As [`Plan::rates`].
    pub(crate) rates: &'a [i32],
}

impl<'a> Case<'a> {
    /// By how much a master's clock slipped or ran ahead between two places of the record: its keys end so much earlier.
    fn slipped(&self, master: usize, from: usize, to: usize) -> Duration {
        let events = &self.record.events;
        let between = events[from..to].iter();
        let slips = between.filter_map(|event| match &event.kind {
            Kind::Slipped { master: at, by } if *at == master => Some(*by),
            _ => None,
        });
        let slipped: Duration = slips.sum();
        let passed = events[to].at.saturating_sub(events[from].at);
        match self.rates.get(master) {
            Some(&rate) if rate > 0 => slipped + passed * rate.unsigned_abs() / 1_000_000 + ROUNDED,
            _ => slipped,
        }
    }

    /// Owners that an operator forced out, and owners with keys that were deleted behind their back. Each has the place
    /// in the record at which that happened first.
    pub(crate) fn forced(&self) -> BTreeMap<&'a str, usize> {
        let mut forced = BTreeMap::new();
        for (place, event) in self.record.events.iter().enumerate() {
            match &event.kind {
                Kind::Executed {
                    script: "force",
                    owner,
                    ..
                } => {
                    for owner in owner.split_whitespace() {
                        forced.entry(owner).or_insert(place);
                    }
                }
                Kind::Deleted { owners, .. } => {
                    for owner in owners {
                        forced.entry(owner.as_str()).or_insert(place);
                    }
                }
                _ => {}
            }
        }
        forced
    }
}

/// Largest difference between times that masters give in whole milliseconds.
const ROUNDED: Duration = Duration::from_millis(1);

type Check = fn(&Case<'_>) -> Option<(String, Vec<usize>)>;

const PROPERTIES: [(&str, Check); 17] = [
    ("done once", done_once::check),
    ("mutual exclusion", exclusion::check),
    ("tokens rise", tokens::check),
    ("holds stay whole", whole_holds::check),
    ("terms are kept", terms::check),
    ("lost in time", lost_in_time::check),
    ("known loss", known_loss::check),
    ("no orphan", orphans::check),
    ("forced out", forced_out::check),
    ("freed by force", freed::check),
    ("polite", polite::check),
    ("what masters keep", store::check),
    ("order", order::check),
    ("overtaken by few", overtaken::check),
    ("progress", progress::check),
    ("no stall", no_stall::check),
    ("nothing is left", nothing_left::check),
];

/// Everything that does not hold.
pub(crate) fn judge(plan: &Plan, record: &Record) -> Vec<Violation> {
    judge_counting(plan, record).0
}

/// The same, and how much the linearizability checker had to judge.
pub(crate) fn judge_counting(plan: &Plan, record: &Record) -> (Vec<Violation>, Figures) {
    let class = plan.class;
    let case = Case {
        class,
        record,
        rates: &plan.rates,
    };
    if let Some((what, events)) = calm::check(&case) {
        // The rest of the run is not in the record.
        let violation = Violation {
            property: "calm",
            what,
            events,
        };
        return (vec![violation], Figures::default());
    }
    let judgement = linearizable::judge(&case);
    let mut violations: Vec<_> = linearizable::violation(&judgement).into_iter().collect();
    if !is_only_judge(linearizable::NAME) {
        violations.extend(judge_by_properties(&case));
    }
    (violations, judgement.figures)
}

/// Whether the environment wants this judge alone.
fn is_only_judge(judge: &str) -> bool {
    match std::env::var("SIM_JUDGE").as_deref() {
        Ok(only) => {
            assert_eq!(only, judge, "SIM_JUDGE names a judge");
            true
        }
        Err(_) => false,
    }
}

fn judge_by_properties(case: &Case<'_>) -> Vec<Violation> {
    let judged = PROPERTIES.iter().filter_map(|(property, check)| {
        let (what, events) = check(case)?;
        Some(Violation {
            property,
            what,
            events,
        })
    });
    judged.collect()
}
