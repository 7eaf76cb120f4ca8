//! The files, and what little of their neighbours they need.

use std::sync::Arc;

#[path = "../../../src/node/inbox.rs"]
pub(crate) mod inbox;
pub(crate) mod redis;
mod sync;

pub(crate) use inbox::{Answer, Inbox, Late, ReplyTo};

pub(crate) type Listener = Arc<dyn Fn(&str, &str) + Send + Sync>;
