//! S6: crowds on one name. Each of many clients comes once, all together or one after the other, or comes again.
//!
//! A client has connections and waiters of its own, as if it were a process. All clients live in the bench's process.
//! With that many processes, the bench would measure how two cores take turns. One clock also shows the order in which
//! the waiters came.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use super::Bench;
use crate::client::{Client, Settings, Who};
use crate::cluster::commands;
use crate::pairs::fresh_name;
use crate::spend::spend;
use crate::stats::Durations;
use crate::summary::Line;
use crate::support::contest::Witness;

const N: usize = 5;
/// Number of clients that connect at once.
const CONNECTING: usize = 16;
/// Time in which all clients of a crowd must have been granted.
const AT_MOST: Duration = Duration::from_secs(60);
/// A ticket is drawn from the masters' clocks as its client has read them. So waiters came together if the times between
/// them are within the error of such a reading and a round.
const TOGETHER: Duration = Duration::from_millis(5);
/// Time for all tasks to start, before the first client comes.
const STARTED: Duration = Duration::from_millis(50);

#[derive(Clone, Copy)]
struct Crowd {
    id: &'static str,
    clients: usize,
    /// Time between the first visits of two successive clients.
    every: Duration,
    section: Duration,
    /// Time for which each client comes again, and its pause.
    again: Option<Again>,
}

#[derive(Clone, Copy)]
struct Again {
    time: Duration,
    pause: Duration,
}

/// One wait that was granted.
struct Visit {
    began: Instant,
    granted: Instant,
    /// Its place among all grants.
    place: u64,
}

/// State that all clients of a crowd share.
struct Scene {
    name: String,
    grants: AtomicU64,
    witness: Witness,
}

pub async fn run(bench: &mut Bench) -> Result<()> {
    let ms = Duration::from_millis;
    let together = Crowd {
        id: "once64",
        clients: 64,
        every: Duration::ZERO,
        section: ms(1),
        again: None,
    };
    let in_turn = Crowd {
        id: "once300",
        clients: 300,
        every: Duration::from_micros(3_500),
        section: ms(2),
        again: None,
    };
    let again = Crowd {
        id: "again32",
        clients: 32,
        every: Duration::ZERO,
        section: ms(1),
        again: Some(Again {
            time: ms(4_000),
            pause: ms(1),
        }),
    };
    for crowd in bench.form(vec![together], vec![together, in_turn, again]) {
        measure(bench, crowd).await?;
    }
    Ok(())
}

async fn measure(bench: &mut Bench, crowd: Crowd) -> Result<()> {
    let clients = connect(bench, crowd.clients).await?;
    let (mut waits, mut grants) = (Durations::default(), 0);
    let mut overtaken = Overtaken::default();
    let (mut time, mut scripts) = (Duration::ZERO, 0.0);
    for _ in 0..bench.form(1, 3) {
        let before = commands(bench.cluster.observers(N)).await?;
        let visits = timeout(AT_MOST, visits(&clients, crowd))
            .await
            .with_context(|| format!("{}: not all have been in within {AT_MOST:?}", crowd.id))??;
        scripts += commands(bench.cluster.observers(N))
            .await?
            .since(&before)
            .scripts();
        let first = visits.iter().map(|visit| visit.began).min();
        let last = visits.iter().map(|visit| visit.granted).max();
        time += last
            .zip(first)
            .map_or(Duration::ZERO, |(last, first)| last - first);
        overtaken = overtaken.worse(Overtaken::in_all(&visits));
        grants += visits.len();
        for visit in &visits {
            waits.record(visit.granted - visit.began);
        }
    }
    drop(clients);
    bench.cluster.wipe(N).await?;
    let line = Line::new(format!("S6.{}", crowd.id), N)
        .with("clients_in_one_process", crowd.clients as f64)
        .with("ours_overtaken", overtaken.by_all as f64)
        .with("ours_overtaken_by_later", overtaken.by_later as f64)
        .with("ours_overtaken_by_ms", overtaken.latest.as_secs_f64() * 1e3)
        .with("ours_wait_p99_ms", waits.at(0.99) / 1e3)
        .with("ours_scripts_per_grant_and_node", scripts / grants as f64)
        .with("ours_ms_per_grant", time.as_secs_f64() * 1e3 / grants as f64);
    bench.summary.line(line);
    Ok(())
}

