//! A line of tasks: who is next, and what the next one gets.

use std::borrow::Borrow;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::names::Names;
use crate::node::sync::{Mutex, MutexGuard};
use crate::node::waiters::Calls;
use crate::protocol::kind::Kind;
use crate::protocol::waiter::Waiter;
use crate::time::clock::Moment;

/// What those who stand in one line want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) names: Names,
    pub(crate) kind: Kind,
    /// Masters that have to grant.
    pub(crate) needed: usize,
    pub(crate) lease: Duration,
    pub(crate) min_validity: Duration,
    pub(crate) fenced: bool,
    /// Strictly by ticket.
    pub(crate) fair: bool,
}

impl Hash for Wanted {
    /// By the names alone: few want the same ones on other terms.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.names.hash(state);
    }
}

/// The lines of one process, in which a `T` passes from hand to hand.
#[derive(Debug)]
pub(crate) struct Lines<T> {
    lines: Mutex<HashSet<LineByWanted<T>>>,
}

/// A line where it is found by what is wanted, which is not kept twice: a process may have very many.
#[derive(Debug)]
struct LineByWanted<T>(Arc<Line<T>>);

impl<T> Borrow<Wanted> for LineByWanted<T> {
    fn borrow(&self) -> &Wanted {
        &self.0.wanted
    }
}

impl<T> Hash for LineByWanted<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.wanted.hash(state);
    }
}

impl<T> PartialEq for LineByWanted<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.wanted == other.0.wanted
    }
}

impl<T> Eq for LineByWanted<T> {}

#[derive(Debug)]
struct Line<T> {
    wanted: Wanted,
    /// Whether its front one has been refused, so that nobody else has to ask.
    is_shut: AtomicBool,
    /// Behind whoever has the turn, the next one first. Changed by whoever has the lines locked.
    behind: Mutex<VecDeque<Queued<T>>>,
}

/// Somebody behind others, and how to give it what it stands for.
#[derive(Debug)]
struct Queued<T> {
    place: InLine,
    successor: Successor,
    given: oneshot::Sender<Given<T>>,
}

/// One that stands in a line.
#[derive(Clone, Debug)]
pub(crate) struct InLine {
    pub(crate) waiter: Waiter,
    pub(crate) calls: Arc<Calls>,
}

/// What one in a line would be as the next holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Successor {
    /// None where no master has told its clock yet.
    pub(crate) ticket: Option<u64>,
    /// When it began to wait.
    pub(crate) begun: Moment,
    /// Whether it wants its hold renewed, and for how long at the most.
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    /// It has to keep the names for so long.
    pub(crate) at_least: Duration,
}

/// Where one stands that joins a line.
#[derive(Debug)]
pub(crate) enum Joined<T> {
    /// In front.
    Turn(Turn<T>),
    /// Behind others.
    Behind(Standing<T>),
    /// Beside others that get what they want together, and have not been refused: each asks by itself.
    Beside,
}

/// What one in a line gets.
#[derive(Debug)]
pub(crate) enum Given<T> {
    /// The turn to ask.
    Turn(Turn<T>),
    /// The one ahead was let in, and whoever wants the same may be, too: each asks by itself.
    Open,
    /// What whoever was ahead had.
    Passed(T),
}

/// Somebody behind others, until it [leaves](Self::leave).
#[derive(Debug)]
pub(crate) struct Standing<T> {
    at: LineRef<T>,
    number: u64,
    given: oneshot::Receiver<Given<T>>,
}

/// The front of a line. Dropping it passes the turn on.
pub(crate) struct Turn<T>(LineRef<T>);

