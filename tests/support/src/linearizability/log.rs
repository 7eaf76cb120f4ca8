//! Calls of a run, cut by the names that they are about, and the findings in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::AddAssign;

use super::model::{Action, Model};
use super::search::{Call, MOST_CONFIGURATIONS, Search, search};

/// Calls of a run by name.
#[derive(Clone, Debug, Default)]
pub struct Log {
    locks: BTreeMap<String, Vec<Call>>,
    permits: BTreeMap<String, (usize, Vec<Call>)>,
}

/// Number of histories and of calls that were judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Histories and calls, by the names of models.
    pub by_model: BTreeMap<&'static str, (usize, usize)>,
    /// Calls of unknown outcome among them, and ends of leases.
    pub open: usize,
    pub expired: usize,
    /// Largest number of configurations that a history needed.
    pub most_configurations: usize,
}

/// One history that is not linearizable, or is undecided.
#[derive(Clone, Debug)]
pub struct NonLinearizable {
    pub name: String,
    pub what: String,
    /// Moments of the calls that may not follow.
    pub moments: Vec<u64>,
}

/// Result of all searches of a [`Log`].
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    pub figures: Figures,
    pub wrong: Vec<NonLinearizable>,
}

impl Log {
    /// Adds a call of the lock `name`.
    pub fn lock(&mut self, name: &str, call: Call) {
        self.locks.entry(name.to_owned()).or_default().push(call);
    }

    /// Adds a call of a permit among `most` of `name`.
    pub fn permit(&mut self, name: &str, most: usize, call: Call) {
        let (_, calls) = self.permits.entry(name.to_owned()).or_insert((most, Vec::new()));
        calls.push(call);
    }

    /// Judges each name by the strictest model that has a meaning for its calls.
    pub fn judge(&self) -> Judgement {
        let locks = self
            .locks
            .iter()
            .map(|(name, calls)| (name, model_of(calls), calls));
        let permits = self.permits.iter();
        let permits = permits.map(|(name, (most, calls))| (name, Model::Permits(*most), calls));
        let mut judgement = Judgement::default();
        for (name, model, calls) in locks.chain(permits) {
            judgement.add(name, model, calls);
        }
        judgement
    }
}

/// Re-entrant if an owner acquires twice, fenced if there are tokens.
fn model_of(calls: &[Call]) -> Model {
    let mut owners = BTreeSet::new();
    let (mut reentrant, mut fenced) = (false, false);
    for call in calls {
        if let Action::Acquire { token } = call.action {
            reentrant |= !owners.insert(call.owner);
            fenced |= token.is_some();
        }
    }
    match (reentrant, fenced) {
        (false, false) => Model::OwnerAware,
        (true, false) => Model::Reentrant,
        (false, true) => Model::Fenced,
        (true, true) => Model::ReentrantFenced,
    }
}

impl Judgement {
    fn add(&mut self, name: &str, model: Model, calls: &[Call]) {
        let figures = &mut self.figures;
        let (histories, counted) = figures.by_model.entry(model.name()).or_default();
        *histories += 1;
        *counted += calls.len();
        let is_end = |call: &&Call| call.action == Action::Expire;
        let expired = calls.iter().filter(is_end).count();
        figures.expired += expired;
        figures.open += calls.iter().filter(|call| call.returned.is_none()).count() - expired;
        let (what, moments) = match search(model, calls, MOST_CONFIGURATIONS) {
            Search::Linearizable(configurations) => {
                figures.most_configurations = figures.most_configurations.max(configurations);
                return;
            }
            Search::Undecided => {
                let what = format!(
                    "undecided after {MOST_CONFIGURATIONS} configurations of {} calls",
                    calls.len()
                );
                (what, Vec::new())
            }
            Search::NonLinearizable { placed, state, next } => {
                let mut what = format!(
                    "no order of {} calls is allowed: after {placed} it is {state}, and then comes",
                    calls.len()
                );
                for Call {
                    owner,
                    action,
                    invoked,
                    returned,
                } in &next
                {
                    let _ = write!(what, " {action:?} of {owner} ({invoked} to {returned:?})");
                }
                let moments = next.iter().flat_map(|call| [Some(call.invoked), call.returned]);
                (what, moments.flatten().collect())
            }
        };
        self.wrong.push(NonLinearizable {
            name: name.to_owned(),
            what: format!("{name} is no {} lock: {what}", model.name()),
            moments,
        });
    }
}

impl Figures {
    /// Number of histories, of one name each.
    pub fn histories(&self) -> usize {
        self.by_model.values().map(|(histories, _)| histories).sum()
    }

    /// Number of calls in them.
    pub fn calls(&self) -> usize {
        self.by_model.values().map(|(_, calls)| calls).sum()
    }
}

impl AddAssign<&Self> for Figures {
    fn add_assign(&mut self, other: &Self) {
        for (model, (histories, calls)) in &other.by_model {
            let own = self.by_model.entry(model).or_default();
            own.0 += histories;
            own.1 += calls;
        }
        self.open += other.open;
        self.expired += other.expired;
        self.most_configurations = self.most_configurations.max(other.most_configurations);
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (histories, calls) = (self.histories(), self.calls());
        write!(
            f,
            "histories={histories} calls={calls} open={} expired={}",
            self.open, self.expired
        )?;
        for (model, (histories, calls)) in &self.by_model {
            write!(f, " {}={histories}/{calls}", model.replace(' ', "-"))?;
        }
        write!(f, " most_configurations={}", self.most_configurations)
    }
}
