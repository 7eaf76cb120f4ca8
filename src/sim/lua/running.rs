//! State of a run, for the functions of its script.

use std::sync::Arc;

use crate::sim::store::Store;

/// Name that Redis gives every script; error lines show it.
pub(super) const CHUNK: &str = "@user_script";

/// The run in progress. It owns the store for its length: `redis.call` is created once for all runs, and
/// cannot borrow the store.
pub(super) struct Running {
    pub(super) store: Store,
    pub(super) now_ms: u64,
    pub(super) sha: Arc<str>,
}
