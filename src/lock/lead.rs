//! Candidacy for the lead: waits for a lock in spite of all errors that time may cure.

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::acquire::request::Purpose;
use crate::error::{InvalidInput, LockError};
use crate::lock::hold_guard::HoldGuard;
use crate::lock::options::LockOptions;
use crate::time::backoff::{LONGEST_SLOW_DELAY, slow_delays};

/// Candidate for the lead, one of many.
#[derive(Debug)]
pub(crate) struct Candidate {
    options: LockOptions,
}

impl Candidate {
    /// Makes a candidate from the options of a call site. The hold has to be renewed, so a lease is refused.
    pub(crate) fn new(options: &LockOptions) -> Result<Self, InvalidInput> {
        if let Some(lease) = options.lease {
            let allowed = "none with lead, whose hold is renewed: MastersBuilder::lease sets that lease, and max_hold the \
                           longest term";
            return Err(InvalidInput::new(
                "lease",
                humantime::format_duration(lease),
                allowed,
            ));
        }
        Ok(Self {
            options: LockOptions {
                purpose: Purpose::Lead,
                ..options.clone()
            },
        })
    }

    /// Waits for the next term. After an error that time may cure, it tries again, with growing pauses.
    ///
    /// If the future is dropped at any point, all that the masters may have granted is released in the
    /// background.
    pub(crate) async fn elected(&self) -> Result<HoldGuard, LockError> {
        let pool = &self.options.masters.client.pool;
        let mut delays = slow_delays(&pool.random);
        loop {
            let begun = Instant::now();
            let error = match self.options.lock().await {
                Ok(term) => {
                    term.hold().lasts_by_design();
                    return Ok(term);
                }
                Err(error) => error,
            };
            // Outside of a runtime waiting is impossible.
            if error.is_permanent() || Handle::try_current().is_err() {
                return Err(error);
            }
            if error.is_contended() {
                // The candidate has waited for its turn already, and should have its place again soon.
                delays = slow_delays(&pool.random);
            } else {
                pool.log_throttle.cannot_lead(&self.options.names, &error);
            }
            let pause = delays.next().unwrap_or(LONGEST_SLOW_DELAY);
            tokio::select! {
                biased;
                () = pool.closing.cancelled() => return Err(LockError::Closed),
                () = sleep(pause.saturating_sub(begun.elapsed())) => {}
            }
        }
    }
}
