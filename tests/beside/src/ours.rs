//! Contender of this crate. `main.rs` describes the arguments and the line of figures, which all contenders share.

use std::sync::Arc;
use std::time::Duration;
use std::{env, io, process, thread};

use anyhow::{Context, Result, bail, ensure};
use multilock::{Masters, MastersBuilder, MultiLock, Policy, Quarantine};
use redis::aio::MultiplexedConnection;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout_at};

const WARM_UP: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct Contender {
    masters: Masters,
    policy: Policy,
    section: Duration,
    name: String,
    /// Without one each task makes pairs on names of its own.
    witness: Option<MultiplexedConnection>,
}

#[derive(Default)]
struct Figures {
    grants: usize,
    times: Vec<Duration>,
    errors: usize,
    two_inside: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [ports, kind, name, tasks, section, seconds, witness] = &args[..] else {
        bail!("the arguments are PORT,… KIND NAME TASKS SECTION_MS SECONDS WITNESS_PORT");
    };
    let (tasks, seconds) = (tasks.parse()?, Duration::from_secs_f64(seconds.parse()?));
    let mut contender = Contender {
        masters: connect(ports).await?,
        policy: match kind.as_str() {
            "red_lock" => Policy::RedLock,
            "multi_lock" => Policy::MultiLock,
            kind => bail!("the kind is red_lock or multi_lock, not {kind}"),
        },
        section: Duration::from_millis(section.parse()?),
        name: format!("warm-up-{name}-{}", process::id()),
        witness: None,
    };
    contender.run(tasks, WARM_UP).await?;
    contender.name.clone_from(name);
    if witness != "0" {
        let client = redis::Client::open(format!("redis://127.0.0.1:{witness}"))?;
        contender.witness = Some(client.get_multiplexed_async_connection().await?);
    }
    println!("ready");
    ensure!(
        io::stdin().read_line(&mut String::new())? > 0,
        "standard input has ended"
    );
    let figures = contender.run(tasks, seconds).await?;
    let at = |share: f64| {
        let last = figures.times.len().saturating_sub(1) as f64;
        let time = figures.times.get((last * share).round() as usize);
        time.map_or(0.0, Duration::as_secs_f64) * 1e3
    };
    println!(
        "grants={} grants_s={:.1} p50_ms={:.3} p99_ms={:.3} max_ms={:.3} errors={} two_inside={}",
        figures.grants,
        figures.grants as f64 / seconds.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(1.0),
        figures.errors,
        figures.two_inside
    );
    Ok(())
}

/// Options come from the environment. The servers are new, so no lock on them was forgotten.
async fn connect(ports: &str) -> Result<Masters> {
    let urls: Vec<String> = ports
        .split(',')
        .map(|port| format!("redis://127.0.0.1:{port}"))
        .collect();
    let builder = MastersBuilder::from_variables(|name| match name {
        "MULTILOCK_NODES" => Some(urls.join(",")),
        name => env::var(name).ok(),
    })?;
    Ok(builder.quarantine(Quarantine::Off).connect().await?)
}

impl Contender {
    async fn run(&self, tasks: usize, time: Duration) -> Result<Figures> {
        let (contender, end) = (Arc::new(self.clone()), Instant::now() + time);
        let mut running = JoinSet::new();
        for task in 0..tasks {
            running.spawn(Arc::clone(&contender).task(task, end));
        }
        let mut all = Figures::default();
        while let Some(figures) = running.join_next().await {
            let figures = figures??;
            all.grants += figures.grants;
            all.times.extend(figures.times);
            all.errors += figures.errors;
            all.two_inside += figures.two_inside;
        }
        all.times.sort_unstable();
        Ok(all)
    }

    async fn task(self: Arc<Self>, task: usize, end: Instant) -> Result<Figures> {
        let mut figures = Figures::default();
        for number in 0_u64.. {
            let begun = Instant::now();
            if begun >= end {
                break;
            }
            let name = match self.witness {
                Some(_) => self.name.clone(),
                None => format!("{}-{task}-{number}", self.name),
            };
            let lock = self.masters.lock(name, self.policy);
            let Ok(guard) = timeout_at(end, acquire(&lock, &mut figures.errors)).await else {
                figures.times.push(end - begun);
                break;
            };
            let waited = begun.elapsed();
            figures.grants += 1;
            if let Some(witness) = &self.witness {
                let inside = format!("inside-{}", self.name);
                figures.two_inside += usize::from(self.section(&inside, witness.clone()).await?);
            }
            figures.errors += usize::from(guard.unlock().await.is_err());
            let pair = begun.elapsed();
            figures.times.push(self.witness.as_ref().map_or(pair, |_| waited));
        }
        Ok(figures)
    }

    /// Returns whether another holder was inside.
    async fn section(&self, inside: &str, mut witness: MultiplexedConnection) -> Result<bool> {
        let count: u64 = redis::cmd("INCR").arg(inside).query_async(&mut witness).await?;
        // A timer of the runtime would make up to two milliseconds of one.
        let section = self.section;
        spawn_blocking(move || thread::sleep(section)).await?;
        let left: redis::RedisResult<()> = redis::cmd("DECR").arg(inside).query_async(&mut witness).await;
        left.context("the witness does not answer")?;
        Ok(count != 1)
    }
}

async fn acquire(lock: &MultiLock, errors: &mut usize) -> multilock::MultiLockGuard {
    loop {
        match lock.lock().await {
            Ok(guard) => return guard,
            Err(_) => *errors += 1,
        }
        sleep(Duration::from_millis(10)).await;
    }
}
