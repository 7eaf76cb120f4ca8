//! Recall of a grant: a waiter of another client wants its names.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::hold::client::ClientCore;
use crate::hold::grant::Grant;
use crate::protocol::field::FieldMessage;

/// Takes in the messages of masters for idle grants, for as long as the client exists.
pub(crate) fn start(client: &Arc<ClientCore>) {
    let weak = Arc::downgrade(client);
    client.pool.topics.recalls.on_idle(move |message| {
        let Some(client) = weak.upgrade() else { return };
        match message {
            FieldMessage::Recall { number, .. } | FieldMessage::Try { number } => {
                client.idle.recalled(number);
            }
            // It would be taken for a new hold, although its names were forced from it. A hold learns of the force at its
            // next renewal.
            FieldMessage::Forced { number } => client.idle.forced(number),
        }
    });
}

/// Takes in that a waiter with this ticket wants the names of a grant. An idle grant is released.
pub(crate) fn recalled(client: &ClientCore, grant: &Arc<Grant>, ticket: NonZeroU64) {
    if grant.note_waiter(ticket) {
        client.idle.recalled(grant.field.number);
    }
}
