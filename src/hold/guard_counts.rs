//! Numbers of the guards in one hold.

/// Guards in a hold: all of them, and some kinds among them.
#[derive(Debug, Default)]
pub(super) struct GuardCounts {
    pub(super) all: u64,
    exclusive: u64,
    /// Leaked guards, which never exit.
    leaked: u64,
    /// Guards that want the hold renewed.
    renewing: u64,
}

impl GuardCounts {
    /// One exclusive guard, with or without renewal.
    pub(super) fn one(renew: bool) -> Self {
        Self {
            all: 1,
            exclusive: 1,
            leaked: 0,
            renewing: u64::from(renew),
        }
    }

    /// Adds a guard. Returns whether it is the first that wants the hold renewed.
    pub(super) fn enter(&mut self, renew: bool, is_shared: bool) -> bool {
        let first_to_renew = renew && self.renewing == 0;
        self.all += 1;
        self.exclusive += u64::from(!is_shared);
        self.renewing += u64::from(renew);
        first_to_renew
    }

    /// Removes a guard. [`remove_exclusive`](Self::remove_exclusive) counts the kind.
    pub(super) fn exit(&mut self, renew: bool) {
        self.all = self.all.saturating_sub(1);
        self.end_renewal(renew);
    }

    /// Makes an exclusive guard a shared one, or counts its exit. Returns whether the guards that are left only read.
    pub(super) fn remove_exclusive(&mut self) -> bool {
        self.exclusive = self.exclusive.saturating_sub(1);
        self.exclusive == 0 && self.all > 0
    }

    /// Counts a guard as leaked, which no longer wants a renewal.
    pub(super) fn leak(&mut self, renew: bool) {
        self.end_renewal(renew);
        self.leaked += 1;
    }

    /// Sets whether the only guard wants the hold renewed.
    pub(super) fn set_renewing(&mut self, renew: bool) {
        self.renewing = u64::from(renew);
    }

    pub(super) fn is_renewing(&self) -> bool {
        self.renewing > 0
    }

    /// Whether there are guards, and all of them were leaked.
    pub(super) fn are_leaked(&self) -> bool {
        self.leaked > 0 && self.leaked == self.all
    }

    fn end_renewal(&mut self, renew: bool) {
        self.renewing = self.renewing.saturating_sub(u64::from(renew));
    }
}
