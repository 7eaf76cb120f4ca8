//! What clients with long leases agree upon, on real servers.

use std::time::Duration;

use crate::support::{Cluster, PATIENT, acquire, until};
use multilock::Masters;
use redis::Value;

#[tokio::test]
async fn real_servers_agree_too() {
    let cluster = Cluster::start(3).await;
    for round in 0..2 {
        let masters = Masters::builder()
            .max_lease(Duration::from_secs(300))
            .nodes(cluster.urls())
            .node_timeout(PATIENT)
            .connect_timeout(PATIENT)
            .connect()
            .await
            .expect("connects");
        for server in cluster.servers() {
            let what = format!("in force on {} in round {round}", server.port());
            until(&what, async || {
                let value = server.command(&["GET", "multilock_charter"]).await;
                matches!(value, Value::BulkString(text) if text.starts_with(b"300000 300000 "))
            })
            .await;
        }
        drop(masters);
    }
    // A client that reckons with less is refused by the script on each of them, and then is not.
    let server = cluster.server(0);
    let refused = acquire(server, &["a"], "me:1", "1000").await;
    assert_eq!(refused[0], Value::Int(-2));
    assert_eq!(refused[1], Value::BulkString(b"300000".to_vec()));
    assert!(!server.exists("a").await, "nothing was written");
}
