//! Many processes for one name, near the masters and far from them: each gets its share, waits no longer than a turn
//! of all, and asks no more often than it has to.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Apart, connect, executed, get_ahead, jain, ms, settle, slow_down};
use multilock::sim::Cluster;
use multilock::{Masters, MultiLock, Policy};
use tokio::time::{Instant, sleep};

const MASTERS: usize = 5;

/// Habit of all contenders, again and again.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// Held for 2 ms, and asked for again at once.
    AtOnce,
    /// Held for 10 ms, and asked for again after 20 ms.
    Regular,
    /// Held for up to 20 ms, and asked for again after up to 40 ms.
    Scattered,
}

impl Habit {
    fn held(self, scattered: u64) -> u64 {
        match self {
            Self::AtOnce => 2,
            Self::Regular => 10,
            Self::Scattered => scattered % 21,
        }
    }

    fn pause(self, scattered: u64) -> u64 {
        match self {
            Self::AtOnce => 0,
            Self::Regular => 20,
            Self::Scattered => scattered % 41,
        }
    }

    /// The longest that anybody holds.
    fn longest(self) -> u64 {
        (0..21).map(|scattered| self.held(scattered)).max().unwrap_or(0)
    }
}

/// Contenders: each task has the policy of its process, and every message takes `way`.
#[derive(Debug)]
struct Contest<'a> {
    /// One for each process.
    policies: &'a [Policy],
    tasks: u64,
    way: u64,
    /// Whether requests take up to twice as long to some masters, to others for each process.
    uneven: bool,
    habit: Habit,
}

#[derive(Debug)]
struct Outcome {
    /// Of each process.
    grants: Vec<usize>,
    longest_wait: Duration,
    /// For each grant on each master.
    scripts: f64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            grants,
            longest_wait,
            scripts,
        } = self;
        let jain = jain(grants);
        write!(
            f,
            "grants {grants:?} (Jain {jain:.4}), longest wait {longest_wait:?}, {scripts:.2} scripts a grant and master"
        )
    }
}

impl Contest<'_> {
    /// How long it takes until everybody has had the name once: the longest hold for each, and a release, a call and
    /// an acquire on their way.
    fn turn(&self) -> Duration {
        let contenders = self.tasks * self.policies.len() as u64;
        // Both the release and the acquire are requests.
        let ways = if self.uneven { 5 } else { 3 };
        ms(contenders * (self.habit.longest() + ways * self.way))
    }

    /// Until everybody has had about 15 turns.
    async fn run(&self) -> Outcome {
        let cluster = Cluster::new(MASTERS);
        let mut locks = Vec::new();
        for (process, policy) in self.policies.iter().enumerate() {
            let masters = if self.uneven {
                let far = |master| ms(self.way * ((master + process as u64) % MASTERS as u64) / 4);
                let distances: Vec<_> = (0..MASTERS as u64).map(far).collect();
                let connecting = cluster.connect_from(&distances, Masters::builder());
                connecting.await.expect("connects")
            } else {
                connect(&cluster).await
            };
            locks.push(masters.lock("a", *policy));
        }
        let inside = Arc::new(AtomicUsize::new(0));
        let (mut tasks, until) = (Vec::new(), Instant::now() + self.turn() * 15);
        for task in 0..self.tasks {
            for (process, lock) in locks.iter().enumerate() {
                let contender = task * locks.len() as u64 + process as u64;
                let working = come_again(lock.clone(), contender, self.habit, until, Arc::clone(&inside));
                tasks.push((process, tokio::spawn(working)));
            }
        }
        slow_down(&cluster, self.way);
        let mut grants = vec![0; self.policies.len()];
        let mut longest_wait = Duration::ZERO;
        for (process, task) in tasks {
            let (granted, longest) = task.await.expect("no panic");
            grants[process] += granted;
            longest_wait = longest_wait.max(longest);
        }
        let scripts: u64 = ["acquire", "release", "withdraw"]
            .iter()
            .map(|script| executed(&cluster, script))
            .sum();
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let scripts = scripts as f64 / (grants.iter().sum::<usize>() * MASTERS) as f64;
        Outcome {
            grants,
            longest_wait,
            scripts,
        }
    }

    async fn assert_fair(&self) {
        let outcome = self.run().await;
        println!("{self:?}: {outcome}");
        assert!(jain(&outcome.grants) >= 0.95, "{self:?}: {outcome}");
        let bound = self.turn() * 3 / 2;
        assert!(
            outcome.longest_wait <= bound,
            "{self:?}, at most {bound:?}: {outcome}"
        );
        assert!(outcome.scripts <= 4.0, "{self:?}: {outcome}");
    }
}

