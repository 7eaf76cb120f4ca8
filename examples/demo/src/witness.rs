//! The witness: counts the workers inside each resource, by the reports of the workers alone.
//!
//! A worker reports that it enters, and waits for the answer before it works. It reports that it leaves
//! before it releases. So if the count shows two workers inside at once, they really were.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use tokio::sync::mpsc::UnboundedSender;

use crate::report::{Refusal, Report, Resource};

/// Number of violations that are printed, and of other refusals and troubles. All of them are counted.
const TOLD: u64 = 5;
/// Shortest time between two lines about unreachable masters of the same resource.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Microseconds as which any longer hand-off counts.
const LONGEST_HANDOFF: u64 = 60_000_000;

/// Counts of the witness so far.
#[derive(Clone, Debug)]
pub(crate) struct Count {
    pub(crate) invoices: u64,
    pub(crate) ledgers: u64,
    /// Entries without a lock, by `--break-lock`.
    pub(crate) unlocked: u64,
    pub(crate) contended: u64,
    pub(crate) unreachable: u64,
    pub(crate) other_refusals: u64,
    pub(crate) violations: u64,
    /// Jobs during which the validity of the lock ended.
    pub(crate) lapses: u64,
    pub(crate) troubles: u64,
    /// Microseconds from the leave of a worker to the entry of the next, if a worker waited.
    pub(crate) handoffs: Histogram<u64>,
}

impl Count {
    fn new() -> Result<Self> {
        Ok(Self {
            invoices: 0,
            ledgers: 0,
            unlocked: 0,
            contended: 0,
            unreachable: 0,
            other_refusals: 0,
            violations: 0,
            lapses: 0,
            troubles: 0,
            handoffs: Histogram::new_with_max(LONGEST_HANDOFF, 3).context("the histogram of hand-offs")?,
        })
    }

    pub(crate) fn grants(&self) -> u64 {
        self.invoices + self.ledgers - self.unlocked
    }

    pub(crate) fn refused(&self) -> u64 {
        self.contended + self.unreachable + self.other_refusals
    }

    pub(crate) fn handoff_ms(&self, quantile: f64) -> f64 {
        let micros = u32::try_from(self.handoffs.value_at_quantile(quantile));
        micros.map_or(f64::INFINITY, f64::from) / 1000.0
    }
}

/// Sender of a report: a connection, and its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Teller {
    connection: usize,
    worker: usize,
}

/// State of one resource.
#[derive(Debug, Default)]
struct Post {
    inside: Vec<Teller>,
    waiting: Vec<Teller>,
    /// When it was left, while somebody waits for it.
    left: Option<Instant>,
    /// Masters without which its lock is out of reach, as printed last.
    missing: Option<String>,
    /// Time of that line.
    told: Option<Instant>,
}

#[derive(Debug)]
struct State {
    count: Count,
    posts: HashMap<Resource, Post>,
    over: bool,
    events: UnboundedSender<String>,
}

/// Listens on threads of its own until the process ends.
#[derive(Clone, Debug)]
pub(crate) struct Witness {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
}

