//! A small process that ends the program where the command itself cannot: because it was killed, or stopped.
//!
//! It is this same binary under another first argument, in a process group of its own, and is told over its stdin what to watch
//! and until when. When its stdin ends without a farewell, the command is gone: nobody renews the hold any more, so the program
//! is asked to end at once, and killed at the end of the hold. The lease frees the names by itself.

use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::timeout;

use super::child::{LOOKED_FOR, Target};
use super::follow::LEAD;
use super::reaper::Reaper;
use super::signals;
use crate::terminal;

/// The first argument that makes this process a supervisor.
const ROLE: &str = "__supervise";
/// The last word.
const DONE: &str = "done";
/// A clock that counts the host's sleep is looked at so often.
const LONGEST: Duration = Duration::from_secs(1);
/// Between two looks whether the program is still there, once it was asked to end.
const LEFT: Duration = Duration::from_millis(20);
/// It ends at once when it is told to.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// The command's side.
#[derive(Debug)]
pub(super) struct Supervisor {
    pid: Option<Pid>,
    stdin: UnixStream,
}

impl Supervisor {
    pub(super) fn start() -> io::Result<Self> {
        let (stdin, its) = UnixStream::pair()?;
        // It may be stopped; then nothing here waits for it.
        stdin.set_nonblocking(true)?;
        let mut command = Command::new(program()?);
        command
            .arg0("multilock")
            .arg(ROLE)
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null());
        let pid = i32::try_from(command.spawn()?.id()).ok();
        Ok(Self {
            pid: pid.and_then(Pid::from_raw),
            stdin,
        })
    }

    /// Names the processes to watch, the signal that asks them to end, and the group that gets the terminal after them.
    pub(super) fn watch(&mut self, target: Target, end_signal: Signal) {
        let (kind, pid) = match target {
            Target::Group(leader) => ("group", leader),
            Target::Process(pid) => ("process", pid),
        };
        let (pid, own) = (pid.as_raw_nonzero(), Pid::as_raw(terminal::own_group()));
        self.write(&format!("watch {kind} {pid} {} {own}", end_signal.as_raw()));
    }

    /// Says when the program is to be asked to end, unless it was, and when to be killed.
    pub(super) fn tell(&mut self, ask_in: Option<Duration>, kill_in: Duration) {
        let now = now();
        let ask_at = ask_in.map_or("-".to_owned(), |ask_in| (now + ask_in).as_nanos().to_string());
        self.write(&format!("until {ask_at} {}", (now + kill_in).as_nanos()));
    }

    fn write(&mut self, line: &str) {
        // Where it is gone, or stopped for long, the command does all by itself.
        let _ = self.stdin.write_all(format!("{line}\n").as_bytes());
    }

    /// Lets it go, and waits until it has gone.
    pub(super) async fn dismiss(mut self, mut reaper: Reaper) {
        self.write(DONE);
        drop(self.stdin);
        let ended = async { while Some(reaper.next().await.0) != self.pid {} };
        let _ = timeout(ENDS_WITHIN, ended).await;
    }
}

/// This binary, also where another one was installed in its place meanwhile.
fn program() -> io::Result<std::path::PathBuf> {
    let own = std::path::Path::new("/proc/self/exe");
    if own.exists() {
        Ok(own.to_owned())
    } else {
        std::env::current_exe()
    }
}

/// The time since the machine was started, its sleep included where the system tells it.
fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

/// The supervisor itself, if that is what this process was started as.
pub(crate) fn main() -> Option<ExitCode> {
    (std::env::args_os().nth(1)? == ROLE).then(|| {
        supervise();
        ExitCode::SUCCESS
    })
}

/// What it watches.
#[derive(Clone, Debug)]
struct Watched {
    target: Target,
    /// What asks to end.
    end_signal: Signal,
    /// The group that gets the terminal when the target is gone.
    heir: Option<Pid>,
    /// Jobs outside of the group, as they were found shortly before they are to be killed.
    jobs: Option<Vec<Pid>>,
}

impl Watched {
    fn parse(kind: &str, numbers: [&str; 3]) -> Option<Self> {
        let number = |at: usize| numbers[at].parse().ok();
        let pid = Pid::from_raw(number(0)?)?;
        let target = if kind == "group" {
            Target::Group(pid)
        } else {
            Target::Process(pid)
        };
        Some(Self {
            target,
            end_signal: Signal::from_named_raw(number(1)?)?,
            heir: Pid::from_raw(number(2)?),
            jobs: None,
        })
    }

    fn leave_terminal(&self) {
        if let (Target::Group(leader), Some(heir)) = (self.target, self.heir) {
            terminal::inherit(leader, heir);
        }
    }
}

/// What it was told.
#[derive(Debug, Default)]
struct Orders {
    watched: Option<Watched>,
    ask_at: Option<Duration>,
    kill_at: Option<Duration>,
}

impl Orders {
    /// Takes a line in; `None` for the last one.
    fn take(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["watch", kind, pid, signal, heir] => {
                self.watched = Some(Watched::parse(kind, [pid, signal, heir])?);
            }
            ["until", ask_at, kill_at] => {
                let at = |text: &str| text.parse().ok().map(Duration::from_nanos);
                self.ask_at = at(ask_at);
                self.kill_at = at(kill_at);
                if let Some(watched) = &mut self.watched {
                    watched.jobs = None;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// When jobs outside of the group are looked for.
    fn jobs_at(&self) -> Option<Duration> {
        self.kill_at.map(|at| at.saturating_sub(LOOKED_FOR))
    }
}

fn supervise() {
    let (sender, lines) = mpsc::channel();
    // A terminal that stops whoever writes from the background does not stop this process.
    let _ = signals::block_stops();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut orders = Orders::default();
    let mut is_alone = false;
    loop {
        let now = now();
        let due = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        let jobs_at = orders.jobs_at();
        if let Some(watched) = &mut orders.watched {
            if due(orders.kill_at) {
                watched.target.kill(watched.jobs.take());
                if is_alone {
                    watched.leave_terminal();
                }
                return;
            }
            if due(orders.ask_at) {
                orders.ask_at = None;
                watched.target.end(watched.end_signal);
            }
            if watched.jobs.is_none() && due(jobs_at) {
                watched.jobs = Some(watched.target.jobs());
            }
            // All processes are listed for it, which must not be under way when they are to be killed.
            let is_near = due(jobs_at.map(|at| at.saturating_sub(LOOKED_FOR)));
            if is_alone && !is_near && !watched.target.is_there() {
                watched.leave_terminal();
                return;
            }
        }
        let next = [orders.ask_at, jobs_at.filter(|at| *at > now), orders.kill_at];
        let next = next.into_iter().flatten().min();
        let pause = next.map_or(LONGEST, |at| at.saturating_sub(now).min(LONGEST));
        if is_alone {
            thread::sleep(pause.min(LEFT));
            continue;
        }
        match lines.recv_timeout(pause) {
            Ok(line) => {
                if orders.take(&line).is_none() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                if orders.watched.is_none() {
                    return;
                }
                let _ = writeln!(
                    io::stderr(),
                    "multilock: killed; the program is ended with the hold"
                );
                is_alone = true;
                orders.ask_at = Some(now);
                // The lead that the command has while it lives.
                orders.kill_at = orders.kill_at.map(|at| at.saturating_sub(LEAD));
            }
        }
    }
}
