//! What a guard has of a hold, and how it is given up.

use std::sync::Arc;
use std::time::Duration;

use crate::error::LossCause;
use crate::events::{HoldEnd, log};
use crate::hold::Left;
use crate::hold::client::ClientCore;
use crate::hold::downgrade::Downgrade;
use crate::hold::grant::{Grant, Hold};
use crate::hold::release::Release;
use crate::protocol::kind::HoldKind;
use crate::queue::entry::Next;
use crate::queue::{QueueEntry, Turn};
use crate::round::pool::Pool;
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

/// What leaving came to.
pub(crate) enum Leave {
    /// Other guards are still in; this many.
    StillHeld(u64),
    /// Other guards are still in, and only read: the masters are being told.
    Downgraded(Box<Downgrade>),
    /// The next task of this process has it.
    HandedOn,
    /// It is to be released.
    Release(UnsentRelease),
    /// It was lost, and somebody else releases it.
    Lost,
    /// It was left before, or leaked.
    NotInside,
}

/// A release that is to be sent, and whom it lets in; or, while the names are kept, what is sent in its place. Dropped, it is sent in the background.
pub(crate) struct UnsentRelease {
    pool: Arc<Pool>,
    grant: Arc<Grant>,
    turn: Option<Turn<Hold>>,
    /// For how much longer the names are kept first.
    pub(crate) kept: Duration,
    is_sent: bool,
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
            Left::Inside(count) => return Leave::StillHeld(count),
            Left::Downgraded { leaked } => {
                let downgrade = self.tell_downgrade();
                if leaked {
                    self.abandon();
                }
                return Leave::Downgraded(Box::new(downgrade));
            }
            Left::Leaked(count) => {
                self.abandon();
                return Leave::StillHeld(count);
            }
            Left::Last => {}
        }
        move_on(&self.client, &self.hold.grant, is_valid)
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

/// Passes a vacant grant on where that may be, or ends it.
fn move_on(client: &Arc<ClientCore>, grant: &Arc<Grant>, is_valid: bool) -> Leave {
    // Before the next hold begins.
    let trace = grant.trace.take();
    let loss = if is_valid && trace.is_none() {
        None
    } else {
        grant.loss()
    };
    let departure = give_up(client, grant);
    if let Some(cause) = loss
        && cause != LossCause::Closed
        && matches!(departure, Leave::Release(_))
    {
        // The watchdog had no time to find it, and will not find it any more.
        log::hold_lost(&grant.names, &client.pool.evidence(&grant.votes()));
    }
    let Some(trace) = trace else {
        return departure;
    };
    match (loss, &departure) {
        (Some(cause), _) => trace.lost(cause),
        (None, Leave::HandedOn) => trace.end(HoldEnd::HandedOn),
        (None, Leave::Release(outgoing)) if !outgoing.kept.is_zero() => trace.end(HoldEnd::Kept),
        (None, _) => trace.end(HoldEnd::Released),
    }
    departure
}

fn give_up(client: &Arc<ClientCore>, grant: &Arc<Grant>) -> Leave {
    let (pool, kept) = (&client.pool, grant.kept());
    // Nobody else is to be let in at this moment?
    let may_hand_off = kept.is_zero() && !pool.is_closed() && !pool.topics.yielding.is_due(&grant.names);
    if may_hand_off && grant.pass() {
        return Leave::HandedOn;
    }
    let is_mine = grant.is_to_release();
    client.schedule.forget(grant);
    let turn = grant.take_turn();
    if !is_mine {
        return Leave::Lost;
    }
    Leave::Release(UnsentRelease {
        pool: Arc::clone(pool),
        grant: Arc::clone(grant),
        turn,
        kept,
        is_sent: false,
    })
}

impl UnsentRelease {
    /// Sends it, for who waits for what the masters say.
    pub(crate) fn begin(mut self) -> Release {
        self.is_sent = true;
        let (grant, touched) = (&self.grant, self.grant.touched());
        if !self.kept.is_zero() {
            return self.keep();
        }
        // The next of this process in line asks right behind the release, when the turn falls.
        Release::begin(&self.pool, grant.claim(), self.next(), |node| {
            touched.contains(node)
        })
    }

    /// Sends it in the background, and puts a waiter into the queues with it. Not while the names are kept, as an entry
    /// before this one may have asked.
    pub(crate) fn give_back(mut self, waiter: Option<QueueEntry>) {
        if !self.kept.is_zero() {
            return;
        }
        self.is_sent = true;
        let touched = self.grant.touched();
        let next = waiter.map(Next::resting);
        drop(Release::begin(&self.pool, self.grant.claim(), next, |node| {
            touched.contains(node)
        }));
    }

    fn keep(&self) -> Release {
        let touched = self.grant.touched();
        Release::keep(&self.pool, self.grant.claim(), self.kept, |node| {
            touched.contains(node)
        })
    }

    /// Whom the release takes along into the queues; nobody where it is the turn of clients of other libraries.
    fn next(&self) -> Option<Next> {
        let (yielding, names) = (&self.pool.topics.yielding, &self.grant.names);
        let turn = self.turn.as_ref().filter(|_| !yielding.is_due(names))?;
        turn.line().next(names).map(Next::asking)
    }
}

impl Drop for UnsentRelease {
    fn drop(&mut self) {
        if self.is_sent {
            return;
        }
        if self.kept.is_zero() {
            let (grant, touched) = (&self.grant, self.grant.touched());
            Release::leave(&self.pool, grant.claim(), self.next(), |node| {
                touched.contains(node)
            });
        } else {
            drop(self.keep());
        }
    }
}
