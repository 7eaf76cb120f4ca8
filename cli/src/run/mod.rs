//! `multilock run`: a program that runs while a lock is held, and ends with the hold at the latest. `multilock hold`: no program,
//! but stdin.

mod account;
mod child;
mod follow;
mod hold;
mod outcome;
mod processes;
mod reaper;
pub(crate) mod signals;
pub(crate) mod supervisor;
mod wait;

use std::env;
use std::fmt;
use std::pin::pin;
use std::process;
use std::time::Duration;

use multilock::{
    Closing, LONGEST_LEASE, LockError, Masters, Mode, MultiLock, MultiLockGuard, Permit, UnlockError,
};
use rustix::process::Signal;
use tokio::time::Instant;

use self::account::Account;
use self::child::Child;
use self::follow::{Ended, follow};
use self::outcome::{FOUND_LOST, given_back};
use self::signals::Signals;
use self::wait::{show_missing, show_who_holds};
use crate::args::{HoldArgs, MastersArgs, OutcomeFiles, RunArgs, TakeArgs};
use crate::connect::{Patience, connect};
use crate::exit::{self, End, Failure};
use crate::names::Names;
use crate::password_file;
use crate::report::hold_id;
use crate::say::{Rough, Voice};
use crate::translation::translated;

/// Longest time that a program has by default to end by itself.
const LONGEST_NOTICE: Duration = Duration::from_secs(5);

/// Work that is done under the lock.
#[derive(Clone, Copy)]
enum Work<'a> {
    Program(&'a RunArgs, &'a MastersArgs),
    /// Nothing, until stdin ends.
    Input,
}

/// A lock that is to be taken on connected masters, and the work under it.
struct Job<'a> {
    args: &'a TakeArgs,
    masters: &'a Masters,
    work: Work<'a>,
    /// A program is asked to end this long before the end of the hold.
    notice: Duration,
}

pub(crate) async fn run(args: &RunArgs, masters: &MastersArgs, voice: Voice) -> Result<End, Failure> {
    take(&args.take, masters, Work::Program(args, masters), voice).await
}

pub(crate) async fn hold(args: &HoldArgs, masters: &MastersArgs, voice: Voice) -> Result<End, Failure> {
    take(&args.take, masters, Work::Input, voice).await
}

/// Reports arguments or variables that were refused. Otherwise the files would tell of the run before.
pub(crate) fn report_refused(files: &OutcomeFiles, names: &Names, message: impl fmt::Display) {
    let refused = Err(Failure::usage(message));
    // The first failure counts.
    let _ = Account::begin().write(files, names, &refused);
}

/// Takes the lock, does the work, and reports the outcome.
async fn take(args: &TakeArgs, masters: &MastersArgs, work: Work<'_>, voice: Voice) -> Result<End, Failure> {
    let mut account = Account::begin();
    // A program is not run for a report that cannot be written.
    let end = match Account::check(&args.files) {
        Ok(()) => connect_and_take(args, masters, work, &mut account, voice).await,
        Err(failure) => Err(failure),
    };
    match account.write(&args.files, &args.names, &end) {
        Ok(()) => end,
        // The first failure counts.
        Err(failure) => end.and_then(|end| Err(account.with_end(failure, end))),
    }
}

