//! A line of tasks: their order, and the turn or hold that the next one gets.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::ahead::{Ahead, Holding, InFront};
use crate::error::LockError;
use crate::node::sync::Mutex;
use crate::node::waiter_state::WaiterState;
use crate::protocol::caption::Caption;
use crate::protocol::kind::HoldKind;
use crate::protocol::waiter::{LAST, Waiter};
use crate::time::clock::Moment;
use crate::values::names::Names;

/// Names and options of all tasks in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineOptions {
    pub(crate) names: Names,
    pub(crate) kind: HoldKind,
    /// Number of masters that have to grant.
    pub(crate) needed: usize,
    pub(crate) lease: Duration,
    pub(crate) min_validity: Duration,
    pub(crate) fenced: bool,
    /// Whether the tasks are served strictly by ticket.
    pub(crate) fair: bool,
    /// Caption of the tasks' holds: the masters know one caption for a grant.
    pub(crate) caption: Option<Arc<Caption>>,
    /// Whether a grant may be handed on in the line. Otherwise the masters are asked for each hold: they know whether a job is
    /// done, and publish each term of a leader.
    pub(crate) hands_on: bool,
}

impl Hash for LineOptions {
    /// Hashes the names alone: the same names are rarely wanted with other options.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.names.hash(state);
    }
}

/// Lines of one process, in which a `T` is handed from task to task.
pub(crate) struct Lines<T> {
    lines: Mutex<HashSet<LineByOptions<T>>>,
}

/// A line that is found by its [`LineOptions`], which is not stored twice: a process may have very many lines.
struct LineByOptions<T>(Arc<Line<T>>);

impl<T> Borrow<LineOptions> for LineByOptions<T> {
    fn borrow(&self) -> &LineOptions {
        &self.0.options
    }
}

impl<T> Hash for LineByOptions<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.options.hash(state);
    }
}

impl<T> PartialEq for LineByOptions<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.options == other.0.options
    }
}

impl<T> Eq for LineByOptions<T> {}

struct Line<T> {
    options: LineOptions,
    /// Whether its front task has been refused, so that no other task has to ask.
    is_shut: AtomicBool,
    /// State of the task with the turn, for the tasks behind it.
    ahead: Ahead<Asks<T>>,
    /// Tasks behind the one with the turn, the next one first.
    behind: Mutex<QueuedByOrder<T>>,
}

type QueuedByOrder<T> = BTreeMap<Order, Queued<T>>;

/// Order of a line: by tickets, and then by numbers. A waiter without a ticket has the ticket of the waiter
/// ahead of it, so that it stays in its order of arrival.
type Order = (u64, u64);

/// A waiter behind others, and the means to give it a turn or a hold.
struct Queued<T> {
    entry: QueueEntry,
    next_in_line: NextInLine,
    mailbox: Arc<Mailbox<T>>,
    /// Notifies the waiter that something is in the mailbox.
    notice: oneshot::Sender<()>,
}

/// Keeps the turn or hold of a waiter until its task takes it, and a turn until the task is admitted. Both
/// can be taken back from here if the task is not polled.
pub(crate) struct Mailbox<T>(Mutex<Option<Delivery<T>>>);

/// A waiter, with its number and ticket in the line of its process and in the queues on the masters.
#[derive(Clone)]
pub(crate) struct QueueEntry {
    pub(crate) waiter: Waiter,
    pub(crate) state: Arc<WaiterState>,
}

/// A task that asks the masters for the first time. Its turn is in its mailbox.
pub(crate) struct Asks<T> {
    mailbox: Weak<Mailbox<T>>,
    entry: QueueEntry,
}

/// Properties of a task in a line as the next holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextInLine {
    /// Ticket; `None` if no master has shown its clock yet.
    pub(crate) ticket: Option<u64>,
    /// Time at which the task began to wait.
    pub(crate) begun: Moment,
    /// Whether the task wants its hold renewed, and the longest time for that.
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    /// Time for which the names have to stay locked.
    pub(crate) at_least: Duration,
    /// Whether the grant is to stay with the client when the hold is given up.
    pub(crate) is_sticky: bool,
}

