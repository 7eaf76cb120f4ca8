//! Signals: their names, and those that are passed on to the child and end a wait.

use std::fmt;
use std::fs;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

const PASSED_ON: [Signal; 6] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];

/// Those that can be asked for by name.
const NAMES: [(&str, Signal); 14] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ABRT", Signal::ABORT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("TSTP", Signal::TSTP),
    ("WINCH", Signal::WINCH),
    ("URG", Signal::URG),
];

/// A signal by its name without SIG.
pub(crate) fn named(name: &str) -> Option<Signal> {
    let found = NAMES.iter().find(|(known, _)| *known == name);
    found.map(|(_, signal)| *signal)
}

/// A signal as people know it.
pub(super) struct Name(pub(super) Signal);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, signal)| *signal == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "signal {}", self.0.as_raw()),
        }
    }
}

/// They arrive here from the first call of [`Signals::listen`] on.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, Stream)>,
}

impl Signals {
    /// Those that whoever started this process had it ignore stay ignored, as `nohup` wants it.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let heard = PASSED_ON
            .into_iter()
            .filter(|signal| ignored >> (signal.as_raw() - 1) & 1 == 0);
        let streams = heard.map(|heard| Ok((heard, signal(SignalKind::from_raw(heard.as_raw()))?)));
        Ok(Self {
            streams: streams.collect::<io::Result<_>>()?,
        })
    }

    /// The next one. Nothing is lost where this is dropped.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The set of signals that this process ignores, where the system tells it: signal n is bit n − 1.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0)
}
