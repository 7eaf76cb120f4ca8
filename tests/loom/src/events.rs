//! The events that the files need: no model looks at them.

#[derive(Default)]
pub(crate) struct HoldTrace {}
