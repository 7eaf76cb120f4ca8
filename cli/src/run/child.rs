//! The program that runs under the lock, and the process group that it is.

use std::io::{self, IsTerminal};
use std::process::ExitStatus;
use std::time::{Duration, SystemTime};

use multilock::MultiLockGuard;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group,
};
use tokio::process::Command;

use super::supervisor::Supervisor;
use crate::args::RunArgs;
use crate::exit::{self, Failure};

/// What signals are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A process group, by its leader.
    Group(Pid),
    /// One process, in whatever group it is.
    Process(Pid),
}

impl Target {
    /// Sends a signal. One that is gone has no use for it.
    pub(super) fn signal(self, signal: Signal) {
        let _ = match self {
            Self::Group(leader) => kill_process_group(leader, signal),
            Self::Process(pid) => kill_process(pid, signal),
        };
    }

    /// Asks to end, also where it is stopped.
    pub(super) fn ask_to_end(self, signal: Signal) {
        self.signal(signal);
        self.signal(Signal::CONT);
    }

    /// Whether any process is left of it.
    pub(super) fn is_there(self) -> bool {
        let found = match self {
            Self::Group(leader) => test_kill_process_group(leader),
            Self::Process(pid) => test_kill_process(pid),
        };
        found != Err(Errno::SRCH)
    }
}

/// The running program.
#[derive(Debug)]
pub(super) struct Child {
    process: tokio::process::Child,
    pub(super) target: Target,
    pub(super) supervisor: Supervisor,
    /// What asks it to end.
    pub(super) end_signal: Signal,
}

impl Child {
    /// Starts the program, and before it the process that ends it if this one cannot.
    pub(super) fn start(args: &RunArgs, guard: &MultiLockGuard) -> Result<Self, Failure> {
        let mut supervisor = Supervisor::start().map_err(|error| {
            Failure::own(format_args!("the supervising process cannot be started: {error}"))
        })?;
        let started = command(args, guard).spawn();
        let process = started.map_err(|error| not_started(args, &error))?;
        let pid = process.id().and_then(|id| i32::try_from(id).ok());
        let pid = pid
            .and_then(Pid::from_raw)
            .ok_or_else(|| Failure::own("the program has no process id"))?;
        let target = if args.foreground {
            Target::Process(pid)
        } else {
            Target::Group(pid)
        };
        supervisor.watch(target, args.signal);
        Ok(Self {
            process,
            target,
            supervisor,
            end_signal: args.signal,
        })
    }

    /// Hands on a signal that this process was sent.
    pub(super) fn pass_on(&self, signal: Signal) {
        match (self.target, signal) {
            // The terminal has sent it to the program, too.
            (Target::Process(_), Signal::INT | Signal::QUIT) if io::stdin().is_terminal() => {}
            (target, Signal::USR1 | Signal::USR2) => target.signal(signal),
            (target, signal) => target.ask_to_end(signal),
        }
    }

    pub(super) fn ask_to_end(&self) {
        self.target.ask_to_end(self.end_signal);
    }

    pub(super) fn kill(&self) {
        self.target.signal(Signal::KILL);
    }

    /// Waits for the end of the program itself.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }
}

fn command(args: &RunArgs, guard: &MultiLockGuard) -> Command {
    let mut command = if args.shell {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").args(&args.command);
        shell
    } else {
        let mut command = Command::new(&args.command[0]);
        command.args(&args.command[1..]);
        command
    };
    if !args.foreground {
        command.process_group(0);
    }
    command
        .env("MULTILOCK_HELD", "1")
        .env("MULTILOCK_NAMES", &args.names)
        .env("MULTILOCK_TOKEN", guard.fencing_token().to_string())
        .env("MULTILOCK_EXPIRES_AT", expires_at(guard.expires_at()));
    command
}

/// As RFC 3339 has it, never later than it is.
fn expires_at(at: SystemTime) -> String {
    let at = at.checked_sub(Duration::from_millis(1)).unwrap_or(at);
    humantime::format_rfc3339_millis(at).to_string()
}

fn not_started(args: &RunArgs, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::NotFound => exit::NOT_FOUND,
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => exit::OWN,
        _ => exit::NOT_EXECUTABLE,
    };
    Failure::new(code, format_args!("{}: {error}", args.command[0].display()))
}
