//! Linearizability of recorded lock calls: a checker that knows neither leases nor validity.
//!
//! A history is a list of [`Call`]s of one name: each was invoked at a moment, and returned at a later one or never. A
//! call that never returned has an unknown outcome: it may take effect at any moment after its invocation, or not at all.
//! The history is linearizable if each call can be given one moment between its invocation and its return, so that
//! a sequential [`Model`] of the lock allows the calls in the order of these moments. A lease that ends is a call
//! of its own, [`Action::Expire`].
//!
//! The models are those of Hazelcast's Jepsen tests. The search is Wing and Gong's ("Testing and verifying concurrent objects", 1993) with
//! Lowe's memory of configurations ("Testing for linearizability", 2017). Names are judged one by one: a history is linearizable if the
//! history of each of its objects is (Herlihy and Wing, 1990).

mod log;
mod model;
mod search;

pub use log::{Figures, Judgement, Log, NonLinearizable};
pub use model::{Action, Model, State};
pub use search::{Call, MOST_CONFIGURATIONS, Search, search};
