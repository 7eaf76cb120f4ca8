//! A master that lets clients in, and refuses every write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use multilock::sim::{Call, Fate, Observer};
use multilock::{Masters, Unlocked};
use tokio::time::sleep;

use crate::support::ms;

const READONLY: &str = "READONLY You can't write against a read only replica.";

/// Counts releases. From the thousandth on, each takes a millisecond, so that time goes on during any number of them.
#[derive(Debug, Default)]
struct Releases(AtomicUsize);

impl Observer for Releases {
    fn sent(&self, call: &Call) -> Fate {
        if call.script != "release" {
            return Fate::Delivered;
        }
        if self.0.fetch_add(1, Ordering::Relaxed) < 1_000 {
            Fate::Delivered
        } else {
            Fate::RequestDelayed(ms(1))
        }
    }
}

/// Nothing here takes any time, but for pauses.
#[tokio::test(start_paused = true)]
async fn time_goes_on_while_a_release_is_owed_to_it() {
    let (masters, cluster) = Masters::in_memory(3).await.expect("masters");
    let seen = Arc::new(Releases::default());
    let observer: Arc<dyn Observer> = Arc::clone(&seen) as _;
    cluster.observe(&observer);
    let guard = masters.red_lock("x").lock().await.expect("free");
    cluster.master(0).answer_with(Some(READONLY));
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    sleep(ms(1_000)).await;
    let releases = seen.0.load(Ordering::Relaxed);
    // One to each of three masters, and then one on each new connection.
    assert!((3 + 2..3 + 12).contains(&releases), "{releases}");
    let status = masters.status();
    let told = status.nodes[0]
        .connection
        .as_ref()
        .expect_err("it is connected to again");
    assert!(told.to_string().contains("READONLY"), "{told}");
    cluster.master(0).answer_with(None);
    sleep(ms(500)).await;
    assert_eq!(cluster.master(0).locks(), [""; 0], "released");
}

/// A test looks at a master, and writes to it, in spite of its faults.
#[tokio::test(start_paused = true)]
async fn a_test_writes_to_a_master_without_memory() {
    let (masters, cluster) = Masters::in_memory(1).await.expect("masters");
    let master = cluster.master(0);
    master.out_of_memory(true);
    assert_eq!(master.command(&["SET", "x", "1"]), Ok(vec!["OK".to_owned()]));
    let set = master.eval("return redis.call('set', KEYS[1], '2')", &["x"], &[]);
    assert_eq!(set, Ok(vec!["OK".to_owned()]));
    let refused = masters.red_lock("a").try_lock().await;
    assert!(refused.is_err_and(|error| error.to_string().contains("OOM")));
}
