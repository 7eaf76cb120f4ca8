//! Reasons why a call to a master gave no reply, and the vote that each one means.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::protocol::command::Script;
use crate::protocol::permissions;
use crate::values::votes::Vote;

/// A call without a usable reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not sent: the client had no connection.
    NotSent(Arc<str>),
    /// Not sent: the client gets no connection until the configuration changes.
    Unfit(Arc<str>),
    /// Answered by a master in quarantine, which has no vote for this time.
    Quarantined { remaining: Duration },
    /// Sent, but the connection has ended: the client never learns whether the call was executed.
    Unknown(Arc<str>),
    /// Sent, but not answered within this time. The answer may still come; the last late answer took `took`.
    Late {
        within: Duration,
        took: Option<Duration>,
    },
    /// Sent by a caller that does not wait. The answer may still come.
    NotAwaited(Arc<str>),
    /// The server answered with an error of this class.
    Server(FaultClass, Arc<str>),
}

/// Meaning of a server's error for the call and for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultClass {
    /// Not executed; the cause passes by itself.
    Passing,
    /// Not executed; the server is not a master that takes writes, or no longer one.
    NotMaster,
    /// Not executed; the server no longer knows the connection's user. Another user may log in.
    LoggedOut,
    /// Not executed; the server does not have the script.
    NoScript,
    /// Not executed, until the configuration changes.
    Denied,
    /// A command inside the script is denied: the script may have been executed in part.
    DeniedInside,
    /// A key of this crate was replaced by something else: this call fails until the key is deleted.
    Spoilt,
    /// A fence holds no token: no client gets a token until the fence's key is deleted.
    SpoiltFence,
    /// Other clients take the name with tokens, and this call has none.
    OthersFence,
    /// Other clients share another number of permits under the name.
    OtherPermits,
    /// The protocol does not know this error: the script may have been executed in part.
    Unforeseen,
}

/// Error codes and their meaning. A server raises each of them before a script's first write.
const CODES: [(&str, FaultClass); 20] = [
    ("OOM", FaultClass::Passing),
    ("MISCONF", FaultClass::Passing),
    ("NOREPLICAS", FaultClass::Passing),
    ("BUSY", FaultClass::Passing),
    ("LOADING", FaultClass::Passing),
    ("READONLY", FaultClass::NotMaster),
    ("MASTERDOWN", FaultClass::NotMaster),
    ("NOSCRIPT", FaultClass::NoScript),
    ("NOAUTH", FaultClass::LoggedOut),
    ("WRONGPASS", FaultClass::LoggedOut),
    ("NOPERM", FaultClass::Denied),
    // Protected mode: the server lets nobody in from other machines.
    ("DENIED", FaultClass::Denied),
    ("MOVED", FaultClass::Denied),
    ("ASK", FaultClass::Denied),
    ("CROSSSLOT", FaultClass::Denied),
    ("CLUSTERDOWN", FaultClass::Denied),
    // The scripts look at keys of other types through pcall. So only a key of this crate that was replaced by
    // something else can raise this error, and before anything of its hold is written.
    ("WRONGTYPE", FaultClass::Spoilt),
    // Raised by the scripts for a fence that holds no token.
    ("FENCE", FaultClass::SpoiltFence),
    // Raised by the scripts for a call without a token if a name has a fence.
    ("FENCED", FaultClass::OthersFence),
    // Raised by the scripts for a permit of a name with another number of permits.
    ("PERMITS", FaultClass::OtherPermits),
];

/// Whether servers put this word in front of their errors. So it is no part of their input.
pub(crate) fn is_code(word: &str) -> bool {
    word == "ERR" || CODES.iter().any(|(known, _)| *known == word)
}

/// Beginning of the errors for a command that the script's user may not run: in Redis 7.0, and in later
/// versions.
const DENIED_INSIDE: [&str; 2] = ["The user executing the script can't", "ACL failure in script"];

