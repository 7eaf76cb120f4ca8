//! Calls with a body: `run`, `once`, `lead` and `lead_until`. When one is dropped, its body is dropped and its lock is released.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use multilock::{CancellationToken, Masters, Once, OnceJob};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::scene::{
    Fault, Scene, WITH_MAJORITY, WITHOUT_MAJORITY, all_faults, everywhere, has_majority, stepped,
};
use crate::support::ms;

/// Time for which another client holds the lock before the call has it.
const HELD_FOR: Duration = ms(30);

/// Record of the bodies of a call.
#[derive(Default)]
struct Bodies {
    begun: AtomicUsize,
    inside: AtomicUsize,
    ended: AtomicUsize,
    /// Token of the term.
    term: Mutex<Option<CancellationToken>>,
}

/// A body under way.
struct Inside<'a>(&'a Bodies);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bodies {
    /// A body of several steps.
    async fn work(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.inside.fetch_add(1, Ordering::Relaxed);
        let inside = Inside(self);
        for _ in 0..3 {
            sleep(ms(7)).await;
        }
        drop(inside);
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) > 0
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Run,
    SetRun,
    Lead,
    /// With a stop in the first term, for which the body does not look.
    LeadUntil,
    /// With a body that steps down, so that there is a second term.
    StepDown,
}

impl Call {
    async fn call(self, masters: &Masters, name: &str, bodies: &Bodies) {
        let lock = masters.red_lock(name);
        match self {
            Self::Run => drop(lock.run(async |_| bodies.work().await).await),
            Self::SetRun => {
                let set = masters.red_lock(format!("{name}-second")).and(lock);
                drop(set.run(async |_| bodies.work().await).await);
            }
            Self::Lead => {
                let led = lock.lead(async |leadership| {
                    *bodies.term.lock() = Some(leadership.cancellation_token());
                    bodies.work().await;
                });
                drop(led.await);
            }
            Self::LeadUntil => {
                let stop = sleep(ms(45));
                let lock = lock.grace(ms(10));
                let led = lock.lead_until(stop, async |leadership| {
                    *bodies.term.lock() = Some(leadership.cancellation_token());
                    bodies.work().await;
                    bodies.ended.store(0, Ordering::Relaxed);
                    std::future::pending::<()>().await;
                });
                drop(led.await);
            }
            Self::StepDown => {
                let lock = lock.grace(ms(5));
                let led = lock.lead(async |leadership| {
                    *bodies.term.lock() = Some(leadership.cancellation_token());
                    if bodies.begun.load(Ordering::Relaxed) == 0 {
                        leadership.step_down();
                    }
                    bodies.work().await;
                });
                drop(led.await);
            }
        }
    }

    /// Drops the call after a number of polls. Returns whether it was done before.
    async fn dropped_after(self, polls: usize, held: bool, scene: &Scene) -> bool {
        let what = format!("{self:?}, held: {held}, {:?} at step {polls}", scene.faults);
        let name = format!("a{polls}");
        let lock = scene.other.red_lock(&name);
        if held {
            let guard = lock.lock().await.expect("free");
            tokio::spawn(async move {
                sleep(HELD_FOR).await;
                drop(guard);
            });
        }
        // Another task of the process, and another client, want the lock too.
        let own = scene.own.red_lock(&name);
        let waiter = tokio::spawn(async move {
            sleep(ms(5)).await;
            own.lock().await.map(|_| Instant::now())
        });
        scene.arrange();
        let begun = Instant::now();
        let bodies = Bodies::default();
        let ended = stepped(Box::pin(self.call(&scene.own, &name, &bodies)), polls).await;
        let free_from = Instant::now().max(begun + HELD_FOR);
        assert_eq!(bodies.inside.load(Ordering::Relaxed), 0, "{what}: a body goes on");
        if let Some(term) = &*bodies.term.lock() {
            assert!(term.is_cancelled(), "{what}: the term goes on");
        }
        let within = scene.bound();
        let granted = timeout(HELD_FOR + within, waiter).await;
        let granted = granted.unwrap_or_else(|_| panic!("{what}: the waiter is stuck"));
        let granted = granted.expect("no panic").expect("granted");
        let took = granted.saturating_duration_since(free_from);
        assert!(took <= within, "{what}: the waiter had to wait for {took:?}");
        let both = scene.other.red_lock([name.clone(), format!("{name}-second")]);
        let granted = timeout(within, both.lock()).await;
        drop(granted.unwrap_or_else(|_| panic!("{what}: nobody else has the lock")));
        scene.undo();
        scene.is_clean_soon(&what).await;
        ended.is_some()
    }

