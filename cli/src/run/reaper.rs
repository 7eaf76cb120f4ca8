//! Changes of this process's children, and of the orphans that are its children.

use std::io;

use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Reads how children ended or why they stopped. As process 1 of a container, and on Linux anywhere, this
/// process becomes the parent of its orphaned descendants. A process that has ended is gone only once its
/// parent has read its status.
#[derive(Debug)]
pub(super) struct Reaper {
    news: Signal,
}

impl Reaper {
    /// Starts the reaper, before the first child.
    pub(super) fn start() -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        Ok(Self {
            news: signal(SignalKind::child())?,
        })
    }

    /// Next change of a child: it has ended, or was stopped. No change is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> (Pid, WaitStatus) {
        loop {
            if let Ok(Some(change)) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                return change;
            }
            self.news.recv().await;
        }
    }
}
