//! The names that the files need: there is one.

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Names;
