//! Readers and writers of both libraries contend for one name.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::time::Duration;

use rand::RngExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{reading, start, writing};
use crate::support::foreign::Lock;
use crate::support::{WITHIN, until_free};

/// As long as this at least, and until each kind has been in.
const FOR: Duration = Duration::from_secs(3);
/// Of each of the four kinds.
const TASKS: usize = 2;
const KINDS: [&str; 4] = ["our readers", "our writers", "their readers", "their writers"];
/// Weight of each kind inside, so that one number tells of all.
const WEIGHTS: [isize; KINDS.len()] = [1, 1_000_000, 1_000, 1_000_000];

/// Whether one of a kind has company that it must not have: readers are beside others of their own library alone.
fn is_disturbed(kind: usize, others: isize) -> bool {
    match kind {
        0 => others >= 1_000,
        2 => others >= 1_000_000 || others % 1_000 > 0,
        _ => others > 0,
    }
}

/// Clients inside, counted without any lock.
#[derive(Debug, Default)]
struct Witness {
    inside: AtomicIsize,
    violations: AtomicUsize,
    served: [AtomicUsize; KINDS.len()],
}

impl Witness {
    fn has_served_all(&self) -> bool {
        let mut served = self.served.iter();
        served.all(|served| served.load(Ordering::Relaxed) > 0)
    }

    async fn visit(&self, kind: usize) {
        let others = self.inside.fetch_add(WEIGHTS[kind], Ordering::SeqCst);
        self.violations
            .fetch_add(usize::from(is_disturbed(kind, others)), Ordering::Relaxed);
        sleep(Duration::from_millis(3)).await;
        self.inside.fetch_sub(WEIGHTS[kind], Ordering::SeqCst);
        self.served[kind].fetch_add(1, Ordering::Relaxed);
    }
}

/// So that the name is free of readers now and then: Redisson's let no writer in before.
async fn pause() {
    let ms = rand::rng().random_range(10..40);
    sleep(Duration::from_millis(ms)).await;
}

#[tokio::test]
async fn eight_tasks_of_both_keep_each_other_out() {
    let (server, ours, theirs) = start().await;
    let witness = Arc::new(Witness::default());
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for kind in (0..TASKS).flat_map(|_| 0..KINDS.len()) {
        let (witness, ours) = (Arc::clone(&witness), ours.clone());
        let half = if kind.is_multiple_of(2) {
            theirs.read("a")
        } else {
            theirs.write("a")
        };
        tasks.spawn(async move {
            while begun.elapsed() < FOR || !witness.has_served_all() {
                assert!(begun.elapsed() < FOR + WITHIN, "{witness:?}");
                match kind {
                    0 => {
                        let guard = reading(&ours).lock().await.expect("in the end");
                        witness.visit(kind).await;
                        guard.unlock().await.expect("held");
                    }
                    1 => {
                        let guard = writing(&ours).lock().await.expect("in the end");
                        witness.visit(kind).await;
                        guard.unlock().await.expect("held");
                    }
                    _ => {
                        let held = half.lock(None).await.expect("in the end");
                        witness.visit(kind).await;
                        assert!(half.unlock(held).await, "held");
                    }
                }
                pause().await;
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(witness.violations.load(Ordering::Relaxed), 0);
    for (kind, served) in KINDS.iter().zip(&witness.served) {
        println!("{kind}: {}", served.load(Ordering::Relaxed));
    }
    until_free([&server], "a").await;
}
