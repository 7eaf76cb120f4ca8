//! What the files need of values.

pub(crate) mod names;
#[path = "../../../src/values/token.rs"]
pub mod token;
pub(crate) mod votes;
