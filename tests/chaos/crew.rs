//! The worker processes, from the outside. None outlives the crew.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::{Instant, sleep, timeout};

use crate::worker::Duty;

const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Time to end the work under way: a hold of some seconds, and the wait for it.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Worker {
    pub number: usize,
    /// Place of the worker: it uses the ways of this place to the masters.
    pub place: usize,
    child: Child,
    /// Only a worker under load is asked.
    talk: Option<Talk>,
}

#[derive(Debug)]
struct Talk {
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub fn start(duty: &Duty, place: usize, env: &[(&str, String)]) -> Result<Self> {
        let program = std::env::current_exe().context("the campaign's own program")?;
        let ends = || {
            if duty.load > 0 {
                Stdio::piped()
            } else {
                Stdio::null()
            }
        };
        let mut child = Command::new(program)
            .args(duty.to_args())
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(ends())
            .stdout(ends())
            .spawn()
            .context("starting a worker")?;
        let talk = match (child.stdin.take(), child.stdout.take()) {
            (Some(to), Some(from)) => Some(Talk {
                to: ChildStdin::from_std(to)?,
                from: BufReader::new(ChildStdout::from_std(from)?).lines(),
            }),
            _ => None,
        };
        Ok(Self {
            number: duty.worker,
            place,
            child,
            talk,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Says a word to a worker under load, and waits for its answer.
    pub async fn ask(&mut self, word: &str) -> Result<String> {
        let number = self.number;
        let talk = self.talk.as_mut().context("a worker that listens")?;
        let asked = async {
            talk.to.write_all(format!("{word}\n").as_bytes()).await?;
            talk.from.next_line().await?.context("it has ended")
        };
        let answer = timeout(ANSWERS_WITHIN, asked).await;
        answer
            .with_context(|| format!("worker {number} does not answer to '{word}'"))?
            .with_context(|| format!("worker {number} was told '{word}'"))
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