async fn connect_and_take(
    args: &TakeArgs,
    masters: &MastersArgs,
    work: Work<'_>,
    account: &mut Account,
    voice: Voice,
) -> Result<End, Failure> {
    password_file::check()?;
    let notice = match work {
        Work::Program(run, _) => {
            check_command(run)?;
            notice(run, masters)?
        }
        Work::Input => Duration::ZERO,
    };
    let mut signals = Signals::listen()?;
    let begun = account.begun;
    let patience = match (args.try_only, args.wait) {
        (true, _) => Patience::None,
        (false, Some(wait)) => Patience::Until(begun + wait),
        (false, None) => Patience::Endless,
    };
    let mut builder = masters.builder()?;
    // A variable that is empty counts as not set.
    let is_labelled = env::var("MULTILOCK_CLIENT_LABEL").is_ok_and(|label| !label.trim().is_empty());
    if let (Work::Program(run, _), false) = (work, is_labelled) {
        builder = builder.client_label(label_of(run));
    }
    if let Some(lease) = args.lease {
        builder = builder.lease(lease);
    }
    if let Some(max) = args.max_hold {
        builder = builder.max_hold(max);
    }
    let connecting = async {
        tokio::select! {
            biased;
            connected = connect(builder, patience, |masters| check_lock(args, masters), voice) => connected,
            () = show_missing(begun, |line| voice.warn(line)) => unreachable!("it is shown for as long as it is waited"),
        }
    };
    let masters = match interruptible(&mut signals, connecting).await {
        Ok(connected) => connected?,
        Err(signal) => return Ok(End::Signal(signal)),
    };
    let job = Job {
        args,
        masters: &masters,
        work,
        notice,
    };
    let end = with_masters(&job, account, &mut signals, voice).await;
    // Messages that are still on their way reach the masters.
    masters.close(Closing::Release).await;
    end
}

/// Refuses arguments that no lock can have. Otherwise they would be waited for until masters are there.
fn check_lock(args: &TakeArgs, masters: &Masters) -> Result<(), Failure> {
    let begun = Instant::now();
    match args.seats {
        Some(seats) => with_options(permits(args, masters, seats)?, args, begun).check()?,
        None if args.shared => with_options(exclusive(args, masters).read(), args, begun).check()?,
        None => with_options(exclusive(args, masters), args, begun).check()?,
    }
    Ok(())
}

fn exclusive(args: &TakeArgs, masters: &Masters) -> MultiLock {
    let lock = masters.lock(&*args.names, args.policy);
    match args.at_least {
        Some(at_least) => lock.at_least(at_least),
        None => lock,
    }
}

fn permits(args: &TakeArgs, masters: &Masters, seats: u32) -> Result<MultiLock<Permit>, Failure> {
    let [name] = &*args.names else {
        return Err(Failure::usage(format_args!(
            "--seats: {} names are not allowed; allowed: one, which has the permits",
            args.names.len()
        )));
    };
    Ok(masters.permits(name, seats).policy(args.policy))
}

/// Label of the program that holds the lock: its name, this host and this process.
fn label_of(run: &RunArgs) -> String {
    let program = match &*run.command {
        [script] if run.shell => first_program(&script.to_string_lossy()).to_owned(),
        command => command
            .first()
            .map_or(String::new(), |program| program.to_string_lossy().into_owned()),
    };
    let program = program.rsplit('/').next().unwrap_or_default();
    let program: String = program
        .chars()
        .filter(|letter| !letter.is_control())
        .take(24)
        .collect();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().take(24).collect();
    format!("{program}@{host}:{}", process::id())
}

/// Program at the beginning of a script, behind the variables that are set for it: their values may be
/// secrets, and every client sees a label. The shell, if a value may go on in the next word.
fn first_program(script: &str) -> &str {
    let is_simple = |value: &str| !value.contains(|letter| r#"'"\`$(){};&|<>"#.contains(letter));
    let is_of_a_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_variable = |word: &&str| {
        word.split_once('=')
            .is_some_and(|(name, value)| name.chars().all(is_of_a_name) && is_simple(value))
    };
    let mut words = script.split([' ', '\t', '\n']).filter(|word| !word.is_empty());
    let program = words.find(|word| !is_variable(word));
    program
        .filter(|word| !word.contains('=') && is_simple(word))
        .unwrap_or("sh")
}

/// Refuses a program without a name, as of an empty variable. Refuses further words for a shell, which would take them for its
/// own arguments, and run something else.
fn check_command(args: &RunArgs) -> Result<(), Failure> {
    let words = args.command.len();
    if !args.shell && args.command[0].is_empty() {
        return Err(Failure::usage(
            "COMMAND: \"\" is not allowed; allowed: a program and its arguments",
        ));
    }
    if args.shell && words > 1 {
        return Err(Failure::usage(format_args!(
            "--shell: {words} arguments after -- are not allowed; allowed: one, in quotes, such as -c -- 'echo hi there'"
        )));
    }
    Ok(())
}

/// Time before the end of the hold at which the child is asked to end.
fn notice(args: &RunArgs, masters: &MastersArgs) -> Result<Duration, Failure> {
    let longest = masters.for_tests.unwrap_or(LONGEST_LEASE);
    let lease = args.take.lease.unwrap_or(longest);
    let most = lease / 2;
    match args.kill_after {
        Some(notice) if notice > most => Err(Failure::usage(format!(
            "--kill-after: {} is not allowed; allowed: at most half of the lease, {}",
            humantime::format_duration(notice),
            humantime::format_duration(most)
        ))),
        Some(notice) => Ok(notice),
        None => Ok((lease / 6).min(LONGEST_NOTICE)),
    }
}

/// Runs some work until a signal ends it, and returns that signal as the error. A signal that stops the job stops the
/// work, too.
async fn interruptible<T>(signals: &mut Signals, work: impl Future<Output = T>) -> Result<T, Signal> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::TSTP => {
                    signals.stop(Signal::TSTP, false).await;
                }
                Signal::CONT => {}
                signal => return Err(signal),
            },
            done = &mut work => return Ok(done),
        }
    }
}

