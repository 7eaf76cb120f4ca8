//! Label of the client, which is sent to one master and shows people the holder of a lock. No vote depends on
//! it. The answer shows whether the master lets scripts call waiters.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::keeper::Keeper;
use super::{Answer, By, Inbox, Link, Slot};
use crate::protocol::calls;
use crate::protocol::command::Request;
use crate::protocol::text::text;

/// Interval at which a master is sent the label again, because it may have forgotten it, or may deny `PUBLISH` by now.
const EVERY: Duration = Duration::from_secs(60);

impl Keeper {
    /// Sends the label on every connection, and again at intervals. Never resolves.
    pub(super) async fn keep_labelled(&self, link: &Arc<Link>) {
        // A client may miss a few intervals, and its last leases have to end before the label does.
        let time_to_live = self.lease_timing.longest_lease.saturating_add(EVERY * 3);
        let request = calls::label(self.client, Some((&self.label, time_to_live)));
        loop {
            // If the label is denied, or there is no memory for it, people see a part of the owner instead.
            if let Ok(answer) = say(link, &request).await {
                self.slot.events.publishes(text(&answer).as_deref());
            }
            sleep(EVERY).await;
        }
    }
}

/// Has a master delete the label of a client that ends; waits `within` for the answer at most.
pub(crate) async fn withdraw(slot: &Slot, client: Uuid, within: Duration) {
    let Ok(link) = slot.link() else { return };
    let _ = timeout(within, say(&link, &calls::label(client, None))).await;
}

/// Sends the script with its text: no caller reads the answer, so an unknown script would not be noticed.
fn say(link: &Link, request: &Request) -> impl Future<Output = Answer> {
    let (inbox, reply) = Inbox::single();
    link.call(request, By::Source, reply);
    inbox.answer()
}
