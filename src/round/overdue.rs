//! What came of requests that were not answered by the deadline of their round.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use crate::events::Op;
use crate::node::{self, Late, Links, PendingRelease, Slot};
use crate::protocol::claim::Claim;
use crate::protocol::command::Request;
use crate::protocol::fault::{Fault, FaultClass};

/// Is called with the index of a master.
pub(super) type Hook = Arc<dyn Fn(usize) + Send + Sync>;

/// What was sent, and had no answer by the deadline. A release stays the connection's to answer: only where
/// that ends without, or the answer is an error that will pass, the master is told again.
pub(super) struct Overdue {
    pub(super) links: Links,
    pub(super) request: Arc<Request>,
    pub(super) op: Op,
    pub(super) sent: Instant,
    /// What it released, and where it is owed.
    pub(super) release: Option<(Claim, Vec<Arc<Slot>>)>,
    /// Is called for a master that did not execute it, or may not have.
    pub(super) untold: Option<Hook>,
}

impl Late for Overdue {
    fn answered(self: Arc<Self>, node: usize, answer: node::Answer) {
        let Ok(link) = &self.links[node] else { return };
        link.react_to(&answer);
        let forgotten = answer.as_ref().err().and_then(Fault::class) == Some(FaultClass::NoScript);
        if !matches!(answer, Err(Fault::Unknown(_) | Fault::NotSent(_))) {
            link.took(self.op, self.sent);
        }
        if let Some(hook) = &self.untold
            && !node::is_done(&answer)
        {
            hook(node);
        }
        match &self.release {
            // Also where the script is forgotten: the waiter that it was to put into the queues may have left them since.
            Some((claim, slots)) if !node::is_done(&answer) => {
                slots[node].defer(PendingRelease::new(claim.clone()));
            }
            None if forgotten => drop(link.load(self.request.script)),
            _ => {}
        }
    }
}

impl fmt::Debug for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overdue")
            .field("op", &self.op)
            .finish_non_exhaustive()
    }
}
