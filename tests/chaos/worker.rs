//! One worker process: a few tasks that contend for a few names and tell the witness everything.
//!
//! It looks at its guard, works for some milliseconds and writes without another look. A pause between the two turns
//! it into a stale writer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use multilock::{
    Closing, Leadership, LockError, Masters, MastersBuilder, MultiLock, MultiLockGuard, Once, Permit,
    RunError, Shared, UnlockError,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::event::{JOB_KEPT, Layout, Micros, Mode, PLAIN_TASKS, Policy, Refusal, Said, Task, now};
use crate::load::{Load, Turns};
use crate::settings::{EVERY_MASTER, PERMITS};
use crate::witness::BRIEF;

/// The first argument of a worker process.
pub const WORKER: &str = "chaos-worker";
/// The tasks of every worker.
pub const TASKS: usize = PLAIN_TASKS + 2;
/// Of a wait for anything but a lock of the book.
const PATIENCE: Duration = Duration::from_secs(1);
/// A worker may be started in the middle of a fault.
const CONNECTED_WITHIN: Duration = Duration::from_secs(30);
/// The witness answers at once; if it does not, the campaign is over.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Orders of a worker on its command line; the masters are in its environment.
#[derive(Clone, Debug)]
pub struct Duty {
    pub worker: usize,
    pub witness: SocketAddr,
    pub lease: Duration,
    pub seed: u64,
    /// Works under a lock that always succeeds.
    pub broken: bool,
    /// Tasks beside the tasks that tell the witness.
    pub load: usize,
    /// Time to wait for a lock.
    pub patience: Duration,
}

impl Duty {
    pub fn to_args(&self) -> [String; 8] {
        [
            WORKER.to_owned(),
            self.worker.to_string(),
            self.witness.to_string(),
            self.lease.as_millis().to_string(),
            self.seed.to_string(),
            self.broken.to_string(),
            self.load.to_string(),
            self.patience.as_millis().to_string(),
        ]
    }

    pub fn from_args(args: &[String]) -> Result<Self> {
        let [worker, witness, lease, seed, broken, load, patience] = args else {
            bail!("a worker takes seven arguments");
        };
        Ok(Self {
            worker: worker.parse()?,
            witness: witness.parse()?,
            lease: Duration::from_millis(lease.parse()?),
            seed: seed.parse()?,
            broken: broken.parse()?,
            load: load.parse()?,
            patience: Duration::from_millis(patience.parse()?),
        })
    }
}

pub fn work(duty: &Duty) -> Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(all_tasks(duty))
}

async fn all_tasks(duty: &Duty) -> Result<()> {
    let masters = connect(duty).await?;
    let turns = Turns::default();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let teller = Teller::connect(&masters, duty, task).await?;
        tasks.spawn(teller.contend(Arc::clone(&turns)));
    }
    let load = (duty.load > 0).then(|| Load::start(&masters, duty, turns));
    while let Some(ended) = tasks.join_next().await {
        ended.context("a task has panicked")??;
    }
    drop(load);
    masters.close(Closing::Release).await;
    Ok(())
}

