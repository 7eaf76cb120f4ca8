//! Effects of the network and the process scheduler on a master.

use std::time::Duration;

/// Current effects.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conditions {
    pub(super) frozen: bool,
    pub(super) requests_held: bool,
    pub(super) replies_held: bool,
    pub(super) request_delay: Duration,
    pub(super) reply_delay: Duration,
    /// Delay of messages on channels, if it differs from that of replies.
    pub(super) notice_delay: Option<Duration>,
}

impl Conditions {
    pub(super) fn requests_pass(self) -> bool {
        !self.frozen && !self.requests_held
    }

    pub(super) fn replies_pass(self) -> bool {
        !self.frozen && !self.replies_held
    }

    pub(super) fn notice_delay(self) -> Duration {
        self.notice_delay.unwrap_or(self.reply_delay)
    }
}
