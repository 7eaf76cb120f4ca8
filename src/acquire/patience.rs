//! Reports of long waits in the log, for every kind of refusal: the names and their holder.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::acquire::in_the_way::in_the_way;
use crate::acquire::request::{AcquireRequest, Purpose};
use crate::error::LockError;
use crate::events::log;

/// Times after which a wait is logged. After the last mark, it is logged each time that [`LAST`] has passed.
const MARKS: [Duration; 4] = [
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    LAST,
];
const LAST: Duration = Duration::from_secs(15 * 60);

/// Progress of a wait.
pub(super) struct Patience {
    begun: Instant,
    /// Time after which the wait is logged next.
    next: Duration,
}

impl Patience {
    pub(super) fn of_a_wait_since(begun: Instant) -> Self {
        Self {
            begun,
            next: MARKS[0],
        }
    }

    /// Resolves when the wait is to be logged.
    pub(super) async fn over(&self) {
        sleep_until(self.begun + self.next).await;
    }

    /// Logs the wait if that is due, with the last error from the masters.
    pub(super) fn log_if_due(&mut self, request: &AcquireRequest, last_error: Option<&LockError>) {
        let waited = self.begun.elapsed();
        if waited < self.next {
            return;
        }
        while self.next <= waited {
            let later = MARKS.iter().find(|mark| **mark > self.next);
            self.next = later.copied().unwrap_or(self.next + LAST);
        }
        let (client, why) = (&request.client, in_the_way(request, last_error));
        if !why.is_contended() {
            // The same holds for all waiters for these masters, so the log line is throttled.
            client.pool.log_throttle.still_waiting(&request.names, &why);
        } else if request.purpose == Purpose::Lead {
            log::waits_to_lead(&request.names, waited, &why);
        } else if client.schedule.is_held(&request.names) {
            log::waits_for_this_process(&request.names, waited, &why);
        } else {
            log::waits_long(&request.names, waited, &why);
        }
    }
}
