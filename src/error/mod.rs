//! Errors: one enum per operation, each with what every master answered.

mod connect;
mod faq;
mod hold;
mod lateness;
mod lock;
mod run;
#[cfg(test)]
mod tests;
mod voteless;

use std::fmt;

use self::faq::Faq;

pub use self::connect::{ConnectError, NodeError, Unfit};
pub use self::hold::{ExtendError, Loss, LossCause, Lost, UnlockError};
pub use self::lock::LockError;
pub use self::run::RunError;

/// A value that cannot be used, found before any master was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value} is not allowed; allowed: {allowed}{}", FaqEntry(.field))]
#[non_exhaustive]
pub struct InvalidInput {
    /// The option or variable that holds the value.
    pub field: &'static str,
    /// The value as it was given (credentials removed).
    pub value: String,
    /// What would be accepted.
    pub allowed: String,
}

/// Where the FAQ says more of an option.
struct FaqEntry<'a>(&'a str);

impl fmt::Display for FaqEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "nodes" | "node" | "MULTILOCK_NODES" | "MULTILOCK_NODES_FILE" => write!(f, " ({})", Faq("nodes")),
            _ => Ok(()),
        }
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
}
