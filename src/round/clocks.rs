//! Wall clocks of the masters, taken together.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::protocol::kind::HoldKind;
use crate::protocol::node_set::NodeSet;
use crate::protocol::{calls, reply};
use crate::round::pool::Pool;
use crate::round::{NoScriptFallback, Round, Trust};
use crate::values::names::Names;

/// Most by which a master's clock may be ahead of the median for its fences to be used. The master accepts no token
/// that is more than 10 s behind its clock (`lua/fences.lua`). So tokens are raised to its time, and their fences live
/// longer on the others by the difference.
const AHEAD: Duration = Duration::from_secs(5 * 60);

/// Clocks of the connected masters at one moment, in microseconds since 1970.
pub(crate) struct Clocks {
    shown: SmallVec<[Option<u64>; 8]>,
    pub(crate) median_us: Option<u64>,
    /// Number above every token that a master with a vote may have forgotten by a restart.
    pub(crate) floor_us: u64,
}

impl Clocks {
    pub(crate) fn of(pool: &Pool) -> Self {
        let (moment, now) = (pool.clock.now(), Instant::now());
        let mut floor_us = 0;
        let shown = pool.slots.iter().map(|slot| {
            let link = slot.link().ok()?;
            if link.quarantine(now).is_zero() {
                floor_us = link.floor().saturating_add(1).max(floor_us);
            }
            Some(link.clock_us(moment))
        });
        let shown = shown.collect();
        Self::new(shown, floor_us)
    }

    fn new(shown: SmallVec<[Option<u64>; 8]>, floor_us: u64) -> Self {
        Self {
            median_us: median(shown.iter().flatten().copied()),
            shown,
            floor_us,
        }
    }

    /// Median of all masters' clocks, with the unknown ones taken as ahead. So the real median is not later, unless more
    /// than half are unknown.
    pub(crate) fn late_median_us(&self) -> Option<u64> {
        let mut known: SmallVec<[u64; 8]> = self.shown.iter().flatten().copied().collect();
        known.sort_unstable();
        known.get(self.shown.len() / 2).or(known.last()).copied()
    }

    /// Number of masters with a known clock.
    pub(crate) fn known(&self) -> usize {
        self.shown.iter().flatten().count()
    }

    /// Time by which a master's clock is ahead of the median, if that is too much for its fences.
    pub(crate) fn too_far_ahead(&self, node: usize) -> Option<Duration> {
        let ahead = self.shown[node]?.saturating_sub(self.median_us?);
        Some(Duration::from_micros(ahead)).filter(|ahead| *ahead > AHEAD)
    }

    /// Latest clock of some masters.
    pub(crate) fn latest_us(&self, of: NodeSet) -> Option<u64> {
        let shown = self.shown.iter().enumerate();
        shown
            .filter(|(node, _)| of.contains(*node))
            .filter_map(|(_, shown)| *shown)
            .max()
    }
}

/// Median; the lower one of two in the middle. So of two clocks, the clock that is ahead does not count.
pub(crate) fn median(shown: impl Iterator<Item = u64>) -> Option<u64> {
    let mut known: SmallVec<[u64; 8]> = shown.collect();
    known.sort_unstable();
    known.get(known.len().saturating_sub(1) / 2).copied()
}

/// Asks some masters for their clocks, in the background.
pub(crate) fn refresh(pool: &Arc<Pool>, names: &Names, of: NodeSet) {
    let round = Round::begin(pool, &calls::inspect(names, HoldKind::Plain), Trust::All, of);
    let (pool, names) = (Arc::clone(pool), names.len());
    round.detach(NoScriptFallback::Resend, move |node, answer| {
        if let (Ok(report), Ok(link)) = (reply::inspected(answer, names), pool.slots[node].link()) {
            link.observe_clock(report.clock_us, pool.clock.now());
        }
        None
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_clock_that_is_wrong_is_outvoted_and_reported() {
        let minute = 60_000_000;
        let clocks = Clocks::new(
            [Some(100 * minute), None, Some(90 * minute), Some(94 * minute)]
                .into_iter()
                .collect(),
            0,
        );
        assert_eq!(clocks.median_us, Some(94 * minute));
        assert_eq!(clocks.too_far_ahead(0), Some(Duration::from_secs(360)));
        assert_eq!((clocks.too_far_ahead(1), clocks.too_far_ahead(2)), (None, None));
        assert_eq!(
            clocks.latest_us([1, 2, 3].into_iter().collect()),
            Some(94 * minute)
        );
        let two = Clocks::new([Some(100 * minute), Some(90 * minute)].into_iter().collect(), 0);
        assert_eq!(two.median_us, Some(90 * minute));
        assert_eq!(Clocks::new(SmallVec::new(), 0).median_us, None);
    }

    #[test]
    fn unknown_clocks_are_taken_as_ahead() {
        let late = |shown: &[Option<u64>]| Clocks::new(shown.into(), 0).late_median_us();
        assert_eq!(late(&[Some(9), Some(5), Some(7)]), Some(7));
        assert_eq!(late(&[Some(9), Some(5), Some(7), Some(6)]), Some(7));
        assert_eq!(late(&[None, Some(9), Some(5)]), Some(9));
        assert_eq!(late(&[None, Some(9), Some(5), None, Some(5)]), Some(9));
        assert_eq!(late(&[None, Some(9), Some(5), Some(7), Some(5)]), Some(7));
        assert_eq!(late(&[None, Some(5), None]), Some(5));
        assert_eq!(late(&[None, None, None]), None);
    }
}
