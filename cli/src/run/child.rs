//! The program that runs under the lock, and its process group.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use multilock::{Mode, MultiLockGuard};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, kill_process, kill_process_group, test_kill_process, test_kill_process_group,
};

use super::reaper::Reaper;
use super::supervisor::Supervisor;
use super::{processes, signals};
use crate::args::{MastersArgs, RunArgs};
use crate::exit::{self, Failure};
use crate::report::hold_id;
use crate::say::Voice;
use crate::terminal::Terminal;
use crate::writer;

/// Time before the kill at which jobs outside of the group are looked up. A machine with thousands of
/// processes takes that long to list them.
pub(super) const LOOKED_FOR: Duration = Duration::from_millis(50);

const SHELL: &str = "/bin/sh";

/// Target of signals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A process group and the jobs outside of it that run under the same hold.
    Group {
        /// The group's leader, which may have ended.
        leader: Pid,
        /// Hold in the environment of these jobs.
        hold: String,
    },
    /// One process, in any group.
    Process(Pid),
}

impl Target {
    /// Sends a signal to the group or the process, if it still exists.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = match *self {
            Self::Group { leader, .. } => kill_process_group(leader, signal),
            Self::Process(pid) => kill_process(pid, signal),
        };
    }

    /// Sends a signal that asks to end, which also reaches a stopped target.
    pub(super) fn ask_to_end(&self, signal: Signal) {
        self.signal(signal);
        self.signal(Signal::CONT);
    }

    /// Processes that run under the lock outside of the group: the jobs of a shell.
    pub(super) fn jobs(&self) -> Vec<Pid> {
        match self {
            Self::Group { leader, hold } => processes::jobs(*leader, hold),
            Self::Process(_) => Vec::new(),
        }
    }

    /// Asks the group and its jobs to end.
    pub(super) fn end(&self, signal: Signal) {
        for job in self.jobs() {
            Self::Process(job).ask_to_end(signal);
        }
        self.ask_to_end(signal);
    }

    /// Kills the group and its jobs, if these were found before.
    pub(super) fn kill(&self, jobs: Option<Vec<Pid>>) {
        let jobs = jobs.unwrap_or_else(|| self.jobs());
        self.signal(Signal::KILL);
        for job in jobs {
            Self::Process(job).signal(Signal::KILL);
        }
    }

    /// Whether any running process of it is left.
    pub(super) fn is_there(&self) -> bool {
        match *self {
            Self::Group { leader, ref hold } => processes::is_running(leader, hold)
                .unwrap_or_else(|| test_kill_process_group(leader) != Err(Errno::SRCH)),
            Self::Process(pid) => test_kill_process(pid) != Err(Errno::SRCH),
        }
    }
}

/// The running program.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) target: Target,
    pub(super) supervisor: Supervisor,
    pub(super) reaper: Reaper,
    pub(super) terminal: Option<Terminal>,
    /// Signal that asks the program to end.
    pub(super) end_signal: Signal,
}

