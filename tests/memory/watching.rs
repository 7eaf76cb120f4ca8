//! Watching the leader of a name.

use std::future::pending;
use std::time::{Duration, SystemTime};

use multilock::sim::{Cluster, Keep, Master};
use multilock::{CancellationToken, Closing, FencingToken, Leader, LockError, Masters, MultiLock, Unlocked};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{connect, connect_by_default, connect_leasing, executed, ms, settle};

type Watched = Receiver<Option<Leader>>;

fn watch(masters: &Masters, name: &str) -> Watched {
    masters.watch_leader(name).expect("a name that a lock can have")
}

/// Leads until the token is cancelled.
fn lead(lock: MultiLock) -> CancellationToken {
    let stop = CancellationToken::new();
    let until = stop.clone().cancelled_owned();
    tokio::spawn(async move {
        lock.grace(Duration::ZERO)
            .lead_until(until, |_| pending::<()>())
            .await
    });
    stop
}

/// The text of the next leader that is shown, and the time until then.
async fn next(watched: &mut Watched) -> (Option<String>, Duration) {
    let begun = Instant::now();
    watched.changed().await.expect("it goes on");
    let about = watched.borrow_and_update().as_ref().map(|leader| {
        let about = leader.about.as_deref();
        about.unwrap_or("nothing").to_owned()
    });
    (about, begun.elapsed())
}

/// The channels of leaders that somebody listens to.
fn listened_to(cluster: &Cluster) -> usize {
    let channels = cluster.iter().flat_map(Master::channels);
    channels
        .filter(|channel| channel.starts_with("multilock:leads:"))
        .count()
}

/// A hold that is given up may leave its names locked. Its term is over.
#[tokio::test(start_paused = true)]
async fn names_that_stay_locked_have_no_leader() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let mut watched = watch(&there, "leader");
    settle().await;
    let lock = here
        .red_lock("leader")
        .announced()
        .about("me")
        .at_least(ms(20_000));
    let guard = lock.lock().await.expect("free");
    assert_eq!(next(&mut watched).await.0.as_deref(), Some("me"));
    assert!(matches!(guard.unlock().await, Ok(Unlocked::KeptFor(_))));
    let (about, after) = next(&mut watched).await;
    assert!(about.is_none() && after < ms(100), "{about:?} after {after:?}");
    sleep(ms(18_000)).await;
    assert!(watched.borrow().is_none());
    there
        .red_lock("leader")
        .try_lock()
        .await
        .expect_err("it stays locked");
}

/// A master that does not answer may have the leader, too. The leader is shown as long as a majority may have it.
#[tokio::test(start_paused = true)]
async fn a_leader_is_shown_while_a_majority_may_have_it() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let lock = here.red_lock("leader").about("me").lease(ms(20_000));
    let _guard = lock.lock().await.expect("free");
    settle().await;
    let delete = ["DEL", "leader"];
    cluster.master(2).command(&delete).expect("deleted");
    let mut watched = watch(&there, "leader");
    assert_eq!(next(&mut watched).await.0.as_deref(), Some("me"));
    cluster.master(0).freeze();
    sleep(ms(18_000)).await;
    assert!(watched.borrow().is_some(), "0 may have it");
    sleep(ms(2_500)).await;
    assert!(watched.borrow().is_none(), "its lease has ended");
}

/// Two of three masters have the leader for different times.
#[tokio::test(start_paused = true)]
async fn a_leader_is_shown_with_the_end_of_its_majority() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let _guard = here.red_lock("leader").lock().await.expect("free");
    settle().await;
    for (master, command) in [
        (1, ["PEXPIRE", "leader", "5000"].as_slice()),
        (2, &["DEL", "leader"]),
    ] {
        cluster.master(master).command(command).expect("done");
    }
    let mut watched = watch(&there, "leader");
    assert_eq!(next(&mut watched).await.0.as_deref(), Some("nothing"));
    let until = watched.borrow().as_ref().map(|leader| leader.until);
    let left = until.and_then(|until| until.duration_since(SystemTime::now()).ok());
    assert!(left.is_some_and(|left| left <= ms(5000)), "{left:?}");
}