/// A line among the others.
#[derive(Debug)]
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

    /// Joins the line of those who want the same.
    pub(crate) fn join(self: &Arc<Self>, wanted: &Wanted, place: InLine, successor: Successor) -> Joined<T> {
        let mut lines = self.lines();
        let at = |line: &Arc<Line<T>>| LineRef {
            lines: Arc::clone(self),
            line: Arc::clone(line),
        };
        let Some(LineByWanted(line)) = lines.get(wanted) else {
            let line = Arc::new(Line {
                wanted: wanted.clone(),
                is_shut: AtomicBool::new(false),
                behind: Mutex::new(VecDeque::new()),
            });
            let turn = Turn(at(&line));
            lines.insert(LineByWanted(line));
            return Joined::Turn(turn);
        };
        if wanted.kind.is_shared() && !line.is_shut.load(Ordering::Relaxed) {
            return Joined::Beside;
        }
        let (give, given) = oneshot::channel();
        let standing = Standing {
            at: at(line),
            number: place.calls.number,
            given,
        };
        let mut behind = line.behind();
        // Who has no ticket comes last.
        let order = |ticket: Option<u64>| ticket.unwrap_or(u64::MAX);
        let later = |other: &Queued<T>| order(other.successor.ticket) > order(successor.ticket);
        let index = behind
            .iter()
            .rposition(|other| !later(other))
            .map_or(0, |last| last + 1);
        let new = Queued {
            place,
            successor,
            given: give,
        };
        behind.insert(index, new);
        drop(behind);
        Joined::Behind(standing)
    }

    /// One that asked beside the front of its line was refused, so those who come stand behind it.
    pub(crate) fn refused(&self, wanted: &Wanted) {
        if let Some(LineByWanted(line)) = self.lines().get(wanted) {
            line.is_shut.store(true, Ordering::Relaxed);
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashSet<LineByWanted<T>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Line<T> {
    fn behind(&self) -> MutexGuard<'_, VecDeque<Queued<T>>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> LineRef<T> {
    /// Who is next, to be taken along by the release of these names: one who wants the same, and has a ticket to stand
    /// in their queues with.
    pub(crate) fn next(&self, names: &Names) -> Option<InLine> {
        let behind = self.line.behind();
        let next = behind.front().filter(|next| next.successor.ticket.is_some())?;
        (self.line.wanted.names == *names).then(|| next.place.clone())
    }

    /// Gives the next one what `pass` makes for it, which stands in for the turn; whether there was somebody, and
    /// something to give.
    pub(crate) fn pass(&self, pass: impl FnOnce(&Wanted, &Successor) -> Option<T>) -> bool {
        if self.line.behind().is_empty() {
            return false;
        }
        // Nobody leaves the line meanwhile, so whoever stands there still listens.
        let lines = self.lines.lines();
        let mut behind = self.line.behind();
        let Some(passed) = behind
            .front()
            .and_then(|next| pass(&self.line.wanted, &next.successor))
        else {
            return false;
        };
        let refused = behind
            .pop_front()
            .map(|next| next.given.send(Given::Passed(passed)));
        drop(behind);
        // What falls takes locks of its own.
        drop(lines);
        drop(refused);
        true
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

impl<T> Standing<T> {
    /// Waits until everybody ahead has had the turn.
    ///
    /// # Cancel safety
    ///
    /// What is given meanwhile is given to the next call, or to who leaves.
    pub(crate) async fn given(&mut self) -> Given<T> {
        match (&mut self.given).await {
            Ok(given) => given,
            // Whoever takes one out of the line gives it something.
            Err(_) => std::future::pending().await,
        }
    }
}

impl<T> Standing<T> {
    /// Leaves the line; what it was given and has not taken.
    #[must_use = "what was given is nobody's else"]
    pub(crate) fn leave(&mut self) -> Option<Given<T>> {
        let lines = self.at.lines.lines();
        let mut behind = self.at.line.behind();
        let standing = behind
            .iter()
            .position(|other| other.place.calls.number == self.number);
        let left = standing.map(|at| behind.remove(at));
        drop(behind);
        drop(lines);
        drop(left);
        self.given.try_recv().ok()
    }
}

impl<T> Turn<T> {
    pub(crate) fn line(&self) -> &LineRef<T> {
        &self.0
    }

    /// It has been refused, so those who come stand behind it.
    pub(crate) fn refused(&self) {
        self.0.line.is_shut.store(true, Ordering::Relaxed);
    }

    /// It was let in beside others. The next one has the turn, and those behind that one ask beside it.
    pub(crate) fn open(self) {
        let LineRef { lines, line } = &self.0;
        let lines = lines.lines();
        line.is_shut.store(false, Ordering::Relaxed);
        let mut behind = std::mem::take(&mut *line.behind());
        let next = behind.pop_front();
        let refused: Vec<_> = behind
            .into_iter()
            .map(|other| other.given.send(Given::Open))
            .collect();
        drop(lines);
        // What falls takes locks of its own.
        drop(refused);
        if let Some(next) = next {
            drop(next.given.send(Given::Turn(self)));
        }
    }
}

impl<T> Drop for Turn<T> {
    /// Gives the turn to the next one in the line, or ends the line.
    fn drop(&mut self) {
        let LineRef { lines: all, line } = &self.0;
        let mut lines = all.lines();
        let next = line.behind().pop_front();
        let (refused, ended) = match next {
            Some(next) => (next.given.send(Given::Turn(Turn(self.0.clone()))).err(), None),
            None => (None, lines.take(&line.wanted)),
        };
        // What falls takes locks of its own.
        drop(lines);
        drop((refused, ended));
    }
}

impl<T> fmt::Debug for Turn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&self.0.line.wanted).finish()
    }
}

#[cfg(test)]
#[path = "line/tests.rs"]
mod tests;
