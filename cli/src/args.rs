//! The arguments of the command, and the variables of its environment.

use std::env;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use multilock::{Policy, Quarantine};
use rustix::process::Signal;

use crate::names::{self, Names};
use crate::say::Voice;
use crate::values::{duration, policy, quarantine, signal, switch};

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
    /// As they were given to this process.
    pub(crate) fn of_process() -> Result<Self, clap::Error> {
        let command = without_empty_variables(Self::command());
        let matches = command.try_get_matches().map_err(with_tips)?;
        Self::from_arg_matches(&matches)
    }
}

/// Has arguments ignore variables that are empty: Compose and Helm pass those on.
fn without_empty_variables(command: Command) -> Command {
    let is_empty = |name: &OsStr| env::var_os(name).is_some_and(|value| value.is_empty());
    let command = command.mut_args(|arg| match arg.get_env() {
        Some(name) if is_empty(name) => arg.env(None::<&'static str>),
        _ => arg,
    });
    command.mut_subcommands(without_empty_variables)
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
            Self::Run(RunArgs { take, .. }) | Self::Hold(HoldArgs { take }) if take.quiet => Voice::Quiet,
            Self::Run(RunArgs { take, .. }) | Self::Hold(HoldArgs { take }) if take.verbose => Voice::Verbose,
            _ => Voice::Normal,
        }
    }
}

/// Where the masters are and how they are used. Every client of the same masters lists the same ones.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Masters")]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct MastersArgs {
    /// URLs of the masters, separated by commas. Everybody on this host can read them here: passwords belong in a file.
    /// Without it and --nodes-file: `MULTILOCK_NODES`, or the file that `MULTILOCK_NODES_FILE` names
    #[arg(long, global = true, value_name = "URL,…")]
    pub(crate) nodes: Option<String>,
    /// A file with the URLs of the masters, separated by commas or lines; what follows a # at the beginning of a line or behind a space is left out
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "nodes", value_hint = ValueHint::FilePath)]
    pub(crate) nodes_file: Option<PathBuf>,
    /// A prefix of every name
    #[arg(long, global = true, env = "MULTILOCK_NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// How long a round waits for a master [default: 50ms]
    #[arg(long, global = true, env = "MULTILOCK_NODE_TIMEOUT", value_name = "DUR", value_parser = duration)]
    pub(crate) node_timeout: Option<Duration>,
    /// How long one attempt to connect to a master may take [default: 1s]
    #[arg(long, global = true, env = "MULTILOCK_CONNECT_TIMEOUT", value_name = "DUR", value_parser = duration)]
    pub(crate) connect_timeout: Option<Duration>,
    /// The longest lease, in place of 30s, on masters that are thrown away; the same in every client
    #[arg(long, global = true, env = "MULTILOCK_FOR_TESTS", value_name = "DUR", value_parser = duration, hide_short_help = true)]
    pub(crate) for_tests: Option<Duration>,
    /// The part of a lease that is not trusted for the sake of clocks [default: 0.01]
    #[arg(
        long,
        global = true,
        env = "MULTILOCK_DRIFT_FACTOR",
        value_name = "PART",
        hide_short_help = true
    )]
    pub(crate) drift_factor: Option<f64>,
    /// How long a master has no vote after its start: auto, off or a duration [default: auto]
    #[arg(long, global = true, env = "MULTILOCK_QUARANTINE", value_name = "auto|off|DUR", value_parser = quarantine, hide_short_help = true)]
    pub(crate) quarantine: Option<Quarantine>,
    /// Accept masters that evict keys when their memory is full
    #[arg(long, global = true, env = "MULTILOCK_ALLOW_EVICTION", value_parser = switch, hide_short_help = true)]
    pub(crate) allow_eviction: bool,
    /// Have every vote repeat the master's record, to notice at once when its memory was wiped (FLUSHALL)
    #[arg(long, global = true, env = "MULTILOCK_STRICT", value_parser = switch, hide_short_help = true)]
    pub(crate) strict_memory: bool,
}

/// Run a program while a lock is held.
///
/// Takes the lock, runs the program, and gives the lock back when it has ended. The program is a process group of its
/// own, and gets the terminal when it wants it. Before the hold can be lost its processes are sent a signal, and killed at the end of the hold at the latest.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "multilock run [OPTIONS] <NAME>... -- <COMMAND>...",
    after_help = AFTER_RUN
)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) take: TakeArgs,
    /// The signal that asks the program to end
    #[arg(short, long, value_name = "SIG", default_value = "TERM", value_parser = signal)]
    pub(crate) signal: Signal,
    /// How long before the end of the hold the signal is sent; at the end follows KILL
    /// [default: a sixth of the lease, 5s at most]
    #[arg(short, long, value_name = "DUR", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,
    /// Leave the program in the process group of this command; then its own children outlive it
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Have /bin/sh interpret COMMAND, which has to be one argument
    #[arg(short = 'c', long)]
    pub(crate) shell: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandName)]
    pub(crate) command: Vec<OsString>,
}

