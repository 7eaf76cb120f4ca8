//! What a hold or an attempt has, or may have, on the masters.

use crate::protocol::field::Field;
use crate::protocol::kind::HoldKind;
use crate::values::names::Names;
use crate::values::token::FencingToken;

/// Names under an owner field: all that it takes to release them.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) names: Names,
    pub(crate) field: Field,
    pub(crate) kind: HoldKind,
    /// What its release leaves at the fences; none where no master that has the field can be without the token.
    pub(crate) fence: FencingToken,
}