/// One task; its grants, and its longest wait.
async fn come_again(
    lock: MultiLock,
    contender: u64,
    habit: Habit,
    until: Instant,
    inside: Arc<AtomicUsize>,
) -> (usize, Duration) {
    let (mut grants, mut longest) = (0, Duration::ZERO);
    for turn in 0.. {
        // Scattered, and the same in every run.
        let scattered = (turn * 8 + contender) * 7919 % 1009;
        let asked = Instant::now();
        let guard = lock.lock().await.expect("its turn comes");
        longest = longest.max(asked.elapsed());
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
        grants += 1;
        sleep(ms(habit.held(scattered))).await;
        inside.fetch_sub(1, Ordering::SeqCst);
        guard.unlock().await.expect("held");
        // A task that stops earlier makes it easier for the others, and their waits count all the same.
        if Instant::now() >= until {
            break;
        }
        sleep(ms(habit.pause(scattered))).await;
    }
    (grants, longest)
}

/// At every distance, with every habit.
async fn share(policies: &[Policy], tasks: u64, uneven: bool) {
    for way in [1, 10] {
        for habit in [Habit::AtOnce, Habit::Regular, Habit::Scattered] {
            let contest = Contest {
                policies,
                tasks,
                way,
                uneven,
                habit,
            };
            contest.assert_fair().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn red_locks_of_processes_far_away_share() {
    share(&[Policy::RedLock; 8], 1, false).await;
}

#[tokio::test(start_paused = true)]
async fn multi_locks_of_processes_far_away_share() {
    share(&[Policy::MultiLock; 8], 1, false).await;
}

/// A `MultiLock` needs every master and a `RedLock` a majority: neither is in the other's way more than its share.
#[tokio::test(start_paused = true)]
async fn both_kinds_on_the_same_name_share() {
    let policies: Vec<_> = [Policy::RedLock, Policy::MultiLock].repeat(4);
    share(&policies, 1, false).await;
}

#[tokio::test(start_paused = true)]
async fn processes_of_several_tasks_share() {
    share(&[Policy::RedLock; 4], 2, false).await;
}

/// The nearest client of each master is the first there, and gains no more than that.
#[tokio::test(start_paused = true)]
async fn processes_each_near_another_master_share() {
    share(&[Policy::RedLock; 8], 1, true).await;
}

#[tokio::test(start_paused = true)]
async fn both_kinds_each_near_another_master_share() {
    let policies: Vec<_> = [Policy::RedLock, Policy::MultiLock].repeat(4);
    share(&policies, 1, true).await;
}

/// Fate of a process of the crowd after it has begun to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lot {
    Lives,
    IsKilled,
    Freezes,
}

/// Every process has ten tasks that wait for the same name. All tasks of living processes get in, in order. Returns
/// the stretches after the release in which nobody was inside, in their order.
async fn crowd(lots: &[Lot]) -> Vec<Duration> {
    const TASKS: usize = 10;
    get_ahead().await;
    let cluster = Cluster::new(MASTERS);
    let holder = connect(&cluster).await;
    let held = holder.red_lock("a").lock().await.expect("free");
    // Process, begin and end of each hold.
    let stays = Arc::new(Mutex::new(Vec::new()));
    let (mut living, mut apart) = (Vec::new(), Vec::new());
    for (process, lot) in lots.iter().enumerate() {
        if *lot == Lot::Lives {
            let masters = connect(&cluster).await;
            for _ in 0..TASKS {
                let (lock, stays) = (masters.red_lock("a").fair(), Arc::clone(&stays));
                living.push(tokio::spawn(async move {
                    let guard = lock.lock().await.expect("its turn comes");
                    let entered = Instant::now();
                    sleep(ms(2)).await;
                    stays
                        .lock()
                        .expect("not poisoned")
                        .push((process, entered, Instant::now()));
                    guard.unlock().await.expect("held");
                }));
            }
        } else {
            apart.push((*lot, Apart::waiting(&cluster, "a", TASKS)));
        }
        settle().await;
    }
    slow_down(&cluster, 1);
    let waiting = || cluster.master(0).command(&["ZCARD", "multilock_queue:{a}"]);
    assert_eq!(
        waiting(),
        Ok(vec![lots.len().to_string()]),
        "the first of each process"
    );
    let (killed, frozen): (Vec<_>, Vec<_>) = apart.into_iter().partition(|(lot, _)| *lot == Lot::IsKilled);
    for (_, process) in killed {
        process.kill();
    }
    let mut left = Instant::now();
    held.unlock().await.expect("held");
    for task in living {
        task.await.expect("no panic");
    }
    let stays = std::mem::take(&mut *stays.lock().expect("not poisoned"));
    let served: Vec<_> = stays.iter().map(|(process, ..)| *process).collect();
    assert!(served.is_sorted(), "the order of arrival: {served:?}");
    let gaps = stays.into_iter().map(|(_, entered, until)| {
        let gap = entered.checked_duration_since(std::mem::replace(&mut left, until));
        gap.expect("nobody was inside before")
    });
    let gaps = gaps.collect();
    for (_, process) in frozen {
        process.kill();
    }
    gaps
}

/// A release, a call, an acquire and its answer on their way, and nothing else.
const HAND_OFF: Duration = Duration::from_millis(4);

/// The time that a waiter has to come once it is called, the time after which everybody asks again at the latest, and
/// that for which a ticket counts.
const CALLED: Duration = Duration::from_secs(1);
const REASK: Duration = Duration::from_secs(5);
const TICKET: Duration = Duration::from_secs(15);

/// The stretches that are longer than a hand-off.
fn long(gaps: &[Duration]) -> Vec<Duration> {
    gaps.iter().copied().filter(|gap| *gap > HAND_OFF).collect()
}

#[tokio::test(start_paused = true)]
async fn killed_waiters_cost_nothing() {
    // One in ten, and then all of them in front.
    let lots: Vec<_> = (0..100)
        .map(|process| {
            if process % 10 == 4 {
                Lot::IsKilled
            } else {
                Lot::Lives
            }
        })
        .collect();
    let mut in_front = lots.clone();
    in_front.sort_by_key(|lot| *lot == Lot::Lives);
    for lots in [lots, in_front] {
        let gaps = crowd(&lots).await;
        println!("{} grants, longest gap {:?}", gaps.len(), gaps.iter().max());
        assert_eq!((gaps.len(), long(&gaps)), (900, vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_some_killed_and_some_frozen_all_get_in() {
    let lots: Vec<_> = (0..100)
        .map(|process| match process % 10 {
            4 => Lot::IsKilled,
            7 => Lot::Freezes,
            _ => Lot::Lives,
        })
        .collect();
    let gaps = crowd(&lots).await;
    let long = long(&gaps);
    println!("{} grants, long gaps {long:?}", gaps.len());
    assert_eq!(gaps.len(), 800);
    assert!(
        long.iter().all(|gap| *gap <= CALLED + REASK + HAND_OFF),
        "{long:?}"
    );
    assert!(long.iter().sum::<Duration>() <= TICKET + REASK, "{long:?}");
}

/// One behind the other, they lose their turns together.
#[tokio::test(start_paused = true)]
async fn frozen_waiters_in_front_cost_what_their_tickets_do() {
    let lots: Vec<_> = (0..20)
        .map(|process| if process < 10 { Lot::Freezes } else { Lot::Lives })
        .collect();
    let gaps = crowd(&lots).await;
    let long = long(&gaps);
    println!("{} grants, long gaps {long:?}", gaps.len());
    assert_eq!(gaps.len(), 100);
    assert!(long.iter().sum::<Duration>() <= TICKET + REASK, "{long:?}");
}
