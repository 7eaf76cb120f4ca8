//! multilock and the original lock libraries of other languages on the same real masters: first as contenders for one name,
//! then each alone for speed. Two tables go to standard output.
//!
//! ```text
//! beside FOLDER SECONDS ROUNDS LANGUAGE…      (from scripts/beside.sh, which builds the contenders into FOLDER)
//! ```
//!
//! A contender is a program with these arguments:
//!
//! ```text
//! PORT,… KIND NAME TASKS SECTION_MS SECONDS WITNESS_PORT
//! ```
//!
//! 1. It connects to the masters on these ports of the loopback, makes pairs on free names for two seconds, and prints `ready`.
//! 2. It waits for a line of its standard input. At the end of the input it exits.
//! 3. With a witness its tasks lock `NAME` again and again for `SECONDS`. A holder increments `inside-NAME` on the witness, counts a
//!    violation unless the answer is 1, sleeps for `SECTION_MS`, and decrements. With 0 as `WITNESS_PORT` each task locks and
//!    unlocks names that nobody else uses.
//! 4. It prints `grants=… grants_s=… p50_ms=… p99_ms=… max_ms=… errors=… two_inside=…`. The times are those of waits for a
//!    grant, or of pairs without a witness. A wait that outlasts `SECONDS` counts until their end. A call that fails is an error,
//!    and the wait goes on with the next call.

mod contender;
mod mixes;
mod pairs;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use multilock_test_support::Server;
use tokio::signal::unix::{SignalKind, signal};

use contender::{Contender, Figures, Order};

const MASTERS: usize = 5;
/// Nothing is kept on disk: otherwise the disk would be measured.
const IN_MEMORY: [&str; 4] = ["--appendonly", "no", "--save", ""];

/// Servers, programs and options of a run.
struct Stage {
    masters: Vec<Server>,
    witness: Server,
    /// Contenders of other languages, each as `<language>/contender`, and their logs.
    folder: PathBuf,
    ours: PathBuf,
    seconds: f64,
    rounds: usize,
    languages: Vec<String>,
    /// Mixes and tables to run, all of them if empty.
    only: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    // A signal drops the servers and contenders, too, and they end with the run.
    let outcome = tokio::select! {
        outcome = run() => outcome,
        outcome = stopped() => outcome,
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("beside: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn stopped() -> Result<bool> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        outcome = tokio::signal::ctrl_c() => outcome?,
        _ = terminate.recv() => {}
    }
    bail!("stopped by a signal")
}

/// Returns whether no two were inside at once and no contender failed.
async fn run() -> Result<bool> {
    let stage = Stage::new().await?;
    let mixes = mixes::run(&stage).await?;
    let pairs = pairs::run(&stage).await?;
    ensure!(
        mixes.is_some() || pairs.is_some(),
        "ONLY names nothing that there is: {:?}",
        stage.only
    );
    Ok(mixes != Some(false) && pairs != Some(false))
}

impl Stage {
    async fn new() -> Result<Self> {
        let mut args = env::args().skip(1);
        let mut next = |what| args.next().with_context(|| format!("{what} is missing"));
        let folder = PathBuf::from(next("FOLDER")?);
        let seconds = next("SECONDS")?.parse().context("SECONDS")?;
        let rounds = next("ROUNDS")?.parse().context("ROUNDS")?;
        fs::create_dir_all(&folder)?;
        let mut masters = Vec::new();
        for _ in 0..MASTERS {
            masters.push(Server::start_with(&IN_MEMORY).await);
        }
        let only = env::var("ONLY").unwrap_or_default();
        Ok(Self {
            masters,
            witness: Server::start_with(&IN_MEMORY).await,
            folder,
            ours: env::current_exe()?.with_file_name("ours"),
            seconds,
            rounds,
            languages: args.collect(),
            only: only.split_whitespace().map(str::to_owned).collect(),
        })
    }

    fn selects(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == id)
    }

    fn has(&self, language: &str) -> bool {
        self.languages.iter().any(|it| it == language)
    }

    /// The contender of a language, or ours.
    fn program(&self, language: Option<&str>) -> PathBuf {
        language.map_or_else(
            || self.ours.clone(),
            |language| self.folder.join(language).join("contender"),
        )
    }

    fn ports(&self, n: usize) -> Vec<u16> {
        self.masters.iter().take(n).map(Server::port).collect()
    }

    async fn wipe(&self) {
        for server in self.masters.iter().chain([&self.witness]) {
            server.flushall().await;
        }
    }

    /// Runs contenders at the same time, on empty servers.
    async fn contest(&self, orders: &[Order<'_>]) -> Result<Vec<Figures>> {
        self.wipe().await;
        let mut contenders = Vec::new();
        for order in orders {
            contenders.push(Contender::start(self, order)?);
        }
        for contender in &mut contenders {
            contender.until_ready().await?;
        }
        for contender in &mut contenders {
            contender.go().await?;
        }
        let limit = Duration::from_secs_f64(self.seconds) + contender::PATIENCE;
        let mut figures = Vec::new();
        for contender in contenders {
            figures.push(contender.figures(limit).await?);
        }
        Ok(figures)
    }
}
