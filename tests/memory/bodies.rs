//! Bodies that run under a lock: their output, also after a loss of the lock, and the tasks that they have spawned.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use multilock::sim::{Cluster, Master};
use multilock::{RunError, RunSetError};
use tokio::time::sleep;
use tracing::Level;

use crate::journal::Journal;
use crate::recorder::Figures;
use crate::support::{connect, ms, settle};

/// Output of a body, of a type that nobody can print.
struct Receipt(u32);

#[allow(clippy::float_cmp, reason = "a whole number")]
fn is_counted(figures: &Figures, outcome: &str, count: u32) -> bool {
    figures.value("unlocks_total", &[("outcome", outcome)]) == f64::from(count)
}

/// Two of three masters answer 10 ms after the node deadline, or never.
#[tokio::test(start_paused = true)]
async fn a_success_is_no_error_where_the_release_is_not_confirmed() {
    let figures = Figures::install();
    let (journal, _installed) = Journal::begin();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = masters.red_lock("invoice:42");
    let slow = |master: &Master| master.set_delay(ms(30), ms(30));
    let receipt = lock.run(async |_| {
        cluster.iter().take(2).for_each(slow);
        Receipt(4711)
    });
    assert_eq!(receipt.await.map(|receipt| receipt.0).map_err(drop), Ok(4711));
    let [line] = &journal.of("release not confirmed")[..] else {
        panic!("{:?}", journal.lines());
    };
    assert_eq!(line.level, Level::WARN);
    assert!(line.after < ms(200), "once nobody waits any more: {line:?}");
    assert_eq!(journal.warnings().len(), 1, "{:?}", journal.warnings());
    assert_eq!(line.fields["names"], "invoice:42");
    assert!(line.fields["votes"].contains("none within 50ms"), "{line:?}");
    assert!(is_counted(&figures, "unconfirmed", 1));
    // A leader's last term is no other.
    cluster.iter().for_each(|master| master.set_delay(ms(0), ms(0)));
    sleep(ms(1000)).await;
    let led = lock.lead(async |_| {
        cluster.iter().take(2).for_each(Master::freeze);
        4712
    });
    assert_eq!(led.await, Ok(4712));
    assert!(is_counted(&figures, "unconfirmed", 2));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_may_have_overlapped_is_told_with_its_output() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = masters.red_lock("invoice:42");
    let ran = lock.run(async |_| {
        // Another one may have it from here on, and its own client finds out when it gives it up.
        lock.force_release().await.expect("all answer");
        Receipt(4711)
    });
    let Err(error) = ran.await else {
        panic!("it was lost");
    };
    let text = error.to_string();
    assert!(
        text.starts_with("the body has ended, but its hold was lost before that"),
        "{text}"
    );
    assert!(
        text.contains("another holder may have been at work meanwhile: memory-0, memory-1: not held"),
        "{text}"
    );
    // It is an error with any output of the body, and does not show the output.
    let error: &dyn Error = &error;
    assert!(format!("{error:?}").starts_with("Overlapped {"), "{error:?}");
    let ran = lock.run(async |_| {
        lock.force_release().await.expect("all answer");
        Receipt(4712)
    });
    let Err(error @ RunError::Overlapped { .. }) = ran.await else {
        panic!("it was lost");
    };
    assert!(!error.is_contended() && !error.is_unreachable() && !error.is_permanent());
    assert_eq!(error.into_output().map(|receipt| receipt.0), Some(4712));
}

#[tokio::test(start_paused = true)]
async fn a_set_tells_the_same() {
    let figures = Figures::install();
    let (journal, _installed) = Journal::begin();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let (one, two) = (masters.red_lock("a"), masters.red_lock("b"));
    let set = one.and(two.clone());
    let ran = set.run(async |_| {
        two.force_release().await.expect("all answer");
        Receipt(4711)
    });
    let Err(error) = ran.await else {
        panic!("it was lost");
    };
    let (text, dynamic): (String, &dyn Error) = (error.to_string(), &error);
    assert!(
        text.starts_with(
            "the body has ended, and another holder may have been at work meanwhile: lock 2 of the set: "
        ),
        "{text}"
    );
    assert!(format!("{dynamic:?}").starts_with("Overlapped {"), "{dynamic:?}");
    assert!(matches!(error, RunSetError::Overlapped { .. }));
    assert_eq!(error.into_output().map(|receipt| receipt.0), Some(4711));
    assert!(journal.of("release not confirmed").is_empty());
    let ran = set.run(async |_| {
        cluster.iter().take(2).for_each(Master::freeze);
        Receipt(4712)
    });
    assert_eq!(ran.await.map(|receipt| receipt.0).map_err(drop), Ok(4712));
    assert!(!journal.of("release not confirmed").is_empty());
    assert!(is_counted(&figures, "unconfirmed", 2));
}

/// The body is dropped with the hold. A task that it has spawned is not, and is told by the token.
#[tokio::test(start_paused = true)]
async fn what_a_body_has_spawned_is_told_by_the_token() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let (apart, told) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let ticks = |count: Arc<AtomicU32>| async move {
        loop {
            sleep(ms(1000)).await;
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (of_apart, of_told) = (ticks(Arc::clone(&apart)), ticks(Arc::clone(&told)));
    let lock = masters.red_lock("a");
    let ran = lock.run(async |guard| {
        let lost = guard.cancellation_token();
        tokio::spawn(of_apart);
        tokio::spawn(async move { lost.run_until_cancelled(of_told).await });
        cluster.iter().for_each(Master::freeze);
        std::future::pending::<()>().await;
    });
    assert!(matches!(ran.await, Err(RunError::Lost(_))));
    settle().await;
    let (apart, told) = (|| apart.load(Ordering::Relaxed), || told.load(Ordering::Relaxed));
    let at_loss = told();
    assert!(at_loss > 20, "{at_loss}");
    sleep(ms(60_000)).await;
    assert_eq!(told(), at_loss, "it has ended with the hold");
    assert!(apart() > at_loss + 50, "{}", apart());
}

/// A service that takes a token of every hold would else have a task for each hold of the last lease.
#[tokio::test(start_paused = true)]
async fn the_task_behind_a_token_ends_with_the_hold() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = masters.red_lock("a");
    lock.run(async |_| ()).await.expect("free");
    settle().await;
    let runtime = tokio::runtime::Handle::current();
    let before = runtime.metrics().num_alive_tasks();
    for _ in 0..100 {
        let guard = lock.lock().await.expect("free");
        let token = guard.cancellation_token();
        settle().await;
        guard.unlock().await.expect("held");
        assert!(!token.is_cancelled(), "a release is no loss");
    }
    settle().await;
    assert_eq!(runtime.metrics().num_alive_tasks(), before);
}
