//! Everything that a fault can break: the masters, the ways to them and the worker processes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use multilock::{Closing, Masters, Policy, Quarantine};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use redis::FromRedisValue;
use tokio::time::{Instant, sleep, timeout};

use crate::crew::Worker;
use crate::event::{Done, Micros, now};
use crate::settings::{NODE_TIMEOUT, SetUp, WORKERS, on_containers};
use crate::support::{Cluster, PATIENT, Proxy, Server};
use crate::toxiproxy::Toxiproxy;
use crate::witness::Witness;
use crate::worker::{Duty, TASKS};

/// For so long the queues live after the last touch.
const TICKET: Duration = Duration::from_secs(15);

/// How a history is to go.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    pub seed: u64,
    /// Strikes.
    pub rounds: usize,
    /// The workers' locks always succeed.
    pub broken: bool,
    /// Tasks of every worker that lock and unlock beside the tasks that tell the witness.
    pub load: usize,
    /// Time for which the tasks that tell the witness wait for a lock.
    pub patience: Duration,
    /// The workers' links are those of a Toxiproxy.
    pub toxiproxy: bool,
}

/// Of the tasks that tell the witness, unless their longest waits are looked for.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// For somebody to be inside; longer than everybody's turn takes, on a busy machine, too.
const INSIDE_WITHIN: Duration = Duration::from_secs(30);
/// Workers connect, and everybody has had a lock.
const BEGUN_WITHIN: Duration = Duration::from_secs(60);
/// Time by which a key may outlive its end: a master that was frozen or starved has touched it late.
const TOUCHED_LATE: Duration = Duration::from_secs(5);

pub struct Stage {
    servers: Vec<Server>,
    /// Instead of servers of its own.
    cluster: Option<Cluster>,
    /// By worker's place, then by master.
    ways: Vec<Vec<Proxy>>,
    /// In place of the ways.
    toxiproxy: Option<Toxiproxy>,
    pub workers: Vec<Worker>,
    pub witness: Arc<Witness>,
    pub rng: StdRng,
    /// Servers that may take the place of a master.
    pub spare: Vec<Server>,
    /// By how many seconds each master's clock is off.
    pub clocks: Vec<i64>,
    set_up: SetUp,
    started: usize,
    orders: Orders,
}

