//! Operators' tools: what masters keep, and taking it away.

pub(crate) mod capabilities;
pub(crate) mod examination;
pub(crate) mod examine;
pub(crate) mod force;
pub(crate) mod inspect;
