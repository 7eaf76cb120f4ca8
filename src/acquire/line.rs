//! A place in the line of this process, and what is given there.

use std::sync::Arc;

use crate::hold::client::ClientCore;
use crate::hold::grant::Hold;
use crate::lock::hold_guard::HoldGuard;
use crate::queue::{Given, LineTicket, Seat};

/// A waiter in the line behind others. Dropped, it leaves the line; what it was given meanwhile goes on to the next, or is
/// released.
pub(super) struct LinePlace<'a> {
    pub(super) client: &'a Arc<ClientCore>,
    pub(super) standing: LineTicket<Hold>,
    pub(super) seat: Arc<Seat<Hold>>,
}

impl LinePlace<'_> {
    /// Waits for the turn, or for a hold. `None` if what was given came too late, and has gone on to the next.
    ///
    /// # Cancel safety
    ///
    /// It may be called again.
    pub(super) async fn wait(&mut self) -> Option<Given<Hold>> {
        self.standing.given().await;
        self.seat.take()
    }
}

impl Drop for LinePlace<'_> {
    fn drop(&mut self) {
        give_up(self.client, self.standing.leave());
    }
}

/// Hands on to the next what a waiter was given, or releases it.
pub(super) fn give_up(client: &Arc<ClientCore>, given: Option<Given<Hold>>) {
    if let Some(Given::Passed(hold)) = given {
        drop(HoldGuard::passed(client, hold, false, None));
    }
}
