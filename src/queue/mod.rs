//! The line of a process: one contender per client, set of names and terms.
//!
//! Tasks of one process that want the same names on the same terms stand in a line, by their tickets; only its front
//! one stands in the queues on the masters. The turn stays with whoever holds, so behind a local holder nobody asks
//! at all. A release carries the next in line along: the masters put it into their queues with its ticket, and call
//! another process only if that comes first. The next one asks over the same connections, right behind the release.
//!
//! Tasks on different terms have lines of their own: one that cannot win, for want of a master or because it wants
//! more than there is, is in nobody's way who could.

pub(crate) mod place;
pub(crate) mod subscription;

use std::borrow::Borrow;
use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::names::Names;
use crate::node::waiters::Calls;
use crate::protocol::waiter::Waiter;

/// What those who stand in one line want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) names: Names,
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

/// The lines of one process.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Mutex<HashSet<LineByWanted>>,
}

/// A line where it is found by what is wanted, which is not kept twice: a process may have very many.
#[derive(Debug)]
struct LineByWanted(Arc<Line>);

impl Borrow<Wanted> for LineByWanted {
    fn borrow(&self) -> &Wanted {
        &self.0.wanted
    }
}

impl Hash for LineByWanted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.wanted.hash(state);
    }
}

impl PartialEq for LineByWanted {
    fn eq(&self, other: &Self) -> bool {
        self.0.wanted == other.0.wanted
    }
}

impl Eq for LineByWanted {}

#[derive(Debug)]
struct Line {
    wanted: Wanted,
    /// Behind whoever has the turn, the next one first. Changed by whoever has the lines locked.
    behind: Mutex<VecDeque<InLine>>,
}

/// One that stands in a line.
#[derive(Clone, Debug)]
pub(crate) struct InLine {
    pub(crate) waiter: Waiter,
    pub(crate) calls: Arc<Calls>,
}

/// Somebody behind others. Dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct Standing {
    lines: Arc<Lines>,
    line: Arc<Line>,
    calls: Arc<Calls>,
    has_turn: bool,
}

/// The front of a line. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct Turn {
    lines: Arc<Lines>,
    line: Arc<Line>,
}

impl Lines {
    /// Joins the line of those who want the same; the turn, if nobody is ahead.
    pub(crate) fn join(self: &Arc<Self>, wanted: &Wanted, new: InLine) -> Result<Turn, Standing> {
        let mut lines = self.lines();
        let Some(LineByWanted(line)) = lines.get(wanted) else {
            let line = Arc::new(Line {
                wanted: wanted.clone(),
                behind: Mutex::default(),
            });
            lines.insert(LineByWanted(Arc::clone(&line)));
            return Ok(Turn {
                lines: Arc::clone(self),
                line,
            });
        };
        let line = Arc::clone(line);
        let calls = Arc::clone(&new.calls);
        // It may have had the turn before, and let it go.
        calls.line_up();
        let mut behind = line.behind();
        let later = |other: &InLine| other.waiter.ticket > new.waiter.ticket;
        let at = behind
            .iter()
            .rposition(|other| !later(other))
            .map_or(0, |last| last + 1);
        behind.insert(at, new);
        drop(behind);
        Err(Standing {
            lines: Arc::clone(self),
            line,
            calls,
            has_turn: false,
        })
    }

    /// Gives the turn to the next one in a line, or ends the line.
    fn pass(&self, line: &Arc<Line>) {
        let mut lines = self.lines();
        let next = line.behind().pop_front();
        // What falls takes locks of its own.
        let ended = next.is_none().then(|| lines.take(&line.wanted));
        drop(lines);
        drop(ended);
        if let Some(next) = next {
            next.calls.give_turn();
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashSet<LineByWanted>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn behind(&self) -> MutexGuard<'_, VecDeque<InLine>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    /// Waits until everybody ahead has had the turn.
    pub(crate) async fn turn(mut self) -> Turn {
        self.calls.turn().await;
        self.has_turn = true;
        Turn {
            lines: Arc::clone(&self.lines),
            line: Arc::clone(&self.line),
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if self.has_turn {
            return;
        }
        let lines = self.lines.lines();
        let mut behind = self.line.behind();
        let standing = behind
            .iter()
            .position(|other| other.calls.number == self.calls.number);
        let left = standing.map(|at| behind.remove(at));
        drop(behind);
        drop(lines);
        if left.is_none() {
            // It has been given the turn meanwhile.
            self.lines.pass(&self.line);
        }
    }
}

impl Turn {
    /// Who is next in line, to be taken along by the release.
    pub(crate) fn next(&self) -> Option<InLine> {
        self.line.behind().front().cloned()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.lines.pass(&self.line);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::node::waiters::Waiters;

    fn wanted(name: &str) -> Wanted {
        Wanted {
            names: Names::from(name),
            needed: 2,
            lease: Duration::from_secs(30),
            min_validity: Duration::ZERO,
            fenced: true,
            fair: false,
        }
    }

    fn new(waiters: &Waiters, ticket: u64) -> InLine {
        let calls = waiters.join(3);
        let waiter = Waiter {
            number: calls.number,
            ticket,
            comes_within: Duration::from_secs(1),
            only: None,
        };
        InLine { waiter, calls }
    }

    #[tokio::test]
    async fn the_turn_goes_by_tickets_and_past_those_who_left() {
        let (lines, waiters) = (Arc::new(Lines::default()), Waiters::default());
        let join = |ticket| lines.join(&wanted("a"), new(&waiters, ticket));
        let first = join(5).expect("nobody is ahead");
        let (third, second, gone) = (join(9), join(7), join(8));
        let third = third.expect_err("behind others");
        let second = second.expect_err("behind others");
        assert_eq!(first.next().expect("some").waiter.ticket, 7);
        drop(gone);
        drop(first);
        let second = second.turn().await;
        assert_eq!(second.next().expect("some").waiter.ticket, 9);
        // Given the turn, and dropped before it could take it.
        drop(second);
        drop(third);
        assert!(lines.lines().is_empty());
        assert!(join(1).is_ok());
    }

    #[tokio::test]
    async fn who_let_its_turn_go_waits_for_it_anew() {
        let (lines, waiters) = (Arc::new(Lines::default()), Waiters::default());
        let again = new(&waiters, 7);
        let join = |one: InLine| lines.join(&wanted("a"), one);
        let first = join(new(&waiters, 5)).expect("nobody is ahead");
        let standing = join(again.clone()).expect_err("behind another");
        drop(first);
        drop(standing);
        let _other = join(new(&waiters, 9)).expect("nobody is ahead");
        let standing = join(again).expect_err("behind another");
        assert!(standing.turn().now_or_never().is_none());
    }

    #[tokio::test]
    async fn who_wants_something_else_has_a_line_of_its_own() {
        let (lines, waiters) = (Arc::new(Lines::default()), Waiters::default());
        let _one = lines.join(&wanted("a"), new(&waiters, 1)).expect("first");
        let all = Wanted {
            needed: 3,
            ..wanted("a")
        };
        assert!(lines.join(&all, new(&waiters, 2)).is_ok());
        assert!(lines.join(&wanted("b"), new(&waiters, 3)).is_ok());
        assert!(lines.join(&wanted("a"), new(&waiters, 4)).is_err());
    }
}
