//! The arguments of the command, and the variables of its environment.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use multilock::{Policy, Quarantine};
use rustix::process::Signal;

use crate::exit::Failure;
use crate::names::{self, Names};
use crate::say::Voice;
use crate::sources::Sources;
use crate::values::{
    HostName, address, duration, factor, host_name, interval, no_program, policy, quarantine, signal, switch,
};

/// Runs programs under distributed locks over N independent Redis masters, and looks after these locks.
#[derive(Debug, Parser)]
#[command(name = "multilock", version, propagate_version = true, max_term_width = 110)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) masters: MastersArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(RunArgs),
    Hold(HoldArgs),
    WaitReady(WaitReadyArgs),
    List(ListArgs),
    Inspect(InspectArgs),
    Held(HeldArgs),
    Watch(WatchArgs),
    ForceRelease(ForceArgs),
    ForgetDone(ForgetArgs),
    Console(ConsoleArgs),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Args {
    /// As they were given to this process. Variables come later.
    pub(crate) fn of_process() -> Result<Self, clap::Error> {
        let matches = match without_variables(Self::command()).try_get_matches() {
            // The help names the variables.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                ) =>
            {
                Self::command().try_get_matches()
            }
            parsed => parsed,
        };
        Self::from_arg_matches(&matches.map_err(with_tips)?)
    }

    /// Takes the values of variables for options that were not given, and notes the sources for errors.
    pub(crate) fn take_variables(&mut self) -> Result<(), Failure> {
        let masters = &mut self.masters;
        let mut sources = Sources::default();
        masters.take_variables(&mut sources)?;
        if let Verb::Run(RunArgs { take, .. }) | Verb::Hold(HoldArgs { take, .. }) = &mut self.verb {
            sources.take("lease", &mut take.lease, duration)?;
            sources.take("max_hold", &mut take.max_hold, duration)?;
        } else {
            // The library reads them.
            sources.of_library("lease");
            sources.of_library("max_hold");
        }
        sources.note();
        Ok(())
    }
}

impl MastersArgs {
    fn take_variables(&mut self, sources: &mut Sources) -> Result<(), Failure> {
        let as_it_is = |text: &str| Ok(text.to_owned());
        sources.take("namespace", &mut self.namespace, as_it_is)?;
        sources.take("node_timeout", &mut self.node_timeout, duration)?;
        sources.take("connect_timeout", &mut self.connect_timeout, duration)?;
        sources.take("for_tests", &mut self.for_tests, duration)?;
        sources.take("drift_factor", &mut self.drift_factor, factor)?;
        sources.take("quarantine", &mut self.quarantine, quarantine)?;
        sources.take("allow_eviction", &mut self.allow_eviction, switch)?;
        sources.take("strict", &mut self.strict_memory, switch)?;
        sources.of_masters(self);
        Ok(())
    }
}

/// Has arguments ignore all variables. The parser would name the option in errors about them, and check variables of options
/// that are given.
fn without_variables(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let is_option_with_value = arg.get_action().takes_values() && !arg.is_positional();
        // So that a negative number is refused as the value of its option, and is not taken for the name of a lock.
        arg.allow_negative_numbers(is_option_with_value)
            .env(None::<&'static str>)
    });
    command.mut_subcommands(without_variables)
}

/// Adds tips of our own. The parser recommends a `--` before an argument with a hyphen, but the program of `run` comes there.
fn with_tips(mut error: clap::Error) -> clap::Error {
    let tip = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(argument))) => {
            let argument = argument.clone();
            let usage = error.get(ContextKind::Usage).map(ToString::to_string);
            let takes_names = usage.is_some_and(|usage| usage.contains("<NAME>"));
            let is_misspelt = error.get(ContextKind::SuggestedArg).is_some();
            error.remove(ContextKind::Suggested);
            (takes_names && !is_misspelt).then(|| names::tip(&argument))
        }
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => missing
            .iter()
            .any(|argument| argument.contains("<COMMAND>"))
            .then(|| String::from("the program and its arguments stand after --")),
        _ => None,
    };
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

impl Verb {
    pub(crate) fn voice(&self) -> Voice {
        match self {
            Self::Run(RunArgs { take, .. }) | Self::Hold(HoldArgs { take, .. }) if take.quiet => Voice::Quiet,
            Self::Run(RunArgs { take, .. }) | Self::Hold(HoldArgs { take, .. }) if take.verbose => {
                Voice::Verbose
            }
            _ => Voice::Normal,
        }
    }
}