impl Stage {
    /// Opens a stage: masters that have had their votes for long enough, and workers that have each had a lock.
    pub async fn open(set_up: SetUp, masters: usize, orders: Orders, witness: Arc<Witness>) -> Result<Self> {
        let (servers, cluster) = if set_up.is_plain() {
            (Vec::new(), Some(Cluster::start(masters).await))
        } else {
            let env = set_up.env()?;
            let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let starting = (0..masters).map(|_| Server::start_with_env(set_up.args, &env));
            (futures::future::join_all(starting).await, None)
        };
        let mut stage = Self {
            servers,
            cluster,
            ways: Vec::new(),
            toxiproxy: None,
            workers: Vec::new(),
            witness,
            rng: StdRng::seed_from_u64(orders.seed),
            spare: Vec::new(),
            clocks: vec![0; masters],
            set_up,
            started: 0,
            orders,
        };
        for _ in 0..WORKERS {
            let mut ways = Vec::new();
            for master in 0..masters {
                ways.push(Proxy::start(stage.server(master).port()).await);
            }
            stage.ways.push(ways);
        }
        if orders.toxiproxy {
            let ports = (0..masters).map(|master| stage.server(master).port());
            stage.toxiproxy = Some(Toxiproxy::start(WORKERS, ports.collect(), &mut stage.rng).await?);
        }
        stage.until_out_of_quarantine().await?;
        for place in 0..WORKERS {
            stage.hire(place)?;
        }
        let begun = Instant::now();
        loop {
            let all = stage.witness.working() == WORKERS * TASKS;
            if all && stage.witness.waiting_since(0).is_empty() {
                return Ok(stage);
            }
            stage.check()?;
            anyhow::ensure!(
                begun.elapsed() < BEGUN_WITHIN,
                "not everybody gets a lock before any fault"
            );
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Introduces a client to the masters. Their memory counts from then.
    async fn until_out_of_quarantine(&self) -> Result<()> {
        let servers = (0..self.masters()).map(|master| self.server(master));
        let mut builder = Masters::builder()
            .nodes(servers.map(Server::url))
            .for_tests(self.set_up.lease())
            .allow_eviction(self.set_up.allow_eviction)
            .node_timeout(NODE_TIMEOUT)
            .connect_timeout(PATIENT);
        if self.set_up.no_quarantine {
            builder = builder.quarantine(Quarantine::Off);
        }
        let client = builder.connect().await?;
        let ready = timeout(BEGUN_WITHIN, client.ready(Policy::MultiLock)).await;
        ready.context("masters are in quarantine for too long")??;
        client.close(Closing::Release).await;
        Ok(())
    }

    pub fn on_containers(&self) -> bool {
        self.cluster.is_some() && on_containers()
    }

    pub fn masters(&self) -> usize {
        self.ways[0].len()
    }

    /// How many make a majority.
    pub fn majority(&self) -> usize {
        self.masters() / 2 + 1
    }

    pub fn server(&self, master: usize) -> &Server {
        match &self.cluster {
            Some(cluster) => cluster.server(master),
            None => &self.servers[master],
        }
    }

    /// A command, asked again where a busy machine keeps a server from answering.
    pub async fn tell(&self, master: usize, args: &[&str]) -> Result<()> {
        let mut answer = self.server(master).try_command(args).await;
        for _ in 0..4 {
            if answer.is_ok() {
                break;
            }
            answer = self.server(master).try_command(args).await;
        }
        answer.map(drop)
    }

    pub async fn ask<T: FromRedisValue>(&self, master: usize, args: &[&str]) -> Result<T> {
        let answer = self.server(master).try_command(args).await?;
        Ok(redis::from_redis_value(answer)?)
    }

    /// Puts another server in the place of a master, for connections that come from now on. Returns the old one.
    pub fn replace(&mut self, master: usize, server: Server) -> Server {
        for way in self.ways_to(master) {
            way.point_to(server.port());
        }
        std::mem::replace(&mut self.servers[master], server)
    }

    /// Everybody's way to a master.
    pub fn ways_to(&self, master: usize) -> impl Iterator<Item = &Proxy> {
        self.ways.iter().map(move |ways| &ways[master])
    }

    /// One worker's way to a master.
    pub fn way(&self, place: usize, master: usize) -> &Proxy {
        &self.ways[place][master]
    }

    /// The Toxiproxy of a history that has one.
    pub fn toxiproxy(&self) -> Result<&Toxiproxy> {
        self.toxiproxy.as_ref().context("a Toxiproxy")
    }

    /// `n` masters, whichever.
    pub fn some(&mut self, n: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.masters()).collect();
        all.shuffle(&mut self.rng);
        all.truncate(n);
        all
    }

    pub fn minority(&mut self) -> Vec<usize> {
        let most = self.masters() - self.majority();
        let n = self.rng.random_range(1..=most);
        self.some(n)
    }

    /// Starts a worker on the ways of `place`.
    pub fn hire(&mut self, place: usize) -> Result<()> {
        self.started += 1;
        let urls: Vec<String> = match &self.toxiproxy {
            Some(toxiproxy) => toxiproxy.urls(place),
            None => self.ways[place].iter().map(Proxy::url).collect(),
        };
        let duty = Duty {
            worker: self.started,
            witness: self.witness.address(),
            lease: self.set_up.lease(),
            seed: self.orders.seed,
            broken: self.orders.broken,
            load: self.orders.load,
            patience: self.orders.patience,
        };
        // Each history has clients of every kind. Alone, an adaptive client is hardly busy enough to ask a quorum alone.
        let rounds = ["thrifty", "adaptive", "all"][(place + usize::try_from(self.orders.seed)?) % 3];
        let env = [
            ("MULTILOCK_NODES", urls.join(",")),
            ("MULTILOCK_ROUNDS", rounds.to_owned()),
            ("MULTILOCK_FOR_TESTS", humantime(self.set_up.lease())),
            ("MULTILOCK_NODE_TIMEOUT", humantime(NODE_TIMEOUT)),
            ("MULTILOCK_QUARANTINE", self.set_up.quarantine_word().to_owned()),
            ("MULTILOCK_STRICT", self.set_up.strict.to_string()),
            ("MULTILOCK_ALLOW_EVICTION", self.set_up.allow_eviction.to_string()),
        ];
        self.workers.push(Worker::start(&duty, place, &env)?);
        Ok(())
    }

    /// Tells the witness of the fault that follows. From here on the strike counts.
    pub fn breaks(&self, what: impl Into<String>) {
        self.witness.done(Done::Break(what.into()));
    }

    pub async fn pause(&mut self, from_ms: u64, to_ms: u64) {
        let length = self.rng.random_range(from_ms..=to_ms);
        sleep(Duration::from_millis(length)).await;
    }

    /// Waits until a client is inside that stays, and returns its worker.
    pub async fn somebody_stays(&self) -> Result<usize> {
        self.somebody_stays_since(0).await
    }

    /// As [`somebody_stays`](Self::somebody_stays), of the clients that came in after a moment.
    pub async fn somebody_stays_since(&self, moment: Micros) -> Result<usize> {
        self.one_stays(moment, |_| true).await
    }

    /// As [`somebody_stays`](Self::somebody_stays), of the clients in processes that may be killed. Growth of a
    /// process is seen only while it lives, so under load one place alone loses its worker.
    pub async fn somebody_mortal_stays(&self) -> Result<usize> {
        let mortal = |worker: &Worker| self.orders.load == 0 || !lasts(worker);
        let mortal = |number| {
            self.workers
                .iter()
                .any(|worker| worker.number == number && mortal(worker))
        };
        self.one_stays(0, mortal).await
    }

    async fn one_stays(&self, moment: Micros, wanted: impl Fn(usize) -> bool) -> Result<usize> {
        let begun = Instant::now();
        loop {
            let stays = |from: Micros| from > moment && now().saturating_sub(from) > 60_000;
            let inside = self.witness.inside_majority_names();
            let inside = inside.into_iter().map(|(task, from)| (task.worker, from));
            let who_stays = inside.filter(|&(worker, from)| stays(from) && wanted(worker));
            // The last that came, whichever its layout: the most of its hold is ahead.
            if let Some((worker, _)) = who_stays.max_by_key(|&(_, from)| from) {
                return Ok(worker);
            }
            anyhow::ensure!(
                begun.elapsed() < INSIDE_WITHIN,
                "nobody holds anything for longer"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The strike is over; waits until everybody has had a lock again, at most `within`.
    pub async fn healed(&mut self, within: Duration) -> Result<()> {
        self.witness.done(Done::Healed);
        self.witness.brief(true);
        let healed = now();
        let begun = Instant::now();
        // A task that does not come back is found in the history.
        while begun.elapsed() < within {
            self.check()?;
            let all = self.witness.working() == self.workers.len() * TASKS;
            if all && self.witness.waiting_since(healed).is_empty() {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        self.witness.brief(false);
        Ok(())
    }

    /// Fails when a worker has ended before its time.
    pub fn check(&mut self) -> Result<()> {
        self.workers.iter_mut().try_for_each(Worker::check)
    }

    /// Everybody stops. Returns the keys that are still there after the lease, which nobody holds.
    pub async fn close(&mut self) -> Result<Vec<String>> {
        self.witness.done(Done::Over);
        for worker in &mut self.workers {
            worker.ended().await?;
        }
        self.left_over(self.set_up.lease().max(TICKET) + TOUCHED_LATE)
            .await
    }

    /// The keys that are still there after `within`, when nobody holds anything.
    pub async fn left_over(&self, within: Duration) -> Result<Vec<String>> {
        let begun = Instant::now();
        loop {
            let mut left = Vec::new();
            for master in 0..self.masters() {
                for key in self.server(master).keys().await {
                    left.push(format!("{key} on master {master}"));
                }
            }
            if left.is_empty() || begun.elapsed() > within {
                return Ok(left);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn worker(&mut self, number: usize) -> Result<&mut Worker> {
        let found = self.workers.iter_mut().find(|worker| worker.number == number);
        found.context("a worker that is not there")
    }
}

/// Whether no fault kills a worker under load.
pub fn lasts(worker: &Worker) -> bool {
    worker.place + 1 < WORKERS
}

fn humantime(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}
