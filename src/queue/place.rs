//! The place of a waiter in the queues on the masters.

use std::sync::Arc;

use crate::names::Names;
use crate::protocol::calls;
use crate::protocol::waiter::Waiter;
use crate::queue::InLine;
use crate::round::pool::Pool;
use crate::round::{Forgotten, Round, Trust};

impl InLine {
    /// Takes the waiter out of the queues on the masters that `asked` accepts, in the background. What does not get
    /// there is made up for: its ticket ends, or it is called and its process tells so.
    pub(crate) fn leave(&self, pool: &Arc<Pool>, names: &Names, asked: impl Fn(usize) -> bool) {
        leave(pool, names, &self.waiter, asked);
    }
}

/// The same of a waiter whose task may be gone.
pub(crate) fn leave(pool: &Arc<Pool>, names: &Names, waiter: &Waiter, asked: impl Fn(usize) -> bool) {
    if !(0..pool.slots.len()).any(&asked) {
        return;
    }
    let request = calls::leave(names, pool.id, &waiter.text());
    let round = Round::begin(pool, &request, Trust::All, asked);
    round.leave(Forgotten::SentAgain, |_, _| None);
}

/// The next of a process's line, which a release takes along into the queues.
pub(crate) struct Next(InLine);

impl Next {
    /// From here on it may stand there, although it has not asked yet.
    pub(crate) fn new(next: InLine) -> Self {
        next.calls.stand();
        Self(next)
    }

    pub(crate) fn waiter(&self) -> Waiter {
        self.0.waiter
    }

    /// The release has been sent. Whoever gave up just before may have left the queues before it came to stand there.
    pub(crate) fn sent(&self, pool: &Arc<Pool>, names: &Names) {
        if self.0.calls.is_over() {
            self.0.leave(pool, names, |_| true);
        }
    }
}
