//! Releases by clients of other libraries, for one waiter, which listens once it has met the first such client.

use std::sync::Arc;

use crate::interop::subscription::Subscription;
use crate::node::ChannelForm;
use crate::node::messages::MessageCounts;
use crate::protocol::kind::HoldKind;
use crate::round::pool::Pool;
use crate::values::names::Names;

/// Announcements of releases by clients of other libraries, for one waiter; none before it listens.
#[derive(Default)]
pub(crate) struct ForeignReleases {
    subscription: Option<Subscription>,
    /// Counts of announcements before the last attempt was sent.
    before: Option<MessageCounts>,
}

impl ForeignReleases {
    /// Notes that an attempt is about to be sent: notices count from here on.
    pub(crate) fn before_asking(&mut self) {
        self.before = self.subscription.as_ref().map(|it| it.messages.by_now());
    }

    pub(crate) fn listens(&self) -> bool {
        self.subscription.is_some()
    }

    /// Listens from now on to releases of these names.
    pub(crate) async fn listen(&mut self, pool: &Arc<Pool>, names: &Names, kind: HoldKind) {
        let channels = names.iter().flat_map(|name| {
            let channel = (ChannelForm::Exact, kind.channel(name).text());
            let fair = kind.fair_channels(name);
            [channel]
                .into_iter()
                .chain(fair.map(|pattern| (ChannelForm::Pattern, pattern)))
        });
        self.subscription = Some(Subscription::begin(pool, channels).await);
    }

    /// Resolves when a client of another library has announced a release on a master that `counts` accepts. Messages that
    /// came during the attempt count, except from masters that are `rolled_back`: these may have announced the rollback of
    /// the waiter's attempt before the last.
    pub(crate) async fn released(&self, rolled_back: impl Fn(usize) -> bool, counts: impl Fn(usize) -> bool) {
        let Some(subscription) = &self.subscription else {
            return std::future::pending().await;
        };
        let now = subscription.messages.by_now();
        let before = self.before.as_ref().unwrap_or(&now).clone();
        let since = before.or(&now, rolled_back);
        subscription.messages.news_since(&since, counts).await;
    }
}