async fn connect(duty: &Duty) -> Result<Masters> {
    if duty.patience > PATIENCE {
        // The first waits begin before any master's clock is known.
        let builder = MastersBuilder::from_variables(|name| std::env::var(name).ok())?;
        return Ok(builder.connect_lazy()?);
    }
    let begun = Instant::now();
    loop {
        match Masters::from_env().await {
            Ok(masters) => return Ok(masters),
            Err(error) if begun.elapsed() > CONNECTED_WITHIN => return Err(error.into()),
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A guard, or the outcome of a broken lock.
enum Grip {
    Guard(MultiLockGuard),
    Reads(MultiLockGuard<Shared>),
    Permit(MultiLockGuard<Permit>),
    Leads(Term),
    Nothing { token: u64, until: Micros },
}

impl Grip {
    fn token(&self) -> u64 {
        match self {
            Self::Guard(guard) => guard.fencing_token().get(),
            Self::Reads(guard) => guard.fencing_token().get(),
            Self::Permit(guard) => guard.fencing_token().get(),
            Self::Leads(term) => term.leadership.fencing_token().get(),
            Self::Nothing { token, .. } => *token,
        }
    }

    /// The moment of the look, and the end of the validity as seen then. The clock is read first, so
    /// that a pause in between makes the end too early and never too late.
    fn look(&self) -> (Micros, Micros) {
        let looked = now();
        let left = match self {
            Self::Guard(guard) => guard.validity(),
            Self::Reads(guard) => guard.validity(),
            Self::Permit(guard) => guard.validity(),
            Self::Leads(term) => term.leadership.validity(),
            Self::Nothing { until, .. } => return (looked, looked.max(*until)),
        };
        let left = Micros::try_from(left.as_micros()).unwrap_or(Micros::MAX);
        (looked, looked.saturating_add(left))
    }

    async fn lost(&self) {
        match self {
            Self::Guard(guard) => drop(guard.lost().await),
            Self::Reads(guard) => drop(guard.lost().await),
            Self::Permit(guard) => drop(guard.lost().await),
            Self::Leads(term) => drop(term.leadership.lost().await),
            Self::Nothing { until, .. } => sleep(Duration::from_micros(until.saturating_sub(now()))).await,
        }
    }

    async fn leave(self) -> &'static str {
        let unlocked = match self {
            Self::Guard(guard) => guard.unlock().await,
            Self::Reads(guard) => guard.unlock().await,
            Self::Permit(guard) => guard.unlock().await,
            Self::Leads(term) => {
                term.end().await;
                return "released";
            }
            Self::Nothing { .. } => return "released",
        };
        match unlocked {
            Ok(_) => "released",
            Err(UnlockError::WasLost { .. }) => "was-lost",
            Err(_) => "unconfirmed",
        }
    }

    async fn downgrade(self) -> Self {
        match self {
            Self::Guard(guard) => Self::Reads(guard.downgrade().await),
            other => other,
        }
    }
}

/// A leader's term. Its body waits for the end of this.
struct Term {
    leadership: Leadership,
    over: DropGuard,
    standing: JoinHandle<Result<(), (Refusal, String)>>,
}

impl Term {
    /// Leads within `patience`, or stands no longer.
    async fn begin(lock: MultiLock, patience: Duration) -> Result<Self, (Refusal, String)> {
        let over = CancellationToken::new();
        let (to, mut terms) = mpsc::unbounded_channel();
        let (stop, ends) = (over.clone(), over.clone());
        let standing = async move {
            let body = |leadership| {
                // After the loss of the first term nobody wants another one.
                let is_wanted = to.send(leadership).is_ok();
                let ends = ends.clone();
                async move {
                    if is_wanted {
                        ends.cancelled().await;
                    }
                }
            };
            match lock.lead_until(stop.cancelled_owned(), body).await {
                Ok(_) => Ok(()),
                Err(RunError::Lock(error)) => Err(refusal(&error)),
                Err(error) => Err((Refusal::Wrong, error.to_string())),
            }
        };
        let mut standing = tokio::spawn(standing);
        let over = over.drop_guard();
        let first = async {
            tokio::select! {
                Some(leadership) = terms.recv() => Ok(leadership),
                ended = &mut standing => Err(match ended {
                    Ok(Err(refusal)) => refusal,
                    other => (Refusal::Wrong, format!("it stands no longer: {other:?}")),
                }),
            }
        };
        let leadership = match timeout(patience, first).await {
            Ok(first) => first?,
            Err(_) => return Err((Refusal::Waited, String::new())),
        };
        Ok(Self {
            leadership,
            over,
            standing,
        })
    }

    async fn end(self) {
        drop(self.over);
        let _ = timeout(ANSWER_WITHIN, self.standing).await;
    }
}

/// The task that takes permits.
const PERMITS_TASK: usize = PLAIN_TASKS - 1;

/// Names that a task is about to lock, and how.
struct Wanted {
    names: Vec<String>,
    policy: Policy,
    layout: Layout,
    mode: Mode,
}

struct Teller {
    masters: Masters,
    task: usize,
    duty: Duty,
    rng: StdRng,
    witness: BufReader<TcpStream>,
    brief: bool,
    over: bool,
}

impl Teller {
    async fn connect(masters: &Masters, duty: &Duty, task: usize) -> Result<Self> {
        let mut stream = TcpStream::connect(duty.witness).await.context("the witness")?;
        stream.set_nodelay(true)?;
        stream
            .write_all(format!("{} {task}\n", duty.worker).as_bytes())
            .await?;
        let seed = duty.seed ^ ((duty.worker as u64) << 8) ^ task as u64;
        Ok(Self {
            masters: masters.clone(),
            task,
            duty: duty.clone(),
            rng: StdRng::seed_from_u64(seed),
            witness: BufReader::new(stream),
            brief: false,
            over: false,
        })
    }

    async fn contend(mut self, turns: Turns) -> Result<()> {
        self.say(Said::Hello).await?;
        while !self.over {
            let turn = turns.read().await;
            let wanted = self.choose();
            let (policy, began) = (wanted.policy, now());
            match self.take(&wanted).await {
                Ok(grip) => {
                    // A seat is a name of its own, which one has at a time.
                    let names = match &grip {
                        Grip::Permit(permit) => vec![format!("{}:seat:{}", PERMITS.0, permit.seat())],
                        _ => wanted.names.clone(),
                    };
                    self.hold(grip, Wanted { names, ..wanted }, began).await?;
                }
                Err((refusal, detail)) => {
                    let ended = now();
                    self.say(Said::Refused {
                        policy,
                        began,
                        ended,
                        refusal,
                        detail,
                    })
                    .await?;
                }
            }
            if self.task == PERMITS_TASK && !self.over && !self.duty.broken {
                self.job().await?;
            }
            drop(turn);
            let pause = self.rng.random_range(2..50);
            sleep(Duration::from_millis(pause)).await;
        }
        Ok(())
    }

    /// One task waits at one name, or stands there as a candidate, one goes from name to name and takes two together at times, one wants
    /// every master, one takes permits and does jobs. Beside them two read and write: one a name, the other another one, both of them, or the other on every master.
    fn choose(&mut self) -> Wanted {
        let roll = self.rng.random_range(0..10);
        let (names, policy) = match self.task {
            PLAIN_TASKS => (&["r"][..], Policy::Red),
            task if task > PLAIN_TASKS && roll < 5 => (&["s"][..], Policy::Red),
            task if task > PLAIN_TASKS && roll < 7 => (&["r", "s"][..], Policy::Red),
            task if task > PLAIN_TASKS => (&["s"][..], Policy::Multi),
            PERMITS_TASK => (&[PERMITS.0][..], Policy::Red),
            0 => (&["a"][..], Policy::Red),
            1 if roll < 6 => (&["b"][..], Policy::Red),
            1 if roll < 8 => (&["a"][..], Policy::Red),
            1 => (&["a", "b"][..], Policy::Red),
            _ if roll < 7 => (&[EVERY_MASTER][..], Policy::Multi),
            _ => (&["b"][..], Policy::Multi),
        };
        let layout = Task {
            worker: self.duty.worker,
            task: self.task,
        }
        .layout();
        let reads = layout == Layout::ReadWrite && self.rng.random_bool(0.6);
        Wanted {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            policy,
            layout,
            mode: if reads { Mode::Shared } else { Mode::Exclusive },
        }
    }

    /// Does the job of this moment, unless it is done: that of a third of a second, which every worker knows by the clock
    /// that all share.
    async fn job(&mut self) -> Result<()> {
        let began = now();
        let job = format!("job:{}", began / 333_333);
        let thinks = Duration::from_millis(self.rng.random_range(0..5));
        let once = self.masters.red_lock(&*job).wait(PATIENCE / 2).once(JOB_KEPT);
        let done = once.run(async move |_| {
            sleep(thinks).await;
            Ok::<_, Infallible>(())
        });
        if let Ok(Once::Ran(())) = done.await {
            let ended = now();
            self.say(Said::Ran { job, began, ended }).await?;
        }
        Ok(())
    }

    async fn take(&mut self, wanted: &Wanted) -> Result<Grip, (Refusal, String)> {
        if self.duty.broken {
            let lease = Micros::try_from(self.duty.lease.as_micros()).unwrap_or(Micros::MAX);
            let token = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
            let until = now() + lease;
            return Ok(Grip::Nothing { token, until });
        }
        if self.task == PERMITS_TASK {
            let lock = self
                .masters
                .permits(PERMITS.0, PERMITS.1)
                .wait(self.duty.patience);
            let lock = if self.rng.random_bool(0.5) {
                lock
            } else {
                lock.lease(self.duty.lease)
            };
            let taken = lock_or_try(lock, self.rng.random_bool(0.8)).await;
            return taken.map(Grip::Permit).map_err(|error| refusal(&error));
        }
        let names = &wanted.names[..];
        let lock = match wanted.policy {
            Policy::Red => self.masters.red_lock(names),
            Policy::Multi => self.masters.multi_lock(names),
        };
        if self.task == 0 && self.rng.random_bool(0.3) {
            return Term::begin(lock, self.duty.patience).await.map(Grip::Leads);
        }
        // Half of the holds are renewed, half have a lease that ends. Half of the renewed ones stay with the client.
        let is_renewed = self.rng.random_bool(0.5);
        let is_sticky = is_renewed && wanted.layout == Layout::Plain && self.rng.random_bool(0.5);
        let lock = if is_renewed {
            lock
        } else {
            lock.lease(self.duty.lease)
        };
        let lock = if is_sticky { lock.sticky() } else { lock };
        let waits = ![1, PLAIN_TASKS + 1].contains(&self.task) || self.rng.random_bool(0.5);
        let lock = lock.wait(self.duty.patience);
        let taken = match (wanted.layout, wanted.mode) {
            (Layout::ReadWrite, Mode::Shared) => lock_or_try(lock.read(), waits).await.map(Grip::Reads),
            (Layout::ReadWrite, Mode::Exclusive) => lock_or_try(lock.write(), waits).await.map(Grip::Guard),
            (Layout::Plain, _) => lock_or_try(lock, waits).await.map(Grip::Guard),
        };
        taken.map_err(|error| refusal(&error))
    }

    /// The lease less one percent and 2 ms of drift.
    fn full_validity(&self) -> Micros {
        let lease = Micros::try_from(self.duty.lease.as_micros()).unwrap_or(Micros::MAX);
        lease - lease / 100 - 2000
    }

    /// Mostly short, at times longer than the lease, unless everybody is to have a turn soon.
    fn stay(&mut self) -> Duration {
        let lease = u64::try_from(self.duty.lease.as_millis()).unwrap_or(u64::MAX);
        let stay = match self.rng.random_range(0..100) {
            roll if self.brief || roll < 75 => self.rng.random_range(1..30),
            75..93 => self.rng.random_range(lease / 10..lease / 2),
            _ => self.rng.random_range(lease..lease * 3 / 2),
        };
        Duration::from_millis(stay)
    }

    async fn hold(&mut self, mut grip: Grip, wanted: Wanted, began: Micros) -> Result<()> {
        let mut mode = wanted.mode;
        let (from, until) = grip.look();
        let token = grip.token();
        // The validity of a round is counted from its beginning, so its end tells when that was.
        let began = if until > from {
            until.saturating_sub(self.full_validity())
        } else {
            began
        };
        let entered = Instant::now();
        let enter = Said::Enter {
            names: wanted.names,
            token,
            policy: wanted.policy,
            mode,
            began,
            from,
            until,
        };
        self.say(enter).await?;
        let stay = self.stay();
        let end = entered + stay;
        // Some writers only read from some moment on.
        let downgrades = wanted.layout == Layout::ReadWrite && self.rng.random_bool(0.4);
        let turn = entered + stay.mul_f64(self.rng.random_range(0.0..1.0));
        let mut lost_at = None;
        while lost_at.is_none() {
            let (looked, until) = grip.look();
            if until <= looked {
                // A loss that is not signalled now is late, and a loss that is not signalled at all is very late. The worker may
                // have been stopped in the middle of its look.
                let due = now();
                let _ = timeout(PATIENCE, grip.lost()).await;
                lost_at = Some((now(), due));
                break;
            }
            let thinks = Duration::from_micros(self.rng.random_range(1_000..12_000));
            lost_at = lost_while(&grip, thinks).await.map(|at| (at, at));
            let accepted = false;
            self.say(match mode {
                Mode::Exclusive => Said::Write {
                    looked,
                    until,
                    accepted,
                },
                Mode::Shared => Said::Read {
                    looked,
                    until,
                    accepted,
                },
            })
            .await?;
            if mode == Mode::Exclusive && downgrades && Instant::now() >= turn {
                mode = Mode::Shared;
                self.say(Said::Downgrade { at: now() }).await?;
                grip = grip.downgrade().await;
            }
            if Instant::now() >= end || self.over {
                break;
            }
        }
        if let Some((at, due)) = lost_at {
            self.say(Said::Lost { at, due }).await?;
        }
        self.say(Said::Leave { at: now() }).await?;
        // Most say that they leave; some are just gone.
        let kind = if self.rng.random_bool(0.8) {
            grip.leave().await
        } else {
            drop(grip);
            "dropped"
        };
        self.say(Said::Unlocked { kind }).await
    }

    /// Tells the witness and waits for its answer. Without a witness there is no campaign any more.
    async fn say(&mut self, said: Said) -> Result<()> {
        let mut answer = String::new();
        let asked = async {
            self.witness.write_all(said.to_line().as_bytes()).await?;
            self.witness.read_line(&mut answer).await
        };
        timeout(ANSWER_WITHIN, asked)
            .await
            .context("the witness does not answer")?
            .context("the witness is gone")?;
        let answer = answer.trim_end();
        self.brief = answer == BRIEF;
        self.over |= !self.brief && answer != "go";
        Ok(())
    }
}

/// When its loss was signalled, if it was before `thinks` had passed. It takes all of that in any case.
async fn lost_while(grip: &Grip, thinks: Duration) -> Option<Micros> {
    let (mut lost, mut thinking) = (std::pin::pin!(grip.lost()), std::pin::pin!(sleep(thinks)));
    let mut lost_at = None;
    loop {
        tokio::select! {
            biased;
            () = &mut lost, if lost_at.is_none() => lost_at = Some(now()),
            () = &mut thinking => return lost_at,
        }
    }
}

async fn lock_or_try<M: multilock::Mode>(
    lock: MultiLock<M>,
    waits: bool,
) -> Result<MultiLockGuard<M>, LockError> {
    if waits {
        lock.lock().await
    } else {
        lock.try_lock().await
    }
}

pub fn refusal(error: &LockError) -> (Refusal, String) {
    match error {
        LockError::Contended { .. } => (Refusal::Held, String::new()),
        LockError::Unreachable { votes } => (Refusal::Unreachable, votes.to_string()),
        LockError::TooLate { .. } => (Refusal::TooLate, String::new()),
        LockError::Unfenced { votes } => (Refusal::Unfenced, votes.to_string()),
        LockError::TimedOut { last: Some(last), .. } => refusal(last),
        LockError::TimedOut { last: None, .. } => (Refusal::Waited, String::new()),
        other => (Refusal::Wrong, other.to_string()),
    }
}
