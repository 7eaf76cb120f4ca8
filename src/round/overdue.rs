//! What came of requests that were not answered by the deadline of their round.

use std::sync::Arc;

use tokio::time::Instant;

use crate::events::Op;
use crate::node::{self, By, DeferredRelease, Late, Links, ReplyTo, Slot};
use crate::protocol::claim::Claim;
use crate::protocol::command::Request;
use crate::protocol::fault::{Class, Fault};

/// What was sent, and had no answer by the deadline. A release stays the connection's to answer: only where
/// that ends without, or the answer is an error that will pass, the master is told again.
#[derive(Debug)]
pub(super) struct Overdue {
    pub(super) links: Links,
    pub(super) request: Arc<Request>,
    pub(super) op: Op,
    pub(super) sent: Instant,
    /// What it released, and where it is owed.
    pub(super) release: Option<(Claim, Vec<Arc<Slot>>)>,
}

impl Late for Overdue {
    fn answered(self: Arc<Self>, node: usize, answer: node::Answer) {
        let Ok(link) = &self.links[node] else { return };
        link.heed(&answer);
        let forgotten = answer.as_ref().err().and_then(Fault::class) == Some(Class::NoScript);
        if !matches!(answer, Err(Fault::Unknown(_) | Fault::NotSent(_))) {
            link.took(self.op, self.sent);
        }
        match &self.release {
            Some(_) if forgotten => {
                link.call(
                    &self.request,
                    By::Source,
                    ReplyTo::left_to(Arc::clone(&self) as _, node),
                );
            }
            Some((claim, slots)) if !node::is_done(&answer) => {
                slots[node].defer(DeferredRelease::new(claim.clone()));
            }
            None if forgotten => drop(link.load(self.request.script)),
            _ => {}
        }
    }
}
