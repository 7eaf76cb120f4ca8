//! Link from an error to the FAQ.

use std::fmt;

/// Address of the FAQ on docs.rs.
const PAGE: &str = "https://docs.rs/multilock/latest/multilock/guide/faq/index.html";

/// Entry of the FAQ with this heading. A message shows its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faq(pub(crate) &'static str);

impl fmt::Display for Faq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The anchor that rustdoc makes of a heading.
        write!(f, "see {PAGE}#{}", self.0.replace(' ', "-"))
    }
}
