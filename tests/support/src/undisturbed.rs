//! Tests of short leases judge by real clocks. A machine that stands still for seconds ends such a lease, and the code
//! that is tested may be right all the same.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt;

/// Nobody begins another attempt after this.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(180);
const TICK: Duration = Duration::from_millis(20);
/// A gap that is noted. Shorter ones are usual on a busy machine.
const NOTED: Duration = Duration::from_millis(200);

/// Observations of a thread that does nothing but wake up.
struct Watch {
    woke: Instant,
    /// Ends and lengths of the times in which it could not run.
    gaps: Vec<(Instant, Duration)>,
}

/// The one watch of the process. It ends with it.
static WATCH: LazyLock<Mutex<Watch>> = LazyLock::new(|| {
    thread::spawn(|| {
        loop {
            thread::sleep(TICK);
            let (now, mut watch) = (Instant::now(), watch());
            let gap = now - watch.woke;
            watch.woke = now;
            if gap > NOTED {
                watch.gaps.push((now, gap));
            }
        }
    });
    Mutex::new(Watch {
        woke: Instant::now(),
        gaps: Vec::new(),
    })
});

fn watch() -> MutexGuard<'static, Watch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest time since `begun` in which the watch could not run. The present one counts, too: after a standstill a
/// test may run before the watch does.
fn longest_since(begun: Instant) -> Duration {
    let watch = watch();
    let gaps = watch.gaps.iter().filter(|(end, _)| *end > begun);
    let longest = gaps.map(|(_, gap)| *gap).max().unwrap_or_default();
    longest.max(watch.woke.elapsed())
}

/// Runs an attempt, and runs it again if it fails and the machine stood still for longer than `most` meanwhile. It is
/// judged as ever otherwise.
pub async fn undisturbed(most: Duration, mut attempt: impl AsyncFnMut()) {
    // First, so that the watch is there from the beginning on.
    drop(watch());
    let first = Instant::now();
    for number in 1.. {
        let begun = Instant::now();
        let Err(panic) = AssertUnwindSafe(attempt()).catch_unwind().await else {
            return;
        };
        let stood = longest_since(begun);
        if stood <= most || first.elapsed() > GIVEN_UP_AFTER {
            resume_unwind(panic);
        }
        eprintln!("attempt {number} failed, and the machine stood still for {stood:?}: once more");
    }
}
