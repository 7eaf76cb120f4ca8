//! Time: clocks, validity of leases, timers, waits, and randomness.

pub(crate) mod alarms;
pub(crate) mod backoff;
pub(crate) mod blocking;
pub(crate) mod clock;
pub(crate) mod random;
pub(crate) mod rounded;
pub(crate) mod steps;
pub(crate) mod until;
pub(crate) mod validity;