/// Addresses and use of the masters. All clients of the same masters list the same ones.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Masters")]
pub(crate) struct MastersArgs {
    /// URLs of the masters, separated by commas. Every user of this host can read them: passwords belong in a file.
    /// Default: `MULTILOCK_NODES`, or the file that `MULTILOCK_NODES_FILE` names
    #[arg(long, global = true, value_name = "URL,…")]
    pub(crate) nodes: Option<String>,
    /// File with the URLs of the masters, separated by commas or lines. A # at the beginning of a line or behind a space
    /// begins a comment
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "nodes", value_hint = ValueHint::FilePath)]
    pub(crate) nodes_file: Option<PathBuf>,
    /// Prefix of every name
    #[arg(long, global = true, env = "MULTILOCK_NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Longest wait for one master in a round [default: 50ms]
    #[arg(long, global = true, env = "MULTILOCK_NODE_TIMEOUT", value_name = "DUR", value_parser = duration)]
    pub(crate) node_timeout: Option<Duration>,
    /// Longest attempt to connect to a master [default: 1s]
    #[arg(long, global = true, env = "MULTILOCK_CONNECT_TIMEOUT", value_name = "DUR", value_parser = duration)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Longest lease in place of 30s, for masters of tests; the same in every client
    #[arg(long, global = true, env = "MULTILOCK_FOR_TESTS", value_name = "DUR", value_parser = duration, hide_short_help = true)]
    pub(crate) for_tests: Option<Duration>,
    /// Part of a lease that is not trusted, because clocks differ in speed [default: 0.01]
    #[arg(
        long,
        global = true,
        env = "MULTILOCK_DRIFT_FACTOR",
        value_name = "PART",
        value_parser = factor,
        hide_short_help = true
    )]
    pub(crate) drift_factor: Option<f64>,
    /// Time without a vote after a master's start: auto, off or a duration [default: auto]
    #[arg(long, global = true, env = "MULTILOCK_QUARANTINE", value_name = "auto|off|DUR", value_parser = quarantine, hide_short_help = true)]
    pub(crate) quarantine: Option<Quarantine>,
    /// Accept masters that evict keys when their memory is full
    #[arg(
        long,
        global = true,
        env = "MULTILOCK_ALLOW_EVICTION",
        value_name = "true|false",
        value_parser = switch,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_short_help = true
    )]
    pub(crate) allow_eviction: Option<bool>,
    /// Check the master's record in every vote, to notice a wiped memory (FLUSHALL) at once
    #[arg(
        long,
        global = true,
        env = "MULTILOCK_STRICT",
        value_name = "true|false",
        value_parser = switch,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_short_help = true
    )]
    pub(crate) strict_memory: Option<bool>,
}

/// Run a program under a lock
///
/// Takes the lock, runs the program, and then releases the lock. The program has a process group of its own, and gets the
/// terminal when it needs it. If the lock is about to be lost, the group gets a signal first. At the end of the hold it is killed.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "multilock run [OPTIONS] <NAME>... -- <COMMAND>...",
    after_help = AFTER_RUN
)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) take: TakeArgs,
    /// Signal that ends the program
    #[arg(short, long, value_name = "SIG", default_value = "TERM", value_parser = signal)]
    pub(crate) signal: Signal,
    /// Time from the signal to KILL, which comes at the end of the hold. Half of the lease at most
    /// [default: a sixth of the lease, 5s at most]
    #[arg(short, long, value_name = "DUR", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,
    /// Leave the program in the process group of this command. Its children then outlive it
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Let /bin/sh interpret COMMAND, which must be one argument
    #[arg(short = 'c', long)]
    pub(crate) shell: bool,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandName)]
    pub(crate) command: Vec<OsString>,
}

/// Hold a lock until stdin closes
///
/// After the grant, prints a line on stdout with the id of the hold and its token. A signal also ends the hold. If the lock is
/// lost, the exit code is 124.
#[derive(Debug, clap::Args)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) take: TakeArgs,
    /// Words behind --, which would be names without this, are refused: somebody who knows `run` means a program
    #[arg(last = true, hide = true, value_name = "COMMAND", value_parser = no_program)]
    program: Vec<String>,
}