/// Place of a task that joins a line.
pub(crate) enum Joined<T> {
    /// In front.
    Turn(Turn<T>),
    /// Behind others. The front task is included if it may not have been refused yet.
    Behind(LinePosition<T>, Option<(Arc<Mailbox<T>>, QueueEntry)>),
    /// Among tasks that can hold together and have not been refused: all ask at the same time.
    Concurrent,
}

/// Content of a waiter's mailbox: the end of its wait in the line.
pub(crate) enum Delivery<T> {
    /// The turn to ask.
    Turn(Turn<T>),
    /// The task ahead has the answer that the others may get, too: all ask at the same time.
    Concurrent,
    /// The hold of the task ahead.
    Hold(T),
}

/// A waiter behind others, until it [withdraws](Self::withdraw).
pub(crate) struct LinePosition<T> {
    at: LineRef<T>,
    order: Order,
    mailbox: Arc<Mailbox<T>>,
    notice: oneshot::Receiver<()>,
    /// Whether the waiter got a turn or a hold, so that it is no longer in the line.
    is_served: bool,
}

/// Front of a line. Dropping it hands the turn on.
pub(crate) struct Turn<T>(LineRef<T>);

/// One of the lines.
pub(crate) struct LineRef<T> {
    lines: Arc<Lines<T>>,
    line: Arc<Line<T>>,
}

impl<T> Lines<T> {
    pub(crate) fn new() -> Self {
        Self {
            lines: Mutex::new(HashSet::new()),
        }
    }

    /// Joins the line of tasks with the same names and options.
    pub(crate) fn join(
        self: &Arc<Self>,
        options: &LineOptions,
        entry: QueueEntry,
        next_in_line: NextInLine,
        mailbox: &Arc<Mailbox<T>>,
    ) -> Joined<T> {
        let mut lines = self.lines.lock();
        let at = |line: &Arc<Line<T>>| LineRef {
            lines: Arc::clone(self),
            line: Arc::clone(line),
        };
        let Some(LineByOptions(line)) = lines.get(options) else {
            let line = Arc::new(Line {
                options: options.clone(),
                is_shut: AtomicBool::new(false),
                ahead: Ahead::new(InFront::Asks(Asks {
                    mailbox: Arc::downgrade(mailbox),
                    entry,
                })),
                behind: Mutex::new(BTreeMap::new()),
            });
            let turn = Turn(at(&line));
            lines.insert(LineByOptions(line));
            return Joined::Turn(turn);
        };
        if options.kind.is_shared() && !line.is_shut.load(Ordering::Relaxed) {
            return Joined::Concurrent;
        }
        let (notice, noticed) = oneshot::channel();
        let mut behind = line.behind.lock();
        // A waiter without a ticket comes behind all that wait now, and before calls that do not wait for a holder.
        let mut waiters = behind.range(..(LAST, 0));
        let last = || waiters.next_back().map_or(0, |((ticket, _), _)| *ticket);
        let order = (next_in_line.ticket.unwrap_or_else(last), entry.state.number);
        let new = Queued {
            entry,
            next_in_line,
            mailbox: Arc::clone(mailbox),
            notice,
        };
        behind.insert(order, new);
        drop(behind);
        if let Some(InFront::Holds(holding)) = line.ahead.get()
            && let Some(holding) = holding.upgrade()
        {
            holding.joined();
        }
        let asks = line.ahead.asks();
        let asks = asks.and_then(|first| Some((first.mailbox.upgrade()?, first.entry)));
        let position = LinePosition {
            at: at(line),
            order,
            mailbox: Arc::clone(mailbox),
            notice: noticed,
            is_served: false,
        };
        Joined::Behind(position, asks)
    }

