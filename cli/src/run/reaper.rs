//! Changes of this process's children, and of the orphans that are its children.

use std::io;

use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Asks how children ended or why they stopped. As process 1 of a container, and on Linux anywhere, this process becomes
/// the parent of what its descendants leave behind, and a process that has ended is gone only once its parent has asked.
#[derive(Debug)]
pub(super) struct Reaper {
    news: Signal,
}

impl Reaper {
    /// Comes before the first child.
    pub(super) fn start() -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        Ok(Self {
            news: signal(SignalKind::child())?,
        })
    }

    /// The next change of a child: it has ended, or was stopped. Nothing is lost where this is dropped.
    pub(super) async fn next(&mut self) -> (Pid, WaitStatus) {
        loop {
            if let Ok(Some(change)) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                return change;
            }
            self.news.recv().await;
        }
    }
}
