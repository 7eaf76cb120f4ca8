//! How fast is it? Every scenario beside the limit and beside the other crates, taken in one run.

mod args;
mod client;
mod cluster;
mod compare;
mod crew;
mod distance;
mod machine;
mod pairs;
mod processors;
mod report;
mod scenario;
mod spend;
mod stats;
mod summary;
mod usage;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use multilock_test_support as support;
use tokio::runtime::{Builder, Runtime};

use args::Args;

/// Time limit of each run: if anything hangs, the bench still ends.
const AT_MOST: Duration = Duration::from_secs(30 * 60);

fn main() -> ExitCode {
    let done = runtime().and_then(|runtime| {
        let done = runtime.block_on(run());
        // A call of a peer that hangs on a thread of its own must not keep the program.
        runtime.shutdown_timeout(Duration::from_millis(100));
        done
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The same for everybody.
fn runtime() -> Result<Runtime> {
    let current = std::env::var_os("BENCH_CURRENT_THREAD").is_some();
    let mut builder = if current {
        Builder::new_current_thread()
    } else {
        Builder::new_multi_thread()
    };
    builder.enable_all().build().context("a runtime")
}

async fn run() -> Result<()> {
    let args = Args::parse(std::env::args().skip(1))?;
    let at_most = match &args {
        Args::Run(choice) => AT_MOST * choice.runs.get(),
        _ => AT_MOST,
    };
    let work = async {
        match args {
            Args::Run(choice) => scenario::run(&choice).await,
            Args::Report => report::write(),
            Args::Worker(order) => worker::run(&order).await,
        }
    };
    tokio::time::timeout(at_most, work)
        .await
        .with_context(|| format!("not done within {at_most:?}"))?
}

fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
