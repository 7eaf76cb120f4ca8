//! Recall of a grant: a waiter of another client wants its names.

use std::num::NonZeroU64;
use std::sync::{Arc, Weak};

use crate::hold::client::ClientCore;
use crate::hold::grant::Grant;
use crate::node::recalls::Recallable;

/// A grant that masters may recall, for as long as its client keeps it.
#[derive(Debug)]
struct RecallableGrant {
    client: Weak<ClientCore>,
    grant: Weak<Grant>,
}

/// Leads recalls of the grant's field to the grant.
pub(crate) fn watch(client: &Arc<ClientCore>, grant: &Arc<Grant>) {
    grant.recalled_by(Arc::new(RecallableGrant {
        client: Arc::downgrade(client),
        grant: Arc::downgrade(grant),
    }));
}

/// Takes in that a waiter with this ticket wants the names of a grant. An idle grant is released.
pub(crate) fn recalled(client: &ClientCore, grant: &Arc<Grant>, ticket: NonZeroU64) {
    if grant.wanted_by(ticket) {
        client.idle.recalled(grant);
    }
}

impl Recallable for RecallableGrant {
    fn recalled(&self, ticket: NonZeroU64) {
        if let (Some(client), Some(grant)) = (self.client.upgrade(), self.grant.upgrade()) {
            recalled(&client, &grant, ticket);
        }
    }

    fn tried(&self) {
        if let (Some(client), Some(grant)) = (self.client.upgrade(), self.grant.upgrade()) {
            client.idle.recalled(&grant);
        }
    }

    /// An idle grant would be taken for a new hold, although its names were forced from it. A hold learns of the force
    /// at its next renewal.
    fn forced(&self) {
        if let (Some(client), Some(grant)) = (self.client.upgrade(), self.grant.upgrade()) {
            client.idle.release(&grant);
        }
    }
}
