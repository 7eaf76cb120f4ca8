//! Operators' tools: they show the state of the masters, and take locks away.

pub(crate) mod capabilities;
pub(crate) mod examination;
pub(crate) mod examine;
pub(crate) mod force;
pub(crate) mod inspect;
pub(crate) mod scan;
