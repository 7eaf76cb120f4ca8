//! A small process that ends the program if the command itself cannot, because it was killed or stopped.
//!
//! It is this same binary with another first argument, in a process group of its own. Over its stdin it gets
//! the target and the deadlines. Before the program is started it gets the hold, by which it finds a program whose
//! command was killed at once. If its stdin ends without a last line, the command is gone, and the hold is
//! no longer renewed. So the program is asked to end at once, and killed at the end of the hold. The lease
//! frees the names by itself.

use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::{Pid, Signal};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::timeout;

use super::child::{LOOKED_FOR, Target};
use super::follow::LEAD;
use super::processes;
use super::reaper::Reaper;
use crate::say::{Voice, line};
use crate::{terminal, writer};

/// First argument that makes this process a supervisor.
const ROLE: &str = "__supervise";
/// Number of supervisors that may follow the first one. One that cannot live is not started for ever.
const SPARE: u8 = 10;
/// Last line.
const DONE: &str = "done";
/// Interval of the looks at a clock that counts the host's sleep.
const LONGEST: Duration = Duration::from_secs(1);
/// Time for a program to appear that was being started when the command was killed.
const APPEARS_WITHIN: Duration = Duration::from_secs(5);
/// Interval of the checks for the program, once it was asked to end.
const LEFT: Duration = Duration::from_millis(20);
/// Time for the supervisor to end after the last line.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Command's end of the supervisor.
#[derive(Debug)]
pub(super) struct Supervisor {
    pid: Option<Pid>,
    stdin: UnixStream,
    voice: Voice,
    /// Line that names the processes to watch.
    watched: String,
    /// Time at which it kills the program, and then ends itself.
    kill_at: Duration,
    /// Number of others that may still be started in its place.
    spare: u8,
}

impl Supervisor {
    pub(super) fn start(voice: Voice) -> io::Result<Self> {
        let (stdin, its) = UnixStream::pair()?;
        // The supervisor may be stopped. Then no write here waits for it.
        stdin.set_nonblocking(true)?;
        let mut command = Command::new(program()?);
        command
            .arg0("multilock")
            .arg(ROLE)
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null());
        if voice == Voice::Quiet {
            command.stderr(Stdio::null());
        }
        // Signals to every process of a unit or a container are meant for the command, and this process ends after it.
        // A terminal that stops background processes when they write does not stop this process. It inherits the mask,
        // because a signal may arrive before its own first instruction.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let spawned = command.spawn();
        before.thread_set_mask()?;
        let pid = i32::try_from(spawned?.id()).ok();
        Ok(Self {
            pid: pid.and_then(Pid::from_raw),
            stdin,
            voice,
            watched: String::new(),
            kill_at: Duration::MAX,
            spare: SPARE,
        })
    }

    /// Tells the hold under which a program is about to be started, the signal that asks it to end, and the time left of the
    /// hold.
    pub(super) fn expect(&mut self, hold: &str, in_group: bool, end_signal: Signal, left: Duration) {
        let kind = if in_group { "group" } else { "process" };
        let own = Pid::as_raw(terminal::own_group());
        self.write(&format!("expect {kind} {hold} {} {own}", end_signal.as_raw()));
        self.tell(None, left);
    }

    /// Tells that no program could be started.
    pub(super) fn expect_no_more(&mut self) {
        self.write(DONE);
    }

    /// Names the processes to watch, the signal that asks them to end, and the group that gets the terminal after them.
    pub(super) fn watch(&mut self, target: &Target, end_signal: Signal) {
        // The hold of a single process is not used.
        let (kind, pid, hold) = match target {
            Target::Group { leader, hold } => ("group", leader, hold.as_str()),
            Target::Process(pid) => ("process", pid, "-"),
        };
        let (pid, own) = (pid.as_raw_nonzero(), Pid::as_raw(terminal::own_group()));
        self.watched = format!("watch {kind} {pid} {hold} {} {own}", end_signal.as_raw());
        self.tell_what_to_watch();
    }

    fn tell_what_to_watch(&mut self) {
        let watched = std::mem::take(&mut self.watched);
        self.write(&watched);
        self.watched = watched;
    }

    /// Sends the time at which the program is to be asked to end, unless it was, and the time at which it is
    /// to be killed.
    pub(super) fn tell(&mut self, ask_in: Option<Duration>, kill_in: Duration) {
        let now = now();
        let ask_at = ask_in.map_or("-".to_owned(), |ask_in| (now + ask_in).as_nanos().to_string());
        self.kill_at = now + kill_in;
        self.write(&format!("until {ask_at} {}", self.kill_at.as_nanos()));
    }

    fn write(&mut self, line: &str) {
        // If the supervisor is gone, or stopped for long, the command does all by itself.
        let _ = self.stdin.write_all(format!("{line}\n").as_bytes());
    }

    /// Takes in that a child of this process has ended. If that was the supervisor, another one takes its place. The next
    /// [`tell`](Self::tell) has its deadlines.
    pub(super) fn child_ended(&mut self, child: Pid) {
        if self.pid != Some(child) {
            return;
        }
        self.pid = None;
        if now() >= self.kill_at {
            // It has killed the program, while this process was stopped.
            return;
        }
        let voice = self.voice;
        let Some(spare) = self.spare.checked_sub(1) else {
            voice.warn("the supervising process has ended again; the program is not supervised any more");
            return;
        };
        match Self::start(voice) {
            Ok(other) => {
                let watched = std::mem::take(&mut self.watched);
                *self = Self {
                    watched,
                    spare,
                    ..other
                };
                self.tell_what_to_watch();
                voice.warn("the supervising process has ended; another one was started");
            }
            Err(error) => voice.warn(format_args!(
                "the supervising process has ended, and another one cannot be started: {error}"
            )),
        }
    }

    /// Ends the supervisor, and waits for its end.
    pub(super) async fn dismiss(mut self, mut reaper: Reaper) {
        self.write(DONE);
        drop(self.stdin);
        let ended = async { while self.pid.is_some() && Some(reaper.next().await.0) != self.pid {} };
        let _ = timeout(ENDS_WITHIN, ended).await;
    }
}

