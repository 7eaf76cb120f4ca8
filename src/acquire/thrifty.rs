//! The masters that an attempt asks first: all, or the first one alone, or in a thrifty round as many as are needed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::acquire::refusal::Asked;
use crate::acquire::request::AcquireRequest;
use crate::protocol::node_set::NodeSet;
use crate::protocol::waiter::FIRST_MASTER;
use crate::queue::QueueEntry;

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

/// Masters that an attempt asks at first. It holds the others back.
pub(super) struct FirstAsked {
    pub(super) nodes: NodeSet,
    pub(super) asked: Asked,
    /// Number of grants that wakes the attempt.
    pub(super) wanted: usize,
    /// Time after which the others are asked, too: a quarter of the node timeout at most. They have a whole one then, so that is
    /// how much longer a try may take.
    pub(super) hedge: Duration,
}

impl FirstAsked {
    /// Chooses among the masters that may be asked.
    pub(super) fn choose(request: &AcquireRequest, waiting: Option<&QueueEntry>, may_ask: NodeSet) -> Self {
        let pool = &request.client.pool;
        let at_first_master = waiting.is_some_and(|waiting| waiting.waiter.at_first_master);
        if at_first_master && may_ask == pool.all() {
            return Self::first_master();
        }
        let is_new = waiting.is_none_or(|waiting| !waiting.state.may_be_queued());
        let quorum = is_new.then(|| Self::quorum(request, may_ask)).flatten();
        quorum.unwrap_or_else(|| Self::of(may_ask, request.needed, Duration::ZERO))
    }

    fn of(nodes: NodeSet, wanted: usize, hedge: Duration) -> Self {
        Self {
            nodes,
            asked: Asked::AllAtOnce,
            wanted,
            hedge,
        }
    }

    /// The first master alone, of an attempt that asks the others once it has granted.
    fn first_master() -> Self {
        Self {
            asked: Asked::FirstAlone,
            ..Self::of(NodeSet::one(FIRST_MASTER), 1, Duration::ZERO)
        }
    }

    /// As many masters as are needed; `None` for an attempt that asks all. Only masters that are well are chosen: connected,
    /// with a vote, neither silent nor behind with releases, and not much slower than a quorum of the others.
    fn quorum(request: &AcquireRequest, may_ask: NodeSet) -> Option<Self> {
        let (pool, needed) = (&request.client.pool, request.needed);
        if !pool.is_thrifty() || needed >= pool.slots.len() {
            return None;
        }
        let now = Instant::now();
        let round_trip = |node: usize| Some((node, pool.slots[node].link().ok()?.round_trip_if_well(now)?));
        let preferred = pool.preference.of(&request.names);
        let preferred = preferred.filter(|node| may_ask.contains(*node));
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
        Some(Self::of(nodes, needed, hedge))
    }
}
