//! The releases that one master is owed and that were not sent by themselves: those that it could not be
//! told, and those that would have made its connection wait too long.
//!
//! They are kept as claims, which are small, and go out in batches, one after the other. A batch that
//! was sent is left to the connection: its releases wait here again only when the connection has ended
//! without an answer, or when the answer is an error that will pass. One is given up only
//! on an error that repeating would not cure, and when the pool closes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::Value;
use tokio::sync::Notify;

use super::inbox::{Answer, Late, ReplyTo};
use super::{BACKLOG, By, Link};
use crate::events::{EventObserver, NodeEvents};
use crate::protocol::calls;
use crate::protocol::claim::Claim;
use crate::protocol::command::Request;
use crate::protocol::fault::{Fault, FaultClass};
use crate::protocol::reply::{parse_released, parse_releases};

/// What a claim costs beside the texts of its names.
const ENTRY: usize = 128;

/// A release that one master is owed.
#[derive(Debug)]
pub(crate) struct PendingRelease {
    claim: Claim,
    /// For whoever waits for the answer.
    reply: Option<ReplyTo>,
    /// Counts the masters that have confirmed.
    confirmed: Option<Arc<AtomicUsize>>,
    /// It goes in a call of its own, after an error of its batch that may be about one of them.
    alone: bool,
}

impl PendingRelease {
    pub(crate) fn new(claim: Claim) -> Self {
        Self {
            claim,
            reply: None,
            confirmed: None,
            alone: false,
        }
    }

    pub(crate) fn answered_to(self, reply: ReplyTo) -> Self {
        Self {
            reply: Some(reply),
            ..self
        }
    }

    pub(crate) fn counted_by(self, confirmed: Arc<AtomicUsize>) -> Self {
        Self {
            confirmed: Some(confirmed),
            ..self
        }
    }

    fn size(&self) -> usize {
        ENTRY + self.claim.names.iter().map(str::len).sum::<usize>()
    }

    /// The master has done what it will do.
    fn settle(self, answer: Answer) {
        if let (Some(confirmed), Ok(_)) = (self.confirmed, &answer) {
            confirmed.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(reply) = self.reply {
            reply.give(answer);
        }
    }
}

/// Whether a master is done with a release after this answer. Else it is to be told again: it did not
/// execute it, or nobody knows. Where asking again would bring the same error, the lease frees the names.
pub(crate) fn is_done(answer: &Answer) -> bool {
    answer.as_ref().map_or_else(Fault::may_concern_one, |_| true)
}

/// What one master is owed.
pub(crate) struct Deferrals {
    queue: Mutex<ReleaseQueue>,
    full: Arc<AtomicBool>,
    /// Rings when a batch may be sent, for the one task that sends.
    news: Notify,
    /// Rings when something was settled.
    settled: Notify,
    /// Rings when a master of the pool is no longer owed too much.
    backlog_drained: Arc<Notify>,
    events: Arc<NodeEvents>,
}

#[derive(Debug, Default)]
struct ReleaseQueue {
    waiting: VecDeque<PendingRelease>,
    /// Batches that have no answer, and the releases in them.
    batches: usize,
    sent: usize,
    /// Of all of them.
    bytes: usize,
    settled: u64,
    /// The last answer was an error.
    refused: bool,
    closed: bool,
}

impl Deferrals {
    pub(super) fn new(backlog_drained: Arc<Notify>, events: Arc<NodeEvents>) -> Self {
        Self {
            queue: Mutex::default(),
            full: Arc::default(),
            news: Notify::new(),
            settled: Notify::new(),
            backlog_drained,
            events,
        }
    }

    pub(super) fn add(&self, deferred: PendingRelease) {
        let mut queue = self.queue();
        if queue.closed {
            return;
        }
        queue.bytes += deferred.size();
        queue.waiting.push_back(deferred);
        self.full.store(queue.bytes > BACKLOG, Ordering::Relaxed);
        self.events.owed(queue.waiting.len() + queue.sent);
        drop(queue);
        self.news.notify_one();
    }

    /// Nothing is taken in or sent any more.
    pub(super) fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        let waiting = std::mem::take(&mut queue.waiting);
        self.events.owed(queue.sent);
        drop(queue);
        drop(waiting);
    }

    /// Whether so much is owed that the master is asked for no new hold.
    pub(super) fn full(&self) -> &Arc<AtomicBool> {
        &self.full
    }

    /// How many releases are owed, and how many have been settled.
    pub(super) fn owed(&self) -> (usize, u64) {
        let queue = self.queue();
        (queue.waiting.len() + queue.sent, queue.settled)
    }

    pub(super) async fn settled(&self) {
        self.settled.notified().await;
    }

    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    /// Whether a batch waits to be sent.
    pub(super) fn is_waiting(&self) -> bool {
        !self.queue().waiting.is_empty()
    }

