//! Thrifty rounds: an attempt that asks only as many masters as are needed, while nothing speaks against it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::acquire::request::AcquireRequest;
use crate::masters::config::Rounds;
use crate::protocol::node_set::NodeSet;

/// Number of attempts under way above which a client counts as busy.
const BUSY: usize = 12;
/// An answer later than so many of its master's last round trips is late.
const LATE: u32 = 2;
/// Shortest time after which an answer is late.
const SOONEST: Duration = Duration::from_millis(1);

/// Counts an attempt under way while it lives.
pub(super) struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    pub(super) fn begin(attempts: &'a AtomicUsize) -> Self {
        attempts.fetch_add(1, Ordering::Relaxed);
        Self(attempts)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Masters that are asked first.
pub(super) struct FirstAsked {
    pub(super) nodes: NodeSet,
    /// Time after which the others are asked, too.
    pub(super) hedge: Duration,
}

/// Chooses the masters for a thrifty attempt; `None` for an attempt that asks all. Only masters that are well are chosen:
/// connected, with a vote, and not late lately. `may_ask` excludes masters for other reasons.
pub(super) fn choose(request: &AcquireRequest, may_ask: impl Fn(usize) -> bool) -> Option<FirstAsked> {
    let pool = &request.client.pool;
    let is_thrifty = match pool.config.rounds {
        Rounds::All => false,
        Rounds::Adaptive => pool.attempts.load(Ordering::Relaxed) > BUSY,
        Rounds::Thrifty => true,
    };
    if !is_thrifty || request.needed >= pool.slots.len() {
        return None;
    }
    let now = Instant::now();
    let (mut nodes, mut slowest) = (NodeSet::default(), Duration::ZERO);
    for node in pool.preference.of(&request.names).filter(|node| may_ask(*node)) {
        if let Some(round_trip) = pool.slots[node].link().ok().and_then(|link| link.is_well(now)) {
            nodes.insert(node);
            slowest = slowest.max(round_trip);
            if nodes.len() == request.needed {
                let hedge = (slowest * LATE).max(SOONEST).min(pool.config.node_timeout / 4);
                return Some(FirstAsked { nodes, hedge });
            }
        }
    }
    None
}
