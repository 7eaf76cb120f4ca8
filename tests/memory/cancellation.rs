//! An acquisition dropped at any await point leaves nothing behind.
//!
//! All combinations: each of three masters grants, refuses, fails, is slow or never answers. The future is
//! dropped after every possible number of polls. The modules do the same with the other calls.

mod acquiring;
mod administration;
mod announced;
mod bodies;
mod handing_on;
mod holding;
mod least_time;
mod reentry;
mod scene;
mod seats;

use std::time::Duration;

use crate::support::polled;
use multilock::sim::{Cluster, Master};
use multilock::{Masters, Policy};
use scene::NODE_TIMEOUT;
use tokio::time::sleep;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Grant,
    Refuse,
    Error,
    Slow,
    Never,
}

const ANSWERS: [Answer; 5] = [
    Answer::Grant,
    Answer::Refuse,
    Answer::Error,
    Answer::Slow,
    Answer::Never,
];

impl Answer {
    fn arrange(self, master: &Master) {
        match self {
            Self::Grant => {}
            Self::Refuse => {
                master
                    .command(&["SET", "a", "theirs", "PX", "3600000"])
                    .expect("a foreign key");
            }
            Self::Error => master.answer_with(Some("BUSY Redis is busy running a script")),
            Self::Slow => master.set_delay(Duration::from_millis(20), Duration::from_millis(20)),
            Self::Never => master.freeze(),
        }
    }

    fn undo(self, master: &Master) {
        master.answer_with(None);
        master.set_delay(Duration::ZERO, Duration::ZERO);
        master.thaw();
        if self == Self::Refuse {
            assert_eq!(
                master.command(&["DEL", "a"]),
                Ok(vec!["1".into()]),
                "the foreign key is untouched"
            );
        }
    }

    /// Whether a release gets there while the fault lasts.
    fn reachable(self) -> bool {
        !matches!(self, Self::Error | Self::Never)
    }
}

fn foreign(answer: Answer) -> Vec<String> {
    if answer == Answer::Refuse {
        vec!["a".to_owned()]
    } else {
        Vec::new()
    }
}

/// Drops `lock` on a cluster that answers so after 0, 1, 2 … polls until it is done by itself; how
/// many await points that were.
async fn drop_everywhere(answers: [Answer; 3], policy: Policy, waiting: bool) -> usize {
    let cluster = Cluster::new(3);
    let builder = Masters::builder().node_timeout(NODE_TIMEOUT);
    let masters = cluster.connect(builder).await.expect("connects");
    let mut points = 0;
    loop {
        for (answer, master) in answers.iter().zip(cluster.iter()) {
            answer.arrange(master);
        }
        let lock = masters.lock("a", policy).wait(Duration::from_millis(120));
        let done = if waiting {
            polled(lock.lock(), points).await.map(|result| result.is_ok())
        } else {
            polled(lock.try_lock(), points).await.map(|result| result.is_ok())
        };
        sleep(NODE_TIMEOUT).await;
        for (answer, master) in answers.iter().zip(cluster.iter()) {
            if answer.reachable() {
                assert_eq!(
                    master.locks(),
                    foreign(*answer),
                    "{answers:?} {policy} after {points} polls"
                );
            }
        }
        for (answer, master) in answers.iter().zip(cluster.iter()) {
            answer.undo(master);
        }
        // Pending releases of masters that were out of reach are sent after they are back.
        sleep(Duration::from_secs(2)).await;
        for master in cluster.iter() {
            assert_eq!(
                master.locks(),
                Vec::<String>::new(),
                "{answers:?} {policy} after {points} polls"
            );
        }
        if done.is_some() {
            return points;
        }
        points += 1;
        assert!(points < 200, "never done");
    }
}

async fn cartesian(policy: Policy, waiting: bool) {
    // The order in which the masters answer matters within a round, and so to a try: a wait goes through each combination
    // once, in the one order under RedLock and in the other under MultiLock.
    let is_tried = |[first, second, third]: [usize; 3]| match policy {
        _ if !waiting => true,
        Policy::MultiLock => first >= second && second >= third,
        _ => first <= second && second <= third,
    };
    let mut points = 0;
    for first in 0..ANSWERS.len() {
        for second in 0..ANSWERS.len() {
            for third in 0..ANSWERS.len() {
                let places = [first, second, third];
                if is_tried(places) {
                    points += drop_everywhere(places.map(|place| ANSWERS[place]), policy, waiting).await;
                }
            }
        }
    }
    let least = if waiting { 100 } else { 250 };
    assert!(points > least, "only {points} await points were tried");
}

#[tokio::test(start_paused = true)]
async fn try_lock_under_red_lock() {
    cartesian(Policy::RedLock, false).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_under_multi_lock() {
    cartesian(Policy::MultiLock, false).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_under_red_lock() {
    cartesian(Policy::RedLock, true).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_under_multi_lock() {
    cartesian(Policy::MultiLock, true).await;
}

/// The same for giving a guard up: `unlock` dropped at any point releases all the same.
#[tokio::test(start_paused = true)]
async fn unlock_dropped_anywhere() {
    for first in [Answer::Grant, Answer::Slow, Answer::Error] {
        for points in 0..8 {
            let cluster = Cluster::new(3);
            let builder = Masters::builder().node_timeout(NODE_TIMEOUT);
            let masters = cluster.connect(builder).await.expect("connects");
            let guard = masters.red_lock("a").try_lock().await.expect("free");
            first.arrange(cluster.master(0));
            let _ = polled(guard.unlock(), points).await;
            sleep(NODE_TIMEOUT).await;
            first.undo(cluster.master(0));
            sleep(Duration::from_secs(1)).await;
            for master in cluster.iter() {
                assert_eq!(
                    master.locks(),
                    Vec::<String>::new(),
                    "{first:?} after {points} polls"
                );
            }
        }
    }
}
