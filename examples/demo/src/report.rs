//! Reports of a worker to the witness: one line for each, and one line back.
//!
//! `verb TAB resource TAB word TAB detail`, answered by `go` or, when the demo is over, `stop`.

use std::fmt;

use anyhow::{Context, Result, bail};

/// Something that one worker at a time may work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Resource {
    Invoice(u8),
    Ledger,
}

pub(crate) const INVOICES: u8 = 3;
/// Resource that is worked on without its lock under `--break-lock`.
pub(crate) const UNLOCKED: Resource = Resource::Invoice(1);

impl Resource {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (1..=INVOICES).map(Self::Invoice).chain([Self::Ledger])
    }

    fn parse(text: &str) -> Result<Self> {
        let known = Self::all().find(|resource| resource.to_string() == text);
        known.with_context(|| format!("'{text}' is not a resource"))
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invoice(number) => write!(f, "invoice-{number}"),
            Self::Ledger => f.write_str("ledger"),
        }
    }
}

/// One line of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// It begins to wait for the lock.
    Want,
    /// It is about to work; it begins after the answer.
    Enter { locked: bool },
    /// It has worked and goes; whether its lock was still valid by then. The release follows the answer.
    Leave { valid: bool },
    /// It did not get the lock.
    Refused(Refusal),
    /// A release that did not go as it should.
    Trouble(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Somebody else has it.
    Contended,
    /// Too few masters answered: the masters that did not, and the reasons.
    Unreachable { missing: String, because: String },
    /// Anything else.
    Other(String),
}

impl Report {
    pub(crate) fn to_line(&self, resource: Resource) -> String {
        let (verb, word, detail) = match self {
            Self::Want => ("want", "", ""),
            Self::Enter { locked: true } => ("enter", "locked", ""),
            Self::Enter { locked: false } => ("enter", "unlocked", ""),
            Self::Leave { valid: true } => ("leave", "valid", ""),
            Self::Leave { valid: false } => ("leave", "lapsed", ""),
            Self::Refused(Refusal::Contended) => ("contended", "", ""),
            Self::Refused(Refusal::Unreachable { missing, because }) => {
                ("unreachable", missing.as_str(), because.as_str())
            }
            Self::Refused(Refusal::Other(detail)) => ("refused", "", detail.as_str()),
            Self::Trouble(detail) => ("trouble", "", detail.as_str()),
        };
        // An error of several lines must not become several reports.
        let detail = detail.replace(['\n', '\t'], " ");
        format!("{verb}\t{resource}\t{word}\t{detail}\n")
    }

    pub(crate) fn parse(line: &str) -> Result<(Resource, Self)> {
        let parts: Vec<_> = line.split('\t').collect();
        let [verb, resource, word, detail] = parts[..] else {
            bail!("'{line}' is not a report");
        };
        let report = match (verb, word) {
            ("want", "") => Self::Want,
            ("enter", "locked") => Self::Enter { locked: true },
            ("enter", "unlocked") => Self::Enter { locked: false },
            ("leave", "valid") => Self::Leave { valid: true },
            ("leave", "lapsed") => Self::Leave { valid: false },
            ("contended", "") => Self::Refused(Refusal::Contended),
            ("unreachable", missing) => Self::Refused(Refusal::Unreachable {
                missing: missing.to_owned(),
                because: detail.to_owned(),
            }),
            ("refused", "") => Self::Refused(Refusal::Other(detail.to_owned())),
            ("trouble", "") => Self::Trouble(detail.to_owned()),
            _ => bail!("'{line}' is not a report"),
        };
        Ok((Resource::parse(resource)?, report))
    }
}
