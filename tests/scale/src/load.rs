//! Work of each client: it takes a name at random, holds it for a while, and thinks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hdrhistogram::Histogram;
use multilock::{LockError, Masters};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use crate::witness::Witness;

/// Means of the time from a hold to the next one, and of the time for which a name is held.
const THINKS: Duration = Duration::from_secs(10);
const HOLDS: Duration = Duration::from_millis(100);
/// Time for which a name is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Outcomes of the calls of all clients.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) witness: Witness,
    counts: Mutex<Counts>,
}

/// Numbers of calls by their outcome, and the waits of granted calls, in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    pub(crate) grants: u64,
    /// Nobody released in time.
    pub(crate) timed_out: u64,
    /// Too few masters could be reached.
    pub(crate) unreachable: u64,
    /// Holds that were lost before their end.
    pub(crate) lost: u64,
    pub(crate) waits: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        let waits = Histogram::new(3).expect("three digits");
        Self {
            witness: Witness::default(),
            counts: Mutex::new(Counts {
                grants: 0,
                timed_out: 0,
                unreachable: 0,
                lost: 0,
                waits,
            }),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts.lock().expect("no panic").clone()
    }

    fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.counts.lock().expect("no panic"));
    }
}

/// One client, until `end`.
pub(crate) async fn work(masters: Masters, names: u32, seed: u64, end: Instant, tally: Arc<Tally>) {
    let mut rng = StdRng::seed_from_u64(seed);
    loop {
        sleep(exponential(&mut rng, THINKS)).await;
        if Instant::now() >= end {
            return;
        }
        let (name, holds) = (rng.random_range(0..names), exponential(&mut rng, HOLDS));
        let lock = masters.red_lock(format!("name:{name}")).wait(PATIENCE);
        let begun = Instant::now();
        let guard = match lock.lock().await {
            Ok(guard) => Arc::new(guard),
            Err(LockError::TimedOut { .. } | LockError::Contended { .. }) => {
                tally.count(|counts| counts.timed_out += 1);
                continue;
            }
            Err(LockError::Unreachable { .. }) => {
                tally.count(|counts| counts.unreachable += 1);
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        let waited = u64::try_from(begun.elapsed().as_micros()).expect("less than an hour");
        tally.witness.enter(name, &guard);
        tally.count(|counts| {
            counts.grants += 1;
            counts.waits.record(waited.max(1)).expect("it grows");
        });
        sleep(holds).await;
        tally.witness.leave(name, &guard);
        let guard = Arc::into_inner(guard).expect("nobody else looks at it");
        let was_lost = !guard.is_valid();
        let _ = guard.unlock().await;
        tally.count(|counts| counts.lost += u64::from(was_lost));
    }
}

/// A time with this mean, at most ten times as long.
fn exponential(rng: &mut StdRng, mean: Duration) -> Duration {
    let uniform: f64 = rng.random();
    mean.mul_f64((-(1.0 - uniform).ln()).min(10.0))
}
