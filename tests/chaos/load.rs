//! Load by a worker of the soak, beside telling the witness: locks of every kind under very many names, and under one
//! common name. Also its answers to the director.

use std::convert::Infallible;
use std::fmt;
use std::io::{BufRead, stdin};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use multilock::{LockError, Masters, MultiLock, OnceError, Owner};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Handle;
use tokio::sync::{RwLock, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::event::{Micros, Refusal, now};
use crate::worker::{Duty, refusal};

/// Every turn of every task of a worker holds it for reading, and a rest of the worker holds it for writing.
pub type Turns = Arc<RwLock<()>>;

/// The names that all workers share. Each may leave a fencing token on every master.
pub const NAMES: u64 = 1000;
const HOT: &str = "hot";
/// The name that is waited for with patience, and the number of tasks of each worker that do.
const LINE: &str = "line";
const PATIENT_TASKS: usize = 4;
/// The name that is read and written.
const DATA: &str = "data";
const PATIENCE: Duration = Duration::from_millis(300);
const JOB_KEPT: Duration = Duration::from_millis(500);

/// Ends with its tasks when dropped.
pub struct Load {
    _tasks: JoinSet<()>,
}

/// Work of a worker since it began, and its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub pairs: u64,
    /// Refusals that no fault explains.
    pub wrong: u64,
    /// Tasks of the runtime.
    pub tasks: u64,
    /// The longest wait of the patient tasks: its beginning and its end.
    pub longest: (Micros, Micros),
}

#[derive(Debug, Default)]
struct Count {
    pairs: AtomicU64,
    wrong: AtomicU64,
    longest: Mutex<(Micros, Micros)>,
}

impl Count {
    fn note_wait(&self, from: Micros, to: Micros) {
        let mut longest = self.longest.lock().unwrap_or_else(PoisonError::into_inner);
        if to - from > longest.1 - longest.0 {
            *longest = (from, to);
        }
    }
}

impl Load {
    pub fn start(masters: &Masters, duty: &Duty, turns: Turns) -> Self {
        let count = Arc::new(Count::default());
        let mut tasks = JoinSet::new();
        for number in 0..duty.load {
            let seed = duty.seed ^ ((duty.worker as u64) << 16) ^ ((number as u64) << 8) ^ 0xff;
            let mut porter = Porter {
                masters: masters.clone(),
                lease: duty.lease,
                rng: StdRng::seed_from_u64(seed),
                count: Arc::clone(&count),
            };
            let turns = Arc::clone(&turns);
            tasks.spawn(async move {
                loop {
                    let turn = turns.read().await;
                    porter.turn().await;
                    drop(turn);
                    let pause = porter.rng.random_range(5..30);
                    sleep(Duration::from_millis(pause)).await;
                }
            });
        }
        if duty.patience > PATIENCE {
            for _ in 0..PATIENT_TASKS {
                tasks.spawn(wait_in_line(masters.clone(), duty.patience, Arc::clone(&count)));
            }
        }
        tasks.spawn(listen(turns, count));
        Self { _tasks: tasks }
    }
}

