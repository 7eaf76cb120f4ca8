//! The child for as long as the lock is held: signals are passed on, and it ends with the hold.
//!
//! It is asked to end a while before the hold would, so that it can; whatever is left of its group at the end of the hold is
//! killed a moment earlier. A hold that is taken away leaves it that while, but no more than it had.

use std::time::Duration;

use multilock::{Loss, MultiLockGuard};
use rustix::process::{Pid, Signal, WaitStatus, kill_current_process_group};
use tokio::time::{Instant, sleep};

use super::child::{Child, LOOKED_FOR, Target};
use super::outcome;
use super::signals::{self, Signals};
use crate::exit::{End, Failure};
use crate::say::{Rough, Voice};
use crate::terminal::Terminal;

/// KILL is sent so long before the end of the hold: what a machine takes to wake this process and to end another.
pub(super) const LEAD: Duration = Duration::from_millis(10);
/// The longest time between two looks at the hold.
const LONGEST: Duration = Duration::from_secs(1);
/// The shortest one.
const SHORTEST: Duration = Duration::from_millis(5);
/// The time between two looks whether something is left of the group, for which all processes are listed.
const LEFT: Duration = Duration::from_millis(20);
/// A process that was killed and is still there is none that runs: nobody has asked for its status.
const KILLED: Duration = Duration::from_secs(1);

/// How the child ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// As the command is to end.
    pub(super) end: End,
    /// Why it had to end, where it was made to.
    pub(super) made_to: Option<&'static str>,
}

pub(super) async fn follow(
    guard: &MultiLockGuard,
    child: Child,
    notice: Duration,
    signals: &mut Signals,
    voice: Voice,
) -> Result<Ended, Failure> {
    let mut running = Running {
        guard,
        child,
        notice,
        voice,
        end: Instant::now(),
        asked: None,
        killed: None,
        jobs: None,
        made_to: None,
        status: None,
    };
    let mut is_lost = false;
    loop {
        let look_again = running.look();
        if running.is_over() {
            break;
        }
        tokio::select! {
            biased;
            loss = guard.lost(), if !is_lost => {
                is_lost = true;
                running.lost(&loss);
            }
            (pid, status) = running.child.reaper.next() => running.changed(pid, status, signals).await,
            signal = signals.next() => running.child.pass_on(signal),
            () = sleep(look_again) => {}
        }
    }
    let Running {
        child,
        status,
        made_to,
        ..
    } = running;
    child.supervisor.dismiss(child.reaper).await;
    Ok(Ended {
        end: status.map_or(End::Code(0), end),
        made_to,
    })
}

struct Running<'a> {
    guard: &'a MultiLockGuard,
    child: Child,
    notice: Duration,
    voice: Voice,
    /// When the hold ends, or would have before it was lost.
    end: Instant,
    /// When the child was asked to end, or what the program has left of its group.
    asked: Option<Instant>,
    killed: Option<Instant>,
    /// Jobs outside of the group, as they were found shortly before they are killed.
    jobs: Option<Vec<Pid>>,
    /// What the program was ended for.
    made_to: Option<&'static str>,
    /// How the program ended.
    status: Option<WaitStatus>,
}