impl Witness {
    /// Starts the witness. It sends the lines to print to `events`.
    pub(crate) fn start(events: UnboundedSender<String>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("the witness's socket")?;
        let witness = Self {
            address: listener.local_addr().context("the witness's address")?,
            state: Arc::new(Mutex::new(State {
                count: Count::new()?,
                posts: HashMap::new(),
                over: false,
                events,
            })),
        };
        let state = Arc::clone(&witness.state);
        thread::spawn(move || {
            for (connection, stream) in listener.incoming().flatten().enumerate() {
                let state = Arc::clone(&state);
                thread::spawn(move || hear(connection, stream, &state));
            }
        });
        Ok(witness)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn count(&self) -> Count {
        lock(&self.state).count.clone()
    }

    /// Resources and the workers inside them at this moment.
    pub(crate) fn inside(&self) -> String {
        let state = lock(&self.state);
        let holders = Resource::all().filter_map(|resource| {
            let inside = &state.posts.get(&resource)?.inside;
            let workers: Vec<_> = inside.iter().map(|teller| teller.worker.to_string()).collect();
            (!workers.is_empty()).then(|| format!("{resource} w{}", workers.join("+w")))
        });
        holders.collect::<Vec<_>>().join(", ")
    }

    /// From here on every worker is told to stop.
    pub(crate) fn stop(&self) {
        lock(&self.state).over = true;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection, which is one task of a worker: its number, then its reports.
fn hear(connection: usize, stream: TcpStream, state: &Mutex<State>) {
    let mut worker = 0;
    let heard = listen(connection, stream, state, &mut worker);
    let teller = Teller { connection, worker };
    let mut state = lock(state);
    if let Err(error) = heard {
        state.tell(format!("worker {worker} cannot be understood: {error:#}"));
    }
    state.gone(teller);
}

fn listen(connection: usize, stream: TcpStream, state: &Mutex<State>, worker: &mut usize) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut answers = stream.try_clone()?;
    let mut lines = BufReader::new(stream).lines();
    let Some(first) = lines.next() else {
        return Ok(());
    };
    *worker = first?.parse().context("a worker's number")?;
    let teller = Teller {
        connection,
        worker: *worker,
    };
    for line in lines {
        // A worker that was killed resets its connection.
        let Ok(line) = line else { break };
        let (resource, report) = Report::parse(&line)?;
        let over = lock(state).note(teller, resource, report);
        let answer: &[u8] = if over { b"stop\n" } else { b"go\n" };
        if answers.write_all(answer).is_err() {
            break;
        }
    }
    Ok(())
}

impl State {
    /// Takes one report down; whether the demo is over.
    fn note(&mut self, teller: Teller, resource: Resource, report: Report) -> bool {
        // Under the mutex, so that the order of the times is the order of the reports.
        let now = Instant::now();
        let post = self.posts.entry(resource).or_default();
        match report {
            Report::Want => post.waiting.push(teller),
            Report::Enter { locked } => self.enter(teller, resource, locked, now),
            Report::Leave { valid } => {
                post.inside.retain(|other| *other != teller);
                post.left = (!post.waiting.is_empty()).then_some(now);
                if !valid {
                    self.count.lapses += 1;
                    let worker = teller.worker;
                    self.tell(format!(
                        "{resource}: the lock of worker {worker} had LAPSED while it worked"
                    ));
                }
            }
            Report::Refused(refusal) => {
                post.no_longer_waits(teller);
                self.refuse(resource, refusal, now);
            }
            Report::Trouble(detail) => {
                self.count.troubles += 1;
                if self.count.troubles <= TOLD {
                    self.tell(format!("{resource}: worker {}: {detail}", teller.worker));
                }
            }
        }
        self.over
    }

    fn enter(&mut self, teller: Teller, resource: Resource, locked: bool, now: Instant) {
        let Self { count, posts, .. } = self;
        let post = posts.entry(resource).or_default();
        let others: Vec<_> = post.inside.iter().map(|other| other.worker.to_string()).collect();
        post.inside.push(teller);
        // Taken before the waiter is taken off: the last one off would end the hand-off.
        if let Some(left) = post.left.take() {
            let micros = u64::try_from((now - left).as_micros()).unwrap_or(u64::MAX);
            count.handoffs.saturating_record(micros);
        }
        post.no_longer_waits(teller);
        let reached_again = locked && post.missing.take().is_some();
        match resource {
            Resource::Invoice(_) => count.invoices += 1,
            Resource::Ledger => count.ledgers += 1,
        }
        count.unlocked += u64::from(!locked);
        count.violations += u64::from(!others.is_empty());
        let violations = count.violations;
        if reached_again {
            self.tell(format!("{resource}: can be locked again"));
        }
        if !others.is_empty() && violations <= TOLD {
            let (worker, others) = (teller.worker, others.join(" and worker "));
            let more = if violations == TOLD {
                "; more are only counted"
            } else {
                ""
            };
            self.tell(format!(
                "{resource}: VIOLATION: worker {worker} enters beside worker {others}{more}"
            ));
        }
    }

    fn refuse(&mut self, resource: Resource, refusal: Refusal, now: Instant) {
        match refusal {
            Refusal::Contended => self.count.contended += 1,
            Refusal::Unreachable { missing, because } => {
                self.count.unreachable += 1;
                let post = self.posts.entry(resource).or_default();
                // The workers do not lose and find a master all at the same moment.
                let fresh = post.told.is_some_and(|told| now - told < TELL_EVERY);
                if !fresh && post.missing.as_ref() != Some(&missing) {
                    let event = format!("{resource}: UNREACHABLE without {missing} ({because})");
                    (post.missing, post.told) = (Some(missing), Some(now));
                    self.tell(event);
                }
            }
            Refusal::Other(detail) => {
                self.count.other_refusals += 1;
                if self.count.other_refusals <= TOLD {
                    self.tell(format!("{resource}: refused: {detail}"));
                }
            }
        }
    }

    /// A worker's task has ended, if need be in the middle of something.
    fn gone(&mut self, teller: Teller) {
        let mut vanished = Vec::new();
        for (resource, post) in &mut self.posts {
            post.no_longer_waits(teller);
            if post.inside.contains(&teller) {
                post.inside.retain(|other| *other != teller);
                vanished.push(*resource);
            }
        }
        for resource in vanished {
            self.tell(format!(
                "{resource}: worker {} has vanished inside",
                teller.worker
            ));
        }
    }

    fn tell(&self, event: String) {
        // Nobody listens any more once the demo is over.
        let _ = self.events.send(event);
    }
}

impl Post {
    fn no_longer_waits(&mut self, teller: Teller) {
        self.waiting.retain(|other| *other != teller);
        if self.waiting.is_empty() {
            self.left = None;
        }
    }
}