/// The lock that `run` and `hold` take.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct TakeArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Do not wait. If the lock is held by another, the exit code is 75
    #[arg(short = 'n', long = "nonblock", conflicts_with = "wait")]
    pub(crate) try_only: bool,
    /// Longest wait for the lock, such as 30s or 5 (seconds) [default: no limit]
    #[arg(short, long, value_name = "DUR", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// Exit code for a lock that is held by another
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::HELD)]
    pub(crate) conflict_exit_code: u8,
    /// Number of masters that must grant: red (a majority), multi (all) or a number
    #[arg(long, value_name = "red|multi|K", default_value = "red", value_parser = policy)]
    pub(crate) policy: Policy,
    /// Time until the lock ends without a renewal, 30s at most. It is renewed after each third of that
    /// [default: the longest]
    #[arg(long, env = "MULTILOCK_LEASE", value_name = "DUR", value_parser = duration)]
    pub(crate) lease: Option<Duration>,
    /// Longest time of renewals. After it, the lock lasts for the rest of its lease
    #[arg(long, env = "MULTILOCK_MAX_HOLD", value_name = "DUR", value_parser = duration)]
    pub(crate) max_hold: Option<Duration>,
    /// Time after the grant for which the names stay locked, even if the program ends earlier
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) at_least: Option<Duration>,
    /// Take one of K permits of the name in place of the lock. K programs run at once: 1 to 64, the same in every caller
    #[arg(long, value_name = "K", conflicts_with = "at_least", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) seats: Option<u32>,
    /// Take the read lock. Any number of programs with --shared run at once, and none without it
    #[arg(long, conflicts_with_all = ["at_least", "seats"])]
    pub(crate) shared: bool,
    /// Description of the work, 256 bytes at most. Others see it in `inspect` and in their refusals
    #[arg(long, value_name = "TEXT")]
    pub(crate) about: Option<String>,
    /// Take the lock only with more validity than this
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) min_validity: Option<Duration>,
    /// Print no messages
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print each step
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Exit with 125 if too few masters confirm the release
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) files: OutcomeFiles,
}

/// Files that `run` and `hold` leave.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct OutcomeFiles {
    /// File for a report of the outcome as JSON, at the end
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// File for metrics of the outcome, at the end, for the textfile collector of `node_exporter`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) textfile: Option<PathBuf>,
}

impl OutcomeFiles {
    /// Finds them among arguments of `run` or `hold` that cannot be parsed. Those behind `--` are the program's.
    pub(crate) fn of_refused(arguments: impl Iterator<Item = OsString>) -> Self {
        let mut words = arguments.take_while(|word| word != "--");
        let mut files = Self::default();
        let mut is_of_verb = false;
        while let Some(word) = words.next() {
            let (option, value) = match word.to_str().and_then(|word| word.split_once('=')) {
                Some((option, value)) => (OsStr::new(option), Some(value.into())),
                None => (&*word, None),
            };
            is_of_verb |= option == "run" || option == "hold";
            let file = match option.to_str() {
                Some("--report") => &mut files.report,
                Some("--textfile") => &mut files.textfile,
                _ => continue,
            };
            *file = value.or_else(|| words.next()).map(PathBuf::from);
        }
        if is_of_verb { files } else { Self::default() }
    }

    /// Whether both are one file, which keeps one of them only. A device or a pipe takes both.
    pub(crate) fn are_one(&self) -> bool {
        let is_file = |file: &Path| fs::symlink_metadata(file).map_or(true, |about| about.is_file());
        self.report == self.textfile && self.report.as_deref().is_some_and(is_file)
    }
}

/// Wait until a lock could be granted: enough masters are connected and fit, and their quarantine is over
///
/// For scripts that start a service, or restart one master after the other (--all). The exit code is 0. If the wait ends first,
/// it is 69, or 78 for too many unfit masters. The message has the problem of each master.
#[derive(Debug, clap::Args)]
pub(crate) struct WaitReadyArgs {
    /// Number of masters that must be ready: red (a majority), multi (all) or a number
    #[arg(long, value_name = "red|multi|K", default_value = "red", value_parser = policy)]
    pub(crate) policy: Policy,
    /// Wait until every master has its vote. A policy counts a few masters without a vote after a restart. No other master
    /// may be restarted meanwhile
    #[arg(long, conflicts_with = "policy")]
    pub(crate) all: bool,
    /// Longest wait, such as 90s or 5 (seconds) [default: no limit]
    #[arg(short, long, value_name = "DUR", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
}

