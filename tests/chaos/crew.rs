//! The worker processes, from the outside. None outlives the crew.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::worker::Duty;

const ENDS_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Worker {
    pub number: usize,
    /// Whose ways to the masters it uses.
    pub place: usize,
    child: Child,
}

impl Worker {
    pub fn start(duty: &Duty, place: usize, env: &[(&str, String)]) -> Result<Self> {
        let program = std::env::current_exe().context("the campaign's own program")?;
        let child = Command::new(program)
            .args(duty.to_args())
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("starting a worker")?;
        Ok(Self {
            number: duty.worker,
            place,
            child,
        })
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("signalling a worker")
    }

    /// The end without a word.
    pub fn kill(&mut self) {
        // Both fail only for a process that has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Fails when it has ended before its time; its own words are on stderr.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("worker {} has ended early ({status})", self.number);
        }
        Ok(())
    }

    /// Waits for a worker that has been told to stop.
    pub async fn ended(&mut self) -> Result<()> {
        let end = Instant::now() + ENDS_WITHIN;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("worker {} failed ({status})", self.number),
                None if Instant::now() > end => bail!("worker {} did not stop", self.number),
                None => sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}
