//! A client that has got a lock is in no queue any more, so others may try.

use multilock::Unlocked;
use multilock::sim::Cluster;
use tokio::time::sleep;

use crate::support::{connect, ms, queues, slow_down};

/// The round that is won does not get the waiter out of a queue in which it has stood since the one before: the master has
/// forgotten the script, or its connection ends.
#[tokio::test(start_paused = true)]
async fn a_try_on_all_masters_meets_nobody_after_a_wait() {
    for is_connection in [false, true] {
        let cluster = Cluster::new(3);
        let (holder, waiter) = (connect(&cluster).await, connect(&cluster).await);
        let rival = connect(&cluster).await;
        let held = holder.red_lock("x").lock().await.expect("free");
        let lock = waiter.red_lock("x");
        let waiting = tokio::spawn(async move { lock.lock().await });
        sleep(ms(300)).await;
        assert_eq!(queues(&cluster), 6, "a queue and its deadlines on each");
        slow_down(&cluster, 10);
        let breaking = async {
            // The release has got there, and the acquire that follows the call has not.
            sleep(ms(25)).await;
            if is_connection {
                cluster.master(2).reset_connections();
            } else {
                cluster.master(2).forget_script("acquire");
            }
        };
        let (released, ()) = tokio::join!(held.unlock(), breaking);
        released.expect("held");
        let guard = waiting.await.expect("no panic").expect("its turn");
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        sleep(ms(40)).await;
        let tried = rival.multi_lock("x").try_lock().await;
        assert!(tried.is_ok(), "nobody holds or waits: {tried:?}");
        assert_eq!(queues(&cluster), 0);
    }
}
