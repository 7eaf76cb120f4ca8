//! Withdraws stale waiters from the queues of a master, until the master has confirmed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::stale_waiters::StaleWaiters;
use super::{Link, needs_retry};
use crate::protocol::calls;
use crate::protocol::waiter::{Waiter, waiter_text};
use crate::time::backoff::Backoff;
use crate::time::random::Random;
use crate::values::names::Names;

/// Withdrawals by a keeper over one connection.
pub(super) struct Withdrawals<'a> {
    stale: &'a Arc<StaleWaiters>,
    link: &'a Arc<Link>,
    client: Uuid,
    comes_within: Duration,
    delays: Backoff,
    /// Time of the next try, after an answer by which the master did not take out a waiter.
    pub(super) again_at: Option<Instant>,
}

impl<'a> Withdrawals<'a> {
    /// Starts with the waiters that the last connection could not withdraw.
    pub(super) fn new(
        stale: &'a Arc<StaleWaiters>,
        link: &'a Arc<Link>,
        client: Uuid,
        node_timeout: Duration,
        random: &Random,
    ) -> Self {
        let mut withdrawals = Self {
            stale,
            link,
            client,
            comes_within: Waiter::comes_within(node_timeout),
            delays: Backoff::new(random),
            again_at: None,
        };
        stale.take_failure();
        withdrawals.send();
        withdrawals
    }

    /// Withdraws new stale waiters: at once, or after a pause if the last try failed.
    pub(super) fn went_stale(&mut self) {
        if self.stale.take_failure() {
            let pause = self.delays.next();
            self.again_at.get_or_insert(Instant::now() + pause);
        } else if self.again_at.is_none() {
            self.send();
        }
    }

    /// Sends the withdrawals of all stale waiters.
    pub(super) fn send(&mut self) {
        self.again_at = None;
        for stale in self.stale.take() {
            let waiter = waiter_text(stale.number, stale.kind, self.comes_within);
            let request = calls::withdraw(&Names::from(&*stale.name), self.client, &waiter);
            let waiters = Arc::clone(self.stale);
            self.link.call_in_background(&request, move |link, answer| {
                link.react_to(&answer, false);
                // The master may not have taken the waiter out.
                if needs_retry(&answer) {
                    waiters.add_again(stale);
                }
            });
        }
    }
}