async fn with_masters(
    job: &Job<'_>,
    account: &mut Account,
    signals: &mut Signals,
    voice: Voice,
) -> Result<End, Failure> {
    let Job { args, masters, .. } = job;
    match args.seats {
        Some(seats) => {
            let lock = permits(args, masters, seats)?;
            let seat = |permit: &MultiLockGuard<Permit>| Some(permit.seat());
            under(job, lock, seat, account, signals, voice).await
        }
        None if args.shared => {
            let lock = exclusive(args, masters).read();
            under(job, lock, |_| None, account, signals, voice).await
        }
        None => {
            let lock = exclusive(args, masters);
            under(job, lock, |_| None, account, signals, voice).await
        }
    }
}

/// Does the work under a lock. `seat` tells the seat of a permit.
async fn under<M: Mode>(
    job: &Job<'_>,
    lock: MultiLock<M>,
    seat: impl Fn(&MultiLockGuard<M>) -> Option<u32>,
    account: &mut Account,
    signals: &mut Signals,
    voice: Voice,
) -> Result<End, Failure> {
    let Job {
        args, work, notice, ..
    } = *job;
    let begun = account.begun;
    let lock = with_options(lock, args, begun);
    let guard = match interruptible(signals, acquire(job, &lock, begun, voice)).await {
        Ok(Ok(guard)) => guard,
        Ok(Err(mut error)) => {
            if let (LockError::TimedOut { waited, .. }, Some(wait)) = (&mut error, args.wait) {
                // The library has counted from the end of the connecting.
                *waited = wait;
            }
            return refused(job, account, error);
        }
        Err(signal) => return Ok(End::Signal(signal)),
    };
    voice.detail(format_args!(
        "{} granted as hold {} under token {}, {} of validity, after {}",
        args.names,
        hold_id(&guard.holder()),
        guard.fencing_token(),
        Rough(guard.validity()),
        Rough(begun.elapsed())
    ));
    let seat = seat(&guard);
    account.granted(&guard, seat);
    let ended = match work {
        Work::Program(args, masters) => {
            let child = match Child::start(args, masters, &guard, seat, voice) {
                Ok(child) => child,
                Err(failure) => {
                    // Unless they are kept by `--at-least`, the names are free before the failure is reported.
                    let _ = guard.unlock().await;
                    account.hold_ended();
                    return Err(failure);
                }
            };
            let ended = follow(&guard, child, notice, signals, voice).await?;
            account.program_ended(ended.status);
            ended
        }
        Work::Input => hold::until_input_ends(args, &guard, seat, signals, voice).await?,
    };
    let end = give_back(args, guard, &ended, work, voice).await;
    account.hold_ended();
    end
}

