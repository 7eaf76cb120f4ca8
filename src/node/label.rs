//! What the client calls itself, told to one master for people who ask who holds. No vote depends on it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::keeper::Keeper;
use super::{Answer, By, Inbox, Link, Slot};
use crate::protocol::calls;
use crate::protocol::command::Request;

/// How often a master is told, as it may have forgotten.
const EVERY: Duration = Duration::from_secs(60);

/// For how long a master keeps the label: until the leases of a client have ended that told it last, and that missed it
/// a few times before.
pub(crate) fn kept(longest_lease: Duration) -> Duration {
    longest_lease.saturating_add(EVERY * 3)
}

impl Keeper {
    /// Tells the master on every connection, and now and then. Never resolves.
    pub(super) async fn keep_labelled(&self, link: &Arc<Link>) {
        let context = &self.context;
        let request = calls::label(context.client, &context.label, context.label_kept);
        loop {
            // Where it is denied, or there is no room, people see a part of the owner instead.
            let _ = say(link, &request).await;
            sleep(EVERY).await;
        }
    }
}

/// Has a master forget the label of a client that ends; waits for the answer so long at most.
pub(crate) async fn withdraw(slot: &Slot, client: Uuid, within: Duration) {
    let Ok(link) = slot.link() else { return };
    let _ = timeout(within, say(&link, &calls::unlabel(client))).await;
}

/// Nobody looks at the answer, so it must not be that the script is unknown.
fn say(link: &Link, request: &Request) -> impl Future<Output = Answer> {
    let (inbox, reply) = Inbox::single();
    link.call(request, By::Source, reply);
    inbox.answer()
}
