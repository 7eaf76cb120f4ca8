//! The child while the lock is held: signals are passed on, and the child ends with the hold.
//!
//! The child is asked to end some time before the end of the hold. The rest of its group is killed a moment
//! before that end. If the hold is taken away, the child has the same notice, but no more time than the hold
//! had.

use std::borrow::Cow;
use std::time::Duration;

use multilock::{Loss, Mode, MultiLockGuard};
use rustix::process::{Pid, Signal, WaitStatus, kill_current_process_group};
use tokio::time::{Instant, sleep};

use super::child::{Child, LOOKED_FOR, Target};
use super::outcome;
use super::signals::{self, Signals};
use crate::exit::{End, Failure};
use crate::say::{Rough, Voice};
use crate::terminal::Terminal;

/// Time before the end of the hold at which KILL is sent: a machine takes that long to wake this process and
/// to end another.
pub(super) const LEAD: Duration = Duration::from_millis(10);
/// Longest time between two looks at the hold.
const LONGEST: Duration = Duration::from_secs(1);
/// Shortest time between two looks at the hold.
const SHORTEST: Duration = Duration::from_millis(5);
/// Time between two checks for the rest of the group. Each check lists all processes.
const LEFT: Duration = Duration::from_millis(20);
/// Time after which a killed process that still exists counts as a zombie: its parent has not read its
/// status.
const KILLED: Duration = Duration::from_secs(1);

/// Reason of an end that was planned.
pub(super) const AT_ITS_END: &str = "the hold came to its end";

/// End of the child.
#[derive(Debug)]
pub(super) struct Ended {
    /// End of the command.
    pub(super) end: End,
    /// Reason, if the child was made to end.
    pub(super) made_to: Option<Cow<'static, str>>,
    /// Status of the program, if one has run.
    pub(super) status: Option<WaitStatus>,
}

pub(super) async fn follow<M: Mode>(
    guard: &MultiLockGuard<M>,
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
        status,
    })
}

struct Running<'a, M> {
    guard: &'a MultiLockGuard<M>,
    child: Child,
    notice: Duration,
    voice: Voice,
    /// Time at which the hold ends, or would have ended before it was lost.
    end: Instant,
    /// Time at which the child, or the rest of its group, was asked to end.
    asked: Option<Instant>,
    killed: Option<Instant>,
    /// Jobs outside of the group, looked up shortly before they are killed.
    jobs: Option<Vec<Pid>>,
    /// Reason why the program was ended.
    made_to: Option<Cow<'static, str>>,
    /// Status of the program after its end.
    status: Option<WaitStatus>,
}

impl<M: Mode> Running<'_, M> {
    /// Whether no process is left that could run.
    fn is_over(&self) -> bool {
        let is_killed = || self.killed.is_some_and(|at| at.elapsed() >= KILLED);
        self.status.is_some() && (!self.leaves_something() || is_killed())
    }

    /// Whether anything is left that the program, which has ended, has started.
    fn leaves_something(&self) -> bool {
        match &self.child.target {
            Target::Process(_) => false,
            group @ Target::Group { .. } => group.is_there(),
        }
    }

    /// Looks at the hold, and does all that is due. Returns the time until the next look.
    fn look(&mut self) -> Duration {
        let (now, validity) = (Instant::now(), self.guard.validity());
        if !validity.is_zero() {
            self.end = now + validity;
        }
        let left = self.end.saturating_duration_since(now);
        if self.asked.is_none() {
            if self.status.is_some() {
                // The number of a program that has ended may be another program's by now.
                if self.leaves_something() {
                    self.voice.detail(format_args!(
                        "the program has ended; what it leaves behind is sent {}",
                        signals::Name(self.child.end_signal)
                    ));
                    self.ask(now);
                }
            } else if left <= self.notice {
                self.made_to = Some(Cow::Borrowed(AT_ITS_END));
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
                if self.asked.is_none() && self.status.is_none() {
                    // The notice is shorter than the lead, so that the end comes first.
                    self.made_to = Some(Cow::Borrowed(AT_ITS_END));
                    self.voice.warn(format_args!(
                        "the hold ends in {} and is not renewed: the program is killed",
                        Rough(left)
                    ));
                    self.asked = Some(now);
                }
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
        let to_kill = to_kill.saturating_sub(LEAD);
        let due = to_ask.map_or(to_kill, |to_ask| to_ask.min(to_kill));
        // Looks come more often towards the due time, because the hold may be renewed meanwhile. The last one
        // comes at that time.
        if due <= SHORTEST {
            due
        } else {
            (due / 4).clamp(SHORTEST, LONGEST)
        }
    }

    /// Time at which the rest of the group is killed.
    fn kill_at(&self) -> Instant {
        match self.asked {
            // The hold is over or not needed any more, so the group has no more time than its notice.
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
            // The child was a process that the program left behind, or the supervisor.
            if !status.stopped() {
                self.child.supervisor.child_ended(pid);
            }
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
            // The keys reached the program alone, but are meant for a script around it, too.
            let _ = kill_current_process_group(signal);
        }
    }

    /// Lends the terminal to a program that was stopped, or stops with it until a shell continues the job.
    async fn stopped(&mut self, signal: Signal, signals: &mut Signals) {
        let wants_terminal = matches!(signal, Signal::TTIN | Signal::TTOU);
        if wants_terminal && self.child.lend_terminal() {
            self.child.target.signal(Signal::CONT);
            return;
        }
        let had_terminal = self.child.has_terminal();
        if self.child.terminal.is_none() || (signal == Signal::STOP && !had_terminal) {
            // The signal stopped the program and nothing else.
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
            // Without a shell it can never have the terminal. The kernel, too, hangs up on such a group.
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

/// End of the command after that of the program.
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
