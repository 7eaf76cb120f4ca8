//! Signals: their names, signals that are passed on to the child or end a wait, and signals that stop and
//! continue a job.

use std::fmt;
use std::fs;
use std::future::poll_fn;
use std::io;
use std::str::FromStr;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal as Kind, raise};
use rustix::process::{Signal, kill_current_process_group};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::writer;

const PASSED_ON: [Signal; 6] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];

/// Longest time from a signal to this process until its handler has run.
const HANDLED: Duration = Duration::from_millis(100);

/// Finds a signal by its name without SIG.
pub(crate) fn named(name: &str) -> Option<Signal> {
    let kind = Kind::from_str(&format!("SIG{name}")).ok()?;
    Signal::from_named_raw(kind as i32)
}

/// A signal by its usual name.
pub(super) struct Name(pub(super) Signal);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Kind::try_from(self.0.as_raw()) {
            Ok(kind) => f.write_str(kind.as_str().trim_start_matches("SIG")),
            Err(_) => write!(f, "signal {}", self.0.as_raw()),
        }
    }
}

/// Blocks TSTP, which [`Signals`] receives instead, and TTOU. Without TTOU, this process may write to the
/// terminal and hand it over in the background. Threads inherit the mask, so this comes before the first one.
pub(crate) fn block_stops() -> io::Result<()> {
    Ok(stops().thread_block()?)
}

/// Starts a program without the mask, which it would inherit.
pub(super) fn unblocked<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    stops().thread_unblock()?;
    let started = start();
    stops().thread_block()?;
    started
}

fn stops() -> SigSet {
    let mut stops = SigSet::empty();
    stops.add(Kind::SIGTTOU);
    if !is_ignored(ignored(), Signal::TSTP) {
        stops.add(Kind::SIGTSTP);
    }
    stops
}

/// Signals to this process, from the first call of [`Signals::listen`] on.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, Stream)>,
    /// An item for each TSTP; closed if TSTP was ignored from the start.
    stops: UnboundedReceiver<()>,
    continued: Stream,
}

impl Signals {
    /// Begins to receive signals. A signal that was ignored from the start stays ignored, because `nohup`
    /// wants that.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let handled = PASSED_ON
            .into_iter()
            .filter(|signal| !is_ignored(ignored, *signal));
        let streams = handled.map(|handled| Ok((handled, signal(SignalKind::from_raw(handled.as_raw()))?)));
        Ok(Self {
            streams: streams.collect::<io::Result<_>>()?,
            stops: receive_stops()?,
            continued: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
        })
    }

    /// Next signal. No signal is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            if let Poll::Ready(Some(())) = self.stops.poll_recv(context) {
                return Poll::Ready(Signal::TSTP);
            }
            // After TSTP, with which it may have come.
            self.continued.poll_recv(context).map(|_| Signal::CONT)
        })
        .await
    }

    /// Stops this process until a shell continues it. With `whole_group`, the other processes of its group
    /// are stopped first. Returns false if the kernel does not stop it, because no shell is left that could
    /// continue it.
    ///
    /// Runs on the main thread, and changes its mask for a moment.
    pub(super) async fn stop(&mut self, signal: Signal, whole_group: bool) -> bool {
        writer::settle();
        if whole_group {
            let _ = kill_current_process_group(Signal::TSTP);
            // This process gets a copy of the signal, which needs no other reaction.
            let _ = timeout(HANDLED, self.stops.recv()).await;
        }
        while self.stops.try_recv().is_ok() {}
        while timeout(Duration::ZERO, self.continued.recv()).await.is_ok() {}
        let Ok(kind) = Kind::try_from(signal.as_raw()) else {
            return false;
        };
        let is_blocked = stops().contains(kind);
        let set = SigSet::from_iter([kind]);
        if is_blocked {
            let _ = set.thread_unblock();
        }
        // The signal goes to this thread, so this process is stopped here.
        let _ = raise(kind);
        if is_blocked {
            let _ = set.thread_block();
        }
        timeout(HANDLED, self.continued.recv()).await.is_ok()
    }
}

/// Starts a thread that waits for TSTP, which all threads block. The thread lives as long as the process.
fn receive_stops() -> io::Result<UnboundedReceiver<()>> {
    let (sender, received) = unbounded_channel();
    let mut set = stops();
    set.remove(Kind::SIGTTOU);
    if set.contains(Kind::SIGTSTP) {
        let receive = move || while set.wait().is_ok() && sender.send(()).is_ok() {};
        thread::Builder::new().name("stops".to_owned()).spawn(receive)?;
    }
    Ok(received)
}

/// Set of signals that this process ignores, if the system shows it: signal n is bit n − 1.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0)
}

fn is_ignored(ignored: u64, signal: Signal) -> bool {
    ignored >> (signal.as_raw() - 1) & 1 == 1
}
