//! A problem, and its remedy.

use std::fmt;

/// Severity of a problem; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Locks are not safe or not granted until a configuration is changed.
    Unfit,
    /// No lock is granted while the problem lasts.
    NoQuorum,
    /// Locks are granted, with fewer masters or promises than possible.
    Warning,
    /// No problem, but a gap in the facts or a cost.
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
    /// Kind of the finding, for programs.
    pub(super) code: &'static str,
    /// Master of the finding, if it is about one.
    pub(super) node: Option<String>,
    pub(super) seen: String,
    pub(super) remedy: String,
    /// Entry in the FAQ.
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

    pub(super) fn at(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    pub(super) fn faq(mut self, entry: &'static str) -> Self {
        self.faq = Some(entry);
        self
    }
}