async fn connect(bench: &Bench, clients: usize) -> Result<Vec<Client>> {
    allow_sockets(clients * N)?;
    let urls = bench.cluster.urls(N);
    let clients = stream::iter(0..clients).map(|_| async {
        let client = Client::connect(Who::Ours, &urls, Settings::default()).await?;
        // The first use sets up connections and scripts, which are not part of the measurement.
        client.pair(&fresh_name()).await?;
        anyhow::Ok(client)
    });
    clients.buffer_unordered(CONNECTING).try_collect().await
}

/// Raises the limit of open files, with room for the files that the bench has open already.
fn allow_sockets(sockets: usize) -> Result<()> {
    const OTHERS: u64 = 500;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = sockets as u64 + OTHERS;
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    ensure!(
        maximum.is_none_or(|maximum| maximum >= wanted),
        "{wanted} open files are needed, {maximum:?} allowed"
    );
    let limit = Rlimit {
        current: Some(wanted),
        maximum,
    };
    setrlimit(Resource::Nofile, limit).context("raising the number of open files")
}

async fn visits(clients: &[Client], crowd: Crowd) -> Result<Vec<Visit>> {
    let scene = Arc::new(Scene {
        name: fresh_name(),
        grants: AtomicU64::new(0),
        witness: Witness::default(),
    });
    let start = Instant::now() + STARTED;
    let mut tasks = JoinSet::new();
    for (number, client) in clients.iter().enumerate() {
        let (client, scene) = (client.clone(), Arc::clone(&scene));
        let comes = start + crowd.every * number as u32;
        tasks.spawn(async move {
            sleep_until(comes.into()).await;
            let mut visits = vec![visit(&client, &scene, crowd.section).await?];
            if let Some(Again { time, pause }) = crowd.again {
                while start.elapsed() < time {
                    spend(pause).await;
                    visits.push(visit(&client, &scene, crowd.section).await?);
                }
            }
            anyhow::Ok(visits)
        });
    }
    let mut visits = Vec::new();
    while let Some(some) = tasks.join_next().await {
        visits.extend(some??);
    }
    let overlaps = scene.witness.overlaps();
    ensure!(overlaps == 0, "two holders, {overlaps} times");
    Ok(visits)
}

async fn visit(client: &Client, scene: &Scene, section: Duration) -> Result<Visit> {
    let began = Instant::now();
    let held = client.acquire(&scene.name).await?;
    let visit = Visit {
        began,
        granted: Instant::now(),
        place: scene.grants.fetch_add(1, Ordering::Relaxed),
    };
    scene.witness.watch(spend(section)).await;
    client.release(held).await?;
    Ok(visit)
}

/// Overtaking of the waiter that was overtaken most: number of waiters that came after it, and were granted while it waited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Overtaken {
    by_all: usize,
    by_later: usize,
    /// How much later than the waiter the latest overtaker came.
    latest: Duration,
}

impl Overtaken {
    fn in_all(visits: &[Visit]) -> Self {
        visits
            .iter()
            .map(|waiter| Self::of(waiter, visits))
            .fold(Self::default(), Self::worse)
    }

    fn of(waiter: &Visit, visits: &[Visit]) -> Self {
        let ahead = visits.iter().filter(|other| other.place < waiter.place);
        let later = ahead.filter_map(|other| other.began.checked_duration_since(waiter.began));
        let later = later.filter(|later| !later.is_zero());
        later.fold(Self::default(), |so_far, later| Self {
            by_all: so_far.by_all + 1,
            by_later: so_far.by_later + usize::from(later > TOGETHER),
            latest: so_far.latest.max(later),
        })
    }

    /// The worse of each.
    fn worse(self, other: Self) -> Self {
        Self {
            by_all: self.by_all.max(other.by_all),
            by_later: self.by_later.max(other.by_later),
            latest: self.latest.max(other.latest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_later_and_was_granted_before_has_overtaken() {
        let start = Instant::now();
        let visit = |began, place| Visit {
            began: start + Duration::from_millis(began),
            granted: start + Duration::from_millis(100 + place),
            place,
        };
        let overtaken = |by_all, by_later, latest| Overtaken {
            by_all,
            by_later,
            latest: Duration::from_millis(latest),
        };
        let of = Overtaken::in_all;
        assert_eq!(of(&[visit(0, 0), visit(1, 1), visit(50, 2)]), overtaken(0, 0, 0));
        assert_eq!(of(&[visit(0, 2), visit(1, 0), visit(50, 1)]), overtaken(2, 1, 50));
        assert_eq!(of(&[visit(0, 1), visit(1, 2), visit(50, 0)]), overtaken(1, 1, 50));
    }
}
