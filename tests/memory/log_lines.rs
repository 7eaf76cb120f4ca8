//! Log lines about long conditions: bounded in an outage, and not silent where tasks wait for each other.

use std::time::Duration;

use futures::FutureExt;
use multilock::sim::{Cluster, Keep, Master};
use multilock::{Closing, Masters, Owner, Quarantine, Unlocked};
use tokio::time::{sleep, timeout};
use tracing::Level;

use crate::journal::{Journal, Line};
use crate::support::{connect, connect_leasing, ms, settle};

const WAITING: &str = "waiting long for a lock";
const OF_THIS_PROCESS: &str = "waiting long for a lock that this process holds itself";
const UNDECIDED: &str = "still waiting for a lock";

const LASTS: &str = "hold lasts long; its guard may be forgotten, or its task stuck";

const LOST: &str = "hold lost";

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// Each of the lines was written within the time that a waiter sleeps, after one of these moments.
#[track_caller]
fn assert_written(lines: &[Line], moments: &[Duration]) {
    let after: Vec<_> = lines.iter().map(|line| line.after).collect();
    assert_eq!(after.len(), moments.len(), "{lines:#?}");
    for (after, moment) in after.iter().zip(moments) {
        assert!(
            (*moment..=*moment + ms(5100)).contains(after),
            "{moment:?}: {lines:#?}"
        );
    }
}

/// 200 waiters, each for a name of its own, wrote 25,797 lines in a minute.
#[tokio::test(start_paused = true)]
async fn an_outage_is_told_once_in_ten_seconds_however_many_wait() {
    let (journal, _installed) = Journal::begin();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    cluster.iter().take(2).for_each(Master::crash);
    // Each connection has ended, and the next ones were refused for ten seconds.
    sleep(ms(11_000)).await;
    let before = journal.warnings().len();
    assert!(before <= 4, "two of each master: {:#?}", journal.warnings());
    let waits: Vec<_> = (0..50)
        .map(|n| {
            let lock = masters.red_lock(format!("n{n}")).wait(minutes(1));
            tokio::spawn(async move { lock.lock().await.map(drop) })
        })
        .collect();
    for wait in waits {
        let error = wait.await.expect("no panic").expect_err("a majority is down");
        assert!(error.is_unreachable(), "{error}");
    }
    let lines = journal.of(UNDECIDED);
    assert!((6..=7).contains(&lines.len()), "{} lines", lines.len());
    assert_eq!(journal.warnings().len(), before + lines.len(), "and no others");
    let left_out = |line: &Line| line.fields["left_out"].parse::<u64>().expect("a number");
    assert_eq!(left_out(&lines[0]), 0);
    let others: u64 = lines.iter().map(left_out).sum();
    assert!(others > 600, "all were counted: {others}");
    // Another cause is told by itself, at once.
    cluster
        .iter()
        .take(2)
        .for_each(|master| master.restart(Keep::Data));
    let strict = cluster.connect(Masters::builder()).await.expect("connects");
    let quarantined = strict.red_lock("a").wait(ms(500)).lock().await.map(drop);
    assert!(quarantined.expect_err("no vote yet").is_unreachable());
    assert_eq!(journal.of(UNDECIDED).len(), lines.len() + 1, "another client");
}

/// A task that locks a name twice waits for itself for ever.
#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_itself_is_told() {
    for other_terms in [false, true] {
        let cluster = Cluster::new(3);
        let builder = Masters::builder()
            .quarantine(Quarantine::Off)
            .client_label("web-1");
        let masters = cluster.connect(builder).await.expect("connects");
        let lock = masters.red_lock(["a", "b"]);
        let _held = lock.lock().await.expect("free");
        let again = if other_terms {
            lock.min_validity(ms(1))
        } else {
            lock
        };
        let (journal, _installed) = Journal::begin();
        timeout(minutes(50), again.lock())
            .await
            .expect_err("it holds it itself");
        let lines = journal.of(OF_THIS_PROCESS);
        let others = journal.warnings().len() - lines.len();
        assert_eq!(others, journal.of(LASTS).len(), "{:#?}", journal.warnings());
        let marks = [
            ms(30_000),
            minutes(1),
            minutes(5),
            minutes(15),
            minutes(30),
            minutes(45),
        ];
        assert_written(&lines, &marks);
        for line in &lines {
            assert_eq!(line.level, Level::WARN);
            assert_eq!(line.fields["names"], "a+b");
            assert!(line.fields["error"].starts_with("held by web-1, "), "{line:?}");
        }
        let waited: Vec<_> = lines.iter().map(|line| &*line.fields["waited"]).collect();
        if !other_terms {
            assert_eq!(waited, ["30s", "1m", "5m", "15m", "30m", "45m"]);
        }
    }
}

