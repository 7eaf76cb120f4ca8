//! Cost of keeping figures: pairs by a client with figures beside pairs by a client without, on the same servers and
//! in turn. By hand, on a release build, as `docs/operations.md` tells.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Cluster, connect};
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_default_local_recorder,
};
use multilock::Masters;
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

/// As an exporter keeps them: numbers, and buckets.
struct Kept;

#[derive(Default)]
struct Buckets([AtomicU64; 32]);

impl HistogramFn for Buckets {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a bucket")]
    fn record(&self, value: f64) {
        let bucket = 64 - ((value * 1e6) as u64).leading_zeros();
        self.0[bucket.min(31) as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(AtomicU64::new(0)))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(AtomicU64::new(0)))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Buckets::default()))
    }
}

/// Time of a pair while this number of tasks have a name each, in nanoseconds: by the wall's clock, and by this
/// process's processor time. The latter depends less on the other work of the machine.
async fn pairs(masters: &Masters, tasks: u32) -> [f64; 2] {
    const SEGMENT: Duration = Duration::from_millis(250);
    let (begun, spent) = (Instant::now(), processor_time());
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let lock = masters.red_lock(format!("pair {task}"));
        running.spawn(async move {
            let mut done = 0_u32;
            while begun.elapsed() < SEGMENT {
                let guard = lock.try_lock().await.expect("free");
                guard.unlock().await.expect("held");
                done += 1;
            }
            done
        });
    }
    let mut done = 0;
    while let Some(ended) = running.join_next().await {
        done += ended.expect("no panic");
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(done);
    [
        each(begun.elapsed()),
        each(processor_time().saturating_sub(spent)),
    ]
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("since the process began")
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[tokio::test]
#[ignore = "it measures: run it by hand, on a release build"]
async fn what_figures_cost() {
    const TURNS: usize = 40;
    let cluster = Cluster::start(5).await;
    let bare = connect(cluster.urls()).await;
    let kept = {
        let _installed = set_default_local_recorder(&Kept);
        connect(cluster.urls()).await
    };
    for tasks in [1, 64] {
        let mut ratios = [Vec::new(), Vec::new()];
        for turn in 0..TURNS {
            let (of_bare, of_kept) = if turn % 2 == 0 {
                let of_bare = pairs(&bare, tasks).await;
                (of_bare, pairs(&kept, tasks).await)
            } else {
                let of_kept = pairs(&kept, tasks).await;
                (pairs(&bare, tasks).await, of_kept)
            };
            for (ratios, (of_kept, of_bare)) in ratios.iter_mut().zip(of_kept.into_iter().zip(of_bare)) {
                ratios.push(of_kept / of_bare);
            }
        }
        let [time, processor] = ratios.map(median);
        println!("metered: tasks={tasks} ratio_time={time:.3} ratio_processor={processor:.3}");
    }
}