/// Nobody leads by reading. And whoever leads without a token is shown after a leader with one.
#[tokio::test(start_paused = true)]
async fn readers_are_no_leaders_and_those_without_a_token_are() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let reader = here.red_lock("leader").read().lock().await.expect("free");
    settle().await;
    let mut watched = watch(&there, "leader");
    sleep(ms(40_000)).await;
    assert!(watched.borrow().is_none(), "it reads");
    reader.unlock().await.expect("held");
    let leads = async |fenced: bool, watched: &mut Watched| {
        let lock = here.red_lock("leader").announced().fenced(fenced).about("me");
        let guard = lock.lock().await.expect("free");
        assert_eq!(next(watched).await.0.as_deref(), Some("me"), "fenced: {fenced}");
        guard.unlock().await.expect("held");
        assert_eq!(next(watched).await.0, None);
    };
    leads(true, &mut watched).await;
    // The fence has ended by then.
    sleep(ms(130_000)).await;
    leads(false, &mut watched).await;
}

/// Neither does a reader of Redisson's, nor another program's hash.
#[tokio::test(start_paused = true)]
async fn a_key_that_stands_for_no_single_holder_shows_no_leader() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let reader = ["mode", "read", "7d1e2c3b:1", "1"];
    let counters = ["shop:1", "5", "shop:2", "7"];
    for (name, fields) in [("read", reader), ("hash", counters)] {
        for master in cluster.iter() {
            let words = [&["HSET", name], &fields[..]].concat();
            master.command(&words).expect("a hash");
        }
        let watched = watch(&masters, name);
        settle().await;
        assert!(watched.borrow().is_none(), "{name}");
    }
}

/// A look asks for no record, and so it shows no wiped memory. A vote does.
#[tokio::test(start_paused = true)]
async fn a_strict_client_watches_and_goes_on_locking() {
    let cluster = Cluster::new(3);
    let connecting = cluster.connect(Masters::builder().strict(true));
    let masters = connecting.await.expect("connects");
    let mut watched = watch(&masters, "leader");
    let stop = lead(masters.red_lock("leader").about("me"));
    let shown = timeout(ms(1000), next(&mut watched)).await.expect("soon");
    assert_eq!(shown.0.as_deref(), Some("me"));
    sleep(ms(60_000)).await;
    assert_eq!(masters.status().voting(), 3);
    stop.cancel();
    assert_eq!(next(&mut watched).await.0, None);
    drop(masters.multi_lock("other").try_lock().await.expect("all vote"));
    cluster.iter().for_each(Master::flush_all);
    assert!(masters.red_lock("other").try_lock().await.is_err());
    assert_eq!(masters.status().voting(), 0);
}