/// Each waiter is logged, in front of the line and behind, of a set as well. An owner that enters again waits for
/// nobody.
#[tokio::test(start_paused = true)]
async fn every_long_wait_is_told_with_who_holds() {
    let cluster = Cluster::new(3);
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .client_label("web-2");
    let (masters, others) = (
        connect(&cluster).await,
        cluster.connect(builder).await.expect("connects"),
    );
    let me = Owner::new();
    let held = others.red_lock("a").lock().await.expect("free");
    let mine = masters.red_lock("b").owner(&me).lock().await.expect("free");
    let (journal, _installed) = Journal::begin();
    let wait = |lock: multilock::MultiLock| tokio::spawn(async move { lock.lock().await.map(drop) });
    let set = masters.red_lock("a").and(masters.red_lock("c"));
    let waits = [
        wait(masters.red_lock("a")),
        wait(masters.red_lock("a")),
        tokio::spawn(async move { set.lock().await.map(drop).map_err(|error| error.error) }),
    ];
    let inner = masters.red_lock("b").owner(&me).lock().await.expect("inside");
    sleep(ms(29_900)).await;
    assert!(journal.warnings().is_empty(), "{:#?}", journal.warnings());
    sleep(ms(5300)).await;
    let lines = journal.of(WAITING);
    assert_written(&lines, &[ms(30_000); 3]);
    assert_eq!(journal.warnings().len(), 3, "{:#?}", journal.warnings());
    for line in lines {
        assert_eq!(line.fields["names"], "a");
        assert!(line.fields["error"].starts_with("held by web-2, "), "{line:?}");
    }
    drop((held, mine, inner));
    for wait in waits {
        wait.await.expect("no panic").expect("free");
    }
}

/// A forgotten guard is logged, like the guard of a task that hangs. A grant that passes from task to task is a hold
/// of each.
#[tokio::test(start_paused = true)]
async fn a_hold_that_lasts_long_is_told() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let (journal, _installed) = Journal::begin();
    let lock = masters.red_lock(["a", "b"]);
    std::mem::forget(lock.lock().await.expect("free"));
    sleep(minutes(4) + ms(59_000)).await;
    assert!(journal.warnings().is_empty(), "{:#?}", journal.warnings());
    sleep(minutes(180)).await;
    let lines = journal.of(LASTS);
    assert_eq!(lines.len(), journal.warnings().len());
    let after: Vec<_> = lines.iter().map(|line| line.after).collect();
    let marks = [minutes(5), minutes(65), minutes(125)];
    assert_eq!(after.len(), marks.len(), "{lines:#?}");
    for (after, mark) in after.iter().zip(marks) {
        // It is looked at where it is renewed, every third of its lease.
        assert!((mark..=mark + ms(31_000)).contains(after), "{lines:#?}");
    }
    assert_eq!(lines[0].fields["names"], "a+b");
    assert!(lines[0].fields["held_for"].starts_with("5m"), "{:?}", lines[0]);
    let guard = masters.red_lock("c").lock().await.expect("free");
    sleep(minutes(4)).await;
    guard.unlock().await.expect("held");
    let guard = masters.red_lock("c").lock().await.expect("free");
    sleep(minutes(4)).await;
    drop(guard);
    assert!(journal.of(LASTS).iter().all(|line| line.fields["names"] == "a+b"));
}

