//! `Masters::status()` on real servers: versions, round trips and the state of a server that was killed or frozen.

use crate::support::{Cluster, Keep, PATIENT, connect, label, until, within};
use multilock::{NodeError, Policy};

#[tokio::test]
async fn what_is_known_of_real_servers_is_told_and_what_becomes_of_them() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let guard = masters.red_lock("status").lock().await.expect("free");
    let status = masters.status();
    assert_eq!(
        (status.voting(), status.holds, status.waiters),
        (3, 1, 0),
        "{status:?}"
    );
    for (index, node) in status.nodes.iter().enumerate() {
        assert_eq!(*node.node, label(cluster.server(index)));
        let known = node.connection.as_ref().expect("connected");
        let major = known
            .version
            .split('.')
            .next()
            .and_then(|major| major.parse::<u32>().ok());
        assert!(major.is_some_and(|major| major >= 6), "{known:?}");
        assert!(
            known.capabilities.kill_fence && known.capabilities.run_known,
            "{known:?}"
        );
        assert!(
            !known.round_trip.is_zero() && known.round_trip < PATIENT,
            "{known:?}"
        );
    }
    let mut watched = masters.watch_status();
    cluster.server(1).kill().await;
    let told = within("it is told", watched.wait_for(|status| status.voting() == 2)).await;
    drop(told.expect("told"));
    let status = masters.status();
    assert!(
        matches!(status.nodes[1].connection, Err(NodeError::Unavailable(_))),
        "{status:?}"
    );
    assert!(status.is_ready(Policy::RedLock) && !status.is_ready(Policy::MultiLock));
    guard.unlock().await.expect("two confirm");
    cluster.server(1).restart(Keep::Data).await;
    until("it is connected again", async || {
        masters.status().nodes[1].connection.is_ok()
    })
    .await;
    assert_eq!(masters.status().holds, 0);
}
