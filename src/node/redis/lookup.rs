//! Looks up the addresses of a host, for one master.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::time::rounded::Rounded;

type Addresses = io::Result<Vec<SocketAddr>>;

/// Look-ups of one master's host, and the addresses that they find.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    /// The look-up that is under way, if there is one. The system's resolver cannot be stopped, and occupies a thread. So an
    /// attempt to connect that has no time left leaves the look-up to the next one.
    running: Arc<Mutex<Option<AbortOnDropHandle<Addresses>>>>,
    /// Address that accepted a connection whose set-up has not come to its end. The next attempt begins with the address after it,
    /// and an attempt that succeeds leaves the one that failed before.
    failed: Arc<parking_lot::Mutex<Option<SocketAddr>>>,
}

impl Lookup {
    /// Addresses of a host, which are looked up for each connection.
    pub(super) async fn addresses(&self, host: &str, port: u16, within: Duration) -> Addresses {
        let host = host.to_owned();
        let looking = async move { Ok(lookup_host((host, port)).await?.collect()) };
        timeout(within, self.finish(looking)).await.unwrap_or_else(|_| {
            let late = format!("no answer from the resolver within {}", Rounded(within));
            Err(io::Error::new(io::ErrorKind::TimedOut, late))
        })
    }

    /// Address that accepted a connection whose set-up failed.
    pub(super) fn failed(&self) -> Option<SocketAddr> {
        *self.failed.lock()
    }

    pub(super) fn set_failed(&self, address: Option<SocketAddr>) {
        *self.failed.lock() = address;
    }

    /// Has the next look-up find these addresses.
    pub(super) async fn finds(&self, addresses: Vec<SocketAddr>) {
        let found = tokio::spawn(async { Ok(addresses) });
        *self.running.lock().await = Some(AbortOnDropHandle::new(found));
    }

    /// Waits for the look-up that is under way. Begins this one if there is none.
    async fn finish(&self, looking: impl Future<Output = Addresses> + Send + 'static) -> Addresses {
        let mut running = self.running.lock().await;
        let found = running
            .get_or_insert_with(|| AbortOnDropHandle::new(tokio::spawn(looking)))
            .await;
        *running = None;
        found?
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_lookup_is_left_to_the_next_attempt() {
        let lookup = Lookup::default();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 6379));
        let (answer, answered) = oneshot::channel();
        let slow = async move { answered.await.map_err(io::Error::other) };
        let first = timeout(Duration::from_secs(1), lookup.finish(slow)).await;
        assert!(first.is_err(), "{first:?}");
        let late = lookup.addresses("localhost", 6379, Duration::from_secs(1)).await;
        let late = late.expect_err("the first one is under way");
        assert_eq!(late.to_string(), "no answer from the resolver within 1s");
        answer.send(vec![address]).expect("nobody has stopped it");
        let another = async { panic!("a second look-up has begun") };
        assert_eq!(lookup.finish(another).await.expect("an answer"), [address]);
        // The next connection looks the name up again.
        let again = lookup.finish(async { Ok(Vec::new()) });
        assert_eq!(again.await.expect("an answer"), []);
    }
}
