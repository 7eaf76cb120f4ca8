//! Thrifty rounds: an attempt that asks only as many masters as are needed, while nothing speaks against it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::acquire::request::AcquireRequest;
use crate::protocol::node_set::NodeSet;
use crate::protocol::waiter::FIRST_MASTER;
use crate::round::pool::Pool;

/// Number of round trips after which an answer is late.
const LATE: u32 = 2;
/// A master that answers this much later than twice a quorum is passed over.
const SLOWER: Duration = Duration::from_millis(5);
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
    /// Time after which the others are asked, too: a quarter of the node timeout at most. They have a whole one then, so that is
    /// how much longer a try may take.
    pub(super) hedge: Duration,
}

impl FirstAsked {
    /// The first master alone, of an attempt that asks the others once it has granted. If its answer is late, they are asked
    /// without it.
    pub(super) fn first_master(pool: &Pool) -> Self {
        Self {
            nodes: NodeSet::one(FIRST_MASTER),
            hedge: pool.config.node_timeout / 4,
        }
    }
}

/// Chooses the masters for a thrifty attempt; `None` for an attempt that asks all. Only masters that are well are chosen:
/// connected, with a vote, neither silent nor behind with releases, and not much slower than a quorum of the others.
/// `may_ask` excludes masters for other reasons.
pub(super) fn choose(request: &AcquireRequest, may_ask: impl Fn(usize) -> bool) -> Option<FirstAsked> {
    let (pool, needed) = (&request.client.pool, request.needed);
    if !pool.is_thrifty() || needed >= pool.slots.len() {
        return None;
    }
    let now = Instant::now();
    let round_trip = |node: usize| Some((node, pool.slots[node].link().ok()?.round_trip_if_well(now)?));
    let preferred = pool.preference.of(&request.names).filter(|node| may_ask(*node));
    let well: SmallVec<[(usize, Duration); 8]> = preferred.filter_map(round_trip).collect();
    let mut round_trips: SmallVec<[Duration; 8]> = well.iter().map(|(_, took)| *took).collect();
    round_trips.sort_unstable();
    let slowest = *round_trips.get(needed.checked_sub(1)?)? * LATE + SLOWER;
    let chosen = well.iter().filter(|(_, took)| *took <= slowest).take(needed);
    let (mut nodes, mut longest) = (NodeSet::default(), Duration::ZERO);
    for (node, took) in chosen {
        nodes.insert(*node);
        longest = longest.max(*took);
    }
    let hedge = (longest * LATE).max(SOONEST).min(pool.config.node_timeout / 4);
    Some(FirstAsked { nodes, hedge })
}
