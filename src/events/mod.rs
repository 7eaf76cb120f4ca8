//! Everything observable passes here. Events become tracing's events and spans, and, with the feature `metrics`,
//! metrics of the crate of that name.
//!
//! Other modules report an event by one call, with the feature and without it. Handles of metrics are made when a
//! client is connected and when a label is first used, so that taking a lock looks nothing up. Without the feature an
//! observer of metrics has no size, and without a subscriber a span is one look at a level.
//!
//! Neither names of locks nor owner fields are ever labels, and an owner field is in no span or event.

mod acquire;
mod hold;
mod kinds;
pub(crate) mod log;
#[cfg(feature = "metrics")]
mod meters;
mod node;
mod observer;
mod reach;
mod round;
mod throttle;
mod timed_span;
#[cfg(not(feature = "metrics"))]
mod unmetered;

pub(crate) use self::acquire::AcquireTrace;
pub(crate) use self::hold::HoldTrace;
#[cfg(feature = "test-util")]
pub(crate) use self::kinds::Word;
pub(crate) use self::kinds::{HoldEnd, Op, UnlockOutcome, VoteKind, WokenBy};
#[cfg(feature = "metrics")]
pub use self::meters::metrics_buckets;
#[cfg(feature = "metrics")]
pub(crate) use self::meters::{Events, Label, NodeMeters};
pub(crate) use self::node::NodeEvents;
pub(crate) use self::observer::{EventObserver, Survey};
pub(crate) use self::round::RoundTrace;
pub(crate) use self::throttle::{CredentialsThrottle, LogThrottle};
#[cfg(not(feature = "metrics"))]
pub(crate) use self::unmetered::{Unmetered as Events, Unmetered as Label, Unmetered as NodeMeters};

/// Target of all events and spans.
const TARGET: &str = "multilock";

/// Whether metrics are recorded.
pub(crate) const METERED: bool = cfg!(feature = "metrics");
