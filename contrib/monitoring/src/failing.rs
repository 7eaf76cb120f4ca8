//! An alert about calls that fail, on real servers and under a real Prometheus.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use futures::future::try_join_all;
use metrics::set_default_local_recorder;
use multilock::{Masters, MultiLock, Node, Policy};
use multilock_test_support::native::Native;
use tokio::time::{Instant, sleep};

use crate::dashboard::Target;
use crate::exporter::exporter;
use crate::legends::instances;
use crate::prometheus::Prometheus;
use crate::service::LEASE;

const ALERT: &str = "MultilockAcquiresFail";

/// Calls for the lock about once in 100 ms, for this time.
async fn call(lock: &MultiLock, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if let Ok(guard) = lock.clone().try_lock().await {
            // Told to the metrics in any case.
            let _ = guard.unlock().await;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// The alert fires two minutes after it has become pending.
#[tokio::test]
async fn calls_that_fail_make_the_alert_pending_and_calls_that_succeed_do_not() {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|bound| bound.local_addr());
    let address = address.expect("a port");
    let exporter = exporter().expect("bounds").with_http_listener(address);
    let (recorder, serving) = exporter.build().expect("a port");
    let serving = tokio::spawn(serving);
    // Before the masters are connected, which is when their series begin.
    let installed = set_default_local_recorder(&recorder);
    let servers = try_join_all((0..3).map(|_| Native::start(&[], &[])));
    let servers = servers.await.expect("servers");
    let nodes = servers.iter().map(|server| Node::url(server.address.url()));
    let masters = Masters::builder().nodes(nodes).for_tests(LEASE).connect().await;
    let masters = masters.expect("it connects");
    masters.ready(Policy::RedLock).await.expect("their votes");
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../prometheus/alerts.yml");
    let rules = rules.canonicalize().expect("the rules");
    let prometheus = Prometheus::start(address, &instances(1), &rules).await;
    let prometheus = prometheus.expect("a Prometheus");
    let query = format!("ALERTS{{alertname=\"{ALERT}\"}}");
    let alert = Target {
        query,
        legend: "{{alertstate}}".to_owned(),
    };
    let states = async || prometheus.range(&alert).await.expect("an answer");

    let lock = masters.red_lock("a");
    call(&lock, Duration::from_secs(5)).await;
    assert!(states().await.is_empty(), "all calls succeed");
    for server in &servers[..2] {
        server.freeze().expect("it runs");
    }
    let end = Instant::now() + Duration::from_secs(90);
    while states().await.is_empty() {
        assert!(
            Instant::now() < end,
            "most calls fail, and the alert is not pending"
        );
        call(&lock, Duration::from_secs(1)).await;
    }
    assert_eq!(states().await[0].label, "pending");
    drop(installed);
    serving.abort();
}
