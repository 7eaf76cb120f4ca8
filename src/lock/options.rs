//! Options of a call site, and the implementation of its verbs.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::call;
use crate::acquire::outcome::{Guards, MemberError};
use crate::acquire::request::{AcquireRequest, OnceRequest, Purpose};
use crate::admin::force::{self, Forced};
use crate::admin::inspect::{self, Inspection};
use crate::error::{InvalidInput, LockError, UnlockError};
use crate::events::{AcquireTrace, Label};
use crate::lock::guard::MultiLockGuard;
use crate::lock::hold_guard::HoldGuard;
use crate::lock::mode::Mode;
use crate::lock::owner::Owner;
use crate::masters::Masters;
use crate::masters::config::{bounded, checked_max_hold, in_range};
use crate::protocol::caption::{self, Caption};
use crate::protocol::job_mark::JobMark;
use crate::protocol::kind::{self, HoldKind, seat_number};
use crate::protocol::seats::MOST_PERMITS;
use crate::queue::LineOptions;
use crate::values::holder::Holder;
use crate::values::names::Names;
use crate::values::policy::Policy;
use crate::values::votes::Votes;

/// Options that few call sites set.
#[derive(Clone, Debug)]
pub(crate) struct RareOptions {
    /// Text about the hold.
    pub(crate) about: Option<Arc<str>>,
    /// Reason of a force.
    pub(crate) force_reason: Option<Arc<str>>,
    /// Whether masters publish the terms.
    pub(crate) announced: bool,
    /// Number of permits of the name, if one of them is wanted and not a lock.
    pub(crate) permits: u32,
    /// Time that a leader's body has to come to its end, once its term is to end.
    pub(crate) grace: Duration,
}

impl RareOptions {
    const DEFAULT: Self = Self {
        about: None,
        force_reason: None,
        announced: false,
        permits: 0,
        grace: Duration::from_secs(10),
    };
}

/// Options of a call site, unchecked.
#[derive(Clone, Debug)]
pub(crate) struct LockOptions {
    pub(crate) masters: Masters,
    pub(crate) names: Names,
    pub(crate) kind: HoldKind,
    pub(crate) policy: Policy,
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) min_validity: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) at_least: Duration,
    pub(crate) fenced: bool,
    pub(crate) fair: bool,
    pub(crate) sticky: bool,
    pub(crate) owner: Option<Owner>,
    pub(crate) purpose: Purpose,
    /// Rare options are apart, as every call moves its options.
    pub(crate) rare: Option<Arc<RareOptions>>,
    /// Label of the call site in the metrics.
    pub(crate) label: Label,
}

impl LockOptions {
    pub(crate) fn new(masters: &Masters, names: Names, policy: Policy) -> Self {
        Self {
            masters: masters.clone(),
            names: masters.client.pool.config.namespace.within(names),
            kind: HoldKind::Plain,
            policy,
            lease: None,
            wait: None,
            min_validity: Duration::ZERO,
            max_hold: None,
            at_least: Duration::ZERO,
            fenced: true,
            fair: false,
            sticky: false,
            owner: None,
            purpose: Purpose::Job,
            rare: None,
            label: masters.client.pool.events.unlabelled(),
        }
    }

    pub(crate) fn rare(&self) -> &RareOptions {
        self.rare.as_deref().unwrap_or(&RareOptions::DEFAULT)
    }

    pub(crate) fn rare_mut(&mut self) -> &mut RareOptions {
        Arc::make_mut(self.rare.get_or_insert_with(|| Arc::new(RareOptions::DEFAULT)))
    }

    pub(crate) async fn try_lock(&self) -> Result<HoldGuard, LockError> {
        call::try_one(&mut self.request()?).await
    }

    pub(crate) async fn lock(&self) -> Result<HoldGuard, LockError> {
        only(call::lock(&mut [self.request()?], self.wait).await)
    }

    /// Waits for the lock of a job that is not to be begun again for the time `keep` after it was done. If the job is done,
    /// returns its mark in place of a hold.
    pub(crate) async fn lock_once(&self, keep: Duration) -> Result<Result<HoldGuard, JobMark>, LockError> {
        self.check_once(keep)?;
        let found = Arc::default();
        let mut request = self.request()?;
        request.options.hands_on = false;
        request.once = Some(OnceRequest {
            keep,
            found: Arc::clone(&found),
        });
        match (only(call::lock(&mut [request], self.wait).await), found.get()) {
            (Ok(guard), _) => Ok(Ok(guard)),
            (Err(_), Some(mark)) => Ok(Err(mark.clone())),
            (Err(error), None) => Err(error),
        }
    }

