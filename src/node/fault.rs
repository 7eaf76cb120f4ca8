//! Why a call to a master gave no reply, and what that means for its vote.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::vote::Vote;

/// A call without a usable reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There was no connection to send it on.
    NotSent(Arc<str>),
    /// Nor will there be one until somebody changes a configuration.
    Unfit(Arc<str>),
    /// Answered, but by a master that has no vote for so long.
    Quarantined(Duration),
    /// Sent, but nobody can tell whether it was executed.
    Unknown(Arc<str>),
    /// The server answered with an error.
    Server { class: Class, error: Arc<str> },
}

/// What a server's error says about the call and about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Not executed; will pass by itself.
    Passing,
    /// Not executed; the server is not (any more) a master that takes writes.
    NotMaster,
    /// Not executed; the server has forgotten the script.
    NoScript,
    /// Not executed, and will not be until somebody changes the configuration.
    Denied,
    /// A key of ours was replaced by something else: this call fails until somebody removes that key.
    Spoilt,
    /// None of the errors that the protocol knows: it may have been executed in part.
    Unforeseen,
}

/// Error codes and what they say. Each of these is raised before a script's first write.
const CODES: [(&str, Class); 16] = [
    ("OOM", Class::Passing),
    ("MISCONF", Class::Passing),
    ("NOREPLICAS", Class::Passing),
    ("BUSY", Class::Passing),
    ("LOADING", Class::Passing),
    ("READONLY", Class::NotMaster),
    ("MASTERDOWN", Class::NotMaster),
    ("NOSCRIPT", Class::NoScript),
    ("NOAUTH", Class::Denied),
    ("WRONGPASS", Class::Denied),
    ("NOPERM", Class::Denied),
    ("MOVED", Class::Denied),
    ("ASK", Class::Denied),
    ("CROSSSLOT", Class::Denied),
    ("CLUSTERDOWN", Class::Denied),
    // Our scripts look at keys of other types through pcall; only a key of ours that was replaced by
    // something else can raise it, and before anything is written of its hold.
    ("WRONGTYPE", Class::Spoilt),
];

impl Fault {
    fn from_server(code: &str, detail: &str) -> Self {
        // Redis 6 reports an error raised inside a script as "ERR Error running script … -CODE …".
        let inner = detail
            .split([' ', ':'])
            .map(|word| word.trim_start_matches('-'))
            .find(|word| CODES.iter().any(|(known, _)| known == word));
        let code_inside = if code == "ERR" {
            inner.unwrap_or(code)
        } else {
            code
        };
        let class = CODES
            .iter()
            .find(|(known, _)| *known == code_inside)
            .map_or(Class::Unforeseen, |(_, class)| *class);
        Self::Server {
            class,
            error: format!("{code} {detail}").trim_end().into(),
        }
    }

    /// Refused, because others may hold for longer than the client had reckoned with.
    pub(crate) fn outdated(longest: Duration) -> Self {
        let longest = crate::rounded::Rounded(longest);
        Self::Server {
            class: Class::Passing,
            error: format!("leases of up to {longest} are agreed upon here, and it was asked with less")
                .into(),
        }
    }

    /// From a server's error line, such as `OOM command not allowed …`.
    #[cfg(feature = "test-util")]
    pub(crate) fn from_line(line: &str) -> Self {
        let (code, detail) = line.split_once(' ').unwrap_or((line, ""));
        Self::from_server(code, detail)
    }

    /// A reply that is itself a server's error is one.
    pub(crate) fn check(value: Value) -> Result<Value, Self> {
        match value {
            Value::ServerError(error) => Err(Self::from_server(
                error.code(),
                error.details().unwrap_or_default(),
            )),
            value => Ok(value),
        }
    }

    pub(crate) fn class(&self) -> Option<Class> {
        match self {
            Self::Server { class, .. } => Some(*class),
            Self::Unfit(_) => Some(Class::Denied),
            Self::NotSent(_) | Self::Quarantined(_) | Self::Unknown(_) => None,
        }
    }

    /// Whether a call for many holds may have failed because of one of them.
    pub(crate) fn may_concern_one(&self) -> bool {
        matches!(
            self,
            Self::Server {
                class: Class::Spoilt | Class::Denied | Class::Unforeseen,
                ..
            }
        )
    }

    /// How the fault counts in an acquire, extend or release.
    pub(crate) fn vote(&self) -> Vote {
        match self {
            Self::NotSent(reason) | Self::Unfit(reason) => Vote::NotSent {
                reason: Arc::clone(reason),
            },
            Self::Quarantined(remaining) => Vote::Quarantined {
                remaining: *remaining,
            },
            Self::Unknown(reason) => Vote::Unknown {
                reason: Arc::clone(reason),
            },
            Self::Server {
                class: Class::Unforeseen,
                error,
            } => Vote::Unknown {
                reason: Arc::clone(error),
            },
            Self::Server { error, .. } => Vote::Failed {
                error: Arc::clone(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(code: &str, detail: &str) -> Option<Class> {
        Fault::from_server(code, detail).class()
    }

    #[test]
    fn codes_are_read_on_redis_7_and_inside_redis_6_wrapping() {
        assert_eq!(class("OOM", "command not allowed"), Some(Class::Passing));
        let wrapped = "Error running script (call to f_ab): @user_script:9: -OOM command not allowed";
        assert_eq!(class("ERR", wrapped), Some(Class::Passing));
        assert_eq!(class("READONLY", "You can't write"), Some(Class::NotMaster));
        assert_eq!(class("NOPERM", "no permissions"), Some(Class::Denied));
        assert_eq!(class("WRONGTYPE", "Operation against a key"), Some(Class::Spoilt));
        assert_eq!(class("ERR", "something new"), Some(Class::Unforeseen));
    }

    #[test]
    fn only_what_surely_did_not_run_is_a_failed_vote() {
        let failed = Fault::from_server("BUSY", "Redis is busy").vote();
        assert!(matches!(failed, Vote::Failed { .. }) && !failed.may_have_granted());
        let unforeseen = Fault::from_server("ERR", "something new").vote();
        assert!(matches!(unforeseen, Vote::Unknown { .. }) && unforeseen.may_have_granted());
    }
}
