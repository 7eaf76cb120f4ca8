//! The files, and what little of their neighbours they need.

use std::sync::Arc;

#[path = "../../../src/node/answer.rs"]
pub(crate) mod answer;
#[path = "../../../src/node/pipe.rs"]
pub(crate) mod pipe;
#[path = "../../../src/node/resp.rs"]
mod resp;

// The pipe is no wider than this module.
#[path = "calls.rs"]
pub mod calls;

pub(crate) use answer::{Answer, Inbox, Late, ReplyTo};
use redis::Value;

pub(crate) type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// Those that the two give themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    NotSent(Arc<str>),
    Unknown(Arc<str>),
}

impl Fault {
    pub(crate) fn check(value: Value) -> Answer {
        Ok(value)
    }
}

mod stream {
    use tokio::io::{AsyncRead, AsyncWrite};

    pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

    impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}
}
