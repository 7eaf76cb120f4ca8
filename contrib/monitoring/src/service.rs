//! A service that locks, and lets itself be scraped.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::join_all;
use multilock::{Closing, Masters, Node};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::exporter::exporter;

/// Short, so that a hold that cannot be renewed is lost while one looks on.
pub(crate) const LEASE: Duration = Duration::from_secs(6);
const INVOICES: usize = 3;
const CHARGING: usize = 6;
const ATTEMPTS: u32 = 10;

/// Answers scrapes from now on. Installed before the masters are connected, which is when their series begin.
pub(crate) fn export() -> Result<SocketAddr> {
    let mut attempt = 1;
    loop {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        match exporter()?.with_http_listener(address).install() {
            Ok(()) => return Ok(address),
            // Another program may take the port before the exporter does.
            Err(error) if attempt == ATTEMPTS => return Err(error).context("installing the recorder"),
            Err(_) => attempt += 1,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Service {
    masters: Masters,
    jobs: Vec<JoinHandle<()>>,
}

impl Service {
    pub(crate) async fn start(nodes: Vec<Node>) -> Result<Self> {
        let masters = Masters::builder().nodes(nodes).for_tests(LEASE).connect().await?;
        let charging = (0..CHARGING).map(|number| tokio::spawn(charge(masters.clone(), number)));
        let mut jobs: Vec<_> = charging.collect();
        jobs.push(tokio::spawn(lead(masters.clone())));
        Ok(Self { masters, jobs })
    }

    pub(crate) async fn stop(self) {
        for job in &self.jobs {
            job.abort();
        }
        join_all(self.jobs).await;
        self.masters.close(Closing::Release).await;
    }
}

/// Short jobs. Several tasks contend for their names.
async fn charge(masters: Masters, number: usize) {
    let name = format!("invoice:{}", number % INVOICES);
    let lock = masters.red_lock(name).metric_label("invoices");
    loop {
        if let Ok(guard) = lock.clone().wait(Duration::from_secs(2)).lock().await {
            sleep(Duration::from_millis(15)).await;
            // Told to the metrics in any case.
            let _ = guard.unlock().await;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Holds a lock for as long as it can, again and again.
async fn lead(masters: Masters) {
    let lock = masters.red_lock("leader").metric_label("leader");
    loop {
        if let Ok(guard) = lock.clone().lock().await {
            guard.lost().await;
        }
        sleep(Duration::from_millis(200)).await;
    }
}