    /// Releases the lock after a body that has come to its end. A release that too few masters confirm is logged. If the
    /// hold was lost before, returns the last answer of each master.
    pub(crate) async fn unlock_after_a_body<M: Mode>(&self, guard: MultiLockGuard<M>) -> Result<(), Votes> {
        match guard.unlock().await {
            Ok(_) => Ok(()),
            Err(UnlockError::Unconfirmed { free_within, votes }) => {
                self.warn_of_unconfirmed(free_within, &votes);
                Ok(())
            }
            Err(UnlockError::WasLost { votes }) => Err(votes),
        }
    }

    /// Warns that too few masters have confirmed the release after a body has ended.
    pub(crate) fn warn_of_unconfirmed(&self, free_within: Duration, votes: &Votes) {
        let log_throttle = &self.masters.client.pool.log_throttle;
        log_throttle.release_unconfirmed(&self.names, free_within, votes);
    }

    pub(crate) async fn inspect(&self) -> Result<Vec<Inspection>, LockError> {
        let (pool, request) = (&self.masters.client.pool, self.request()?);
        let names = request.locked_names();
        let mut seen = inspect::inspect(pool, &names, self.kind, request.needed).await;
        // Names are in the order of their letters, and seats are shown in that of their numbers.
        seen.sort_by_key(|seen| request.permits.and_then(|_| seat_number(&seen.name)));
        Ok(seen)
    }

    pub(crate) async fn force_release(
        &self,
        is_meant: impl Fn(&Holder) -> bool,
    ) -> Result<Forced, LockError> {
        let (pool, request) = (&self.masters.client.pool, self.request()?);
        let names = request.locked_names();
        let reason = self.rare.as_ref().and_then(|rare| rare.force_reason.as_deref());
        let reason = reason
            .map(|reason| caption::checked("force_reason", reason))
            .transpose()?;
        force::force(
            pool,
            &names,
            self.kind,
            request.needed,
            reason.unwrap_or_default(),
            is_meant,
        )
        .await
    }

    /// Checks the options of a lock in a set.
    pub(crate) fn request_in_a_set(&self, owner: Option<&Owner>) -> Result<AcquireRequest, LockError> {
        let allowed = |what: &str| format!("none on a lock of a set: {what}");
        if let Some(wait) = self.wait {
            let allowed = allowed("LockSet::wait counts for all of them");
            return Err(InvalidInput::time("wait", wait, allowed).into());
        }
        if self.owner.is_some() {
            let allowed = allowed("LockSet::owner holds all of them");
            return Err(InvalidInput::new("owner", "set", allowed).into());
        }
        if !self.at_least.is_zero() {
            let allowed = allowed("a lock that is won while another one is refused is given back at once");
            return Err(InvalidInput::time("at_least", self.at_least, allowed).into());
        }
        if self.sticky {
            let allowed = allowed("its grants are released together");
            return Err(InvalidInput::new("sticky", self.sticky, allowed).into());
        }
        let request = self.request()?;
        Ok(AcquireRequest {
            owner: owner.filter(|_| request.permits.is_none()).cloned(),
            is_member: true,
            ..request
        })
    }

    /// Refuses the options that a read/write lock excludes.
    fn check_kind(&self) -> Result<(), InvalidInput> {
        let kind = self.kind;
        if self.fair {
            let allowed = format!("not set with {kind}, which is always served in order of arrival");
            return Err(InvalidInput::new("fair", self.fair, allowed));
        }
        if !self.at_least.is_zero() {
            let allowed = format!("not set with {kind}");
            return Err(InvalidInput::time("at_least", self.at_least, allowed));
        }
        Ok(())
    }

