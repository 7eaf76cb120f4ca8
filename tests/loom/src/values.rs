//! The values that the files need.

pub(crate) mod names;
#[path = "../../../src/values/token.rs"]
pub mod token;
pub(crate) mod votes;