    /// Whether an answer is awaited.
    pub(super) fn is_under_way(&self) -> bool {
        self.queue().batches > 0
    }

    /// Whether the last answer was an error that will pass; told once.
    pub(super) fn was_refused(&self) -> bool {
        std::mem::take(&mut self.queue().refused)
    }

    /// Sends the next batch, where there is one.
    pub(super) fn send(self: &Arc<Self>, link: &Arc<Link>) {
        let Some(batch) = self.queue().take_batch() else {
            return;
        };
        let claims = batch.iter().map(|deferred| &deferred.claim);
        let request = calls::releases(claims);
        let call = Arc::new(Batch {
            deferrals: Arc::clone(self),
            link: Arc::clone(link),
            request: Arc::clone(&request),
            with_source: AtomicBool::new(false),
            releases: Mutex::new(batch),
        });
        link.call(&request, By::Sha, ReplyTo::left_to(call, 0));
    }

    fn answered(&self, batch: Vec<PendingRelease>, answer: Answer) {
        let (sent, refused) = (batch.len(), answer.is_err());
        let mut settled = Vec::with_capacity(sent);
        let mut queue = self.queue();
        queue.batches -= 1;
        queue.sent -= sent;
        queue.refused |= refused;
        for (mut deferred, answer) in apart(batch, answer).into_iter().rev() {
            if answer.is_ok() || (sent == 1 && is_done(&answer)) || queue.closed {
                queue.bytes -= deferred.size();
                queue.settled += 1;
                settled.push((deferred, answer));
            } else {
                deferred.alone |= is_done(&answer);
                queue.waiting.push_front(deferred);
            }
        }
        let full = queue.bytes > BACKLOG;
        self.events.owed(queue.waiting.len() + queue.sent);
        drop(queue);
        for (deferred, answer) in settled {
            deferred.settle(answer);
        }
        if self.full.swap(full, Ordering::Relaxed) && !full {
            self.backlog_drained.notify_waiters();
        }
        self.settled.notify_waiters();
        self.news.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, ReleaseQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReleaseQueue {
    /// The oldest, so many as a server can take at once.
    fn take_batch(&mut self) -> Option<Vec<PendingRelease>> {
        let mut keys = 0;
        let mut alone = false;
        let fits = self.waiting.iter().enumerate().take_while(|(index, deferred)| {
            keys += calls::released_keys(&deferred.claim);
            let first = *index == 0;
            let fits = first || (keys <= calls::BATCH && !deferred.alone && !alone);
            alone |= deferred.alone;
            fits
        });
        let count = fits.count();
        if count == 0 {
            return None;
        }
        self.batches += 1;
        self.sent += count;
        Some(self.waiting.drain(..count).collect())
    }
}

/// The answer for each release of a batch.
fn apart(batch: Vec<PendingRelease>, answer: Answer) -> Vec<(PendingRelease, Answer)> {
    let each = match answer {
        Ok(value) if batch.len() == 1 => vec![checked(value)],
        Ok(value) => match parse_releases(value) {
            Some(values) if values.len() == batch.len() => values.into_iter().map(checked).collect(),
            _ => vec![Err(unexpected()); batch.len()],
        },
        Err(fault) => vec![Err(fault); batch.len()],
    };
    batch.into_iter().zip(each).collect()
}

fn checked(value: Value) -> Answer {
    let value = Fault::check(value)?;
    parse_released(&value).map(|_| value).ok_or_else(unexpected)
}

fn unexpected() -> Fault {
    Fault::Server {
        class: FaultClass::Unforeseen,
        error: "unexpected answer to release".into(),
    }
}

/// Releases that were sent in one call. Its connection owes them the answer.
#[derive(Debug)]
struct Batch {
    deferrals: Arc<Deferrals>,
    link: Arc<Link>,
    request: Arc<Request>,
    with_source: AtomicBool,
    releases: Mutex<Vec<PendingRelease>>,
}

impl Late for Batch {
    fn answered(self: Arc<Self>, _: usize, answer: Answer) {
        let class = answer.as_ref().err().and_then(Fault::class);
        if class == Some(FaultClass::NoScript) && !self.with_source.swap(true, Ordering::Relaxed) {
            let reply = ReplyTo::left_to(Arc::clone(&self) as _, 0);
            return self.link.call(&self.request, By::Source, reply);
        }
        self.link.react_to(&answer);
        let releases = std::mem::take(&mut *self.releases.lock().unwrap_or_else(PoisonError::into_inner));
        self.deferrals.answered(releases, answer);
    }
}

impl fmt::Debug for Deferrals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferrals")
            .field("owed", &self.owed().0)
            .finish_non_exhaustive()
    }
}