    /// Checks the number of permits and the options that permits exclude. Returns the number.
    fn check_permits(&self) -> Result<u8, InvalidInput> {
        let permits = self.rare().permits;
        let number = u8::try_from(permits).unwrap_or(u8::MAX);
        if !(1..=MOST_PERMITS).contains(&number) {
            return Err(InvalidInput::new(
                "permits",
                permits,
                format!("1 to {MOST_PERMITS}"),
            ));
        }
        if self.names.len() != 1 {
            return Err(InvalidInput::new(
                "names",
                &self.names,
                "one name that has the permits",
            ));
        }
        if self.owner.is_some() {
            let allowed = "none with permits, each of which is taken once";
            return Err(InvalidInput::new("owner", "set", allowed));
        }
        Ok(number)
    }

    /// Names whose queues a waiter joins.
    fn queued_under(&self) -> Names {
        match (self.kind, self.names.iter().next()) {
            (HoldKind::Permit, Some(name)) => kind::pool(name).into(),
            _ => self.names.clone(),
        }
    }

    /// Refuses the options that a sticky lock excludes.
    fn check_sticky(&self) -> Result<(), InvalidInput> {
        let excluded = if self.kind.is_shared() {
            "read, because readers share a name"
        } else if self.lease.is_some() {
            "lease, because its grant is renewed"
        } else if !self.at_least.is_zero() {
            "at_least, because its names stay locked for nobody"
        } else if self.fair {
            "fair, because its client is served first"
        } else if self.rare().announced {
            "announced, which lead sets, because watchers are shown no leader while the names stay with their client"
        } else {
            return Ok(());
        };
        Err(InvalidInput::new(
            "sticky",
            self.sticky,
            format!("false with {excluded}"),
        ))
    }

    /// Checks the options. No master has been asked yet.
    pub(crate) fn request(&self) -> Result<AcquireRequest, LockError> {
        self.names.check()?;
        let config = &self.masters.client.pool.config;
        let lease = match self.lease {
            Some(lease) => config.checked_lease(lease)?,
            // The default was checked when the masters were connected.
            None => config.default_lease(),
        };
        let mut min_validity = self.min_validity;
        if !min_validity.is_zero() {
            config.check_within_validity("min_validity", min_validity, lease)?;
        }
        let max_hold = match self.max_hold {
            Some(max) => checked_max_hold(max, lease)?,
            // The builder's limit was checked with the builder's lease, which may be shorter.
            None => config.max_hold.and_then(bounded).map(|max| max.max(lease)),
        };
        if !self.at_least.is_zero() {
            if self.lease.is_some() {
                // A hold that is not renewed is lost, and its names are released, at the end of its validity.
                config.check_within_validity("at_least", self.at_least, lease)?;
                min_validity = min_validity.max(self.at_least);
            } else {
                in_range("at_least", self.at_least, Duration::ZERO, lease)?;
            }
        }
        if self.kind.is_read_write() {
            self.check_kind()?;
        }
        if self.sticky {
            self.check_sticky()?;
        }
        let permits = match self.kind {
            HoldKind::Permit => Some(self.check_permits()?),
            _ => None,
        };
        let caption = match &self.rare {
            None => None,
            Some(rare) => Caption::new(rare.about.as_ref(), rare.announced)?,
        };
        if self.masters.client.pool.is_closed() {
            return Err(LockError::Closed);
        }
        Ok(AcquireRequest {
            client: Arc::clone(&self.masters.client),
            options: LineOptions {
                names: self.queued_under(),
                kind: self.kind,
                needed: self.policy.checked(self.masters.len())?,
                lease,
                min_validity,
                fenced: self.fenced,
                fair: self.fair || self.kind.is_read_write(),
                hands_on: !caption.as_ref().is_some_and(|caption| caption.is_published),
                caption,
            },
            policy: self.policy,
            renew: self.lease.is_none(),
            max_hold,
            at_least: self.at_least,
            owner: self.owner.clone(),
            sticky: self.sticky && !config.beside_redisson,
            once: None,
            permits,
            is_member: false,
            set_completes_within: None,
            purpose: self.purpose,
            trace: AcquireTrace::new(self.label.clone(), self.policy),
        })
    }
}

/// Outcome of a call for one lock.
fn only(acquired: Result<Guards, MemberError<LockError>>) -> Result<HoldGuard, LockError> {
    acquired
        .map(|mut guards| guards.swap_remove(0))
        .map_err(|(_, error)| error)
}