impl Running<'_> {
    /// Whether nothing is left that could run.
    fn is_over(&self) -> bool {
        let is_killed = || self.killed.is_some_and(|at| at.elapsed() >= KILLED);
        match self.child.target {
            Target::Process(_) => self.status.is_some(),
            group @ Target::Group(_) => self.status.is_some() && (!group.is_there() || is_killed()),
        }
    }

    /// Looks at the hold, does what is due, and says when to look again.
    fn look(&mut self) -> Duration {
        let (now, validity) = (Instant::now(), self.guard.validity());
        if !validity.is_zero() {
            self.end = now + validity;
        }
        let left = self.end.saturating_duration_since(now);
        if self.asked.is_none() {
            if self.status.is_some() {
                self.ask(now);
            } else if left <= self.notice {
                self.made_to = Some("the hold came to its end");
                self.voice.warn(format_args!(
                    "the hold ends in {} and is not renewed: the program is sent {}",
                    Rough(left),
                    signals::Name(self.child.end_signal)
                ));
                self.ask(now);
            }
        }
        let to_kill = self.kill_at().saturating_duration_since(now);
        if self.killed.is_none() {
            if to_kill > LOOKED_FOR {
                self.jobs = None;
            } else if self.jobs.is_none() {
                self.jobs = Some(self.child.target.jobs());
            }
            if to_kill <= LEAD {
                self.child.target.kill(self.jobs.take());
                self.killed = Some(now);
            }
        }
        let to_ask = self.asked.is_none().then(|| left.saturating_sub(self.notice));
        self.child
            .supervisor
            .tell(to_ask.map(|due| due + self.notice / 4), to_kill);
        if self.status.is_some() || self.killed.is_some() {
            return LEFT;
        }
        let due = to_ask.unwrap_or(to_kill.saturating_sub(LEAD));
        // Well before it is due, as the hold may be renewed meanwhile; then, once it is near.
        if due <= SHORTEST {
            due
        } else {
            (due / 4).clamp(SHORTEST, LONGEST)
        }
    }

    /// When what is left of it is killed.
    fn kill_at(&self) -> Instant {
        match self.asked {
            // The hold is over or is not needed any more: no longer than it was told to have.
            Some(asked) if self.status.is_some() || !self.guard.is_valid() => {
                self.end.min(asked + self.notice)
            }
            _ => self.end,
        }
    }

    fn ask(&mut self, now: Instant) {
        self.child.target.end(self.child.end_signal);
        self.asked = Some(now);
    }

    /// Takes in that a child has ended or was stopped.
    async fn changed(&mut self, pid: Pid, status: WaitStatus, signals: &mut Signals) {
        if pid != self.child.pid {
            // What the program has left behind, or the supervisor.
            return;
        }
        match status.stopping_signal().and_then(Signal::from_named_raw) {
            Some(signal) => self.stopped(signal, signals).await,
            None if status.stopped() => {}
            None => {
                self.status = Some(status);
                self.take_terminal_back(status);
            }
        }
    }

    /// Takes the terminal back from a program that has ended.
    fn take_terminal_back(&mut self, status: WaitStatus) {
        let had_terminal = self.child.has_terminal();
        self.child.take_terminal_back();
        let Some(signal) = status.terminating_signal().and_then(Signal::from_named_raw) else {
            return;
        };
        self.child.terminal.iter().for_each(Terminal::restore);
        if had_terminal && self.made_to.is_none() && matches!(signal, Signal::INT | Signal::QUIT) {
            // Its keys went to the program alone, and are meant for a script around it, too.
            let _ = kill_current_process_group(signal);
        }
    }

    /// Lets a program that was stopped have the terminal, or stops with it until a shell continues the job.
    async fn stopped(&mut self, signal: Signal, signals: &mut Signals) {
        let wants_terminal = matches!(signal, Signal::TTIN | Signal::TTOU);
        if wants_terminal && self.child.lend_terminal() {
            self.child.target.signal(Signal::CONT);
            return;
        }
        let had_terminal = self.child.has_terminal();
        if self.child.terminal.is_none() || (signal == Signal::STOP && !had_terminal) {
            // Somebody has stopped the program and nothing else.
            return;
        }
        self.child.take_terminal_back();
        self.voice.warn(format_args!(
            "stopped: the hold is not renewed meanwhile; it ends in {}, and the program with it",
            Rough(self.guard.validity())
        ));
        let by = if had_terminal { Signal::TSTP } else { signal };
        let was_stopped = signals.stop(by, had_terminal).await;
        if wants_terminal && !was_stopped {
            // Without a shell it can never have the terminal: the kernel, too, hangs up on such a group.
            self.child.target.ask_to_end(Signal::HUP);
        } else if self.guard.is_valid() {
            if had_terminal || wants_terminal {
                self.child.lend_terminal();
            }
            self.child.target.signal(Signal::CONT);
        }
    }

    fn lost(&mut self, loss: &Loss) {
        if self.status.is_none() {
            self.made_to = Some(outcome::lost(loss));
        }
        if self.asked.is_none() {
            self.ask(Instant::now());
        }
    }
}

/// How the command ends after the program did.
fn end(status: WaitStatus) -> End {
    if let Some(code) = status.exit_status() {
        return End::Code(u8::try_from(code).unwrap_or(u8::MAX));
    }
    let number = status.terminating_signal().unwrap_or(0);
    match Signal::from_named_raw(number) {
        Some(signal @ (Signal::INT | Signal::QUIT | Signal::TERM | Signal::HUP)) => End::Signal(signal),
        _ => End::Code(u8::try_from(128 + number).unwrap_or(u8::MAX)),
    }
}
