//! Sets, permits, read/write locks, sticky and announced locks: nothing is left of a future that is dropped.
//!
//! Each future is dropped after each number of polls, or when it is woken after them: while the lock is free, while another client or another task of the
//! process holds it, and with a waiter behind. The waiter has the lock promptly.

use std::any::Any;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use multilock::{LockSet, Masters, Mode, MultiLock, Permit, Policy, Shared};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::scene::{Fault, Scene, all_faults, has_majority};
use crate::support::{ms, polled, woken};

/// A guard, or none.
pub(super) type Acquiring = BoxFuture<'static, Option<Box<dyn Any + Send>>>;

/// A call that is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verb {
    Try,
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    /// Two names, of which only the second is held by others.
    Set,
    /// One permit, so that the waiter behind needs the seat of the dropped call.
    Permit,
    /// A reader: writers hold and wait.
    Read,
    /// A writer: readers hold and wait.
    Write,
    /// A grant stays with its last holder.
    Sticky,
    /// A term that watchers are told of, and that is not handed on inside the process.
    Announced,
}

/// Another client, another task of the call's process, or nobody.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Party {
    Nobody,
    Other,
    Own,
}

impl Party {
    pub(super) fn of(self, scene: &Scene) -> Option<&Masters> {
        match self {
            Self::Nobody => None,
            Self::Other => Some(&scene.other),
            Self::Own => Some(&scene.own),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Situation {
    kind: Kind,
    policy: Policy,
    /// Holder of the lock when the call begins, until 30 ms later.
    held: Party,
    /// Waiter that comes 5 ms after the call.
    behind: Party,
    /// Whether the call is dropped when it is woken after its last poll, and not at once.
    woken: bool,
}

const HELD_FOR: Duration = ms(30);
const BEHIND_AFTER: Duration = ms(5);

fn set(masters: &Masters, name: &str, policy: Policy) -> LockSet {
    masters.lock(second(name), policy).and(masters.lock(name, policy))
}

fn second(name: &str) -> String {
    format!("{name}-second")
}

fn permit(masters: &Masters, name: &str, policy: Policy) -> MultiLock<Permit> {
    masters.permits(name, 1).policy(policy)
}

fn read(masters: &Masters, name: &str, policy: Policy) -> MultiLock<Shared> {
    masters.lock(name, policy).read()
}

fn announced(masters: &Masters, name: &str, policy: Policy) -> MultiLock {
    masters.lock(name, policy).about("the text of a term").announced()
}

impl Verb {
    pub(super) fn of_lock<M: Mode>(self, lock: MultiLock<M>) -> Acquiring {
        async move {
            let guard = match self {
                Self::Try => lock.try_lock().await,
                Self::Wait => lock.lock().await,
            };
            Some(Box::new(guard.ok()?) as Box<dyn Any + Send>)
        }
        .boxed()
    }

    fn of_set(self, set: LockSet) -> Acquiring {
        async move {
            let guard = match self {
                Self::Try => set.try_lock().await,
                Self::Wait => set.lock().await,
            };
            Some(Box::new(guard.ok()?) as Box<dyn Any + Send>)
        }
        .boxed()
    }
}

impl Kind {
    /// The call that is dropped.
    fn call(self, verb: Verb, masters: &Masters, name: &str, policy: Policy) -> Acquiring {
        match self {
            Self::Plain => verb.of_lock(masters.lock(name, policy)),
            Self::Set => verb.of_set(set(masters, name, policy)),
            Self::Permit => verb.of_lock(permit(masters, name, policy)),
            Self::Read => verb.of_lock(read(masters, name, policy)),
            Self::Write => verb.of_lock(masters.lock(name, policy).write()),
            Self::Sticky => verb.of_lock(masters.lock(name, policy).sticky()),
            Self::Announced => verb.of_lock(announced(masters, name, policy)),
        }
    }

    /// A hold that keeps the call waiting.
    fn blocker(self, masters: &Masters, name: &str, policy: Policy) -> Acquiring {
        let verb = Verb::Wait;
        match self {
            Self::Plain | Self::Set => verb.of_lock(masters.lock(name, policy)),
            Self::Permit => verb.of_lock(permit(masters, name, policy)),
            Self::Read => verb.of_lock(masters.lock(name, policy).write()),
            Self::Write => verb.of_lock(read(masters, name, policy)),
            Self::Sticky => verb.of_lock(masters.lock(name, policy).sticky()),
            Self::Announced => verb.of_lock(announced(masters, name, policy)),
        }
    }

    /// A waiter that needs the locks of the call.
    fn behind(self, masters: &Masters, name: &str, policy: Policy) -> Acquiring {
        match self {
            // A writer behind the reader.
            Self::Read => Verb::Wait.of_lock(masters.lock(name, policy).write()),
            // A reader behind the writer.
            Self::Write => Verb::Wait.of_lock(read(masters, name, policy)),
            _ => self.call(Verb::Wait, masters, name, policy),
        }
    }

    /// A lock that is granted once nothing is left of the others.
    fn newcomer(self, masters: &Masters, name: &str, policy: Policy) -> Acquiring {
        let verb = Verb::Wait;
        match self {
            Self::Plain | Self::Sticky | Self::Announced => verb.of_lock(masters.lock(name, policy)),
            Self::Set => verb.of_lock(masters.lock([name, &second(name)], policy)),
            Self::Permit => verb.of_lock(permit(masters, name, policy)),
            Self::Read | Self::Write => verb.of_lock(masters.lock(name, policy).write()),
        }
    }
}

impl Situation {
    /// Drops the call after this number of polls. Returns whether it was done before.
    async fn dropped_after(self, polls: usize, verb: Verb, scene: &Scene) -> bool {
        let Self {
            kind,
            policy,
            held,
            behind,
            ..
        } = self;
        let what = format!("{verb:?} of {self:?} with {:?} after {polls} polls", scene.faults);
        // A name that was recalled stays with nobody for a while.
        let name = format!("a{polls}");
        let blocker = match held.of(scene) {
            Some(masters) => kind.blocker(masters, &name, policy).await,
            None => None,
        };
        scene.arrange();
        let begun = Instant::now();
        let mut free_from = begun;
        if let Some(guard) = blocker {
            free_from = begun + HELD_FOR;
            tokio::spawn(async move {
                sleep(HELD_FOR).await;
                drop(guard);
            });
        }
        let waiter = behind.of(scene).map(|masters| {
            let waiting = kind.behind(masters, &name, policy);
            free_from = free_from.max(begun + BEHIND_AFTER);
            tokio::spawn(async move {
                sleep(BEHIND_AFTER).await;
                let guard = waiting.await.expect("granted in the end");
                let granted = Instant::now();
                sleep(ms(1)).await;
                drop(guard);
                granted
            })
        });
        let call = kind.call(verb, &scene.own, &name, policy);
        let ended = if self.woken {
            woken(call, polls).await
        } else {
            polled(call, polls).await
        };
        let is_done = ended.is_some();
        drop(ended);
        free_from = free_from.max(Instant::now());
        let bound = scene.bound();
        if let Some(waiter) = waiter {
            let granted = timeout(HELD_FOR + bound, waiter).await;
            let granted = granted.unwrap_or_else(|_| panic!("{what}: the waiter is stuck"));
            let took = granted.expect("no panic").saturating_duration_since(free_from);
            assert!(took <= bound, "{what}: the waiter had to wait for {took:?}");
        }
        sleep_until(free_from).await;
        let newcomer = timeout(bound, kind.newcomer(&scene.other, &name, policy)).await;
        assert!(
            newcomer.is_ok_and(|guard| guard.is_some()),
            "{what}: nobody else has the lock"
        );
        scene.undo();
        scene.is_clean_soon(&what).await;
        is_done
    }

    /// Drops after 0, 1, 2 … polls, until the call is done by itself. Returns the number of polls.
    async fn dropped_everywhere(self, verb: Verb, faults: [Fault; 3]) -> usize {
        let scene = Scene::new(faults).await;
        // A wait without a majority ends no earlier than the faults.
        let most = if has_majority(scene.faults) { 100 } else { 14 };
        let mut polls = 0;
        while polls < most && !self.dropped_after(polls, verb, &scene).await {
            polls += 1;
        }
        assert!(!has_majority(scene.faults) || polls < most, "never done");
        polls
    }
}

async fn all_of(kind: Kind, verb: Verb) {
    let parties = [Party::Nobody, Party::Other, Party::Own];
    let mut polls = 0;
    for (number, faults) in all_faults().enumerate() {
        // Each two of holder, waiter and faults meet. All three would take three times as long.
        for (index, held) in parties.into_iter().enumerate() {
            let situation = Situation {
                kind,
                policy: if has_majority(faults) {
                    Policy::RedLock
                } else {
                    Policy::MultiLock
                },
                held,
                behind: parties[(index + number) % parties.len()],
                woken: (index + number / parties.len()) % 2 == 1,
            };
            polls += situation.dropped_everywhere(verb, faults).await;
        }
    }
    let least = if verb == Verb::Try { 80 } else { 180 };
    assert!(polls > least, "only {polls} await points were tried");
}

macro_rules! tests {
    ($($name:ident: $kind:ident $verb:ident;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            all_of(Kind::$kind, Verb::$verb).await;
        }
    )*};
}

tests! {
    plain_wait: Plain Wait;
    set_try: Set Try;
    set_wait: Set Wait;
    permit_try: Permit Try;
    permit_wait: Permit Wait;
    read_try: Read Try;
    read_wait: Read Wait;
    write_try: Write Try;
    write_wait: Write Wait;
    sticky_try: Sticky Try;
    sticky_wait: Sticky Wait;
    announced_wait: Announced Wait;
}