/// Wants one name that the tasks of all workers want, again and again from the worker's first moment on.
async fn wait_in_line(masters: Masters, patience: Duration, count: Arc<Count>) {
    loop {
        let from = now();
        let granted = masters.red_lock(LINE).wait(patience).lock().await;
        count.note_wait(from, now());
        match granted {
            Ok(guard) => {
                sleep(Duration::from_millis(1)).await;
                let _ = guard.unlock().await;
            }
            // So few answer that nobody is waited for.
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Follows the words of the director, until there are no more.
async fn listen(turns: Turns, count: Arc<Count>) {
    let (to, mut words) = mpsc::unbounded_channel();
    // A thread of its own: a runtime would wait at its end for a read that has no end.
    thread::spawn(move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
    });
    let mut rest = None;
    while let Some(word) = words.recv().await {
        match word.as_str() {
            "rest" => rest = Some(turns.write().await),
            "work" => rest = None,
            "tell" => {}
            other => eprintln!("a worker does not know '{other}'"),
        }
        let told = Told {
            pairs: count.pairs.load(Ordering::Relaxed),
            wrong: count.wrong.load(Ordering::Relaxed),
            tasks: Handle::current().metrics().num_alive_tasks() as u64,
            longest: *count.longest.lock().unwrap_or_else(PoisonError::into_inner),
        };
        println!("{told}");
    }
    drop(rest);
}

struct Porter {
    masters: Masters,
    lease: Duration,
    rng: StdRng,
    count: Arc<Count>,
}

impl Porter {
    async fn turn(&mut self) {
        let outcome = match self.rng.random_range(0..100) {
            0..30 => self.short().await,
            30..38 => self.reader().await,
            38..42 => self.writer().await,
            42..55 => self.hot().await,
            55..62 => self.cancelled().await,
            62..70 => self.sticky().await,
            70..80 => self.renewed().await,
            80..90 => self.entered_again().await,
            90..93 => self.several().await,
            93..95 => self.set().await,
            95..97 => self.once().await,
            97..98 => self.permit().await,
            _ => self.fresh_name().await,
        };
        match outcome {
            Ok(()) => drop(self.count.pairs.fetch_add(1, Ordering::Relaxed)),
            Err(error) => {
                if let (Refusal::Wrong, detail) = refusal(&error)
                    && self.count.wrong.fetch_add(1, Ordering::Relaxed) == 0
                {
                    eprintln!("load: a refusal that no fault explains: {detail}");
                }
            }
        }
    }

    fn name(&mut self) -> String {
        format!("many:{}", self.rng.random_range(0..NAMES))
    }

    fn lock(&mut self, name: String) -> MultiLock {
        let is_fenced = is_fenced(&name);
        let lock = if self.rng.random_bool(0.8) {
            self.masters.red_lock(name)
        } else {
            self.masters.multi_lock(name)
        };
        lock.fenced(is_fenced)
    }

    async fn think(&mut self, ms: u64) {
        let thinks = self.rng.random_range(0..=ms * 1000);
        sleep(Duration::from_micros(thinks)).await;
    }

    async fn short(&mut self) -> Result<(), LockError> {
        let name = self.name();
        let guard = self.lock(name).lease(self.lease).try_lock().await?;
        self.think(3).await;
        if self.rng.random_bool(0.8) {
            // The outcome does not matter. The masters are asked when all have left.
            let _ = guard.unlock().await;
        }
        Ok(())
    }

    async fn hot(&mut self) -> Result<(), LockError> {
        let guard = self.masters.red_lock(HOT).wait(PATIENCE).lock().await?;
        self.think(1).await;
        let _ = guard.unlock().await;
        Ok(())
    }

    /// One of many at a time, more often than not.
    async fn reader(&mut self) -> Result<(), LockError> {
        let lock = self.masters.red_lock(DATA).read().wait(PATIENCE);
        let within = Duration::from_micros(self.rng.random_range(0..10_000));
        let guard = match timeout(within, lock.lock()).await {
            Ok(outcome) => outcome?,
            Err(_) => return Ok(()),
        };
        self.think(3).await;
        if self.rng.random_bool(0.8) {
            let _ = guard.unlock().await;
        }
        Ok(())
    }

    /// Goes on reading, every other time.
    async fn writer(&mut self) -> Result<(), LockError> {
        let lock = self.masters.red_lock(DATA).write();
        let guard = lock.wait(PATIENCE).lock().await?;
        self.think(1).await;
        if self.rng.random_bool(0.5) {
            let guard = guard.downgrade().await;
            self.think(1).await;
            let _ = guard.unlock().await;
        }
        Ok(())
    }

    /// Given up at any moment, held or not.
    async fn cancelled(&mut self) -> Result<(), LockError> {
        let name = self.name();
        let name = if self.rng.random_bool(0.5) {
            name
        } else {
            HOT.to_owned()
        };
        let lock = self.lock(name).wait(PATIENCE);
        let within = Duration::from_micros(self.rng.random_range(0..3000));
        let guard = match timeout(within, lock.lock()).await {
            Ok(outcome) => outcome?,
            Err(_) => return Ok(()),
        };
        drop(guard);
        Ok(())
    }

    /// One name again and again, with a grant that stays in between.
    async fn sticky(&mut self) -> Result<(), LockError> {
        let name = if self.rng.random_bool(0.2) {
            HOT.to_owned()
        } else {
            self.name()
        };
        let lock = self.lock(name).sticky().wait(PATIENCE);
        for _ in 0..self.rng.random_range(1..20) {
            let guard = lock.lock().await?;
            self.think(1).await;
            let _ = guard.unlock().await;
        }
        Ok(())
    }

    /// Kept alive while its loss is awaited; at times for longer than a lease.
    async fn renewed(&mut self) -> Result<(), LockError> {
        let name = self.name();
        let guard = self.lock(name).try_lock().await?;
        let most = if self.rng.random_bool(0.1) { 1500 } else { 100 };
        let token = guard.cancellation_token();
        tokio::select! {
            _ = guard.lost() => {}
            () = token.cancelled() => {}
            () = self.think(most) => {}
        }
        let _ = guard.extend(self.lease).await;
        let _ = guard.unlock().await;
        Ok(())
    }

    async fn entered_again(&mut self) -> Result<(), LockError> {
        let name = self.name();
        let owner = Owner::new();
        let lock = self.lock(name).owner(&owner);
        let outer = lock.try_lock().await?;
        let inner = lock.try_lock().await?;
        self.think(2).await;
        let _ = inner.unlock().await;
        drop(outer);
        Ok(())
    }

    async fn several(&mut self) -> Result<(), LockError> {
        let names = [self.name(), self.name(), self.name()];
        let names: Vec<String> = names.into_iter().filter(|name| is_fenced(name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let lock = self.masters.red_lock(&names[..]).lease(self.lease);
        let guard = lock.wait(PATIENCE).lock().await?;
        self.think(2).await;
        let _ = guard.unlock().await;
        Ok(())
    }

    /// Locks of three kinds at once, the last one in strict turns.
    async fn set(&mut self) -> Result<(), LockError> {
        let names = [self.name(), self.name()];
        if names[0] == names[1] {
            return Ok(());
        }
        let [plain, fair] = names.map(|name| self.masters.red_lock(name.clone()).fenced(is_fenced(&name)));
        let set = plain
            .and(self.masters.red_lock(DATA).read())
            .and(fair.fair())
            .wait(PATIENCE);
        let guard = set.lock().await.map_err(|refused| refused.error)?;
        self.think(2).await;
        let _ = guard.unlock().await;
        Ok(())
    }

    /// A job of a few, which is mostly done already. Its mark is gone soon.
    async fn once(&mut self) -> Result<(), LockError> {
        let name = format!("job:{}", self.rng.random_range(0..20));
        let job = self.masters.red_lock(name).wait(PATIENCE).once(JOB_KEPT);
        let thinks = Duration::from_millis(self.rng.random_range(0..3));
        let done = job.run(async move |_guard| {
            sleep(thinks).await;
            Ok::<_, Infallible>(())
        });
        match done.await {
            Err(OnceError::Lock(error)) => Err(error),
            // The hold was lost to a fault.
            _ => Ok(()),
        }
    }

    /// One of three permits, waited for.
    async fn permit(&mut self) -> Result<(), LockError> {
        let guard = self.masters.permits("pool", 3).wait(PATIENCE).lock().await?;
        self.think(2).await;
        let _ = guard.unlock().await;
        Ok(())
    }

    /// Under a name that nobody has used before and nobody will again.
    async fn fresh_name(&mut self) -> Result<(), LockError> {
        let name = format!("once:{:032x}", self.rng.random::<u128>());
        let guard = self.masters.red_lock(name).fenced(false).try_lock().await?;
        self.think(2).await;
        let _ = guard.unlock().await;
        Ok(())
    }
}

/// Whether a name is always locked with tokens. Any other name never is.
fn is_fenced(name: &str) -> bool {
    !name.ends_with(['7', '8', '9'])
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.longest;
        write!(f, "{} {} {} {from} {to}", self.pairs, self.wrong, self.tasks)
    }
}

impl FromStr for Told {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let numbers: Vec<u64> = line
            .split(' ')
            .map(|word| word.parse().with_context(|| format!("'{line}'")))
            .collect::<Result<_>>()?;
        let [pairs, wrong, tasks, from, to] = numbers[..] else {
            bail!("a worker tells five numbers, not '{line}'");
        };
        Ok(Self {
            pairs,
            wrong,
            tasks,
            longest: (from, to),
        })
    }
}
