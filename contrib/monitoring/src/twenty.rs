//! The dashboard under a real Prometheus that scrapes twenty instances.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use multilock::{Masters, Node, Policy};
use multilock_test_support::native::Native;
use tokio::time::{Instant, sleep};

use crate::dashboard::{self, Panel, Target};
use crate::legends::{curves, instances};
use crate::prometheus::Prometheus;
use crate::service::{self, LEASE, Service};

const WITHIN: Duration = Duration::from_secs(90);

async fn check(prometheus: &Prometheus, panels: &[Panel], instances: &[String]) -> Result<()> {
    for panel in panels {
        curves(prometheus, panel, instances).await?;
    }
    Ok(())
}

/// Panel with the variable `$instance` set to one instance.
fn of_instance(panel: &Panel, instance: &str) -> Panel {
    let all = "instance=~\".*\"";
    let targets = panel.targets.iter().map(|target| {
        assert!(target.query.contains(all), "{} knows no $instance", target.query);
        Target {
            query: target.query.replace(all, &format!("instance=~\"{instance}\"")),
            legend: target.legend.clone(),
        }
    });
    Panel {
        title: panel.title.clone(),
        targets: targets.collect(),
    }
}

#[tokio::test]
async fn twenty_instances_can_be_told_apart_in_every_panel() {
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let contrib = contrib.canonicalize().expect("a folder");
    let panels = dashboard::panels(&contrib.join("grafana/multilock.json")).expect("the dashboard");
    let metrics = service::export().expect("a recorder");
    let servers = try_join_all((0..3).map(|_| Native::start(&[], &[])));
    let servers = servers.await.expect("servers");
    let nodes: Vec<Node> = servers
        .iter()
        .map(|server| Node::url(server.address.url()))
        .collect();
    let service = Service::start(nodes.clone()).await.expect("it connects");
    let instances = instances(20);
    let rules = contrib.join("prometheus/alerts.yml");
    let prometheus = Prometheus::start(metrics, &instances, &rules)
        .await
        .expect("a Prometheus");

    let operator = Masters::builder().nodes(nodes).for_tests(LEASE).connect().await;
    let operator = operator.expect("it connects");
    operator.ready(Policy::RedLock).await.expect("their votes");
    // Some curves have values only after trouble: votes that come late, and a lock that is taken away.
    sleep(Duration::from_secs(3)).await;
    servers[0].freeze().expect("it runs");
    sleep(Duration::from_secs(2)).await;
    servers[0].thaw().expect("it is frozen");
    let forced = operator.red_lock("leader").force_release().await;
    forced.expect("a quorum");

    let end = Instant::now() + WITHIN;
    while let Err(error) = check(&prometheus, &panels, &instances).await {
        assert!(Instant::now() < end, "{error:#}");
        sleep(Duration::from_secs(1)).await;
    }
    let one = [instances[6].clone()];
    for panel in &panels {
        let shown = curves(&prometheus, &of_instance(panel, &one[0]), &one).await;
        let shown = shown.unwrap_or_else(|error| panic!("{error:#}"));
        assert!(
            shown.iter().all(|curve| curve.label.starts_with(&one[0])),
            "{}: {shown:?}",
            panel.title
        );
    }
    service.stop().await;
}
