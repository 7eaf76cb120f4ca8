//! A place in the line of this process, and what is given there.

use std::sync::Arc;

use crate::hold::client::ClientCore;
use crate::hold::entry::HoldEntry;
use crate::hold::grant::Hold;
use crate::queue::{Given, LineTicket, Seat};

/// A waiter in the line behind others. Dropped, it leaves the line; what it was given meanwhile goes on to the next, or is
/// released.
pub(super) struct LinePlace<'a> {
    pub(super) client: &'a Arc<ClientCore>,
    pub(super) standing: LineTicket<Hold>,
    pub(super) seat: Arc<Seat<Hold>>,
    /// Whether it wants a hold renewed.
    pub(super) renew: bool,
}

/// What a waiter that stood in line has got.
pub(super) enum Got {
    /// It is the one to ask the masters.
    Turn,
    /// It may ask beside others that want the same.
    Open,
    /// A hold that the one ahead has left; none if that has gone on meanwhile.
    HoldEntry(Option<HoldEntry>),
    /// It came too late, and what it was given has gone on to the next.
    Nothing,
}

impl LinePlace<'_> {
    /// Waits for the turn, or for what is better.
    ///
    /// # Cancel safety
    ///
    /// It may be called again.
    pub(super) async fn wait(&mut self) -> Got {
        self.standing.given().await;
        match self.seat.take() {
            Some(given @ Given::Turn(_)) => {
                self.seat.put(given);
                Got::Turn
            }
            Some(Given::Open) => Got::Open,
            Some(Given::Passed(hold)) => Got::HoldEntry(HoldEntry::passed(self.client, hold, self.renew)),
            None => Got::Nothing,
        }
    }
}

impl Drop for LinePlace<'_> {
    fn drop(&mut self) {
        give_up(self.client, self.standing.leave());
    }
}

/// What a waiter was given goes on to the next, or is released.
pub(super) fn give_up(client: &Arc<ClientCore>, given: Option<Given<Hold>>) {
    if let Some(Given::Passed(hold)) = given {
        drop(HoldEntry::passed(client, hold, false));
    }
}
