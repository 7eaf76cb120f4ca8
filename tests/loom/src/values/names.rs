//! What the files need of names: there is one.

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Names;