/// Hold a lock until stdin closes
///
/// Prints a line on stdout once it holds the lock, with the id of the hold and its token. A signal ends it, too. It ends with 124 when
/// the lock was lost before.
#[derive(Debug, clap::Args)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) take: TakeArgs,
}

/// The lock that `run` and `hold` take.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct TakeArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Do not wait: end with 75 when the lock is held by another
    #[arg(short = 'n', long = "nonblock", conflicts_with = "wait")]
    pub(crate) try_only: bool,
    /// The longest wait for the lock, such as 30s or 5 (seconds) [default: as long as it takes]
    #[arg(short, long, value_name = "DUR", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// The exit code when the lock is held by another
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::HELD)]
    pub(crate) conflict_exit_code: u8,
    /// How many masters must grant: red (a majority), multi (all) or a number
    #[arg(long, value_name = "red|multi|K", default_value = "red", value_parser = policy)]
    pub(crate) policy: Policy,
    /// How long the masters keep the lock without hearing from this command, which renews it every third of that; 30s at most
    /// [default: as long as it may be]
    #[arg(long, env = "MULTILOCK_LEASE", value_name = "DUR", value_parser = duration)]
    pub(crate) lease: Option<Duration>,
    /// The longest that the lock is renewed; it then lasts for what is left of its lease
    #[arg(long, env = "MULTILOCK_MAX_HOLD", value_name = "DUR", value_parser = duration)]
    pub(crate) max_hold: Option<Duration>,
    /// Keep the names for so long after the grant, also when the program ends earlier
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) at_least: Option<Duration>,
    /// Take one of K permits of the name in place of the lock: so many programs run at once, from 1 to 64; the same K everywhere
    #[arg(long, value_name = "K", conflicts_with = "at_least", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) seats: Option<u32>,
    /// Take the read lock: any number of programs with --shared run at once, and none without it
    #[arg(long, conflicts_with_all = ["at_least", "seats"])]
    pub(crate) shared: bool,
    /// What the program is doing, in 256 bytes at most: others read it in `inspect`, and where they are refused
    #[arg(long, value_name = "TEXT")]
    pub(crate) about: Option<String>,
    /// Do not begin with this much validity or less
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) min_validity: Option<Duration>,
    /// Say nothing
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say what is done
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// End with 125 when too few masters have confirmed the release
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write a report of the outcome as JSON to this file, at the end
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) report: Option<PathBuf>,
    /// Write metrics of the outcome to this file, at the end, for the textfile collector of `node_exporter`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) textfile: Option<PathBuf>,
}

/// Wait until a lock could be granted: enough masters are connected and fit, and their quarantine is over
///
/// For scripts that start a service, or restart one master after the other (--all). Ends with 0. When the wait is over it ends with
/// 69, or with 78 when too many masters are unfit, and says what each of them lacks.
#[derive(Debug, clap::Args)]
pub(crate) struct WaitReadyArgs {
    /// How many masters must be ready: red (a majority), multi (all) or a number
    #[arg(long, value_name = "red|multi|K", default_value = "red", value_parser = policy)]
    pub(crate) policy: Policy,
    /// Wait until every master has its vote. A policy counts a few masters that have none after a restart; without those
    /// another one must not be restarted
    #[arg(long, conflicts_with = "policy")]
    pub(crate) all: bool,
    /// The longest wait, such as 90s or 5 (seconds) [default: as long as it takes]
    #[arg(short, long, value_name = "DUR", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
}

/// Show every lock that is held or waited for
///
/// All keys of the masters are looked at, about 400 at a time. Ends with 0, and with 69 when no majority of the masters
/// tells what it has.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only names that match this pattern of Redis: `invoice:*`
    #[arg(value_name = "PATTERN", default_value = "*")]
    pub(crate) pattern: String,
    /// Order of the locks: by their names, the oldest hold first, or the longest queue first
    #[arg(long, value_enum, value_name = "BY", default_value_t = Sort::Name)]
    pub(crate) sort: Sort,
    /// For programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Show it again every second
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