/// Words of the error for a command that a server does not have, in small letters.
const UNKNOWN_COMMAND: [&str; 2] = ["unknown command", "unsupported command"];

/// Whether the server does not have the command: it is renamed there, or was never built in.
pub(crate) fn is_unknown_command(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    UNKNOWN_COMMAND.iter().any(|words| error.contains(words))
}

/// Words of every error that denies a command, by one of which it differs from the error that denies a key.
const COMMAND_DENIED: [&str; 2] = ["to run the", "can't run"];

impl Fault {
    pub(crate) fn from_server(code: &str, detail: &str) -> Self {
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
        let known = CODES.iter().find(|(known, _)| *known == code_inside);
        let class = match known.map(|(_, class)| *class) {
            Some(FaultClass::Denied) if code_inside != code => FaultClass::DeniedInside,
            None if DENIED_INSIDE.iter().any(|words| detail.starts_with(words)) => FaultClass::DeniedInside,
            class => class.unwrap_or(FaultClass::Unforeseen),
        };
        Self::Server(class, format!("{code} {detail}").trim_end().into())
    }

    /// Turns a reply that is a server's error into a fault.
    pub(crate) fn check(value: Value) -> Result<Value, Self> {
        match value {
            Value::ServerError(error) => Err(Self::from_server(
                error.code(),
                error.details().unwrap_or_default(),
            )),
            value => Ok(value),
        }
    }

