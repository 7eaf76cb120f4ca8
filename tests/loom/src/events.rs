//! The events that the files need: no model looks at them.

#[derive(Debug, Default)]
pub(crate) struct HoldTrace {}
