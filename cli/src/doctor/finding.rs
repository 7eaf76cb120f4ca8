//! Something that is wrong, and what to do.

use std::fmt;

/// How much it matters; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Locks are not safe or not granted until somebody changes a configuration.
    Unfit,
    /// No lock is granted as long as that lasts.
    NoQuorum,
    /// Locks are granted, with fewer masters or promises than there could be.
    Warning,
    /// Not an ill, but what cannot be seen or has its cost.
    Note,
}

impl Severity {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Unfit | Self::NoQuorum => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// What kind it is, for programs.
    pub(super) code: &'static str,
    /// The master that it is about, if about one.
    pub(super) node: Option<String>,
    pub(super) seen: String,
    pub(super) remedy: String,
    /// Its entry in the FAQ.
    pub(super) faq: Option<&'static str>,
}

impl Finding {
    pub(super) fn of(
        severity: Severity,
        code: &'static str,
        seen: impl fmt::Display,
        remedy: impl fmt::Display,
    ) -> Self {
        Self {
            severity,
            code,
            node: None,
            seen: seen.to_string(),
            remedy: remedy.to_string(),
            faq: None,
        }
    }

    pub(super) fn unfit(code: &'static str, seen: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::of(Severity::Unfit, code, seen, remedy)
    }

    pub(super) fn warning(code: &'static str, seen: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::of(Severity::Warning, code, seen, remedy)
    }

    pub(super) fn note(code: &'static str, seen: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::of(Severity::Note, code, seen, remedy)
    }

    pub(super) fn at(self, node: &str) -> Self {
        Self {
            node: Some(node.to_owned()),
            ..self
        }
    }

    pub(super) fn faq(self, entry: &'static str) -> Self {
        Self {
            faq: Some(entry),
            ..self
        }
    }
}
