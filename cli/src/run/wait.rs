//! What is shown on a terminal while the lock is waited for: who holds it, and for how long, in one line.

use std::time::Duration;

use multilock::MultiLock;
use tokio::time::{Instant, sleep};

use crate::report::describe;
use crate::say::{LiveLine, Rough, Voice};

/// A wait that is shorter shows nothing.
const AT_FIRST: Duration = Duration::from_millis(300);
const EVERY: Duration = Duration::from_millis(500);

/// Never ends. Dropped, it clears the line.
pub(super) async fn show_who_holds(lock: &MultiLock, begun: Instant, voice: Voice) {
    if !voice.may_redraw() {
        return std::future::pending().await;
    }
    sleep(AT_FIRST).await;
    let mut line = LiveLine::begin();
    loop {
        if let Ok(names) = lock.inspect().await {
            let names: Vec<String> = names.iter().map(describe).collect();
            let waited = Rough(begun.elapsed());
            line.draw(format_args!("waiting for {waited}: {}", names.join("; ")));
        }
        sleep(EVERY).await;
    }
}
