//! The files, and the few parts of their neighbours that they need.

use std::sync::Arc;

#[path = "../../../src/node/inbox.rs"]
pub(crate) mod inbox;
pub(crate) mod redis;
pub(crate) mod sync;

/// The source of recalls; the models recall the grant themselves.
pub(crate) mod recalls {
    use std::num::NonZeroU64;
    use std::sync::Weak;

    pub(crate) trait Recallable: Send + Sync {
        fn recalled(&self, ticket: Option<NonZeroU64>) -> bool;

        fn missed_recalls(&self) -> bool;
    }

    pub(crate) struct KnownField;

    impl KnownField {
        #[allow(clippy::unused_self, reason = "as the crate's own")]
        pub(crate) fn granted(&self, _: Weak<dyn Recallable>) -> Option<NonZeroU64> {
            None
        }
    }
}

/// State of a waiter; a line needs its number alone.
pub(crate) mod waiter_state {
    pub(crate) struct WaiterState {
        pub(crate) number: u64,
    }

    impl WaiterState {
        /// Time is no part of a model.
        #[allow(clippy::unused_self, reason = "as the crate's own")]
        pub(crate) fn woken(&self) {}
    }
}

pub(crate) use inbox::{Answer, Inbox, Late, ReplyTo};

pub(crate) type Listener = Arc<dyn Fn(ChannelForm, &str, &str) + Send + Sync>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum ChannelForm {
    Exact,
    Pattern,
}