/// The hold of `a` was lost, and the log has one line of it.
#[track_caller]
fn assert_lost_once(journal: &Journal, what: &str) {
    let lines = journal.of(LOST);
    assert_eq!(lines.len(), 1, "{what}: {lines:#?}");
    assert_eq!((lines[0].level, &*lines[0].fields["names"]), (Level::WARN, "a"));
    assert!(
        lines[0].fields["cause"].starts_with("its validity ended: "),
        "{what}: {lines:#?}"
    );
    assert_eq!(journal.warnings().len(), 1, "{what}: {:#?}", journal.warnings());
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_was_lost_is_told_once() {
    for unlocked in [false, true] {
        let cluster = Cluster::new(3);
        let masters = connect(&cluster).await;
        let (journal, _installed) = Journal::begin();
        let guard = masters.red_lock("a").lease(ms(1000)).lock().await.expect("free");
        sleep(ms(1500)).await;
        if unlocked {
            guard.unlock().await.expect_err("lost");
        } else {
            drop(guard);
        }
        sleep(ms(5000)).await;
        assert_lost_once(&journal, if unlocked { "unlocked" } else { "dropped" });
    }
}

/// A call that blocks keeps the watchdog from finding the loss: the guard finds it.
#[tokio::test]
async fn a_hold_that_its_guard_finds_lost_is_told_once() {
    for what in ["dropped", "unlocked", "renewed", "looked at"] {
        let cluster = Cluster::new(3);
        let masters = connect_leasing(&cluster, ms(300)).await;
        let lock = masters.red_lock("a");
        let is_renewed = what == "renewed" || what == "looked at";
        let lock = if is_renewed { lock } else { lock.lease(ms(300)) };
        let guard = lock.lock().await.expect("free");
        let (journal, _installed) = Journal::begin();
        if is_renewed {
            cluster.iter().for_each(Master::freeze);
            // A renewal is under way from then on.
            sleep(ms(150)).await;
        }
        std::thread::sleep(ms(400));
        assert!(!guard.is_valid());
        match what {
            "unlocked" => drop(guard.unlock().await.expect_err("lost")),
            "looked at" => {
                assert!(guard.lost().now_or_never().is_some());
                drop(guard);
            }
            _ => drop(guard),
        }
        cluster.iter().for_each(Master::thaw);
        sleep(ms(200)).await;
        assert_lost_once(&journal, what);
    }
}

/// A grant that ends while it stays was nobody's hold.
#[tokio::test(start_paused = true)]
async fn a_grant_that_lapses_while_nobody_holds_it_is_no_loss() {
    let (journal, _installed) = Journal::begin();
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(3000)).await;
    let guard = masters.red_lock("a").sticky().lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Stays));
    // Nothing else runs meanwhile.
    let advanced = tokio::time::advance(ms(3000)).now_or_never();
    assert_eq!(advanced, None, "it lets others run next");
    sleep(ms(10)).await;
    assert_eq!(masters.status().idle, 0);
    assert!(journal.of(LOST).is_empty(), "{:#?}", journal.of(LOST));
}

/// Nothing is wrong where a service ends.
#[tokio::test(start_paused = true)]
async fn a_close_is_no_incident() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let (journal, _installed) = Journal::begin();
    let held = masters.red_lock("a").lock().await.expect("free");
    let leader = masters.red_lock("leader");
    let leads = tokio::spawn(async move { leader.lead(async |_| std::future::pending::<()>().await).await });
    settle().await;
    let closed = masters.close(Closing::Release).await;
    assert_eq!(closed.released, 2);
    assert!(leads.await.expect("no panic").is_err());
    drop(held);
    sleep(ms(5000)).await;
    assert!(journal.warnings().is_empty(), "{:#?}", journal.warnings());
    assert_eq!(journal.of("no longer leading: the masters were closed").len(), 1);
    let [line] = &journal.of("masters closed")[..] else {
        panic!("{:#?}", journal.lines());
    };
    let told = ["released", "unconfirmed", "kept", "left"].map(|field| &*line.fields[field]);
    assert_eq!((line.level, told), (Level::INFO, ["2", "0", "0", "0"]));
}

/// An ACL may change while clients are connected. Scripts go on without `PUBLISH`, and no call fails.
#[tokio::test(start_paused = true)]
async fn a_master_that_denies_publish_is_told_once_and_so_is_its_end() {
    const DENIED: &str = "PUBLISH is refused inside scripts, so waiters ask by timers, in no order; allow +publish and &multilock:* there";
    const ALLOWED: &str = "PUBLISH is no longer refused inside scripts";
    let (journal, _installed) = Journal::begin();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    sleep(minutes(3)).await;
    assert!(journal.of(DENIED).is_empty(), "{:#?}", journal.warnings());
    cluster.master(1).deny_publish(true);
    sleep(ms(61_000)).await;
    let lines = journal.of(DENIED);
    assert_eq!(lines.len(), 1, "{:#?}", journal.warnings());
    assert_eq!(lines[0].fields["node"], "memory-1", "{:?}", lines[0]);
    let reason = &lines[0].fields["reason"];
    assert!(reason.contains("'publish'"), "{reason}");
    // Neither another connection nor a master without memory writes it again.
    cluster.master(1).reset_connections();
    cluster.master(1).out_of_memory(true);
    sleep(minutes(3)).await;
    assert_eq!((journal.of(DENIED).len(), journal.of(ALLOWED).len()), (1, 0));
    cluster.master(1).deny_publish(false);
    sleep(ms(61_000)).await;
    assert_eq!((journal.of(DENIED).len(), journal.of(ALLOWED).len()), (1, 1));
    drop(masters);
}