/// Path of this binary, even if another one has been installed in its place.
fn program() -> io::Result<std::path::PathBuf> {
    let own = std::path::Path::new("/proc/self/exe");
    if own.exists() {
        Ok(own.to_owned())
    } else {
        std::env::current_exe()
    }
}

/// Time since the start of the machine, with its sleep if the system counts it.
fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

/// Runs the supervisor, if this process was started as one.
pub(crate) fn main() -> Option<ExitCode> {
    (std::env::args_os().nth(1)? == ROLE).then(|| {
        supervise();
        ExitCode::SUCCESS
    })
}

/// Target of the supervisor.
#[derive(Clone, Debug)]
struct Watched {
    target: Target,
    /// Signal that asks the target to end.
    end_signal: Signal,
    /// Group that gets the terminal when the target is gone.
    heir: Option<Pid>,
    /// Jobs outside of the group, looked up shortly before they are to be killed.
    jobs: Option<Vec<Pid>>,
}

impl Watched {
    fn parse(kind: &str, hold: &str, numbers: [&str; 3]) -> Option<Self> {
        let number = |at: usize| numbers[at].parse().ok();
        let pid = Pid::from_raw(number(0)?)?;
        let target = if kind == "group" {
            Target::Group {
                leader: pid,
                hold: hold.to_owned(),
            }
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
        if let (Target::Group { leader, .. }, Some(heir)) = (&self.target, self.heir) {
            terminal::inherit(*leader, heir);
        }
    }
}

/// A program that is about to be started.
#[derive(Debug)]
struct Expected {
    /// `group` or `process`, as in the line that names the program.
    kind: String,
    hold: String,
    /// Numbers of the signal that asks it to end, and of the heir.
    numbers: [String; 2],
}

impl Expected {
    /// Waits for the program to appear.
    fn find(&self) -> Option<Watched> {
        let [signal, heir] = &self.numbers;
        let end = now() + APPEARS_WITHIN;
        while now() < end {
            if let Some(pid) = processes::started_under(&self.hold) {
                let pid = pid.as_raw_nonzero().to_string();
                return Watched::parse(&self.kind, &self.hold, [&pid, signal, heir]);
            }
            thread::sleep(LEFT);
        }
        None
    }
}

/// Instructions of the command.
#[derive(Debug, Default)]
struct Orders {
    expected: Option<Expected>,
    watched: Option<Watched>,
    ask_at: Option<Duration>,
    kill_at: Option<Duration>,
}

impl Orders {
    /// Takes in a line. Returns `None` for the last one.
    fn take(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["watch", kind, pid, hold, signal, heir] => {
                self.watched = Some(Watched::parse(kind, hold, [pid, signal, heir])?);
            }
            ["expect", kind, hold, signal, heir] => {
                self.expected = Some(Expected {
                    kind: kind.to_owned(),
                    hold: hold.to_owned(),
                    numbers: [signal, heir].map(str::to_owned),
                });
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

    /// Looks for the program that was about to be started.
    fn find_expected(&mut self) {
        self.watched = self.expected.take().and_then(|expected| expected.find());
    }

    /// Time at which jobs outside of the group are looked up.
    fn jobs_at(&self) -> Option<Duration> {
        self.kill_at.map(|at| at.saturating_sub(LOOKED_FOR))
    }
}

fn supervise() {
    let (sender, lines) = mpsc::channel();
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
        if orders.watched.is_none() && due(orders.kill_at) {
            // The command was stopped while it started the program.
            orders.find_expected();
            orders.kill_at = orders.kill_at.filter(|_| orders.watched.is_some());
        }
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
            // The check lists all processes, which must not delay the kill.
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
                    // The command may have been killed while it started the program.
                    orders.find_expected();
                }
                if orders.watched.is_none() {
                    return;
                }
                writer::write(line(&"killed; the program is ended with the hold"));
                is_alone = true;
                orders.ask_at = Some(now);
                // The command has the same lead while it lives.
                orders.kill_at = orders.kill_at.map(|at| at.saturating_sub(LEAD));
            }
        }
    }
}