impl Child {
    /// Starts the program. The process that ends it if this process cannot is started first.
    pub(super) fn start<M: Mode>(
        args: &RunArgs,
        masters: &MastersArgs,
        guard: &MultiLockGuard<M>,
        seat: Option<u32>,
        voice: Voice,
    ) -> Result<Self, Failure> {
        let reaper = Reaper::start()?;
        let mut supervisor = Supervisor::start(voice).map_err(|error| {
            Failure::own(format_args!("the supervising process cannot be started: {error}"))
        })?;
        let mut terminal = Terminal::of_process();
        let is_for_program = terminal.as_ref().is_some_and(Terminal::is_for_program);
        writer::settle();
        let hold = hold_id(&guard.holder());
        supervisor.expect(&hold, !args.foreground, args.signal, guard.validity());
        let spawn = |program| signals::unblocked(|| prepared(program, args, masters, guard, seat).spawn());
        let started = spawn(command(args)).or_else(|error| match script(args, &error) {
            Some(shell) => spawn(shell),
            None => Err(error),
        });
        let process = match started {
            Ok(process) => process,
            Err(error) => {
                supervisor.expect_no_more();
                return Err(not_started(args, &error));
            }
        };
        let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::own("the program has no process id"))?;
        let target = if args.foreground {
            Target::Process(pid)
        } else {
            Target::Group { leader: pid, hold }
        };
        if let (Target::Group { leader, .. }, Some(terminal), true) = (&target, &mut terminal, is_for_program)
        {
            terminal.lend(*leader);
        }
        supervisor.watch(&target, args.signal);
        Ok(Self {
            pid,
            target,
            supervisor,
            reaper,
            terminal,
            end_signal: args.signal,
        })
    }

    /// Passes on a signal that this process got.
    pub(super) fn pass_on(&self, signal: Signal) {
        match (&self.target, signal) {
            // The terminal has sent this signal to the program, too, if they are in the foreground.
            (Target::Process(_), Signal::INT | Signal::QUIT)
                if self.terminal.as_ref().is_some_and(Terminal::is_ours) => {}
            (target, Signal::USR1 | Signal::USR2 | Signal::TSTP | Signal::CONT) => target.signal(signal),
            (target, signal) => target.ask_to_end(signal),
        }
    }

    /// Lends the terminal to the program, if this process has it. Returns whether it is lent.
    pub(super) fn lend_terminal(&mut self) -> bool {
        match (&mut self.terminal, &self.target) {
            (Some(terminal), Target::Group { leader, .. }) if terminal.is_lent() || terminal.is_ours() => {
                terminal.lend(*leader);
                terminal.is_lent()
            }
            _ => false,
        }
    }

    pub(super) fn has_terminal(&self) -> bool {
        self.terminal.as_ref().is_some_and(Terminal::is_lent)
    }

    pub(super) fn take_terminal_back(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
        }
    }
}

fn command(args: &RunArgs) -> Command {
    if args.shell {
        let mut shell = Command::new(SHELL);
        // A script may begin with a hyphen.
        shell.args(["-c", "--"]).args(&args.command);
        shell
    } else {
        let mut command = Command::new(&args.command[0]);
        command.args(&args.command[1..]);
        command
    }
}

/// The shell with the program as its script, if the kernel does not know the program's format. `env` and `timeout` run a script
/// without `#!` likewise.
fn script(args: &RunArgs, error: &io::Error) -> Option<Command> {
    if args.shell || Errno::from_io_error(error) != Some(Errno::NOEXEC) {
        return None;
    }
    let mut shell = Command::new(SHELL);
    shell.arg(found(&args.command[0])?).args(&args.command[1..]);
    Some(shell)
}

/// File of a program, which is looked for in `PATH` if it has no slash.
fn found(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let is_executable = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(is_executable)
}

/// The command in a group of its own, with its variables.
fn prepared<M: Mode>(
    mut command: Command,
    args: &RunArgs,
    masters: &MastersArgs,
    guard: &MultiLockGuard<M>,
    seat: Option<u32>,
) -> Command {
    if !args.foreground {
        command.process_group(0);
    }
    command
        .env("MULTILOCK_HELD", "1")
        .env("MULTILOCK_NAMES", args.take.names.to_string())
        .env(processes::HOLD, hold_id(&guard.holder()))
        .env("MULTILOCK_TOKEN", guard.fencing_token().to_string())
        .env("MULTILOCK_EXPIRES_AT", expires_at(guard.expires_at()));
    for (name, value) in masters.variables() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    match seat {
        Some(seat) => command.env("MULTILOCK_SEAT", seat.to_string()),
        // That of a program around this one.
        None => command.env_remove("MULTILOCK_SEAT"),
    };
    command
}

/// Time in the form of RFC 3339, never later than `at`.
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
