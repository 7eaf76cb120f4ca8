//! Pending releases of one master that were not sent alone: the master was out of reach, or a call there would have
//! waited for too long.
//!
//! Pending releases are stored as claims, which are small, and are sent in batches, one after the other. The
//! connection is responsible for a batch that was sent. Its releases wait here again in two cases: the connection has
//! ended without an answer, or the answer is an error that passes. A release is given up only on an error that would
//! come again, and when the pool closes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use redis::Value;
use tokio::sync::Notify;

use super::{Answer, BACKLOG, Link, ReplyTo};
use crate::events::{EventObserver, NodeEvents};
use crate::protocol::calls;
use crate::protocol::claim::Claim;
use crate::protocol::fault::{Fault, FaultClass};
use crate::protocol::reply::parse_released;

/// Bytes of a claim beside the texts of its names.
const ENTRY: usize = 128;

/// A pending release of one master.
pub(crate) struct PendingRelease {
    claim: Claim,
    /// Receiver of the answer, if there is one.
    reply: Option<ReplyTo>,
    /// Count of the masters that have confirmed the release.
    confirmed: Option<Arc<AtomicUsize>>,
    /// Whether the release is sent alone, after an error of its batch for which one release may be the cause.
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

    /// Hands the final answer to the receiver.
    fn settle(self, answer: Answer) {
        if let (Some(confirmed), Ok(_)) = (self.confirmed, &answer) {
            confirmed.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(reply) = self.reply {
            reply.give(answer);
        }
    }
}

/// Whether a release needs another attempt at a master after this answer: the master did not execute the release, or
/// that is not known. If another attempt would bring the same error, the end of the lease frees the names.
pub(crate) fn needs_retry(answer: &Answer) -> bool {
    answer.as_ref().is_err_and(|fault| !fault.may_concern_one())
}

/// Pending releases of one master.
pub(crate) struct Deferrals {
    queue: Mutex<ReleaseQueue>,
    /// Whether the backlog is so large that the master is sent no call for a new hold.
    pub(super) full: Arc<AtomicBool>,
    /// Notified when a batch may be sent, for the one task that sends.
    pub(super) news: Notify,
    /// Notified when a release was settled.
    pub(super) settled: Notify,
    /// Notified when a master of the pool is connected, or its backlog has become small enough.
    pub(super) recovered: Arc<Notify>,
    events: Arc<NodeEvents>,
}

#[derive(Default)]
struct ReleaseQueue {
    waiting: VecDeque<PendingRelease>,
    /// Batches without an answer, and the releases in them.
    batches: usize,
    sent: usize,
    /// Bytes of all releases here.
    bytes: usize,
    settled: u64,
    /// Whether the last answer refused a release, which is to be sent again.
    refused: bool,
    closed: bool,
    /// Releases that were not done when the pool was closed.
    left: usize,
}

impl Deferrals {
    pub(super) fn new(recovered: Arc<Notify>, events: Arc<NodeEvents>) -> Self {
        Self {
            queue: Mutex::default(),
            full: Arc::default(),
            news: Notify::new(),
            settled: Notify::new(),
            recovered,
            events,
        }
    }

    pub(super) fn add(&self, deferred: PendingRelease) {
        let mut queue = self.queue.lock();
        if queue.closed {
            return;
        }
        queue.bytes += deferred.size();
        queue.waiting.push_back(deferred);
        self.full.store(queue.bytes > BACKLOG, Ordering::Relaxed);
        self.events.meters.pending(queue.waiting.len() + queue.sent);
        drop(queue);
        self.news.notify_one();
    }

    /// Takes in and sends no more releases.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        let waiting = std::mem::take(&mut queue.waiting);
        queue.left += waiting.len();
        self.events.meters.pending(queue.sent);
        drop(queue);
        drop(waiting);
    }

    /// Number of pending releases, and number of settled ones.
    pub(super) fn pending(&self) -> (usize, u64) {
        let queue = self.queue.lock();
        (queue.waiting.len() + queue.sent, queue.settled)
    }

    /// Number of releases that are not done, also after the end of the pool.
    pub(super) fn left(&self) -> usize {
        let queue = self.queue.lock();
        queue.waiting.len() + queue.sent + queue.left
    }

    /// Whether a release waits to be sent.
    pub(super) fn is_waiting(&self) -> bool {
        !self.queue.lock().waiting.is_empty()
    }

    /// Whether a batch has no answer yet.
    pub(super) fn is_under_way(&self) -> bool {
        self.queue.lock().batches > 0
    }

    /// Whether the last answer refused a release, which is to be sent again.
    pub(super) fn is_refused(&self) -> bool {
        self.queue.lock().refused
    }

    /// Sends the next batch, if there is one.
    pub(super) fn send(self: &Arc<Self>, link: &Arc<Link>) {
        let Some(batch) = self.queue.lock().take_batch() else {
            return;
        };
        let claims = batch.iter().map(|deferred| &deferred.claim);
        let request = calls::releases(claims);
        let deferrals = Arc::clone(self);
        link.call_in_background(&request, move |link, answer| {
            // The answer of a batch contains the errors of its releases.
            let answers = apart(batch, answer);
            for (_, answer) in &answers {
                link.react_to(answer, false);
            }
            deferrals.answered(answers);
        });
    }

