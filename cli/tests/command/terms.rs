//! How long the lock is kept, and what of the program may stay.

use multilock_test_support::{connect, three, until_free};
use tokio::time::Instant;

use crate::stage::{Witness, ms, multilock, run, urls};

const ARGS: &[&str] = &["--appendonly", "no"];

#[tokio::test]
async fn the_names_are_kept_for_as_long_as_is_asked() {
    let servers = three(ARGS).await;
    let begun = Instant::now();
    let ended = run(
        multilock(&urls(&servers)),
        &["a", "--at-least", "3s", "--", "true"],
    )
    .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let refused = run(multilock(&urls(&servers)), &["a", "-n", "--", "true"]).await;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    let next = connect(urls(&servers))
        .await
        .red_lock("a")
        .lock()
        .await
        .expect("in the end");
    assert!(begun.elapsed() >= ms(3000), "{:?}", begun.elapsed());
    next.unlock().await.expect("held");
}

/// A program that outlives several leases.
#[tokio::test]
async fn the_hold_is_renewed() {
    let servers = three(ARGS).await;
    let ended = run(
        multilock(&urls(&servers)),
        &["a", "--lease", "1200ms", "-v", "--", "sleep", "4"],
    )
    .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("given back: Released"), "{ended:?}");
}

/// What the program has left of its group would run without the lock.
#[tokio::test]
async fn what_is_left_of_the_group_ends_before_the_release() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let script = witness.script("(trap '' TERM; while :; do sleep 0.02; done) & say A");
    let begun = Instant::now();
    let args = ["a", "-k", "500ms", "-c", "--", &script];
    let first = run(multilock(&urls(&servers)), &args).await;
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(begun.elapsed() < ms(20_000));
    let script = witness.script("say B");
    let second = run(multilock(&urls(&servers)), &["a", "-c", "--", &script]).await;
    assert_eq!(
        (second.code, witness.lines()),
        (Some(0), vec!["A".to_owned(), "B".to_owned()])
    );
    until_free(&servers, "a").await;
}