/// Show every lock that is held or waited for
///
/// The masters search all their keys, about 400 at a time. The exit code is 0. Without the answers of a majority it is 69, or 78
/// for too many unfit masters.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only names that match this pattern of Redis: `invoice:*`
    #[arg(value_name = "PATTERN", default_value = "*")]
    pub(crate) pattern: String,
    /// Order of the locks: by their names, the oldest hold first, or the longest queue first
    #[arg(long, value_enum, value_name = "BY", default_value_t = Sort::Name)]
    pub(crate) sort: Sort,
    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Repeat it every second
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Order of the locks of `list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    Name,
    Age,
    Waiters,
}

/// Show the answer of every master about names
///
/// Prints the table however few masters answer. The exit code is 0, 69 for too few answers, or 78 for too many unfit masters.
#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Number of masters that must agree on a holder: red (a majority), multi (all) or a number
    #[arg(long, value_name = "red|multi|K", default_value = "red", value_parser = policy)]
    pub(crate) policy: Policy,
    /// Show the K seats of names with permits (`run --seats`)
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) seats: Option<u32>,
    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Repeat it every second
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Show by the exit code whether all names are held: 0 held, 1 a name is free, 69 too few masters answer
///
/// For too few answers, the table of `inspect` goes to stderr. Too many unfit masters make the exit code 78.
#[derive(Debug, clap::Args)]
pub(crate) struct HeldArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Check all K seats of names with permits (`run --seats`)
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) seats: Option<u32>,
}

/// Print a line of JSON for each name, and another line after each change
///
/// Looks every 500 ms (--every). A hold that begins and ends between two looks is not seen. While masters are out of reach, it
/// goes on. It ends when nobody reads its output.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Number of masters that must agree on a holder: red (a majority), multi (all) or a number
    #[arg(long, value_name = "red|multi|K", default_value = "red", value_parser = policy)]
    pub(crate) policy: Policy,
    /// Print the K seats of names with permits (`run --seats`)
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) seats: Option<u32>,
    /// Time between two looks
    #[arg(long, value_name = "DUR", default_value = "500ms", value_parser = interval)]
    pub(crate) every: Duration,
}

/// Take names away from their holders
///
/// A holder finds out at its next renewal, and may still work until then. If nothing was taken away, the exit code is 1.
#[derive(Debug, clap::Args)]
pub(crate) struct ForceArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Whole label of the only holder to lose the names, as `inspect` shows it
    #[arg(long, value_name = "LABEL")]
    pub(crate) if_holder: Option<String>,
    /// Id of the only hold to lose the names, from `inspect` or `MULTILOCK_HOLD`. A later hold of the same holder has another id
    #[arg(long, value_name = "ID")]
    pub(crate) if_hold: Option<String>,
    /// Reason, 256 bytes at most. The masters store it for a day, with the time and the label of this client. The holder
    /// gets it, and `inspect` shows it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Do it without a confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Forget that a job is done, so that it is done again
///
/// For jobs of `MultiLock::once`. Every master must answer, because a mark on a single master counts.
#[derive(Debug, clap::Args)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Do it without a confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Show the masters and their locks on a web page
///
/// The page reads the locks once a second at most, for any number of viewers, and never without a viewer. Without
/// --allow-force it changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct ConsoleArgs {
    /// Address of the page. An address that other hosts reach needs --token-file
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Host name of the page, besides localhost and addresses. Other names are refused. Behind a proxy, PORT is the
    /// proxy's, unless that is 80 or 443
    #[arg(long = "host", value_name = "NAME[:PORT]", value_parser = host_name)]
    pub(crate) hosts: Vec<HostName>,
    /// File with a token of 16 characters or more. Each viewer must enter it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Let viewers take locks away from their holders
    #[arg(long)]
    pub(crate) allow_force: bool,
}

/// Examine every master, and print each problem with its remedy
///
/// Changes nothing. The exit code is 0 without a problem, 78 if a master or the list of a client must be changed, and 69 for too few
/// masters with a vote. With --strict, a warning makes it 1.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// File for metrics of the masters and findings, for the textfile collector of `node_exporter`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prometheus: Option<PathBuf>,
    /// Exit with 1 if there is a warning
    #[arg(long)]
    pub(crate) strict: bool,
    /// Time for which a client may be missing on a master, before it is reported for another list
    #[arg(long = "for", value_name = "DUR", default_value = "5s", value_parser = duration)]
    pub(crate) watch_for: Duration,
}

/// Print a script of completions for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page of all, or of one command
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    #[arg(value_name = "COMMAND")]
    pub(crate) verb: Option<String>,
}

const AFTER_RUN: &str = "\
Exit codes:
  the program's own; 128+n if signal n ended it
  none if INT, QUIT, TERM or HUP ended it or the wait: this command ends by the same signal
   64  wrong usage
   69  too few masters have a vote, also at the end of the wait
   75  held by another, also at the end of the wait (-E)
   78  masters that are unfit or misconfigured, or a password file that cannot be read
  124  the lock was lost or came to its end while the program ran
  125  this command failed
  126  the program cannot be executed
  127  the program was not found

The program gets MULTILOCK_HELD=1, MULTILOCK_NAMES, MULTILOCK_HOLD, MULTILOCK_TOKEN, MULTILOCK_EXPIRES_AT, and with \
--seats MULTILOCK_SEAT, from 1 to K.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
