//! Entry of a waiter in the queues on the masters.

use std::sync::Arc;

use crate::node::stale_waiters::StaleWaiter;
use crate::protocol::calls;
use crate::protocol::node_set::NodeSet;
use crate::queue::QueueEntry;
use crate::round::pool::Pool;
use crate::round::{NoScriptFallback, Round, Trust};
use crate::values::names::Names;

impl QueueEntry {
    /// Reacts if `round`, a release that puts the waiter into the queues, is sent once more.
    /// - After its wait the waiter withdraws again: the first withdrawal was sent before the release.
    /// - Else it asks again. Its question may have been sent before, and was refused because of the hold. No release calls a
    ///   waiter that it puts into the queues.
    pub(crate) fn followed(&self, round: Round, pool: &Arc<Pool>, names: &Names) -> Round {
        let (entry, pool, names) = (self.clone(), Arc::clone(pool), names.clone());
        round.when_sent_again(move |node| {
            if entry.state.note_still_queued(node) {
                entry.withdraw(&pool, &names, NodeSet::one(node));
            } else {
                entry.state.messages.interrupt();
            }
        })
    }

    /// Withdraws the waiter from all queues in which it may be, in the background.
    pub(crate) fn withdraw_all(&self, pool: &Arc<Pool>, names: &Names) {
        self.withdraw(pool, names, self.state.take_places());
    }

    /// Withdraws the waiter from the queues on some masters, in the background. If a master could not be reached, its
    /// keeper sends the message once the wait is over.
    pub(crate) fn withdraw(&self, pool: &Arc<Pool>, names: &Names, from: NodeSet) {
        if from.is_empty() {
            return;
        }
        let request = calls::withdraw(names, pool.id, &self.waiter.text());
        let (entry, slots, all) = (self.clone(), pool.slots.clone(), names.clone());
        let waiting = Arc::clone(&self.state);
        let round = Round::begin(pool, &request, Trust::All, from);
        let round = round.when_sent_again(move |_| {
            // A question may have put the waiter back into the queue in between. So the waiter asks again after this.
            if !waiting.is_over() {
                waiting.messages.interrupt();
            }
        });
        let round = round.when_unconfirmed(move |node| {
            if entry.state.note_still_queued(node) {
                for name in all.iter() {
                    slots[node]
                        .stale_waiters
                        .add(StaleWaiter::of(&entry.waiter, name));
                }
            }
        });
        round.detach(NoScriptFallback::Resend, |_, _| None);
    }
}

/// A waiter that joins the queues with a release.
pub(crate) struct Next {
    pub(crate) entry: QueueEntry,
    /// Whether the waiter asks at once.
    pub(crate) asks: bool,
}

impl Next {
    /// The next task of a process's line, which asks right behind the release.
    pub(crate) fn asking(entry: QueueEntry) -> Self {
        Self { entry, asks: true }
    }

    /// A waiter that keeps its place, and asks once it is called.
    pub(crate) fn resting(entry: QueueEntry) -> Self {
        Self { entry, asks: false }
    }

    /// Notes that the release was sent to `places`. A waiter that gave up just before may have
    /// withdrawn before the release put it into the queues, so it withdraws once more.
    pub(crate) fn sent(&self, pool: &Arc<Pool>, names: &Names, places: NodeSet) {
        self.entry.state.note_queued(places);
        if self.entry.state.is_over() {
            self.entry.withdraw_all(pool, names);
        }
    }
}
