//! Candidacies for the lead.

use std::sync::Arc;

use rand::RngExt;
use tokio::time::{Instant, sleep};

use super::Actor;
use crate::history::Kind;
use crate::plan::pick;

/// How a leader's body ends its term.
#[derive(Clone, Copy)]
enum TermEnd {
    Returns,
    /// It steps down, and comes to its end or not within the grace period.
    StepsDown,
    /// It returns as soon as another candidate waits.
    WhenWanted,
    /// It goes on until its term is over.
    Never,
}

impl Actor {
    /// Is a candidate for the lead until `end`, in one candidacy after the other.
    pub(crate) async fn campaign(mut self, end: Instant) {
        while Instant::now() < end {
            self.lead(end).await;
            sleep(self.ms(0..=60)).await;
        }
    }

    /// Waits for the lead under the first name, and leads for a term or more.
    async fn lead(&mut self, end: Instant) {
        let name = self.world.plan.names[0].to_owned();
        let plan = &self.seat.plan;
        let policy = plan.policy(&mut self.rng);
        let needed = policy.needed(plan.masters.len());
        let fenced = self.rng.random_bool(plan.fenced);
        let terms = self.plain_terms(needed, fenced, format!("lead {name} under {policy}"));
        let mut lock = self.seat.masters().lock(name.clone(), policy).fenced(fenced);
        lock = lock.grace(self.ms(0..=30));
        if self.rng.random_bool(0.2) {
            lock = lock.max_hold(self.seat.plan.lease * 2);
        }
        let ends = [
            TermEnd::Returns,
            TermEnd::StepsDown,
            TermEnd::WhenWanted,
            TermEnd::Never,
        ];
        let (how, pause) = (pick(&mut self.rng, &ends), self.ms(0..=100));
        let longest = self
            .ms(1..=2000)
            .min(end.saturating_duration_since(Instant::now()));
        let (world, client) = (Arc::clone(&self.world), self.seat.place);
        let names = std::slice::from_ref(&name);
        let world = &world;
        let outcome = lock
            .lead_until(sleep(longest), |term| async move {
                let lent = world.lent(client, terms, names, &term);
                sleep(pause).await;
                lent.look();
                match how {
                    TermEnd::Returns => {}
                    TermEnd::StepsDown => {
                        term.step_down();
                        sleep(pause / 4).await;
                    }
                    TermEnd::WhenWanted => term.wanted().await,
                    TermEnd::Never => std::future::pending().await,
                }
                lent.look();
            })
            .await;
        let refused = Kind::Refused {
            op: terms.op,
            why: format!("{outcome:?}"),
        };
        self.world.history.note(Some(client), refused);
    }
}
