//! Names and owner field that a hold or an attempt has, or may have, on the masters.

use crate::protocol::field::Field;
use crate::protocol::kind::HoldKind;
use crate::values::names::Names;

/// Names under an owner field, with all that their release needs.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) names: Names,
    pub(crate) field: Field,
    pub(crate) kind: HoldKind,
    /// Whether the release is announced to clients of Redisson's.
    pub(crate) beside_redisson: bool,
}

impl Claim {
    /// Names whose queues its waiters are in.
    pub(crate) fn queued_under(&self) -> Names {
        if self.kind != HoldKind::Permit {
            return self.names.clone();
        }
        let names = self.names.iter();
        names.map(|name| self.kind.queued_under(name)).collect()
    }
}
