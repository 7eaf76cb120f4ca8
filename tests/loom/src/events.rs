//! What the files need of events: nobody looks.

#[derive(Debug, Default)]
pub(crate) struct HoldTrace {}
