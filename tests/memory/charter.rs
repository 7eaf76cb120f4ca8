//! What clients with leases of more than 30 s agree upon, and what they are told until they have.

use std::time::Duration;

use crate::support::ms;
use multilock::sim::{Client, Cluster, Keep};
use multilock::{ExtendError, LockError, Masters, MastersBuilder, Quarantine};
use tokio::time::{Instant, sleep};

const LONG: Duration = Duration::from_secs(300);

fn long() -> MastersBuilder {
    Masters::builder().max_lease(LONG)
}

fn get(master: &multilock::sim::Master) -> Vec<String> {
    master.command(&["GET", "multilock_charter"]).expect("a string")
}

/// What every master stores, but for who has stored it there.
fn stands(cluster: &Cluster) -> Vec<Vec<String>> {
    let numbers = |text: String| text.split(' ').take(2).collect::<Vec<_>>().join(" ");
    cluster
        .iter()
        .map(|master| get(master).into_iter().map(numbers).collect())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_stored_while_nobody_wants_more_than_what_is_free() {
    let cluster = Cluster::new(3);
    let masters = cluster.connect(Masters::builder()).await.expect("connects");
    masters.red_lock("a").try_lock().await.expect("free").leak();
    assert_eq!(stands(&cluster), vec![Vec::<String>::new(); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_long_lease_can_be_had_as_soon_as_the_client_is_connected() {
    let cluster = Cluster::new(3);
    let masters = cluster.connect(long()).await.expect("connects");
    let guard = masters
        .red_lock("a")
        .lease(LONG)
        .try_lock()
        .await
        .expect("in force");
    assert!(guard.validity() > LONG * 9 / 10);
    sleep(ms(10)).await;
    assert_eq!(stands(&cluster), vec![["300000 300000"]; 3]);
    assert_eq!(
        cluster
            .iter()
            .map(|master| master.time_left("multilock_charter"))
            .collect::<Vec<_>>(),
        vec![None; 3],
        "it never expires"
    );
}

#[tokio::test(start_paused = true)]
async fn until_every_master_has_confirmed_it_the_error_says_who_has_not() {
    let cluster = Cluster::new(3);
    cluster.master(2).crash();
    let masters = cluster.connect(long()).await.expect("a majority");
    let lock = masters.red_lock("a").lease(LONG);
    let error = lock.try_lock().await.expect_err("not in force");
    let LockError::Unchartered(unchartered) = &error else {
        panic!("{error}");
    };
    assert_eq!(unchartered.lease, LONG);
    assert_eq!(unchartered.unconfirmed.len(), 1);
    assert_eq!(
        error.to_string(),
        "a lease of 5m is not in force: memory-2 has to confirm it; all masters must be connected at once for \
         that (where it is confirmed, GET multilock_charter begins with 300000 or more; see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#long-lease)"
    );
    // A lease that needs no agreement is to be had meanwhile.
    let guard = masters.red_lock("b").try_lock().await.expect("30 s are free");
    assert!(matches!(
        guard.extend(LONG).await,
        Err(ExtendError::Unchartered(_))
    ));
    // Who waits gets it when the master is back.
    let began = Instant::now();
    let waiting = tokio::spawn(async move { lock.wait(ms(60_000)).lock().await });
    sleep(ms(2000)).await;
    cluster.master(2).restart(Keep::Data);
    let waited = waiting.await.expect("no panic").expect("in force by then");
    assert!(waited.validity() > LONG * 9 / 10);
    assert!(began.elapsed() < ms(5000), "{:?}", began.elapsed());
    guard.extend(LONG).await.expect("in force");
}

/// 21b, 21c: whoever is told of longer leases reckons with them at once, and is granted in the same call.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_told_asks_again_at_once() {
    let cluster = Cluster::new(3);
    let short = cluster.connect(Masters::builder()).await.expect("connects");
    let guard = short.red_lock("b").try_lock().await.expect("free");
    let _long = cluster.connect(long()).await.expect("connects");
    let began = Instant::now();
    guard.extend(ms(30_000)).await.expect("asked again at once");
    let other = short.red_lock("a").try_lock().await.expect("asked again at once");
    assert!(began.elapsed() < ms(10), "{:?}", began.elapsed());
    assert!(guard.is_valid() && other.is_valid());
}

/// A restarted master is reckoned anew once longer leases are known of.
#[tokio::test(start_paused = true)]
async fn quarantine_grows_with_what_is_told() {
    let cluster = Cluster::new(3);
    let short = cluster.connect(Masters::builder()).await.expect("connects");
    cluster.master(0).crash();
    cluster.master(0).restart(Keep::Nothing);
    sleep(ms(40_000)).await;
    let quarantined = async || {
        let lock = short.red_lock("a");
        let inspections = lock.inspect().await.expect("asked");
        inspections[0].quarantined.len()
    };
    assert_eq!(quarantined().await, 0);
    let _long = cluster.connect(long()).await.expect("connects");
    let guard = short.red_lock("a").try_lock().await.expect("1 and 2 grant");
    assert_eq!(quarantined().await, 1);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn masters_that_are_thrown_away_need_no_agreement() {
    let cluster = Cluster::new(3);
    let builder = long().quarantine(Quarantine::Off);
    let masters = cluster.connect(builder).await.expect("connects");
    let guard = masters
        .red_lock("a")
        .lease(LONG)
        .try_lock()
        .await
        .expect("granted");
    assert_eq!(stands(&cluster), vec![Vec::<String>::new(); 3]);
    // Nor does that of others stop it.
    let _others = cluster.connect(long()).await.expect("connects");
    sleep(ms(10)).await;
    guard.extend(LONG).await.expect("extended");
    masters.red_lock("b").try_lock().await.expect("granted").leak();
}

/// A raise that waits for a master keeps nobody from what was in force before.
#[tokio::test(start_paused = true)]
async fn what_was_in_force_stays_in_force_during_a_raise() {
    let cluster = Cluster::new(3);
    let minute = Duration::from_secs(60);
    let first = cluster.connect(Masters::builder().max_lease(minute)).await;
    drop(first.expect("connects"));
    sleep(ms(10)).await;
    cluster.master(2).crash();
    let raising = cluster.connect(long()).await.expect("a majority");
    sleep(ms(10)).await;
    assert_eq!(stands(&cluster)[..2], vec![["300000 60000"]; 2]);
    let next = cluster.connect(Masters::builder().max_lease(minute)).await;
    let next = next.expect("a majority");
    let guard = next.red_lock("a").lease(minute).try_lock().await;
    assert!(guard.expect("in force").is_valid());
    let refused = raising.red_lock("b").lease(LONG).try_lock().await;
    assert!(matches!(refused, Err(LockError::Unchartered(_))), "{refused:?}");
}

/// A raise by hand, as an operator may do with `redis-cli` alone, is taken over like any other.
#[tokio::test(start_paused = true)]
async fn a_raise_by_hand_counts() {
    let cluster = Cluster::new(3);
    for master in cluster.iter() {
        master
            .command(&["SET", "multilock_charter", "300000"])
            .expect("set");
    }
    let masters = cluster.connect(Masters::builder()).await.expect("connects");
    cluster.master(0).crash();
    cluster.master(0).restart(Keep::Nothing);
    sleep(ms(40_000)).await;
    let lock = masters.red_lock("a");
    let inspections = lock.inspect().await.expect("asked");
    assert_eq!(inspections[0].quarantined.len(), 1, "{inspections:?}");
    assert_eq!(stands(&cluster), vec![["300000 300000"]; 3], "put back");
}

fn set_of(cluster: &Cluster) -> Vec<String> {
    let get = |master: &multilock::sim::Master| master.command(&["GET", "multilock_masters"]);
    cluster
        .iter()
        .flat_map(|master| get(master).expect("a string"))
        .collect()
}

fn belongs_to(cluster: &Cluster, place: usize, masters: &str) {
    let set = cluster
        .master(place)
        .command(&["SET", "multilock_masters", masters]);
    set.expect("set");
}

#[tokio::test(start_paused = true)]
async fn every_master_keeps_how_many_masters_its_set_has() {
    let cluster = Cluster::new(3);
    let _masters = cluster.connect(Masters::builder()).await.expect("connects");
    assert_eq!(set_of(&cluster), ["3"; 3]);
    assert_eq!(cluster.master(0).time_left("multilock_masters"), None);
}

/// A list that is shorter than that of the other clients: its quorums need not meet theirs.
#[tokio::test(start_paused = true)]
async fn masters_of_a_set_of_another_size_are_refused() {
    let cluster = Cluster::new(3);
    belongs_to(&cluster, 0, "5");
    belongs_to(&cluster, 2, "5");
    let refused = cluster.connect(Masters::builder()).await;
    let error = refused.map(drop).expect_err("refused");
    let message = error.to_string();
    assert!(
        message.ends_with(
            "cannot be used: it belongs to a set of 5 masters, and 3 are listed here; list the same masters in every \
             client, or, once no client uses it with another list, DEL multilock_masters there (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#other-set)"
        ),
        "{message}"
    );
    assert_eq!(set_of(&cluster), ["5", "3", "5"], "they are left as they are");
    // The remedy.
    for place in [0, 2] {
        assert!(cluster.master(place).evict("multilock_masters"));
    }
    let masters = cluster.connect(Masters::builder()).await.expect("connects");
    masters
        .multi_lock("a")
        .try_lock()
        .await
        .expect("all grant")
        .leak();
}

#[tokio::test(start_paused = true)]
async fn a_master_from_elsewhere_is_taken_in_where_a_quorum_tells_this_set() {
    let cluster = Cluster::new(3);
    belongs_to(&cluster, 0, "5");
    let masters = cluster.connect(Masters::builder()).await.expect("connects");
    masters
        .multi_lock("a")
        .try_lock()
        .await
        .expect("all grant")
        .leak();
    assert_eq!(set_of(&cluster), ["3"; 3]);
}

/// With too few others there to tell, it is not used, and nothing is overwritten.
#[tokio::test(start_paused = true)]
async fn a_master_from_elsewhere_waits_for_the_others() {
    let cluster = Cluster::new(5);
    belongs_to(&cluster, 0, "3");
    cluster.master(3).crash();
    cluster.master(4).crash();
    let refused = cluster.connect(Masters::builder()).await.map(drop);
    assert!(refused.is_err());
    assert_eq!(set_of(&cluster), ["3", "5", "5"]);
    cluster.master(3).restart(Keep::Data);
    let masters = cluster.connect(Masters::builder()).await.expect("a majority");
    assert_eq!(set_of(&cluster)[..4], ["5"; 4]);
    drop(masters);
}

/// A client without quarantine counts on no master to forget, and still needs quorums that meet those of others.
#[tokio::test(start_paused = true)]
async fn without_quarantine_lists_of_another_length_are_refused() {
    for (first, second) in [
        (Quarantine::Off, Quarantine::Off),
        (Quarantine::Off, Quarantine::Auto),
        (Quarantine::Auto, Quarantine::Off),
    ] {
        let cluster = Cluster::new(5);
        let some = Client::new().masters(&[0, 1, 2]);
        let three = cluster
            .connect_as(&some, Masters::builder().quarantine(first))
            .await;
        let three = three.expect("connects");
        assert_eq!(set_of(&cluster), ["3"; 3]);
        let five = cluster.connect(Masters::builder().quarantine(second)).await;
        let error = five.map(drop).expect_err("another list").to_string();
        let told = "it belongs to a set of 3 masters, and 5 are listed here";
        assert!(error.contains(told), "{first:?}, {second:?}: {error}");
        assert_eq!(stands(&cluster)[..3], vec![Vec::<String>::new(); 3]);
        drop(three);
    }
}
