//! Time that passes as exactly as a bench needs it. The timers of the runtime fire on the next whole millisecond, so
//! they would make two milliseconds of one, and one of 50 µs.

use std::time::{Duration, Instant};

use tokio::task::{spawn_blocking, yield_now};

/// Below it a thread's own sleep is too coarse as well: to wake it takes about a tenth of a millisecond.
const SPUN: Duration = Duration::from_micros(500);

/// A short time is spun away, a longer one slept on a thread that may block.
pub async fn spend(time: Duration) {
    if time < SPUN {
        return spin(time).await;
    }
    let sleeping = spawn_blocking(move || std::thread::sleep(time));
    sleeping.await.expect("a sleep does not panic");
}

/// Lets other tasks run meanwhile, as a wait does, but takes a core from them. It lasts as much longer as the task that
/// had the core last kept it.
pub async fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        yield_now().await;
    }
}
