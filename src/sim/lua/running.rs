//! What the functions of a script find of the run they are called in.

use std::sync::Arc;

use crate::sim::store::Store;

/// The name Redis gives every script; it shows in error lines.
pub(super) const CHUNK: &str = "@user_script";

/// The run in progress. The store moves in for its length: `redis.call` is created once, for all
/// runs, and cannot borrow.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) store: Store,
    pub(super) now_ms: u64,
    pub(super) sha: Arc<str>,
}
