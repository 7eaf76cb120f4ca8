//! Explorations and their verdicts.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::model::{Action, Protocol};
use crate::scope::Scope;
use crate::weaker::Weaker;

/// Result of an exploration.
#[derive(Debug)]
pub struct Verdict {
    /// Name of the scope or of the weaker form.
    pub name: &'static str,
    /// Different states.
    pub states: usize,
    /// Steps of the longest way taken from the beginning without going round.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// Findings that must not be: broken promises, promises kept by a weaker form, witnesses that were not
    /// found, states left unexplored.
    pub failures: Vec<String>,
    /// Broken promises with the number of steps that break them.
    pub broken: Vec<(&'static str, usize)>,
}

/// Explores all of a scope: every promise has to hold in every state, every witness has to be found.
#[must_use]
pub fn explore(scope: Scope) -> Verdict {
    explored(
        scope.name,
        Protocol {
            scope,
            unordered: true,
        },
    )
}

pub(crate) fn explored<M>(name: &'static str, model: M) -> Verdict
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + Send + Sync + PartialEq + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let begun = Instant::now();
    // The checker has to see every state, so something must stay undiscovered: promises do.
    let checker = model.checker().spawn_bfs().join();
    let found = checker.discoveries();
    let mut failures = Vec::new();
    if !checker.is_done() {
        failures.push("not explored to the end".to_owned());
    }
    let mut broken = Vec::new();
    for property in checker.model().properties() {
        match (
            found.get(property.name),
            property.expectation.discovery_is_failure(),
        ) {
            (Some(path), true) => {
                let steps = path.clone().into_actions().len();
                failures.push(format!("broken in {steps} steps: {}", property.name));
                broken.push((property.name, steps));
            }
            (None, false) => failures.push(format!("never seen: {}", property.name)),
            _ => {}
        }
    }
    Verdict {
        name,
        states: checker.unique_state_count(),
        depth: checker.max_depth().saturating_sub(1),
        took: begun.elapsed(),
        failures,
        broken,
    }
}

/// Looks for the shortest way in which a weaker form breaks its promise. The form says how long that is.
#[must_use]
pub fn refute(weaker: &Weaker) -> Verdict {
    let model = || Protocol {
        scope: weaker.scope.clone(),
        unordered: true,
    };
    refuted_in(weaker.steps, weaker.scope.name, model, weaker.breaks)
}

/// The same for any model.
pub(crate) fn refuted_in<M>(
    steps: usize,
    name: &'static str,
    model: impl Fn() -> M,
    breaks: &'static str,
) -> Verdict
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + Send + Sync + PartialEq + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let mut verdict = refuted(name, model, breaks);
    if verdict.depth != steps {
        let expected = format!("in {} steps, not in {steps}", verdict.depth);
        verdict.failures.push(expected);
    }
    verdict
}

pub(crate) fn refuted<M>(name: &'static str, model: impl Fn() -> M, breaks: &'static str) -> Verdict
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + Send + Sync + PartialEq + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let begun = Instant::now();
    let (states, way) = search(model, breaks);
    let mut failures = Vec::new();
    let mut broken = Vec::new();
    if way.is_empty() {
        failures.push(format!("not refuted: {breaks}"));
    } else {
        broken.push((breaks, way.len()));
    }
    Verdict {
        name,
        states,
        depth: way.len(),
        took: begun.elapsed(),
        failures,
        broken,
    }
}

/// The shortest way in which a weaker form breaks its promise, with nodes by their numbers.
#[must_use]
pub fn trace(weaker: &Weaker) -> Vec<Action> {
    let model = || Protocol {
        scope: weaker.scope.clone(),
        unordered: false,
    };
    search(model, weaker.breaks).1
}

/// Breadth first on one thread. The checker looks up only now and then, and reports the latest way that it met. So it
/// is sent again for a shorter way until there is none.
fn search<M>(model: impl Fn() -> M, breaks: &'static str) -> (usize, Vec<M::Action>)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + Send + Sync + PartialEq + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let mut shortest = Vec::new();
    let mut states = 0;
    loop {
        let promise = HasDiscoveries::AnyOf([breaks].into());
        let mut builder = model().checker().finish_when(promise);
        if !shortest.is_empty() {
            // The checker counts the states of a way: one more than its steps.
            builder = builder.target_max_depth(shortest.len() + 1);
        }
        let checker = builder.spawn_bfs().join();
        states = states.max(checker.unique_state_count());
        match checker.discovery(breaks) {
            Some(path) => shortest = path.into_actions(),
            None => return (states, shortest),
        }
    }
}
