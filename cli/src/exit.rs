//! Exit codes of the command, after those of `flock`, `timeout`, `env` and `sysexits.h`.

use std::fmt;
use std::io;

use multilock::{ConnectError, InvalidInput, LockError, Masters, Policy};
use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, setrlimit};
use signal_hook::low_level::emulate_default_handler;

use crate::connect::are_unfit;
use crate::sources::source;
use crate::translation::{option, translated};

/// The answer is no: the name is free, or was not taken away.
pub(crate) const FREE: u8 = 1;
/// There are findings that `--strict` does not accept.
pub(crate) const FOUND: u8 = 1;
/// Wrong arguments or variables.
pub(crate) const USAGE: u8 = 64;
/// Too few masters have a vote.
pub(crate) const NO_QUORUM: u8 = 69;
/// The lock is held by another, also at the end of a wait.
pub(crate) const HELD: u8 = 75;
/// Masters or a password file are unusable until a configuration is changed, on their side or here.
pub(crate) const UNFIT: u8 = 78;
/// The hold was lost or ended while the child ran.
pub(crate) const LOST: u8 = 124;
/// The command itself failed.
pub(crate) const OWN: u8 = 125;
/// The child's program was found and cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The child's program was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// End of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Code(u8),
    /// End by a signal, so that a shell around the command ends, too.
    Signal(Signal),
}

/// Shows the end of a program.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "its exit code was {code}"),
            Self::Signal(signal) => write!(f, "signal {} ended it", signal.as_raw()),
        }
    }
}

impl End {
    /// Ends this process, without any drop.
    pub(crate) fn exit(self) -> ! {
        let code = match self {
            Self::Code(code) => i32::from(code),
            Self::Signal(signal) => {
                // The kernel protects process 1 of a container from its own signals.
                if getpid() != Pid::INIT {
                    // The program itself has left a core if one was wanted.
                    let none = Rlimit {
                        current: Some(0),
                        maximum: Some(0),
                    };
                    let _ = setrlimit(Resource::Core, none);
                    let _ = emulate_default_handler(signal.as_raw());
                }
                128 + signal.as_raw()
            }
        };
        std::process::exit(code)
    }
}

/// Reason why the command ends without having done its work.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self {
            code,
            message: message.to_string(),
        }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn own(message: impl fmt::Display) -> Self {
        Self::new(OWN, message)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::own(error)
    }
}

impl From<InvalidInput> for Failure {
    fn from(mut error: InvalidInput) -> Self {
        error.allowed = translated(&error.allowed);
        if error.field == "policy" {
            // Other values are texts of the user.
            error.value = translated(&error.value);
        }
        let text = error.to_string();
        let rest = text.strip_prefix(error.field).unwrap_or(&text);
        let source = source(error.field).unwrap_or_else(|| option(error.field));
        Self::usage(format_args!("{source}{rest}"))
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let code = match error {
            ConnectError::Invalid(invalid) => return invalid.into(),
            ConnectError::Unfit { .. } => UNFIT,
            ConnectError::TooFew { .. } => NO_QUORUM,
            _ => OWN,
        };
        Self::new(code, translated(error))
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Invalid(invalid) => invalid.into(),
            error => Self::new(code(&error), translated(error)),
        }
    }
}

/// A look at the masters, or a change, that too few masters answered. Such requests grant nothing.
pub(crate) fn unanswered(error: LockError, masters: &Masters, policy: Policy) -> Failure {
    let mut failure = Failure::from(error);
    if failure.code == NO_QUORUM {
        failure.code = code_of_too_few(masters, policy);
    }
    failure.message = failure.message.replace(": granted", ": answered");
    failure
}

/// Exit code for too few answers, which shows whether a wait may help, or a configuration has to be changed.
pub(crate) fn code_of_too_few(masters: &Masters, policy: Policy) -> u8 {
    if are_unfit(masters, policy) {
        UNFIT
    } else {
        NO_QUORUM
    }
}

fn code(error: &LockError) -> u8 {
    match error {
        LockError::Invalid(_) => USAGE,
        LockError::Contended { .. } => HELD,
        LockError::Unreachable { .. } | LockError::Unfenced { .. } | LockError::TooLate { .. } => NO_QUORUM,
        LockError::Misconfigured { .. } => UNFIT,
        // A wait that ended because masters were missing has their code.
        LockError::TimedOut { last, .. } => last.as_deref().map_or(HELD, code),
        _ => OWN,
    }
}
