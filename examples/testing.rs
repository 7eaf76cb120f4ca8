//! How do I test a service of my own that takes locks: a rival, a master that crashes, a hold that is lost, a caller that
//! gives up?
//!
//! On masters in memory, in time that costs nothing: the tests below, explained in docs/testing.md. On real masters the same
//! service charges two invoices.
//!
//! ```text
//! cargo test --example testing
//! make cluster-up && cargo run --example testing
//! ```
//! or `MULTILOCK_NODES=redis://a:6379,redis://b:6379,… cargo run --example testing`.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use multilock::{FencingToken, Masters, RunError};
use tokio::time::sleep;

/// Charges invoices, each once, however many processes try to. It is given its masters, and does not connect by itself:
/// that is all that makes it testable.
#[derive(Clone)]
struct Billing {
    masters: Masters,
    ledger: Arc<Ledger>,
    /// How long a charge takes.
    takes: Duration,
}

/// The charges, each with the token under which it was made: in earnest a table of a database.
#[derive(Default)]
struct Ledger(Mutex<BTreeMap<u32, FencingToken>>);

impl Ledger {
    fn is_charged(&self, invoice: u32) -> bool {
        self.charges().contains_key(&invoice)
    }

    /// Refuses an invoice that is charged already: with `run` and `is_charged` that should never be needed.
    fn charge(&self, invoice: u32, token: FencingToken) {
        let before = self.charges().insert(invoice, token);
        assert!(before.is_none(), "invoice {invoice} was charged twice");
    }

    fn charges(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, FencingToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Billing {
    /// Whether this call has charged it; it had been before, if not.
    async fn charge(&self, invoice: u32) -> Result<bool, RunError<bool>> {
        let lock = self.masters.red_lock(format!("invoice:{invoice}"));
        let lock = lock.wait(Duration::from_secs(90));
        lock.run(async |guard| {
            if self.ledger.is_charged(invoice) {
                return false;
            }
            sleep(self.takes).await;
            self.ledger.charge(invoice, guard.fencing_token());
            true
        })
        .await
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let billing = Billing {
        masters: common::connect().await?,
        ledger: Arc::default(),
        takes: Duration::from_millis(100),
    };
    for invoice in [1, 2] {
        let (one, other) = tokio::join!(billing.charge(invoice), billing.charge(invoice));
        let times = u32::from(one?) + u32::from(other?);
        println!("invoice {invoice} was asked for twice and charged {times} time");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use multilock::sim::{Client, Cluster, Direction, Keep, Network};
    use multilock::{LockError, LossCause};
    use tokio::time::{Instant, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Two processes that bill from the same ledger, on three masters; a charge takes two seconds.
    async fn two_processes(cluster: &Cluster) -> [Billing; 2] {
        let ledger = Arc::<Ledger>::default();
        let masters = [connect(cluster).await, connect(cluster).await];
        masters.map(|masters| Billing {
            masters,
            ledger: Arc::clone(&ledger),
            takes: 2 * SECOND,
        })
    }

    async fn connect(cluster: &Cluster) -> Masters {
        let connecting = cluster.connect(Masters::builder());
        connecting.await.expect("masters in memory that are up")
    }

    #[tokio::test(start_paused = true)]
    async fn an_invoice_is_charged_once_by_two_processes() {
        let cluster = Cluster::new(3);
        let [here, there] = two_processes(&cluster).await;
        let (one, other) = tokio::join!(here.charge(7), there.charge(7));
        assert_ne!(one.expect("it got its turn"), other.expect("it got its turn"));
        assert_eq!(here.ledger.charges().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_master_that_crashes_meanwhile_changes_nothing() {
        let cluster = Cluster::new(3);
        let [here, there] = two_processes(&cluster).await;
        let crash = async {
            sleep(SECOND).await;
            cluster.master(0).crash();
            sleep(SECOND / 2).await;
            cluster.master(0).restart(Keep::Nothing);
        };
        let (one, other, ()) = tokio::join!(here.charge(7), there.charge(7), crash);
        assert_ne!(one.expect("two are left"), other.expect("two are left"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_charge_whose_lock_is_lost_is_not_made() {
        let cluster = Cluster::new(3);
        let [mut slow, other] = two_processes(&cluster).await;
        // Longer than the lease: without renewals the hold ends before.
        slow.takes = 60 * SECOND;
        let freeze = async {
            sleep(SECOND).await;
            for master in cluster.iter() {
                master.freeze();
            }
        };
        let (ended, ()) = tokio::join!(slow.charge(7), freeze);
        assert!(matches!(ended, Err(RunError::Lost(loss)) if loss.cause == LossCause::Expired));
        assert!(!slow.ledger.is_charged(7), "the body was dropped");

        for master in cluster.iter() {
            master.thaw();
        }
        assert!(other.charge(7).await.expect("masters that answer again"));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_cut_off_is_followed_by_somebody_else() {
        let (cluster, network) = (Cluster::new(3), Network::new(3));
        let client = Client::new().network(&network);
        let connecting = cluster.connect_as(&client, Masters::builder());
        let [mut here, there] = two_processes(&cluster).await;
        here.masters = connecting.await.expect("masters in memory that are up");
        here.takes = 60 * SECOND;
        let cut = async {
            sleep(SECOND).await;
            (0..3).for_each(|node| network.cut(node, Direction::Both));
        };
        let (lost, followed, ()) = tokio::join!(here.charge(7), there.charge(7), cut);
        assert!(matches!(lost, Err(RunError::Lost(_))), "{lost:?}");
        assert!(followed.expect("all masters are there for it"));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_majority_it_says_so_in_time() {
        let cluster = Cluster::new(3);
        let [here, _] = two_processes(&cluster).await;
        cluster.master(0).crash();
        cluster.master(1).crash();
        let begun = Instant::now();
        let error = here.charge(7).await.expect_err("one master is no majority");
        let RunError::Lock(LockError::TimedOut { last: Some(last), .. }) = error else {
            panic!("{error}");
        };
        assert!(matches!(*last, LockError::Unreachable { .. }), "{last}");
        assert!(begun.elapsed() <= 91 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_gives_up_leaves_nothing_behind() {
        let cluster = Cluster::new(3);
        let [here, there] = two_processes(&cluster).await;
        timeout(SECOND, here.charge(7))
            .await
            .expect_err("it takes two seconds");
        // The release goes its way in the background.
        sleep(SECOND / 10).await;
        assert!(cluster.iter().all(|master| master.locks().is_empty()));
        assert!(there.charge(7).await.expect("nobody holds it"));
    }
}