fn with_options<M: Mode>(mut lock: MultiLock<M>, args: &TakeArgs, begun: Instant) -> MultiLock<M> {
    if let Some(wait) = args.wait {
        lock = lock.wait(wait.saturating_sub(begun.elapsed()));
    }
    if let Some(about) = &args.about {
        lock = lock.about(about);
    }
    if let Some(min) = args.min_validity {
        lock = lock.min_validity(min);
    }
    lock
}

async fn acquire<M: Mode>(
    job: &Job<'_>,
    lock: &MultiLock<M>,
    begun: Instant,
    voice: Voice,
) -> Result<MultiLockGuard<M>, LockError> {
    if job.args.try_only {
        return lock.try_lock().await;
    }
    let say = |line: &str| voice.warn(line);
    tokio::select! {
        biased;
        granted = lock.lock() => granted,
        () = show_who_holds(job.masters, lock, job.args.policy, begun, voice, say) => unreachable!("it is shown for as long as it is waited"),
    }
}

fn refused(job: &Job<'_>, account: &mut Account, error: LockError) -> Result<End, Failure> {
    let mut failure = Failure::from(error);
    if failure.code == exit::HELD {
        account.contended();
        failure.code = job.args.conflict_exit_code;
    } else if failure.code == exit::NO_QUORUM {
        failure.code = exit::code_of_too_few(job.masters, job.args.policy);
    }
    Err(failure)
}

/// Gives the lock back, and reports the end of the child and of the hold.
async fn give_back<M: Mode>(
    args: &TakeArgs,
    guard: MultiLockGuard<M>,
    ended: &Ended,
    work: Work<'_>,
    voice: Voice,
) -> Result<End, Failure> {
    let unlocked = guard.unlock().await;
    if let Some(reason) = &ended.made_to {
        let message = match work {
            Work::Program(..) => format!("{reason}; the program was made to end"),
            Work::Input => reason.to_string(),
        };
        return Err(Failure::new(exit::LOST, message));
    }
    // A failure that hides the end of the program tells it.
    let with_end = |message: &str| match work {
        Work::Program(..) => format!("{message} ({})", ended.end),
        Work::Input => message.to_owned(),
    };
    match unlocked {
        Ok(unlocked) => voice.detail(given_back(&unlocked)),
        // This applies also if the program succeeded: another program was not kept out.
        Err(UnlockError::WasLost { votes }) => {
            voice.detail(format_args!(
                "the masters answered to the release: {}",
                translated(votes)
            ));
            return Err(Failure::new(exit::LOST, with_end(FOUND_LOST)));
        }
        Err(error) if args.strict => return Err(Failure::own(with_end(&translated(error)))),
        Err(error) => voice.warn(translated(error)),
    }
    Ok(ended.end)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Verb};

    #[test]
    fn a_label_has_no_value_of_a_variable() {
        for (script, program) in [
            ("/usr/bin/pg_dump x", "pg_dump"),
            ("PGPASSWORD=hunter2 pg_dump x", "pg_dump"),
            ("A=1\n  B=/b/c\tsrc/x.sh", "x.sh"),
            ("A=$B; true", "sh"),
            ("A=b 'C=d e' prog", "sh"),
            ("A='b c' prog", "sh"),
            ("A=\"b c\" prog", "sh"),
            (r"A=b\ c prog", "sh"),
            ("A=$(cat b) prog", "sh"),
            ("A=`cat b` prog", "sh"),
            ("A=${B:-c d} prog", "sh"),
            ("A=b;echo c", "sh"),
            ("A+=b prog", "sh"),
            ("(A=b prog)", "sh"),
            ("A=b", "sh"),
            ("A=b\u{a0}secret prog", "prog"),
            ("cat<<<secret", "sh"),
            ("", "sh"),
        ] {
            let args = Args::try_parse_from(["multilock", "run", "a", "-c", "--", script]);
            let Verb::Run(run) = args.expect("arguments").verb else {
                unreachable!("it is that verb");
            };
            let label = label_of(&run);
            let (shown, _) = label.split_once('@').expect("a host");
            assert_eq!(shown, program, "{script}");
            assert!(!label.contains('='), "{label}");
        }
    }
}