    /// Notes that a task that asks at the same time as the front of its line was refused, so that later tasks
    /// wait behind the front.
    pub(crate) fn refused(&self, options: &LineOptions) {
        if let Some(LineByOptions(line)) = self.lines.lock().get(options) {
            line.is_shut.store(true, Ordering::Relaxed);
        }
    }

    /// State of the task in front of the tasks with the same names and options.
    pub(crate) fn in_front(&self, options: &LineOptions) -> Option<InFront<Asks<T>>> {
        let line = self
            .lines
            .lock()
            .get(options)
            .map(|LineByOptions(line)| Arc::clone(line));
        line.and_then(|line| line.ahead.get())
    }
}

impl<T> LineRef<T> {
    /// Notes that the task with the turn holds.
    pub(crate) fn held_by(&self, holding: Weak<dyn Holding>) {
        self.line.ahead.set(Some(InFront::Holds(holding)));
    }

    /// Last refusal by the masters of the tasks that had the turn, if none of them has held since.
    pub(crate) fn refusal(&self) -> Option<Arc<LockError>> {
        match self.line.ahead.get() {
            Some(InFront::Refused(why)) => Some(why),
            _ => None,
        }
    }

    /// Next task, to join the queues with the release of these names. The task must want the same names, and have a
    /// ticket for their queues.
    pub(crate) fn next(&self, names: &Names) -> Option<QueueEntry> {
        let behind = self.line.behind.lock();
        let (_, next) = behind.first_key_value()?;
        let is_carried = next.next_in_line.ticket.is_some() && self.line.options.names == *names;
        is_carried.then(|| next.entry.clone())
    }

    /// Whether a task waits behind the one with the turn, apart from calls that do not wait for a holder.
    pub(crate) fn has_waiters(&self) -> bool {
        let behind = self.line.behind.lock();
        behind
            .first_key_value()
            .is_some_and(|((ticket, _), _)| *ticket < LAST)
    }

    /// Runs `act` if no task stands behind the one with the turn, and before another one does. Returns whether `act` ran
    /// and returned true.
    pub(crate) fn if_empty(&self, act: impl FnOnce() -> bool) -> bool {
        let behind = self.line.behind.lock();
        behind.is_empty() && act()
    }

    /// Gives the next task a hold that `make` makes for it; the task then needs no turn. Returns whether
    /// there was a task, and a hold for it.
    pub(crate) fn hand_on(&self, make: impl FnOnce(&LineOptions, &NextInLine) -> Option<T>) -> bool {
        // No task withdraws from the line while it is locked, so the next one still listens.
        let mut behind = self.line.behind.lock();
        let hold = behind
            .first_key_value()
            .and_then(|(_, next)| make(&self.line.options, &next.next_in_line));
        let Some(hold) = hold else {
            return false;
        };
        let refused = behind
            .pop_first()
            .map(|(_, next)| next.deliver(Delivery::Hold(hold)));
        // The drop takes other mutexes.
        drop(behind);
        drop(refused);
        true
    }
}

impl<T> Queued<T> {
    /// Delivers a turn or a hold to the waiter, which has to take it in time. Returns it if no task listens.
    fn deliver(self, delivery: Delivery<T>) -> Option<Delivery<T>> {
        self.mailbox.put(delivery);
        self.entry.state.woken();
        self.notice.send(()).err().and_then(|()| self.mailbox.take())
    }
}

impl<T> Clone for Asks<T> {
    fn clone(&self) -> Self {
        Self {
            mailbox: Weak::clone(&self.mailbox),
            entry: self.entry.clone(),
        }
    }
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub(crate) fn put(&self, delivery: Delivery<T>) {
        *self.0.lock() = Some(delivery);
    }

    /// Takes the turn or hold out.
    pub(crate) fn take(&self) -> Option<Delivery<T>> {
        self.0.lock().take()
    }

    /// Whether the turn is in the mailbox.
    pub(crate) fn has_turn(&self) -> bool {
        matches!(*self.0.lock(), Some(Delivery::Turn(_)))
    }

