//! Where an error sends its reader.

use std::fmt;

/// The FAQ, as docs.rs shows it.
const PAGE: &str = "https://docs.rs/multilock/latest/multilock/guide/faq/index.html";

/// The entry of the FAQ with this heading, as a message names it: by its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faq(pub(crate) &'static str);

impl fmt::Display for Faq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As rustdoc makes the anchor of a heading.
        write!(f, "see {PAGE}#{}", self.0.replace(' ', "-"))
    }
}
