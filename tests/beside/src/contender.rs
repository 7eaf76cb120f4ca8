//! A contender as a process.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Stage;

/// Limit for a start with its warm-up, and for an end. Both take some seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const BESIDE_REDISSON: &str = "MULTILOCK_BESIDE_REDISSON";

/// Task of a contender.
pub(crate) struct Order<'a> {
    /// Its language; `None` is ours.
    pub(crate) language: Option<&'a str>,
    pub(crate) kind: &'a str,
    pub(crate) n: usize,
    pub(crate) name: &'a str,
    pub(crate) tasks: usize,
    pub(crate) section_ms: u64,
    pub(crate) seconds: f64,
    /// Whether its tasks want one name under the eyes of the witness.
    pub(crate) is_contest: bool,
    pub(crate) is_beside_redisson: bool,
}

/// Times are in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) grants: f64,
    pub(crate) rate: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    pub(crate) errors: f64,
    pub(crate) two_inside: f64,
}

/// Killed when it is dropped.
pub(crate) struct Contender {
    who: String,
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Its standard error.
    log: PathBuf,
}

impl Contender {
    pub(crate) fn start(stage: &Stage, order: &Order<'_>) -> Result<Self> {
        let who = order.language.unwrap_or("ours").to_owned();
        let program = stage.program(order.language);
        let log = stage.folder.join(format!("{who}.log"));
        let ports: Vec<String> = stage.ports(order.n).iter().map(u16::to_string).collect();
        let witness = if order.is_contest { stage.witness.port() } else { 0 };
        let mut command = Command::new(&program);
        command
            .args([&ports.join(","), order.kind, order.name])
            .arg(order.tasks.to_string())
            .arg(order.section_ms.to_string())
            .arg(order.seconds.to_string())
            .arg(witness.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .kill_on_drop(true);
        // The caller's own value stays, for a comparison.
        if order.is_beside_redisson && env::var_os(BESIDE_REDISSON).is_none() {
            command.env(BESIDE_REDISSON, "true");
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let input = child.stdin.take().context("a pipe to the contender")?;
        let output = child.stdout.take().context("a pipe from the contender")?;
        Ok(Self {
            who,
            child,
            input,
            output: BufReader::new(output).lines(),
            log,
        })
    }

    pub(crate) async fn until_ready(&mut self) -> Result<()> {
        let line = self.line(PATIENCE).await?;
        ensure!(
            line == "ready",
            "{} printed '{line}' instead of 'ready'",
            self.who
        );
        Ok(())
    }

    pub(crate) async fn go(&mut self) -> Result<()> {
        let written = self.input.write_all(b"go\n").await;
        written.with_context(|| format!("{} has ended", self.who))
    }

    pub(crate) async fn figures(mut self, limit: Duration) -> Result<Figures> {
        let line = self.line(limit).await?;
        let figures = Figures::parse(&line);
        let figures = figures.with_context(|| format!("{} printed '{line}'", self.who))?;
        let ended = timeout(PATIENCE, self.child.wait()).await;
        let status = ended.with_context(|| format!("{} does not end", self.who))??;
        ensure!(status.success(), "{}: {status}; {}", self.who, self.said());
        Ok(figures)
    }

    async fn line(&mut self, limit: Duration) -> Result<String> {
        let line = timeout(limit, self.output.next_line()).await;
        let line = line.map_err(|_| anyhow!("{} printed nothing in {limit:?}; {}", self.who, self.said()))?;
        line?.with_context(|| format!("{} has ended; {}", self.who, self.said()))
    }

    fn said(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        format!("its standard error:\n{}", log.trim_end())
    }
}

impl Figures {
    fn parse(line: &str) -> Result<Self> {
        let figure = |key: &str| {
            let mut words = line.split_whitespace();
            let text = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            let text = text.with_context(|| format!("no {key}"))?;
            text.parse().with_context(|| key.to_owned())
        };
        Ok(Self {
            grants: figure("grants")?,
            rate: figure("grants_s")?,
            p50: figure("p50_ms")?,
            p99: figure("p99_ms")?,
            max: figure("max_ms")?,
            errors: figure("errors")?,
            two_inside: figure("two_inside")?,
        })
    }
}
