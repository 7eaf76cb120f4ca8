//! A place in the line of this process, and what is given there.

use std::sync::Arc;

use crate::hold::client::Client;
use crate::hold::entry::Entry;
use crate::hold::tenure::Hold;
use crate::queue::{Given, Standing, Turn};

/// Somebody in the line behind others. Dropped, it leaves the line; what it was given meanwhile goes on to the next,
/// or is released.
pub(super) struct LinePlace<'a> {
    pub(super) client: &'a Arc<Client>,
    pub(super) standing: Standing<Hold>,
    /// Whether it wants a hold renewed.
    pub(super) renew: bool,
}

/// What one that stood in line has got.
pub(super) enum Got {
    /// It is the one to ask the masters.
    Turn(Turn<Hold>),
    /// It may ask beside others that want the same.
    Open,
    /// A hold that the one ahead has left; none if that has gone on meanwhile.
    Entry(Option<Entry>),
}

impl LinePlace<'_> {
    /// Waits for the turn, or for what is better.
    ///
    /// # Cancel safety
    ///
    /// It may be called again.
    pub(super) async fn wait(&mut self) -> Got {
        let given = self.standing.given().await;
        self.got(given)
    }

    fn got(&self, given: Given<Hold>) -> Got {
        match given {
            Given::Turn(turn) => Got::Turn(turn),
            Given::Open => Got::Open,
            Given::Passed(hold) => Got::Entry(Entry::passed(self.client, hold, self.renew)),
        }
    }
}

impl Drop for LinePlace<'_> {
    fn drop(&mut self) {
        drop(self.standing.leave().map(|given| self.got(given)));
    }
}
