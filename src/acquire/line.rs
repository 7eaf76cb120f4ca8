//! A place in the line of this process, and the turn or hold that is delivered there.

use std::sync::Arc;

use crate::hold::client::ClientCore;
use crate::hold::grant::Hold;
use crate::lock::hold_guard::HoldGuard;
use crate::queue::{Delivery, LinePosition};

/// A waiter in the line behind others. When it is dropped, it withdraws from the line. If it got a turn or a
/// hold meanwhile, that goes on to the next waiter, or is released.
pub(super) struct LinePlace<'a> {
    pub(super) client: &'a Arc<ClientCore>,
    pub(super) position: LinePosition<Hold>,
}

impl Drop for LinePlace<'_> {
    fn drop(&mut self) {
        pass_on(self.client, self.position.withdraw());
    }
}

/// Hands the turn or hold of a waiter on to the next one, or releases it.
pub(super) fn pass_on(client: &Arc<ClientCore>, delivery: Option<Delivery<Hold>>) {
    if let Some(Delivery::Hold(hold)) = delivery {
        drop(HoldGuard::handed_on(client, hold, false, None));
    }
}
