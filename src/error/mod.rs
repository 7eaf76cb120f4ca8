//! Errors: one enum per operation, each with the answers of the masters.

mod connect;
mod faq;
mod hold;
mod lock;
mod questions;
mod run;
#[cfg(test)]
mod tests;
mod voteless;

use std::fmt;
use std::time::Duration;

use self::faq::Faq;

pub use self::connect::{ConnectError, NodeError, Unfit};
pub use self::hold::{ExtendError, Loss, LossCause, Lost, UnlockError};
pub use self::lock::LockError;
pub(crate) use self::questions::answers_as_its_refusal;
pub use self::run::{OnceError, RunError};

/// A value that cannot be used, found before any master was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value} is not allowed; allowed: {allowed}{}", faq_entry(.field))]
#[non_exhaustive]
pub struct InvalidInput {
    /// Option or variable with the value.
    pub field: &'static str,
    /// Value as given, without credentials.
    pub value: String,
    /// Values that are accepted.
    pub allowed: String,
}

/// Link to the FAQ about an option, if there is an entry.
fn faq_entry(field: &str) -> String {
    match field {
        "nodes" | "node" | "MULTILOCK_NODES" | "MULTILOCK_NODES_FILE" => format!(" ({})", Faq("nodes")),
        _ => String::new(),
    }
}

impl InvalidInput {
    pub(crate) fn new(field: &'static str, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self {
            field,
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }

    /// Refusal of a time, which is shown exactly, so that it is found where it was set.
    pub(crate) fn time(field: &'static str, time: Duration, allowed: impl Into<String>) -> Self {
        Self::new(field, humantime::format_duration(time), allowed)
    }

    /// Refuses a text for people that is empty, longer than `most` bytes, or has control characters. `what` names the
    /// text.
    pub(crate) fn unless_shown(field: &'static str, what: &str, text: &str, most: usize) -> Result<(), Self> {
        let of = "bytes without control characters";
        Self::unless_fits(field, what, text, most, char::is_control, of)
    }

    /// Refuses a text that is empty, longer than `most` bytes, or has an `unfit` character. `what` names the
    /// text, and `of` the parts that it may have.
    pub(crate) fn unless_fits(
        field: &'static str,
        what: &str,
        text: &str,
        most: usize,
        unfit: impl Fn(char) -> bool,
        of: &str,
    ) -> Result<(), Self> {
        if fits(text, most, unfit) {
            return Ok(());
        }
        Err(Self::unfit_text(field, what, text, most, of))
    }

    /// Refusal of a text, as from [`unless_fits`](Self::unless_fits).
    pub(crate) fn unfit_text(field: &'static str, what: &str, text: &str, most: usize, of: &str) -> Self {
        let value = if text.len() > most {
            format!("{what} of {} bytes", text.len())
        } else {
            format!("{text:?}")
        };
        Self::new(field, value, format!("1 to {most} {of}"))
    }
}

/// Whether a text is fit for people: of 1 to `most` bytes, without control characters.
pub(crate) fn is_shown(text: &str, most: usize) -> bool {
    fits(text, most, char::is_control)
}

fn fits(text: &str, most: usize, unfit: impl Fn(char) -> bool) -> bool {
    (1..=most).contains(&text.len()) && !text.contains(unfit)
}
