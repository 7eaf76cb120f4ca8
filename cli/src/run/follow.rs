//! The child for as long as the lock is held: signals are passed on, and it ends with the hold.
//!
//! It is asked to end a while before the hold would, so that it can; whatever is left of its group at the end of the hold is
//! killed a moment earlier. A hold that is taken away leaves it that while, but no more than it had.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use multilock::{Loss, MultiLockGuard};
use tokio::time::{Instant, sleep};

use super::child::{Child, Target};
use super::signals::{self, Signals};
use crate::exit::Failure;
use crate::say::{Rough, Voice};

/// KILL is sent so long before the end of the hold: what a machine takes to wake this process and to end another.
const LEAD: Duration = Duration::from_millis(10);
/// The longest time between two looks at the hold.
const LONGEST: Duration = Duration::from_secs(1);
/// The shortest one, and the time between two looks whether something is left of the group.
const LEFT: Duration = Duration::from_millis(5);
/// A process that was killed and is still there is none that runs: nobody has asked for its status.
const KILLED: Duration = Duration::from_secs(1);

/// How the child ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its exit code, as a shell tells it.
    pub(super) code: u8,
    /// Why it had to end, where it was made to.
    pub(super) made_to: Option<String>,
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
            status = running.child.wait(), if running.status.is_none() => running.status = Some(status?),
            signal = signals.next() => running.child.pass_on(signal),
            () = sleep(look_again) => {}
        }
    }
    running.child.supervisor.dismiss().await;
    Ok(Ended {
        code: running.status.map_or(0, code),
        made_to: running.made_to,
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
    /// What the program was ended for.
    made_to: Option<String>,
    /// How the program ended.
    status: Option<ExitStatus>,
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
                self.made_to = Some("the hold came to its end".to_owned());
                self.voice.warn(format_args!(
                    "the hold ends in {} and is not renewed: the program is sent {}",
                    Rough(left),
                    signals::Name(self.child.end_signal)
                ));
                self.ask(now);
            }
        }
        let to_kill = self.kill_at().saturating_duration_since(now);
        if to_kill <= LEAD && self.killed.is_none() {
            self.child.kill();
            self.killed = Some(now);
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
        if due <= LEFT {
            due
        } else {
            (due / 4).clamp(LEFT, LONGEST)
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
        self.child.ask_to_end();
        self.asked = Some(now);
    }

    fn lost(&mut self, loss: &Loss) {
        if self.status.is_none() {
            self.made_to = Some(loss.to_string());
        }
        if self.asked.is_none() {
            self.ask(Instant::now());
        }
    }
}

/// What a shell tells of it.
fn code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(u8::MAX)
}