    /// Takes the answers to a batch.
    fn answered(&self, answers: Vec<(PendingRelease, Answer)>) {
        let sent = answers.len();
        let mut settled = Vec::with_capacity(sent);
        let mut queue = self.queue.lock();
        queue.batches -= 1;
        queue.sent -= sent;
        queue.refused = false;
        for (mut deferred, answer) in answers.into_iter().rev() {
            if answer.is_ok() || (sent == 1 && !needs_retry(&answer)) || queue.closed {
                queue.bytes -= deferred.size();
                queue.settled += 1;
                queue.left += usize::from(queue.closed && needs_retry(&answer));
                settled.push((deferred, answer));
            } else {
                deferred.alone |= !needs_retry(&answer);
                queue.refused = true;
                queue.waiting.push_front(deferred);
            }
        }
        let full = queue.bytes > BACKLOG;
        // Within the mutex, as answers of an old and of a new connection may come at once.
        let is_drained = self.full.swap(full, Ordering::Relaxed) && !full;
        self.events.meters.pending(queue.waiting.len() + queue.sent);
        drop(queue);
        for (deferred, answer) in settled {
            deferred.settle(answer);
        }
        if is_drained {
            self.recovered.notify_waiters();
        }
        self.settled.notify_waiters();
        self.news.notify_one();
    }
}

impl ReleaseQueue {
    /// Takes the oldest releases, as many as fit into one call.
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

/// Splits a batch's answer into one answer for each release.
fn apart(batch: Vec<PendingRelease>, answer: Answer) -> Vec<(PendingRelease, Answer)> {
    let each = match answer {
        Ok(value) if batch.len() == 1 => vec![checked(value)],
        Ok(Value::Array(values)) if values.len() == batch.len() => values.into_iter().map(checked).collect(),
        Ok(_) => vec![Err(unexpected()); batch.len()],
        Err(fault) => vec![Err(fault); batch.len()],
    };
    batch.into_iter().zip(each).collect()
}

fn checked(value: Value) -> Answer {
    let value = Fault::check(value)?;
    parse_released(&value).map(|_| value).ok_or_else(unexpected)
}

fn unexpected() -> Fault {
    Fault::Server(FaultClass::Unforeseen, "unexpected answer to release".into())
}

#[cfg(test)]
pub(super) mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::protocol::field::{Field, Letters};
    use crate::protocol::kind::HoldKind;

    pub(in crate::node) fn release(number: u64) -> PendingRelease {
        PendingRelease::new(Claim {
            names: "a".into(),
            field: Field {
                client: Uuid::nil(),
                number,
                letters: Letters::default(),
            },
            kind: HoldKind::Plain,
            beside_redisson: false,
        })
    }

    /// With so many releases that wait.
    pub(in crate::node) fn with(releases: u64) -> Deferrals {
        let events = NodeEvents::new("one".into(), Arc::default());
        let deferrals = Deferrals::new(Arc::default(), Arc::new(events));
        (1..=releases).for_each(|number| deferrals.add(release(number)));
        deferrals
    }

    fn refused(class: FaultClass) -> Answer {
        Err(Fault::Server(class, "refused".into()))
    }

    /// Sends a batch, and hands these answers to it.
    fn answer(deferrals: &Deferrals, answers: Vec<Answer>) {
        let batch = deferrals.queue.lock().take_batch().expect("a batch");
        assert_eq!(batch.len(), answers.len());
        deferrals.answered(batch.into_iter().zip(answers).collect());
    }

    /// Numbers of the releases in each of the next batches.
    fn batches(deferrals: &Deferrals) -> Vec<Vec<u64>> {
        let mut queue = deferrals.queue.lock();
        let batches = std::iter::from_fn(|| queue.take_batch());
        let numbers =
            |batch: Vec<PendingRelease>| batch.iter().map(|deferred| deferred.claim.field.number).collect();
        batches.map(numbers).collect()
    }

    #[test]
    fn a_refused_release_keeps_its_place_and_the_others_are_settled() {
        let deferrals = with(3);
        let passing = || refused(FaultClass::Passing);
        answer(&deferrals, vec![passing(), Ok(Value::Int(1)), passing()]);
        assert_eq!(deferrals.pending(), (2, 1));
        assert!(deferrals.is_refused());
        deferrals.add(release(4));
        assert_eq!(batches(&deferrals), [[1, 3, 4]]);
    }

    /// Each of the releases may be the cause of the error.
    #[test]
    fn after_an_error_that_one_may_have_caused_each_release_is_sent_alone() {
        let deferrals = with(2);
        answer(&deferrals, vec![refused(FaultClass::Denied); 2]);
        deferrals.add(release(3));
        deferrals.add(release(4));
        assert_eq!(deferrals.pending(), (4, 0));
        assert_eq!(batches(&deferrals), [vec![1], vec![2], vec![3, 4]]);
    }

    /// A connection ends after the close of its pool, and the answers to its calls say so.
    #[test]
    fn a_release_that_was_under_way_at_the_close_is_left_unless_it_is_confirmed() {
        let deferrals = with(2);
        let batch = deferrals.queue.lock().take_batch().expect("both");
        deferrals.close();
        assert_eq!(deferrals.left(), 2);
        let lost = Err(Fault::Unknown("connection closed".into()));
        deferrals.answered(batch.into_iter().zip([Ok(Value::Int(1)), lost]).collect());
        assert_eq!((deferrals.left(), deferrals.pending()), (1, (0, 2)));
    }
}
