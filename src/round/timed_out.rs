//! Requests that had no answer by the deadline of their round.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use crate::events::Op;
use crate::node::{self, Late, Links, PendingRelease, Slot};
use crate::protocol::claim::Claim;
use crate::protocol::command::Request;
use crate::protocol::fault::Fault;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::Stamp;
use crate::time::clock::{Clock, Moment};

/// Function that is called with the index of a master.
pub(super) type Hook = Arc<dyn Fn(usize) + Send + Sync>;

/// A request without an answer by the deadline. A release that was sent is sent again only if its connection ends
/// without an answer, or if the answer is an error that passes.
pub(super) struct TimedOutRequest {
    pub(super) links: Links,
    pub(super) request: Arc<Request>,
    pub(super) op: Op,
    pub(super) sent: (Instant, Moment),
    /// Masters that were asked later, and the time at which they were.
    pub(super) sent_later: Option<(NodeSet, (Instant, Moment))>,
    /// Clock of leases, if answers begin with a stamp.
    pub(super) stamped_by: Option<Clock>,
    /// Claim that the request released, and the slots at which the release is pending.
    pub(super) release: Option<(Claim, Vec<Arc<Slot>>)>,
    /// Called for a master that did not execute the request, or may not have.
    pub(super) unconfirmed: Option<Hook>,
}

impl Late for TimedOutRequest {
    fn answered(self: Arc<Self>, node: usize, answer: node::Answer) {
        let Ok(link) = &self.links[node] else { return };
        link.react_to(&answer, false);
        let later = self.sent_later.filter(|(nodes, _)| nodes.contains(node));
        let (sent, begun) = later.map_or(self.sent, |(_, sent)| sent);
        if let Some(clock) = self.stamped_by
            && let Some(stamp) = answer.as_ref().ok().and_then(Stamp::at_head_of)
        {
            link.check_stamp(stamp, begun, clock.now());
        }
        let has_no_script = Fault::is_no_script(&answer);
        if !matches!(answer, Err(Fault::Unknown(_) | Fault::NotSent(_))) {
            link.took(self.op, sent);
        }
        if let Some(hook) = &self.unconfirmed
            && node::needs_retry(&answer)
        {
            hook(node);
        }
        match &self.release {
            // An unknown script is no exception: the waiter that the request was to put into the queues may have
            // withdrawn since.
            Some((claim, slots)) if node::needs_retry(&answer) => {
                slots[node].defer(PendingRelease::new(claim.clone()));
            }
            None if has_no_script => drop(link.load(self.request.script)),
            _ => {}
        }
    }
}

impl fmt::Debug for TimedOutRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimedOutRequest")
            .field("op", &self.op)
            .finish_non_exhaustive()
    }
}
