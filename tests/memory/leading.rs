//! Standing for the lead: what ends a candidacy, and what it only takes time to cure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use multilock::sim::{Cluster, Master};
use multilock::{Closing, LockError, MultiLock, MultiLockGuard, Owner, RunError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::journal::{Journal, Line};
use crate::support::{connect, executed, ms, settle};

/// A term begins with each grant: how many have begun, and the task that leads, which never ends by itself.
fn stand(lock: MultiLock) -> (Arc<AtomicU64>, JoinHandle<Result<(), RunError<()>>>) {
    let terms = Arc::new(AtomicU64::new(0));
    let begun = Arc::clone(&terms);
    let leading = tokio::spawn(async move {
        let body = async move |_: &MultiLockGuard| {
            begun.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        };
        lock.lead(body).await
    });
    (terms, leading)
}

/// What an operator mends does not end a candidacy: a permission that is missing, masters that are away.
#[tokio::test(start_paused = true)]
async fn a_candidate_goes_on_after_what_time_may_cure() {
    const DENIED: &str = "NOPERM this user has no permissions to run the 'evalsha' command";
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let (journal, _installed) = Journal::begin();
    cluster.iter().for_each(|master| master.answer_with(Some(DENIED)));
    let (terms, leading) = stand(masters.red_lock("leader"));
    sleep(ms(300_000)).await;
    assert!(!leading.is_finished() && terms.load(Ordering::Relaxed) == 0);
    let lines = journal.of("cannot lead yet");
    assert!(
        (15..=31).contains(&lines.len()),
        "{} lines in five minutes",
        lines.len()
    );
    assert_eq!(journal.warnings().len(), lines.len(), "and no others");
    assert!(lines[0].fields["error"].contains("NOPERM"), "{:?}", lines[0]);
    let left_out = |line: &Line| line.fields["left_out"].parse::<u32>().expect("a number");
    let left_out: u32 = lines.iter().map(left_out).sum();
    assert!(left_out < 60, "its pauses grow: {left_out}");
    cluster.iter().for_each(|master| master.answer_with(None));
    sleep(ms(10_100)).await;
    assert_eq!(terms.load(Ordering::Relaxed), 1, "it leads once that is mended");
    leading.abort();
    settle().await;

    // The same while it waits for a bounded time, and nobody leads.
    cluster.iter().take(2).for_each(Master::freeze);
    let (terms, leading) = stand(masters.red_lock("leader").wait(ms(300)));
    sleep(ms(60_000)).await;
    assert!(!leading.is_finished());
    cluster.iter().for_each(Master::thaw);
    sleep(ms(10_100)).await;
    assert_eq!(terms.load(Ordering::Relaxed), 1);
    leading.abort();
}

/// To wait for a leader is no error, and neither to lead for long.
#[tokio::test(start_paused = true)]
async fn a_candidate_stands_by_and_a_leader_lasts_without_a_warning() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let (journal, _installed) = Journal::begin();
    let (_, leading) = stand(here.red_lock("leader"));
    settle().await;
    let (second, waits) = stand(there.red_lock("leader"));
    let (third, waits_in_turns) = stand(there.red_lock("leader").wait(ms(2000)));
    sleep(ms(3_600_000)).await;
    assert!(journal.warnings().is_empty(), "{:#?}", journal.warnings());
    let lines = journal.of("standing by to lead");
    // After 30 s, 1, 5, 15, 30, 45 minutes and an hour; the other one never waits for so long.
    assert!((6..=7).contains(&lines.len()), "{lines:#?}");
    assert_eq!(lines[0].level, Level::INFO);
    waits.abort();
    leading.abort();
    sleep(ms(2100)).await;
    let led = (second.load(Ordering::Relaxed), third.load(Ordering::Relaxed));
    assert_eq!(led, (0, 1), "it stood again soon after each wait");
    waits_in_turns.abort();
}

/// What no time cures ends a candidacy at once, in a pause as well.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_never_can_lead_says_why() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let fixed = masters.red_lock("leader").lease(ms(5000));
    let ended = fixed.lead(async |_| ()).await;
    let Err(RunError::Lock(LockError::Invalid(invalid))) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!((invalid.field, &*invalid.value), ("lease", "5s"));
    assert!(invalid.allowed.starts_with("none with lead"), "{invalid}");
    assert_eq!(executed(&cluster, "acquire"), 0, "no master was asked");
    let me = Owner::new();
    let lock = masters.red_lock("leader").owner(&me);
    let reading = lock.clone().read().lock().await.expect("free");
    let ended = lock.write().lead(async |_| ()).await;
    assert!(
        matches!(ended, Err(RunError::Lock(LockError::Upgrade { .. }))),
        "{ended:?}"
    );
    drop(reading);
    cluster.iter().for_each(Master::freeze);
    let (_, leading) = stand(masters.red_lock("leader").wait(Duration::ZERO));
    sleep(ms(60_000)).await;
    let begun = Instant::now();
    tokio::spawn(async move { masters.close(Closing::Release).await });
    let ended = leading.await.expect("no panic");
    assert!(
        matches!(ended, Err(RunError::Lock(LockError::Closed))),
        "{ended:?}"
    );
    assert!(begun.elapsed() < ms(100), "{:?}", begun.elapsed());
}