    /// Notes that the task with the turn was refused. Later tasks then wait behind it, and see the reason.
    pub(crate) fn refused(&self, why: &Arc<LockError>) {
        if let Some(Delivery::Turn(turn)) = &*self.0.lock() {
            turn.0.line.is_shut.store(true, Ordering::Relaxed);
            turn.0.line.ahead.set(Some(InFront::Refused(Arc::clone(why))));
        }
    }
}

impl<T> Clone for LineRef<T> {
    fn clone(&self) -> Self {
        Self {
            lines: Arc::clone(&self.lines),
            line: Arc::clone(&self.line),
        }
    }
}

impl<T> LinePosition<T> {
    /// Waits for a turn or a hold. Returns `None` if it came too late and has gone on to the next waiter.
    ///
    /// # Cancel safety
    ///
    /// A turn or hold that comes meanwhile stays in the mailbox. The call may be repeated until it has returned.
    pub(crate) async fn delivered(&mut self) -> Option<Delivery<T>> {
        if (&mut self.notice).await.is_err() {
            // A waiter is taken out of the line only to get a turn or a hold.
            std::future::pending::<()>().await;
        }
        self.is_served = true;
        self.mailbox.take()
    }

    /// Setter of the waiter's ticket, which may not have been drawn when the waiter came. The waiter keeps its place in the
    /// line.
    pub(crate) fn ticket_setter(&self) -> impl Fn(u64) + use<T> {
        let (line, order) = (Arc::clone(&self.at.line), self.order);
        move |ticket| {
            if let Some(queued) = line.behind.lock().get_mut(&order) {
                queued.entry.waiter.ticket = ticket;
                queued.next_in_line.ticket = Some(ticket);
            }
        }
    }

    /// Withdraws the waiter from the line. Returns a turn or a hold that was delivered and not taken.
    #[must_use = "a turn or hold that was delivered belongs to no other task"]
    pub(crate) fn withdraw(&mut self) -> Option<Delivery<T>> {
        if self.is_served {
            return None;
        }
        let removed = self.at.line.behind.lock().remove(&self.order);
        // The drop takes other mutexes. Something was delivered to a task that is no longer in the line,
        // under the same mutex.
        drop(removed);
        self.mailbox.take()
    }
}

impl<T> Turn<T> {
    pub(crate) fn line(&self) -> &LineRef<T> {
        &self.0
    }

    /// Lets the tasks behind ask at the same time, because the answer to this one is likely to be theirs: it was admitted
    /// together with others, or its job is done. The next one has the turn.
    pub(crate) fn open(self) {
        let LineRef { lines, line } = self.0.clone();
        let lines = lines.lines.lock();
        line.is_shut.store(false, Ordering::Relaxed);
        line.ahead.set(None);
        let mut behind = line.behind.lock();
        let next = behind.pop_first();
        let others = std::mem::take(&mut *behind).into_values();
        let refused: Vec<_> = others.map(|other| other.deliver(Delivery::Concurrent)).collect();
        // Delivered under the mutexes, so that a task that withdraws finds the turn. Without a next task the line ends.
        let turn = Delivery::Turn(self);
        let left = match next {
            Some((_, next)) => next.deliver(turn),
            None => Some(turn),
        };
        drop(behind);
        drop(lines);
        // The drop takes other mutexes.
        drop((refused, left));
    }
}

impl<T> Drop for Turn<T> {
    /// Gives the turn to the next task in the line, or ends the line.
    fn drop(&mut self) {
        let LineRef { lines: all, line } = &self.0;
        let mut lines = all.lines.lock();
        line.ahead.end_asking();
        let mut behind = line.behind.lock();
        let (refused, ended) = match behind.pop_first() {
            Some((_, next)) => (next.deliver(Delivery::Turn(Turn(self.0.clone()))), None),
            None => (None, lines.take(&line.options)),
        };
        drop(behind);
        drop(lines);
        // The drop takes other mutexes.
        drop((refused, ended));
    }
}

#[cfg(test)]
#[path = "line/tests.rs"]
mod tests;