    /// Whether the same call fails there until the configuration changes or a key is deleted.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self.class(),
            Some(
                FaultClass::Denied
                    | FaultClass::DeniedInside
                    | FaultClass::SpoiltFence
                    | FaultClass::OthersFence
                    | FaultClass::OtherPermits
            )
        )
    }

    /// Whether any other name would have met the same error: one that passes by itself, or that denies a vote a command.
    /// A denied key tells nothing about other names, and a list of names needs commands that no vote needs.
    pub(crate) fn meets_any_name(&self, is_vote: bool) -> bool {
        match self {
            Self::Server(FaultClass::Passing, _) => true,
            Self::Server(FaultClass::Denied | FaultClass::DeniedInside, error) => {
                is_vote && COMMAND_DENIED.iter().any(|words| error.contains(words))
            }
            _ => false,
        }
    }

    /// Adds the commands of the script's line that is denied, if the server names only the line.
    pub(crate) fn inside(self, script: &Script) -> Self {
        let Self::Server(class @ FaultClass::DeniedInside, error) = self else {
            return self;
        };
        let line = error
            .split("@user_script:")
            .nth(1)
            .unwrap_or_default()
            .trim_start();
        let line = line
            .split(|digit: char| !digit.is_ascii_digit())
            .next()
            .unwrap_or_default();
        let commands = line.parse().map(|line| permissions::in_line(script.source, line));
        let commands = commands.unwrap_or_default().join(" or ");
        let error = if commands.is_empty() {
            error
        } else {
            format!("{error} ({commands} in {script:?})").into()
        };
        Self::Server(class, error)
    }

    /// Whether the server does not have the script of the call.
    pub(crate) fn is_no_script<T>(answer: &Result<T, Self>) -> bool {
        matches!(answer, Err(Self::Server(FaultClass::NoScript, _)))
    }

    pub(crate) fn class(&self) -> Option<FaultClass> {
        match self {
            Self::Server(class, _) => Some(*class),
            Self::Unfit(_) => Some(FaultClass::Denied),
            Self::NotSent(_)
            | Self::Quarantined { .. }
            | Self::Unknown(_)
            | Self::Late { .. }
            | Self::NotAwaited(_) => None,
        }
    }

    /// Whether the connection may still bring the answer.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Self::Late { .. } | Self::NotAwaited(_))
    }

    /// Whether one hold may be the cause why a call for many holds failed.
    pub(crate) fn may_concern_one(&self) -> bool {
        matches!(
            self,
            Self::Server(
                FaultClass::Spoilt
                    | FaultClass::SpoiltFence
                    | FaultClass::Denied
                    | FaultClass::DeniedInside
                    | FaultClass::Unforeseen,
                _
            )
        )
    }

    /// Vote that the fault means in an acquire, extend or release.
    pub(crate) fn vote(&self) -> Vote {
        match self {
            Self::NotSent(reason) | Self::Unfit(reason) => Vote::NotSent {
                reason: Arc::clone(reason),
            },
            Self::Quarantined { remaining } => Vote::Quarantined {
                remaining: *remaining,
            },
            Self::Late { within, took } => Vote::Late {
                within: *within,
                took: *took,
            },
            Self::Unknown(reason) | Self::NotAwaited(reason) => Vote::Unknown {
                reason: Arc::clone(reason),
            },
            Self::Server(FaultClass::Unforeseen | FaultClass::DeniedInside, error) => Vote::Unknown {
                reason: Arc::clone(error),
            },
            Self::Server(_, error) => Vote::Failed {
                error: Arc::clone(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(code: &str, detail: &str) -> Option<FaultClass> {
        Fault::from_server(code, detail).class()
    }

    #[test]
    fn codes_are_read_on_redis_7_and_inside_redis_6_wrapping() {
        assert_eq!(class("OOM", "command not allowed"), Some(FaultClass::Passing));
        let wrapped = "Error running script (call to f_ab): @user_script:9: -OOM command not allowed";
        assert_eq!(class("ERR", wrapped), Some(FaultClass::Passing));
        assert_eq!(class("READONLY", "You can't write"), Some(FaultClass::NotMaster));
        assert_eq!(class("NOPERM", "no permissions"), Some(FaultClass::Denied));
        assert_eq!(
            class("WRONGTYPE", "Operation against a key"),
            Some(FaultClass::Spoilt)
        );
        assert_eq!(class("ERR", "something new"), Some(FaultClass::Unforeseen));
    }

    /// The commands before the denied one have taken effect, so the vote is not certain.
    #[test]
    fn what_is_denied_inside_a_script_is_denied_and_may_have_been_done_in_part() {
        for detail in [
            "The user executing the script can't run this command or subcommand script: 66, on @user_script:3.",
            "The user executing the script can't access at least one of the keys mentioned",
            "ACL failure in script: User app has no permissions to run the 'pexpire' command",
            "Error running script (call to f_ab): @user_script:3: @user_script: 3: -NOPERM The user",
        ] {
            let fault = Fault::from_server("ERR", detail);
            assert_eq!(fault.class(), Some(FaultClass::DeniedInside), "{detail}");
            assert!(fault.is_final() && fault.vote().may_have_granted(), "{detail}");
        }
    }

    #[test]
    fn a_line_of_a_script_that_is_denied_is_named_by_its_commands() {
        let script = Script::new(
            crate::events::Op::Inspect,
            "list",
            "--\n--\ncall('hset', 1)",
            || "digest".into(),
        );
        let detailed = |detail| {
            Fault::from_server("ERR", detail)
                .inside(&script)
                .vote()
                .to_string()
        };
        let of_redis_7 =
            "The user executing the script can't run this command script: 66, on @user_script:3.";
        assert!(detailed(of_redis_7).ends_with("on @user_script:3. (hset in list)"));
        let of_redis_6 = "Error running script (call to f_ab): @user_script: 3: -NOPERM The user executing";
        assert!(detailed(of_redis_6).ends_with("(hset in list)"));
        let without = "ACL failure in script: User app has no permissions";
        assert!(detailed(without).ends_with("no permissions"));
    }

    #[test]
    fn only_what_surely_did_not_run_is_a_failed_vote() {
        let failed = Fault::from_server("BUSY", "Redis is busy").vote();
        assert!(matches!(failed, Vote::Failed { .. }) && !failed.may_have_granted());
        let unforeseen = Fault::from_server("ERR", "something new").vote();
        assert!(matches!(unforeseen, Vote::Unknown { .. }) && unforeseen.may_have_granted());
    }
}
