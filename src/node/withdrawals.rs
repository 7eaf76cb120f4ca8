//! Withdraws stale waiters from the queues of a master, until the master has confirmed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::waiters::StaleWaiter;
use super::{Answer, By, Late, Link, ReplyTo, Slot, is_done};
use crate::protocol::calls;
use crate::protocol::command::Request;
use crate::protocol::fault::Fault;
use crate::protocol::waiter::{Waiter, waiter_text};
use crate::time::backoff::{LONGEST_DELAY, delays};
use crate::time::random::Random;
use crate::values::names::Names;

/// Withdrawals by a keeper over one connection.
pub(super) struct Withdrawals<'a> {
    slot: &'a Arc<Slot>,
    link: &'a Arc<Link>,
    client: Uuid,
    comes_within: Duration,
    delays: Box<dyn Iterator<Item = Duration> + Send>,
    /// Time of the next try, after an answer by which the master did not take out a waiter.
    pub(super) again_at: Option<Instant>,
}

impl<'a> Withdrawals<'a> {
    /// Starts with the waiters that the last connection could not withdraw.
    pub(super) fn new(
        slot: &'a Arc<Slot>,
        link: &'a Arc<Link>,
        client: Uuid,
        node_timeout: Duration,
        random: &Random,
    ) -> Self {
        let mut withdrawals = Self {
            slot,
            link,
            client,
            comes_within: Waiter::comes_within(node_timeout),
            delays: Box::new(delays(random)),
            again_at: None,
        };
        slot.take_again();
        withdrawals.send();
        withdrawals
    }

    /// Withdraws new stale waiters: at once, or after a pause if the last try failed.
    pub(super) fn went_stale(&mut self) {
        if self.slot.take_again() {
            let pause = self.delays.next().unwrap_or(LONGEST_DELAY);
            self.again_at.get_or_insert(Instant::now() + pause);
        } else if self.again_at.is_none() {
            self.send();
        }
    }

    /// Sends the withdrawals of all stale waiters.
    pub(super) fn send(&mut self) {
        self.again_at = None;
        for stale in self.slot.take_stale_waiters() {
            let waiter = waiter_text(stale.number, stale.kind, self.comes_within);
            let request = calls::withdraw(&Names::from(&*stale.name), self.client, &waiter);
            let pending = PendingWithdrawal {
                slot: Arc::clone(self.slot),
                link: Arc::clone(self.link),
                stale,
                request: Arc::clone(&request),
                with_source: AtomicBool::new(false),
            };
            self.link
                .call(&request, By::Sha, ReplyTo::left_to(Arc::new(pending)));
        }
    }
}

/// A withdrawal without an answer. If the master did not take the waiter out, it is withdrawn again.
struct PendingWithdrawal {
    slot: Arc<Slot>,
    link: Arc<Link>,
    stale: StaleWaiter,
    request: Arc<Request>,
    with_source: AtomicBool,
}

impl Late for PendingWithdrawal {
    fn answered(self: Arc<Self>, _: usize, answer: Answer) {
        if Fault::is_no_script(&answer) && !self.with_source.swap(true, Ordering::Relaxed) {
            let reply = ReplyTo::left_to(Arc::clone(&self) as _);
            return self.link.call(&self.request, By::Source, reply);
        }
        self.link.react_to(&answer);
        if !is_done(&answer) {
            self.slot.stale_again(self.stale.clone());
        }
    }
}
