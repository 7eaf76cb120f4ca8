//! What a guard has of a hold, and how it is given up.

use std::sync::Arc;
use std::time::Duration;

use crate::events::HoldEnd;
use crate::hold::LeaveOutcome;
use crate::hold::client::ClientCore;
use crate::hold::downgrade::Downgrade;
use crate::hold::grant::Hold;
use crate::hold::leave::{self, Leave};
use crate::protocol::kind::HoldKind;
use crate::time::clock::Moment;

/// One guard's entry in a hold. Dropped, it leaves; the last one to leave passes the grant on, or releases it in the
/// background.
#[derive(Debug)]
pub(crate) struct HoldEntry {
    pub(crate) client: Arc<ClientCore>,
    pub(crate) hold: Hold,
    /// Whether it wants the hold renewed.
    renew: bool,
    /// Whether it lets others in beside it that read.
    is_shared: bool,
    /// Whether it still counts in its hold.
    inside: bool,
}

impl HoldEntry {
    /// Enters a hold, if more than `min_validity` is left; with `renew` it is renewed meanwhile. Else the
    /// hold is given back.
    pub(crate) fn new(
        client: &Arc<ClientCore>,
        hold: Hold,
        now: Moment,
        min_validity: Duration,
        renew: bool,
        kind: HoldKind,
    ) -> Result<Self, Hold> {
        let Some(entered) = hold.enter(now, min_validity, renew, kind) else {
            return Err(hold);
        };
        if entered.first_to_renew {
            client.schedule.watch(&hold.grant);
        }
        Ok(Self {
            client: Arc::clone(client),
            hold,
            renew,
            is_shared: kind.is_shared(),
            inside: true,
        })
    }

    /// That of a hold which was passed on, and has one guard in it; none where it was taken back meanwhile.
    pub(crate) fn passed(client: &Arc<ClientCore>, hold: Hold, renew: bool) -> Option<Self> {
        if !hold.take(renew) {
            return None;
        }
        if renew {
            // It is not renewed before it is taken.
            client.schedule.watch(&hold.grant);
        }
        Some(Self {
            client: Arc::clone(client),
            hold,
            renew,
            is_shared: false,
            inside: true,
        })
    }

    pub(crate) fn is_inside(&self) -> bool {
        self.inside
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Lets others in beside it that read. What the masters are told, if anything.
    pub(crate) fn downgrade(&mut self) -> Option<Downgrade> {
        let was_shared = std::mem::replace(&mut self.is_shared, true);
        let is_told = !was_shared && self.hold.give_up_exclusive();
        is_told.then(|| self.tell_downgrade())
    }

    /// The hold is shared now. Those of this process who wait to write ask the masters for themselves from here on, as
    /// others would overtake them for as long as it is read.
    fn tell_downgrade(&self) -> Downgrade {
        let grant = &self.hold.grant;
        let downgrade = Downgrade::begin(&self.client.pool, grant);
        drop(grant.take_turn());
        downgrade
    }

    /// Leaves the hold, once; `is_valid` by a look at the clock just before, where there was one.
    #[inline]
    pub(crate) fn leave(&mut self, is_valid: bool) -> Leave {
        if !std::mem::take(&mut self.inside) {
            return Leave::NotInside;
        }
        match self.hold.leave(self.renew, self.is_shared) {
            LeaveOutcome::Inside(count) => return Leave::StillHeld(count),
            LeaveOutcome::Downgraded { leaked } => {
                let downgrade = self.tell_downgrade();
                if leaked {
                    self.abandon();
                }
                return Leave::Downgraded(Box::new(downgrade));
            }
            LeaveOutcome::Leaked(count) => {
                self.abandon();
                return Leave::StillHeld(count);
            }
            LeaveOutcome::Last => {}
        }
        leave::end(&self.client, &self.hold.grant, is_valid)
    }

    /// Stays in for good.
    pub(crate) fn leak(&mut self) {
        if std::mem::take(&mut self.inside) && self.hold.leak(self.renew) {
            self.abandon();
        }
    }

    /// Nobody looks after a hold in which only leaked guards are left.
    fn abandon(&self) {
        if let Some(trace) = self.hold.grant.trace.take() {
            trace.end(HoldEnd::Leaked);
        }
        self.client.schedule.forget(&self.hold.grant);
        drop(self.hold.grant.take_turn());
    }
}

impl Drop for HoldEntry {
    fn drop(&mut self) {
        if self.inside {
            drop(self.leave(false));
        }
    }
}
