//! A master that does not know the connection's user any more.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use multilock::Masters;
use multilock::sim::{Call, Fate, Observer};
use tokio::time::{sleep, timeout};

/// Over which connections the first master was asked to grant something.
#[derive(Debug, Default)]
struct Connections(Mutex<BTreeSet<i64>>);

impl Observer for Connections {
    fn sent(&self, call: &Call) -> Fate {
        if call.master == 0 && call.script == "acquire" {
            self.0.lock().expect("not poisoned").insert(call.connection);
        }
        Fate::Delivered
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_connected_anew_and_asked_again() {
    let (masters, cluster) = Masters::in_memory(3).await.expect("masters");
    let seen = Arc::new(Connections::default());
    let observer: Arc<dyn Observer> = Arc::clone(&seen) as _;
    cluster.observe(&observer);
    for master in cluster.iter() {
        master.answer_with(Some("NOAUTH Authentication required."));
    }
    let lock = masters.red_lock("a").wait(Duration::from_secs(10));
    let waiting = tokio::spawn(async move { lock.lock().await });
    sleep(Duration::from_secs(1)).await;
    for master in cluster.iter() {
        master.answer_with(None);
    }
    let waited = timeout(Duration::from_secs(10), waiting).await.expect("in time");
    let guard = waited.expect("no panic").expect("no more than votes are lost");
    let connections = seen.0.lock().expect("not poisoned").len();
    assert!(connections > 1, "{connections}");
    // A release that was refused is sent again.
    for master in cluster.iter() {
        master.answer_with(Some("NOAUTH Authentication required."));
    }
    drop(guard);
    sleep(Duration::from_secs(1)).await;
    for master in cluster.iter() {
        master.answer_with(None);
    }
    sleep(Duration::from_secs(1)).await;
    for master in cluster.iter() {
        assert_eq!(master.locks(), [""; 0], "released");
    }
}
