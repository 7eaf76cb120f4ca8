//! Recall of a grant: a waiter of another client wants its names.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::hold::client::ClientCore;
use crate::hold::grant::Grant;

/// Takes in the messages of masters for idle grants, for as long as the client exists.
pub(crate) fn start(client: &Arc<ClientCore>) {
    let weak = Arc::downgrade(client);
    client.pool.topics.recalls.on_idle(move |number, is_recalled| {
        let Some(client) = weak.upgrade() else { return };
        let Some(grant) = client.idle.with_field(number) else {
            return;
        };
        if is_recalled {
            client.idle.recalled(&grant);
        } else {
            // After a force the grant would be taken for a new hold, although it has lost names. A hold notices the
            // force at its next renewal.
            client.idle.release(&grant);
        }
    });
}

/// Takes in that a waiter with this ticket wants the names of a grant. An idle grant is released.
pub(crate) fn recalled(client: &ClientCore, grant: &Arc<Grant>, ticket: NonZeroU64) {
    if grant.note_waiter(ticket) {
        client.idle.recalled(grant);
    }
}