/// Show what every master says about names
///
/// Shows it however few masters answer. Ends with 0, with 69 when too few masters tell, and with 78 when too many are unfit.
#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// How many masters must agree on a holder: red (a majority), multi (all) or a number
    #[arg(long, value_name = "red|multi|K", default_value = "red", value_parser = policy)]
    pub(crate) policy: Policy,
    /// Show the K seats of names with permits (`run --seats`)
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) seats: Option<u32>,
    /// For programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Show it again every second
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Tell by the exit code whether all of the names are held: 0 held, 1 one of them is free, 69 too few masters tell
///
/// Where too few masters tell, what they say goes to stderr.
#[derive(Debug, clap::Args)]
pub(crate) struct HeldArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Tell whether all K seats of names with permits are held (`run --seats`)
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) seats: Option<u32>,
}

/// Print a line of JSON for each name, and another one whenever a look finds a change
///
/// It looks every 500 ms (--every): a hold that begins and ends between two looks is not seen. It goes on while masters are
/// out of reach, and ends when nobody reads its output any more.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// How many masters must agree on a holder: red (a majority), multi (all) or a number
    #[arg(long, value_name = "red|multi|K", default_value = "red", value_parser = policy)]
    pub(crate) policy: Policy,
    /// Print the K seats of names with permits (`run --seats`)
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) seats: Option<u32>,
    /// How often the masters are asked
    #[arg(long, value_name = "DUR", default_value = "500ms", value_parser = duration)]
    pub(crate) every: Duration,
}

/// Take names away from their holders
///
/// A holder that lives learns of it at its next renewal; until then it may still work. Ends with 1 when nothing was taken away.
#[derive(Debug, clap::Args)]
pub(crate) struct ForceArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Only from this holder: its whole label, as `inspect` shows it
    #[arg(long, value_name = "LABEL")]
    pub(crate) if_holder: Option<String>,
    /// Only from this hold: its id, as `inspect` shows it and `MULTILOCK_HOLD` names it. A later hold of the same holder has another one
    #[arg(long, value_name = "ID")]
    pub(crate) if_hold: Option<String>,
    /// Why, in 256 bytes at most. The masters remember it for a day, with the time and the label of this client: the holder and
    /// `inspect` are told
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Without asking
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Forget that a job is done, so that it is done again
///
/// For jobs of `MultiLock::once`. Every master has to answer: a mark that is left on one of them counts.
#[derive(Debug, clap::Args)]
pub(crate) struct ForgetArgs {
    #[command(flatten)]
    pub(crate) names: Names,
    /// Without asking
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Show the masters and their locks on a web page
///
/// The masters are asked once a second at most, however many look, and not at all when nobody does. Without --allow-force the page
/// changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct ConsoleArgs {
    /// Address of the page. An address that other hosts reach needs --token-file
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7411")]
    pub(crate) listen: SocketAddr,
    /// A host name of the page, beside localhost and addresses: other names are refused
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// A file with a token, 16 characters or more, which each viewer has to give
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
    /// Let viewers take locks away from their holders
    #[arg(long)]
    pub(crate) allow_force: bool,
}

/// Examine every master, and say what is wrong and what to do
///
/// It changes nothing. Ends with 0 when nothing is wrong, 78 when a master or the list of a client has to be changed, 69 when too
/// few masters have a vote. Warnings end it with 1 where --strict is given.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// For programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Write metrics of the masters and findings to this file, too, for the textfile collector of `node_exporter`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) prometheus: Option<PathBuf>,
    /// Let no warning pass
    #[arg(long)]
    pub(crate) strict: bool,
    /// How long a client may be missing on a master before it is taken for one that lists other masters
    #[arg(long = "for", value_name = "DUR", default_value = "5s", value_parser = duration)]
    pub(crate) watch_for: Duration,
}

/// Print a script that completes arguments in a shell
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or that of one command
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    #[arg(value_name = "COMMAND")]
    pub(crate) verb: Option<String>,
}

const AFTER_RUN: &str = "\
Exit codes:
  the program's own; 128+n when signal n ended it
  none when INT, QUIT, TERM or HUP ended it or the wait: this command dies of the same signal
   64  wrong usage
   69  too few masters have a vote
   75  held by another, or waited for in vain (-E)
   78  masters that are unfit or misconfigured, or a password file that cannot be read
  124  the lock was lost or came to its end while the program ran
  125  this command failed
  126  the program cannot be executed
  127  the program was not found

The program sees MULTILOCK_HELD=1, MULTILOCK_NAMES, MULTILOCK_HOLD, MULTILOCK_TOKEN, MULTILOCK_EXPIRES_AT, and with
--seats MULTILOCK_SEAT, from 1 to K.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