/// Candidates ask meanwhile, and masters in quarantine show their attempts until these are rolled back.
#[tokio::test(start_paused = true)]
async fn attempts_during_a_quarantine_are_not_shown() {
    let cluster = Cluster::new(3);
    for master in cluster.iter() {
        master.set_delay(ms(1) / 4, ms(1) / 4);
        master.restart(Keep::Nothing);
    }
    let clients = [
        connect_by_default(&cluster).await,
        connect_by_default(&cluster).await,
    ];
    let mut watched = watch(&clients[0], "leader");
    let candidates = clients.each_ref().map(|client| lead(client.red_lock("leader")));
    let begun = Instant::now();
    watched.wait_for(Option::is_some).await.expect("it goes on");
    assert!(begun.elapsed() > ms(20_000), "shown after {:?}", begun.elapsed());
    // The first may be an attempt that loses: the quarantines of the masters do not end at once.
    sleep(ms(5_000)).await;
    assert!(watched.borrow().is_some(), "one of the candidates leads");
    for candidate in candidates {
        candidate.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn every_term_is_shown_as_it_begins_and_ends() {
    let cluster = Cluster::new(3);
    cluster.iter().for_each(|master| master.set_delay(ms(1), ms(1)));
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let mut watched = watch(&there, "leader");
    settle().await;
    assert!(watched.borrow_and_update().is_none() && listened_to(&cluster) == 3);

    let first = lead(here.red_lock("leader").about("first"));
    let (about, after) = next(&mut watched).await;
    assert_eq!(about.as_deref(), Some("first"));
    assert!(after < ms(30), "{after:?}");
    let shown = watched.borrow().clone().expect("it leads");
    assert_eq!(
        shown.label.as_deref(),
        here.red_lock("x")
            .lock()
            .await
            .expect("free")
            .holder()
            .client_label()
    );
    let second = lead(here.red_lock("leader").about("second"));
    sleep(ms(60_000)).await;
    assert!(
        !watched.has_changed().expect("it goes on"),
        "renewals and waiters are no news"
    );
    assert!(watched.borrow().is_some(), "it is renewed for two leases");

    // Inside one process too.
    first.cancel();
    let mut abouts = Vec::new();
    let mut tokens = vec![shown.token];
    while abouts.last() != Some(&Some("second".to_owned())) {
        abouts.push(next(&mut watched).await.0);
        tokens.extend(watched.borrow().as_ref().map(|leader| leader.token));
    }
    assert!(abouts.len() <= 2, "{abouts:?}");
    assert!(
        tokens.is_sorted() && tokens[0] > FencingToken::NONE && tokens.len() == 2,
        "{tokens:?}"
    );

    here.red_lock("leader").force_release().await.expect("all answer");
    let (about, after) = next(&mut watched).await;
    assert!(about.is_none() && after < ms(30), "{about:?} after {after:?}");
    second.cancel();

    // A guard that is announced is a leader, and the token that is shown is its own.
    let guard = here.red_lock("leader").announced().lock().await.expect("free");
    assert_eq!(next(&mut watched).await.0.as_deref(), Some("nothing"));
    let shown = watched.borrow().clone().expect("it leads");
    assert_eq!(
        (shown.token, shown.holder()),
        (guard.fencing_token(), &guard.holder())
    );
    drop(guard);
    assert_eq!(next(&mut watched).await.0, None);
}

/// A crash sends no message, nor does a lock that is not announced.
#[tokio::test(start_paused = true)]
async fn a_look_now_and_then_finds_what_no_message_tells() {
    let cluster = Cluster::new(5);
    let (here, there) = (connect_leasing(&cluster, ms(4000)).await, connect(&cluster).await);
    let mut watched = watch(&there, "leader");
    let guard = here.red_lock("leader").about("plain").lock().await.expect("free");
    let (about, after) = next(&mut watched).await;
    assert_eq!(about.as_deref(), Some("plain"));
    assert!(after <= ms(15_100), "half of 30 s: {after:?}");
    // Its client goes away with the lock.
    guard.leak();
    let (about, after) = next(&mut watched).await;
    assert!(about.is_none() && after <= ms(4100), "{about:?} after {after:?}");

    // Every message is lost.
    cluster.iter().for_each(|master| master.lose_notices(true));
    let leads = lead(here.red_lock("leader").about("leader"));
    let (about, after) = next(&mut watched).await;
    assert_eq!(about.as_deref(), Some("leader"));
    assert!(after <= ms(15_100), "{after:?}");
    cluster.iter().for_each(|master| master.lose_notices(false));

    // A minority that is away changes nothing. Of a majority that is away the lease is all that is known.
    cluster.iter().take(2).for_each(Master::freeze);
    sleep(ms(30_000)).await;
    assert!(!watched.has_changed().expect("it goes on") && watched.borrow().is_some());
    cluster.master(2).freeze();
    let (about, after) = next(&mut watched).await;
    assert!(about.is_none() && after <= ms(4200), "{about:?} after {after:?}");
    cluster.iter().for_each(Master::thaw);
    assert_eq!(next(&mut watched).await.0.as_deref(), Some("leader"));
    leads.cancel();
    assert_eq!(next(&mut watched).await.0, None);
}

/// A quorum that has forgotten may show an older term, and is not believed.
#[tokio::test(start_paused = true)]
async fn a_smaller_token_never_follows_a_larger_one() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let mut watched = watch(&there, "leader");
    let older = here
        .red_lock("leader")
        .announced()
        .about("older")
        .lock()
        .await
        .expect("free");
    assert_eq!(next(&mut watched).await.0.as_deref(), Some("older"));
    cluster.iter().for_each(Master::save);
    older.unlock().await.expect("all answer");
    let newer = here
        .red_lock("leader")
        .announced()
        .about("newer")
        .lock()
        .await
        .expect("free");
    watched
        .wait_for(|leader| {
            leader
                .as_ref()
                .is_some_and(|leader| leader.about.as_deref() == Some("newer"))
        })
        .await
        .expect("it goes on");
    let token = newer.fencing_token();
    for master in cluster.iter() {
        master.restart(Keep::Saved);
    }
    sleep(ms(10_000)).await;
    let shown = here
        .red_lock("leader")
        .inspect()
        .await
        .expect("all answer")
        .remove(0)
        .agreed;
    assert_eq!(
        shown
            .and_then(|holder| holder.about().map(str::to_owned))
            .as_deref(),
        Some("older")
    );
    assert_eq!(watched.borrow().as_ref().map(|leader| leader.token), Some(token));
    // Until the lease ends that it was shown with.
    sleep(ms(25_000)).await;
    assert!(watched.borrow().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_receivers_and_with_its_client() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let Err(LockError::Invalid(invalid)) = masters.watch_leader("") else {
        panic!("no lock has this name");
    };
    assert_eq!((invalid.field, &*invalid.value), ("name", "\"\""));
    let watched = watch(&masters, "leader");
    let other = watched.clone();
    settle().await;
    assert_eq!(listened_to(&cluster), 3);
    drop(watched);
    settle().await;
    assert_eq!(listened_to(&cluster), 3);
    drop(other);
    settle().await;
    assert_eq!(listened_to(&cluster), 0);
    let looks = executed(&cluster, "inspect");
    sleep(ms(100_000)).await;
    assert_eq!(executed(&cluster, "inspect"), looks);

    let mut watched = watch(&masters, "leader");
    let closing = masters.clone();
    settle().await;
    tokio::spawn(async move { closing.close(Closing::Release).await });
    watched.borrow_and_update();
    assert!(watched.changed().await.is_err());
    assert!(matches!(masters.watch_leader("leader"), Err(LockError::Closed)));

    // It does not keep its client.
    let masters = connect(&cluster).await;
    let mut watched = watch(&masters, "leader");
    settle().await;
    watched.borrow_and_update();
    drop(masters);
    let begun = Instant::now();
    assert!(watched.changed().await.is_err() && begun.elapsed() < ms(100));
    settle().await;
    assert_eq!(
        cluster.iter().flat_map(Master::channels).next(),
        None,
        "every connection is closed"
    );
    // One of masters that are out of reach is shown once they are there.
    cluster.iter().for_each(Master::freeze);
    let lazy = cluster.connect_lazy(Masters::builder()).expect("fit options");
    let mut watched = watch(&lazy, "leader");
    sleep(ms(5000)).await;
    cluster.iter().for_each(Master::thaw);
    let here = connect(&cluster).await;
    let leads = lead(here.red_lock("leader").about("first"));
    let (about, after) = next(&mut watched).await;
    assert_eq!(about.as_deref(), Some("first"));
    assert!(after < ms(3000), "{after:?}");
    leads.cancel();
}

/// Very many messages cost a bounded number of looks.
#[tokio::test(start_paused = true)]
async fn a_name_that_changes_hands_often_is_looked_at_now_and_then() {
    let cluster = Cluster::new(3);
    cluster
        .iter()
        .for_each(|master| master.set_delay(Duration::from_micros(50), Duration::from_micros(50)));
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let _watched = watch(&there, "leader");
    settle().await;
    let (before, begun) = (executed(&cluster, "inspect"), Instant::now());
    let lock = here.red_lock("leader").announced();
    while begun.elapsed() < ms(1000) {
        lock.lock()
            .await
            .expect("free")
            .unlock()
            .await
            .expect("all answer");
    }
    let looks = (executed(&cluster, "inspect") - before) / 3;
    assert!((50..=110).contains(&looks), "{looks} looks in a second");
}
