//! Work with permits of a name.

use std::sync::Arc;

use multilock::{Either, MultiLockGuard};
use rand::RngExt;
use tokio::time::{Instant, sleep, timeout};

use super::Actor;
use crate::guard::Guard;
use crate::history::Kind;
use crate::plan::pick;

/// Permits of each name.
pub(crate) const PERMITS: u32 = 2;

impl Actor {
    /// Works with one permit after the other until `end`.
    pub(crate) async fn take_permits(mut self, end: Instant) {
        while Instant::now() < end {
            let name = self.world.plan.names[0].to_owned();
            if self.rng.random_bool(0.5) {
                self.run_with_permit_of(name).await;
            } else {
                self.keep_a_permit_of(name).await;
            }
            sleep(self.ms(0..=20)).await;
        }
    }

    pub(super) async fn run_with_permit(&mut self) {
        let name = pick(&mut self.rng, &self.world.plan.names).to_owned();
        self.run_with_permit_of(name).await;
    }

    /// Works with one of the permits that a name has. Its seat is a name that nobody else may have meanwhile.
    async fn run_with_permit_of(&mut self, name: String) {
        let plan = &self.seat.plan;
        let policy = plan.policy(&mut self.rng);
        let needed = policy.needed(plan.masters.len());
        let fenced = self.rng.random_bool(plan.fenced);
        let terms = self.plain_terms(needed, fenced, format!("a permit of {name} under {policy}"));
        let lock = self
            .seat
            .masters()
            .permits(&name, PERMITS)
            .policy(policy)
            .fenced(fenced);
        let (world, client) = (Arc::clone(&self.world), self.seat.place);
        let pause = self.ms(0..=60);
        let outcome = lock
            .wait(self.ms(1..=1500))
            .run(async |guard| {
                assert!((1..=PERMITS).contains(&guard.seat()));
                let seat = format!("{name}:seat:{}", guard.seat());
                let lent = world.lent(client, terms, &[seat], guard);
                sleep(pause).await;
                lent.look();
            })
            .await;
        let refused = Kind::Refused {
            op: terms.op,
            why: format!("{outcome:?}"),
        };
        world.history.note(Some(client), refused);
    }

    /// Takes a permit, extends it or not, and gives it up in any way.
    async fn keep_a_permit_of(&mut self, name: String) {
        let plan = &self.seat.plan;
        let policy = plan.policy(&mut self.rng);
        let needed = policy.needed(plan.masters.len());
        let fenced = self.rng.random_bool(plan.fenced);
        let lease = self.rng.random_bool(0.3).then(|| plan.any_lease(&mut self.rng));
        let mut terms = self.plain_terms(
            needed,
            fenced,
            format!("keep a permit of {name} under {policy}, lease {lease:?}"),
        );
        let masters = self.seat.masters();
        let mut lock = masters.permits(&name, PERMITS).policy(policy).fenced(fenced);
        if let Some(lease) = lease {
            lock = lock.lease(lease);
            terms.renews = false;
        }
        let lock = lock.wait(self.ms(1..=1500));
        let answer = if self.rng.random_bool(0.2) {
            let longest = pick(&mut self.rng, &[4, 60, 600]);
            timeout(self.ms(0..=longest), lock.lock()).await.ok()
        } else {
            Some(lock.lock().await)
        };
        let seat = answer
            .iter()
            .flatten()
            .map(|guard| format!("{name}:seat:{}", guard.seat()));
        let names: Vec<String> = seat.collect();
        let answer =
            answer.map(|answer| answer.map(|guard| Guard::from(MultiLockGuard::<Either>::from(guard))));
        self.take(terms, &names, answer);
        sleep(self.ms(0..=30)).await;
        if !self.mine.is_empty() && self.rng.random_bool(0.3) {
            self.extend().await;
            sleep(self.ms(0..=30)).await;
        }
        if !self.mine.is_empty() {
            self.leave().await;
        }
    }
}
