//! Who has stored the charter, and what `MastersBuilder::reset_charter` looks at before it takes the charter away: here it
//! is deleted by hand, without a look, and two hold.

use std::time::Duration;

use crate::support::{ms, settle};
use multilock::sim::{Client, Cluster, Direction, Keep, Master, Network};
use multilock::{Masters, MultiLockGuard};
use tokio::time::sleep;

const LONG: Duration = Duration::from_secs(300);
const CHARTER: &str = "multilock_charter";

fn stands(master: &Master) -> Vec<String> {
    master.command(&["GET", CHARTER]).expect("a string")
}

fn store(cluster: &Cluster, charter: &str) {
    for master in cluster.iter() {
        master.command(&["SET", CHARTER, charter]).expect("set");
    }
}

#[tokio::test(start_paused = true)]
async fn who_raises_it_is_stored_with_it() {
    let cluster = Cluster::new(3);
    let raising = |lease: u64, label: &str| {
        let lease = Duration::from_secs(lease);
        cluster.connect(Masters::builder().max_lease(lease).client_label(label))
    };
    let first = raising(60, "first@host:1").await.expect("connects");
    settle().await;
    let _second = raising(60, "second@host:2").await.expect("connects");
    settle().await;
    for master in cluster.iter() {
        assert_eq!(stands(master), ["60000 60000 first@host:1"], "it stood there");
    }
    cluster.master(1).crash();
    let _third = raising(300, "the third").await.expect("connects");
    settle().await;
    assert_eq!(stands(cluster.master(0)), ["300000 60000 the third"]);
    cluster.master(1).restart(Keep::Data);
    settle().await;
    sleep(ms(1000)).await;
    assert_eq!(stands(cluster.master(0)), ["300000 300000 the third"]);
    drop(first);
}

/// As clients have stored it that knew of no third word, and as some may store it in time to come.
#[tokio::test(start_paused = true)]
async fn with_or_without_a_name_it_counts() {
    for charter in ["300000 60000", "300000 60000 the night's jobs"] {
        let cluster = Cluster::new(3);
        store(&cluster, charter);
        let short = cluster.connect(Masters::builder()).await.expect("connects");
        short.red_lock("a").try_lock().await.expect("told").leak();
        let long = Masters::builder().max_lease(LONG).client_label("another");
        let long = cluster.connect(long).await.expect("connects");
        let guard = long.red_lock("b").lease(LONG).try_lock().await;
        assert!(guard.expect("in force").validity() > LONG * 9 / 10);
        settle().await;
        let expected = charter.replacen("60000", "300000", 1);
        for master in cluster.iter() {
            assert_eq!(stands(master), [expected.as_str()]);
        }
    }
}

/// A, whose leases are long, and B, which comes when the charter has gone, or has not. Each has links of its own.
struct Stage {
    cluster: Cluster,
    a: Network,
    b: Network,
}

impl Stage {
    fn new() -> Self {
        Self {
            cluster: Cluster::new(3),
            a: Network::new(3),
            b: Network::new(3),
        }
    }

    async fn a(&self) -> Masters {
        let client = Client::new().network(&self.a);
        let a = self
            .cluster
            .connect_as(&client, Masters::builder().max_lease(LONG));
        let a = a.await.expect("connects");
        settle().await;
        a
    }

    /// A's hold on all masters but one.
    async fn held_without(&self, a: &Masters, without: usize) -> MultiLockGuard {
        self.a.cut(without, Direction::Both);
        let held = a.red_lock("a").lease(LONG).try_lock().await;
        held.expect("the others grant")
    }

    fn cut_off_a(&self) {
        for place in 0..3 {
            self.a.cut(place, Direction::Both);
        }
    }

    fn forgets(&self, place: usize) {
        self.cluster.master(place).crash();
        self.cluster.master(place).restart(Keep::Nothing);
    }

    fn delete_charter(&self) {
        for master in self.cluster.iter() {
            assert!(master.evict(CHARTER), "it stood on every master");
        }
    }

    /// B does not reach the last master, asks when a quarantine of 30 s is over, and is granted or is not.
    async fn b_is_granted(&self) -> bool {
        self.b.cut(2, Direction::Both);
        let client = Client::new().network(&self.b);
        let b = self.cluster.connect_as(&client, Masters::builder());
        let b = b.await.expect("a majority");
        sleep(ms(40_000)).await;
        let granted = b.red_lock("a").try_lock().await;
        granted.is_ok_and(|guard| guard.is_valid())
    }
}

/// A is connected, and goes on with what it remembers.
async fn while_a_client_is_connected(deleted: bool) -> bool {
    let stage = Stage::new();
    let a = stage.a().await;
    if deleted {
        stage.delete_charter();
    }
    let held = stage.held_without(&a, 0).await;
    stage.cut_off_a();
    stage.forgets(1);
    stage.b_is_granted().await && held.is_valid()
}

/// A is cut off from every master, and holds.
async fn while_a_long_lease_lives(deleted: bool) -> bool {
    let stage = Stage::new();
    let a = stage.a().await;
    let held = stage.held_without(&a, 0).await;
    stage.cut_off_a();
    if deleted {
        stage.delete_charter();
    }
    stage.forgets(1);
    stage.b_is_granted().await && held.is_valid()
}

/// A is cut off, and holds on two masters, which forget it. Somebody else has put the charter back there.
async fn while_masters_may_have_forgotten(deleted: bool) -> bool {
    let stage = Stage::new();
    let a = stage.a().await;
    let held = stage.held_without(&a, 2).await;
    stage.cut_off_a();
    for place in [0, 1] {
        stage.forgets(place);
        let other = stage.cluster.connect(Masters::builder()).await.expect("connects");
        sleep(ms(1000)).await;
        drop(other);
    }
    assert!(stage.cluster.iter().all(|master| master.time_left("a").is_none()));
    if deleted {
        stage.delete_charter();
    }
    stage.b_is_granted().await && held.is_valid()
}

#[tokio::test(start_paused = true)]
async fn forgotten_under_a_client_that_remembers_two_hold() {
    assert!(!while_a_client_is_connected(false).await);
    assert!(
        while_a_client_is_connected(true).await,
        "what the look at connections is for"
    );
}

#[tokio::test(start_paused = true)]
async fn forgotten_while_a_long_lease_lives_two_hold() {
    assert!(!while_a_long_lease_lives(false).await);
    assert!(
        while_a_long_lease_lives(true).await,
        "what the look at keys is for"
    );
}

#[tokio::test(start_paused = true)]
async fn forgotten_after_masters_have_forgotten_two_hold() {
    assert!(!while_masters_may_have_forgotten(false).await);
    assert!(
        while_masters_may_have_forgotten(true).await,
        "what the look at uptimes is for"
    );
}