    async fn dropped_everywhere(self) {
        let mut points = 0;
        for (number, faults) in all_faults().enumerate() {
            let scene = Scene::new(faults).await;
            let most = if has_majority(faults) { 100 } else { 28 };
            let mut polls = 0;
            while polls < most && !self.dropped_after(polls, number % 2 == 0, &scene).await {
                polls += 1;
            }
            assert!(!has_majority(faults) || polls < most, "never done");
            points += polls;
        }
        assert!(points > 60, "only {points} await points were tried");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_with_its_run() {
    Call::Run.dropped_everywhere().await;
    Call::SetRun.dropped_everywhere().await;
}

#[tokio::test(start_paused = true)]
async fn a_term_ends_with_its_lead() {
    Call::Lead.dropped_everywhere().await;
    Call::LeadUntil.dropped_everywhere().await;
    Call::StepDown.dropped_everywhere().await;
}

/// Runs a job with this number as its output.
async fn job(job: OnceJob, output: u32, bodies: &Bodies) -> Option<Once<u32>> {
    let ran = job.run(async |_| {
        bodies.work().await;
        Ok::<_, ()>(output)
    });
    ran.await.ok()
}

/// Drops the run of a job after a number of polls. Returns whether it was done before.
async fn drop_once(polls: usize, scene: &Scene) -> bool {
    let what = format!("{:?} at step {polls}", scene.faults);
    let name = format!("job{polls}");
    let once = |masters: &Masters| masters.red_lock(&name).once(ms(600_000));
    // Another task of the process, and another client, wait behind it.
    let bodies = Arc::new(Bodies::default());
    let behind = |masters: &Masters, output: u32| {
        let (once, bodies) = (once(masters), Arc::new(Bodies::default()));
        tokio::spawn(async move {
            sleep(ms(5)).await;
            (job(once, output, &bodies).await, Instant::now())
        })
    };
    scene.arrange();
    let waiters = [behind(&scene.own, 2), behind(&scene.other, 3)];
    let ended = stepped(job(once(&scene.own), 1, &bodies), polls).await;
    let dropped = Instant::now();
    assert_eq!(
        bodies.inside.load(Ordering::Relaxed),
        0,
        "{what}: the body goes on"
    );
    let within = scene.bound();
    // Each of them may run the body.
    let mut outcomes = Vec::new();
    for waiter in waiters {
        let outcome = timeout(2 * (within + ms(21)), waiter).await;
        let (outcome, at) = outcome
            .unwrap_or_else(|_| panic!("{what}: a waiter is stuck"))
            .expect("no panic");
        assert!(
            at.saturating_duration_since(dropped) <= 2 * (within + ms(21)),
            "{what}"
        );
        outcomes.push(outcome.unwrap_or_else(|| panic!("{what}: an error")));
    }
    let ran = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Once::Ran(_)))
        .count();
    if !bodies.ended() {
        // The job was not marked, so one of the others has run it.
        assert_eq!(ran, 1, "{what}: {outcomes:?}");
    } else if matches!(ended, Some(Some(Once::Ran(1)))) {
        assert_eq!(ran, 0, "{what}: {outcomes:?}");
    } else {
        assert!(ran <= 1, "{what}: {outcomes:?}");
    }
    scene.undo();
    sleep(ms(500)).await;
    let again = job(once(&scene.other), 4, &Bodies::default()).await;
    assert!(
        matches!(again, Some(Once::Done { confirmed: true, .. })),
        "{what}: {again:?}, {outcomes:?}"
    );
    scene.is_clean_soon(&what).await;
    ended.is_some()
}

#[tokio::test(start_paused = true)]
async fn a_job_is_done_by_another_whenever_its_run_is_dropped() {
    let mut points = 0;
    for faults in WITH_MAJORITY {
        let scene = Scene::new(faults).await;
        let polls = everywhere(async |polls| drop_once(polls, &scene).await).await;
        points += polls;
    }
    assert!(points > 40, "only {points} await points were tried");
    for faults in WITHOUT_MAJORITY {
        let scene = Scene::new(faults).await;
        for polls in 0..28 {
            let _ = drop_once(polls, &scene).await;
        }
    }
}

/// A job that is forgotten, and one whose run only reads the mark: dropped after each number of polls, and made again.
#[tokio::test(start_paused = true)]
async fn a_job_is_forgotten_by_the_next_call() {
    for faults in all_faults() {
        let scene = Scene::new(faults).await;
        for polls in 0..12 {
            let what = format!("{faults:?} at step {polls}");
            let name = format!("job{polls}");
            let once = |masters: &Masters| masters.red_lock(&name).once(ms(600_000));
            let none = Bodies::default();
            assert_eq!(
                job(once(&scene.own), 1, &none).await,
                Some(Once::Ran(1)),
                "{what}"
            );
            sleep(ms(500)).await;
            scene.arrange();
            let _ = stepped(job(once(&scene.other), 2, &none), polls).await;
            let _ = stepped(once(&scene.own).forget(), polls).await;
            scene.undo();
            sleep(ms(500)).await;
            if faults.contains(&Fault::Reset) {
                let _ = once(&scene.own).forget().await;
                scene.undo();
                sleep(ms(500)).await;
            }
            let forgotten = once(&scene.other).forget().await;
            assert!(forgotten.is_ok(), "{what}: {forgotten:?}");
            let again = job(once(&scene.own), 3, &none).await;
            assert_eq!(again, Some(Once::Ran(3)), "{what}");
            scene.is_clean_soon(&what).await;
        }
    }
}
