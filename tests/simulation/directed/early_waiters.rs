//! Tasks that begin to wait before any master has told its clock, so that they have no tickets.

use std::time::Duration;

use multilock::Masters;
use multilock::sim::{Keep, Master};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{sleep, timeout};

use crate::directed::busy::{busy, connect, near};
use crate::plan::ms;
use crate::scene::{settle, violated};

/// A task that stands in line by now, and holds the lock for so long.
async fn visitor(masters: &Masters, held: Duration) -> JoinHandle<()> {
    let lock = masters.red_lock("a");
    let visitor = tokio::spawn(async move {
        let guard = lock.lock().await.expect("granted");
        sleep(held).await;
        drop(guard);
    });
    yield_now().await;
    visitor
}

/// Others of its process and of another one come once the clocks are known, so that they have tickets, and take the lock
/// all the time.
#[tokio::test(start_paused = true)]
async fn one_keeps_its_place_before_those_that_come_later() {
    let cluster = near();
    let (masters, other) = (connect(&cluster, 1).await, connect(&cluster, 2).await);
    cluster.iter().for_each(Master::crash);
    settle().await;
    let front = visitor(&masters, ms(500)).await;
    let early = visitor(&masters, ms(1)).await;
    sleep(ms(10)).await;
    cluster.iter().for_each(|master| master.restart(Keep::Data));
    // A master that was started again is reached after a pause.
    while cluster.iter().all(|master| master.fields("a").is_empty()) {
        sleep(ms(10)).await;
    }
    let crowd = [&masters, &masters, &other, &other].map(|masters| busy(masters, "a", ms(1)));
    front.await.expect("no panic");
    match timeout(ms(200), early).await {
        Ok(waited) => waited.expect("no panic"),
        Err(_) => violated("progress", "those that came later have it all the time"),
    }
    assert!(crowd.iter().all(|task| !task.is_finished()), "the crowd goes on");
    crowd.iter().for_each(JoinHandle::abort);
}
