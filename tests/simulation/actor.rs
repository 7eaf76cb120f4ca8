//! A task that does, at random, everything that the API offers.

mod lead;
pub(crate) mod permits;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use multilock::{Closing, ExtendError, LockError, Mode, MultiLock, Once, Owner, RunError, Unlocked};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep, timeout};

use crate::ask::force;
use crate::client::Seat;
use crate::client_plan::{Alike, ClientPlan, Pace};
use crate::guard::{Guard, Lock, LockKind};
use crate::history::Kind;
use crate::plan::{Class, ms, ms_of, pick};
use crate::world::{Mine, Terms, World};

pub(crate) struct Actor {
    world: Arc<World>,
    seat: Arc<Seat>,
    rng: StdRng,
    me: Owner,
    mine: Vec<Mine>,
}

/// How a guard is given up.
#[derive(Clone, Copy)]
enum Leaving {
    Drop,
    Leak,
    /// Its caller loses patience.
    UnlockInVain,
    Unlock,
}

impl Actor {
    pub(crate) fn new(world: &Arc<World>, seat: &Arc<Seat>, mut rng: StdRng) -> Self {
        let me = if rng.random_bool(0.4) {
            seat.owner.clone()
        } else {
            Owner::new()
        };
        Self {
            world: Arc::clone(world),
            seat: Arc::clone(seat),
            rng,
            me,
            mine: Vec::new(),
        }
    }

    /// Acts until `end`, and then gives up its guards.
    pub(crate) async fn act(mut self, end: Instant) {
        match self.seat.plan.pace {
            Pace::Steady(most) => {
                while Instant::now() < end {
                    self.act_once().await;
                    if self.rng.random_bool(0.7) {
                        sleep(self.ms(0..=most)).await;
                    }
                }
            }
            Pace::Bursts(most) => {
                while Instant::now() < end {
                    for _ in 0..self.rng.random_range(1..20) {
                        self.act_once().await;
                    }
                    sleep(self.ms(0..=most)).await;
                }
            }
            Pace::Once => {
                let before = ms_of(end.saturating_duration_since(Instant::now()));
                sleep(self.ms(0..=before)).await;
                self.lock(false).await;
                while Instant::now() < end && !self.mine.is_empty() {
                    self.act_inside().await;
                }
            }
        }
        while !self.mine.is_empty() {
            self.leave().await;
        }
    }

    async fn act_once(&mut self) {
        let alike = self.seat.plan.alike.filter(|_| self.mine.is_empty());
        if let Some(alike) = alike.filter(|_| self.rng.random_bool(0.8)) {
            self.share(alike).await;
        } else if self.mine.is_empty() {
            self.act_outside().await;
        } else {
            self.act_inside().await;
        }
        self.world.look(None);
    }

    async fn act_outside(&mut self) {
        match self.rng.random_range(0..100) {
            0..=64 => self.lock(false).await,
            65..=69 => self.lock_several().await,
            70..=79 => self.run().await,
            80..=83 => self.inspect().await,
            84..=89 if self.world.plan.class == Class::Forced => self.force().await,
            // A client that comes after a step of a clock does not see it.
            84..=85 if self.rng.random_bool(0.5) && !self.world.plan.steps => {
                let how = pick(&mut self.rng, &[Closing::Release, Closing::Leave]);
                self.seat.begin_anew(how).await;
            }
            _ => sleep(self.ms(0..=200)).await,
        }
    }

    async fn act_inside(&mut self) {
        match self.rng.random_range(0..100) {
            0..=21 => self.lock(true).await,
            22..=31 => self.extend().await,
            32..=61 => self.leave().await,
            62..=81 => {
                let longest = pick(&mut self.rng, &[20, 200, 1500]);
                sleep(self.ms(0..=longest)).await;
            }
            82..=91 => {
                let mine = self.any();
                let (world, client) = (&self.world, self.seat.place);
                world.write(client, &self.mine[mine]);
            }
            92..=94 => self.await_loss().await,
            95 => self.force_own().await,
            96..=97 => self.downgrade().await,
            _ => self.lock(false).await,
        }
    }

    /// A lock on terms of every kind; on names that are held already with `again`.
    fn a_lock(&mut self, again: bool) -> (Lock, Vec<String>, Terms, String) {
        let names = self.some_names(again);
        let kind = self.a_kind(again);
        let plan = &self.seat.plan;
        let rng = &mut self.rng;
        let policy = if again && rng.random_bool(0.8) {
            multilock::Policy::RedLock
        } else {
            plan.policy(rng)
        };
        let needed = policy.needed(plan.masters.len());
        let fenced = rng.random_bool(plan.fenced);
        let masters = self.seat.masters();
        let lock = masters.lock(names.clone(), policy).fenced(fenced);
        let mut text = format!("{} ({kind:?}) under {policy}", names.join("+"));
        if !fenced {
            text += ", unfenced";
        }
        let mut terms = Terms {
            op: 0,
            kind,
            needed,
            fenced,
            min_validity: Duration::ZERO,
            renews: true,
            at_least: Duration::ZERO,
            began: 0,
        };
        let owner = Some((&self.me, if again { 1.0 } else { 0.5 }));
        let (mut lock, lease) = with_any_terms(plan, lock, &mut terms, owner, &mut text, rng);
        terms.at_least = some_of(rng, lease.unwrap_or(plan.lease), kind);
        if !terms.at_least.is_zero() {
            lock = lock.at_least(terms.at_least);
            let _ = write!(text, ", at least {:?}", terms.at_least);
        } else if plan.sticky && kind != LockKind::Read && lease.is_none() {
            lock = lock.sticky();
            text += ", sticky";
        }
        let op = self.world.next_op();
        terms.op = op;
        // It draws nothing, so that seeds stand for the same schedules as before.
        if op.is_multiple_of(3) {
            lock = lock.about("an operation");
        }
        if op.is_multiple_of(2) && !text.ends_with(", sticky") {
            lock = lock.announced();
            text += ", announced";
        }
        (Lock::of(lock, kind), names, terms, text)
    }

    /// Draws the kind of a lock. On names that the actor holds already, it is mostly a kind that their owner may enter.
    fn a_kind(&mut self, again: bool) -> LockKind {
        let (plan, rng) = (&self.seat.plan, &mut self.rng);
        let drawn = self.world.plan.kinds.draw(plan.reading, rng);
        let may_fail = rng.random_bool(0.2);
        let held = self.mine.first().filter(|_| again && !may_fail);
        match held.map(|mine| self.world.kind_of(mine.hold)) {
            Some(LockKind::Write) if drawn == LockKind::Plain => LockKind::Read,
            None | Some(LockKind::Write) => drawn,
            Some(kind) => kind,
        }
    }

    /// A set of the run's names; with `again` of names that are held, mostly all of one guard.
    fn some_names(&mut self, again: bool) -> Vec<String> {
        let rng = &mut self.rng;
        let mut names: Vec<String> = if again {
            self.mine[rng.random_range(0..self.mine.len())].names.clone()
        } else {
            let all = self.world.plan.names.iter();
            all.map(|name| (*name).to_owned()).collect()
        };
        let count = match (again, rng.random_bool(0.8)) {
            (true, true) => names.len(),
            (false, true) => 1,
            (_, false) => rng.random_range(1..=names.len().min(3)),
        };
        names.shuffle(rng);
        names.truncate(count);
        names
    }

    async fn lock(&mut self, again: bool) {
        let (lock, names, mut terms, text) = self.a_lock(again);
        let patience = self.ms(1..=1500);
        let once = again || self.rng.random_bool(0.4);
        let verb = if once { "try_lock" } else { "lock" };
        terms.began = self.begun(terms.op, format!("{verb} {text}"));
        let lock = lock.wait(patience);
        let cancelled_after = self.rng.random_bool(0.25).then(|| {
            let longest = pick(&mut self.rng, &[0, 4, 60, 600]);
            self.ms(0..=longest)
        });
        let asking = async {
            if once {
                lock.try_lock().await
            } else {
                lock.lock().await
            }
        };
        let answer = match cancelled_after {
            Some(after) => timeout(after, asking).await.ok(),
            None => Some(asking.await),
        };
        self.take(terms, &names, answer);
    }

    /// Two names as a set of two locks, each under a policy of its own, which are then given up one by one.
    async fn lock_several(&mut self) {
        let names = self.some_names(false);
        let [first, .., second] = names.as_slice() else {
            return self.lock(false).await;
        };
        let (first, second) = (first.clone(), second.clone());
        let plan = &self.seat.plan;
        let masters = self.seat.masters();
        let policies = [plan.policy(&mut self.rng), plan.policy(&mut self.rng)];
        let run_kinds = self.world.plan.kinds;
        let kinds = [(); 2].map(|()| run_kinds.draw(plan.reading, &mut self.rng));
        let op = self.world.next_op();
        let fenced = self.rng.random_bool(plan.fenced);
        let mut terms = [(policies[0], kinds[0]), (policies[1], kinds[1])].map(|(policy, kind)| Terms {
            op,
            kind,
            needed: policy.needed(plan.masters.len()),
            fenced,
            min_validity: Duration::ZERO,
            renews: true,
            at_least: Duration::ZERO,
            began: 0,
        });
        let [one, other] = policies;
        let mut text = format!("lock {first} under {one} and {second} under {other}, {kinds:?}");
        // Drawn apart, so that seeds stand for the same schedules as before.
        let mut rng_terms = StdRng::seed_from_u64(self.world.plan.seed ^ op as u64 ^ 0x5e70_0000);
        let has_own_terms = rng_terms.random_bool(0.7);
        let mut of_kind = |name: &str, policy, kind, terms: &mut Terms| {
            let mut lock = masters.lock(name, policy).fenced(fenced);
            if has_own_terms {
                let _ = write!(text, "; {name}");
                (lock, _) = with_any_terms(plan, lock, terms, None, &mut text, &mut rng_terms);
            }
            Lock::of(lock, kind)
        };
        let locks = (
            of_kind(&first, one, kinds[0], &mut terms[0]),
            of_kind(&second, other, kinds[1], &mut terms[1]),
        );
        let mut set = match locks {
            (Lock::Exclusive(one), Lock::Exclusive(other)) => one.and(other),
            (Lock::Exclusive(one), Lock::Shared(other)) => one.and(other),
            (Lock::Shared(one), Lock::Exclusive(other)) => one.and(other),
            (Lock::Shared(one), Lock::Shared(other)) => one.and(other),
        };
        if self.rng.random_bool(0.3) {
            // Nobody looks at the guards of a set that is not whole yet, so it enters nobody's hold.
            set = set.owner(&Owner::new());
        }
        let set = set.wait(self.ms(0..=1500));
        let began = self.begun(op, text);
        let answer = if self.rng.random_bool(0.25) {
            let longest = pick(&mut self.rng, &[0, 4, 60, 600]);
            timeout(self.ms(0..=longest), set.lock()).await.ok()
        } else {
            Some(set.lock().await)
        };
        match answer {
            None => self.take(terms[0], &[], None),
            Some(Err(error)) => self.take(terms[0], &[], Some(Err(error.error))),
            Some(Ok(guard)) => {
                let parts = guard.into_guards().into_iter().zip([first, second]).zip(terms);
                for ((guard, name), terms) in parts {
                    self.take(Terms { began, ..terms }, &[name], Some(Ok(guard.into())));
                }
            }
        }
    }

    /// Takes in the answer of a lock's verb, which is `None` if the call was dropped.
    fn take(&mut self, terms: Terms, names: &[String], answer: Option<Result<Guard, LockError>>) {
        let client = self.seat.place;
        match answer {
            None => {
                let cancelled = Kind::Cancelled { op: terms.op };
                self.world.history.note(Some(client), cancelled);
            }
            Some(Ok(guard)) => {
                let mine = self.world.granted(client, terms, names, guard);
                self.mine.push(mine);
            }
            Some(Err(error)) => {
                let why = error.to_string();
                let refused = Kind::Refused { op: terms.op, why };
                self.world.history.note(Some(client), refused);
            }
        }
    }

    /// Takes the lock that the other tasks of the client want, too, mostly for a moment.
    async fn share(&mut self, alike: Alike) {
        let plan = &self.seat.plan;
        let names = &self.world.plan.names[..alike.names];
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let masters = self.seat.masters();
        let lock = masters.lock(names.clone(), alike.policy).fenced(alike.fenced);
        let mut lock = lock.min_validity(alike.min_validity);
        let kind = alike.kind;
        let (mut text, mut renews) = (
            format!("lock {} ({kind:?}) under {}", names.join("+"), alike.policy),
            true,
        );
        if alike.fair && kind == LockKind::Plain {
            lock = lock.fair();
            text += ", fair";
        }
        match self.rng.random_range(0..10) {
            0..=3 => {
                lock = lock.lease(plan.lease);
                (text, renews) = (text + ", not renewed", false);
            }
            4 => (lock, renews) = (lock.max_hold(plan.lease * 2), false),
            _ => {}
        }
        if self.rng.random_bool(0.2) {
            lock = lock.owner(&self.me);
        }
        let at_least = some_of(&mut self.rng, plan.lease.min(ms(100)), kind);
        let is_fair = alike.fair && kind == LockKind::Plain;
        if plan.sticky
            && !text.ends_with("not renewed")
            && !is_fair
            && kind != LockKind::Read
            && at_least.is_zero()
        {
            lock = lock.sticky();
            text += ", sticky";
        }
        lock = lock.at_least(at_least);
        let mut terms = Terms {
            op: self.world.next_op(),
            kind,
            needed: alike.policy.needed(plan.masters.len()),
            fenced: alike.fenced,
            min_validity: alike.min_validity,
            renews,
            at_least,
            began: 0,
        };
        terms.began = self.begun(terms.op, text);
        let patience = pick(&mut self.rng, &[5, 50, 1500, 1500]);
        let lock = Lock::of(lock, kind).wait(self.ms(1..=patience));
        let answer = if self.rng.random_bool(0.2) {
            let longest = pick(&mut self.rng, &[4, 20, 60]);
            timeout(self.ms(0..=longest), lock.lock()).await.ok()
        } else {
            Some(lock.lock().await)
        };
        self.take(terms, &names, answer);
        match self.rng.random_range(0..20) {
            // It goes on as anybody would.
            0 => return,
            1 => sleep(self.ms(0..=200)).await,
            2 if !self.mine.is_empty() => self.extend().await,
            3 if !self.mine.is_empty() => self.downgrade().await,
            _ => sleep(self.ms(0..=alike.section)).await,
        }
        if let Some(mine) = self.mine.pop() {
            let how = if self.rng.random_bool(0.4) {
                Leaving::Drop
            } else {
                Leaving::Unlock
            };
            self.leave_by(how, mine).await;
        }
    }

    /// Terms of a renewed lock that is described by `text`, and notes that it begins.
    fn plain_terms(&self, needed: usize, fenced: bool, text: String) -> Terms {
        let mut terms = Terms {
            op: self.world.next_op(),
            kind: LockKind::Plain,
            needed,
            fenced,
            min_validity: Duration::ZERO,
            renews: true,
            at_least: Duration::ZERO,
            began: 0,
        };
        terms.began = self.begun(terms.op, text);
        terms
    }

    /// Asks up to three times for a job that is to be done once: mostly it is done when it is asked for again.
    async fn run_once(&mut self) {
        let name = pick(&mut self.rng, &self.world.plan.names).to_owned();
        let keep = pick(&mut self.rng, &[ms(50), ms(500), ms(3000)]);
        for _ in 0..self.rng.random_range(1..=3) {
            self.run_job(name.clone(), keep).await;
        }
    }

    async fn run_job(&mut self, name: String, keep: Duration) {
        let plan = &self.seat.plan;
        let policy = plan.policy(&mut self.rng);
        let needed = policy.needed(plan.masters.len());
        let fenced = self.rng.random_bool(plan.fenced);
        let terms = self.plain_terms(
            needed,
            fenced,
            format!("do {name} once in {keep:?} under {policy}"),
        );
        let masters = self.seat.masters();
        let lock = masters.lock(name.clone(), policy).fenced(fenced);
        let job = lock.wait(self.ms(1..=1500)).once(keep);
        let (world, client) = (Arc::clone(&self.world), self.seat.place);
        let (pause, fails) = (self.ms(0..=60), self.rng.random_bool(0.2));
        let ended = std::sync::Mutex::new(Duration::ZERO);
        let outcome = job
            .run(async |guard| {
                let begun = Kind::JobBegun {
                    name: name.clone(),
                    keep,
                };
                world.history.note(Some(client), begun);
                let lent = world.lent(client, terms, std::slice::from_ref(&name), guard);
                sleep(pause).await;
                lent.look();
                *ended.lock().expect("not poisoned") = world.history.now();
                if fails { Err("failed") } else { Ok(()) }
            })
            .await;
        if matches!(outcome, Ok(Once::Ran(()))) {
            let ended = ended.into_inner().expect("not poisoned");
            let done = Kind::JobDone { name, ended, keep };
            world.history.note(Some(client), done);
        }
        let refused = Kind::Refused {
            op: terms.op,
            why: format!("{outcome:?}"),
        };
        world.history.note(Some(client), refused);
    }

    async fn run(&mut self) {
        match self.rng.random_range(0..100) {
            0..=29 if self.world.plan.kinds.are_plain() => return self.run_once().await,
            30..=59 => return self.run_with_permit().await,
            _ => {}
        }
        let (lock, names, mut terms, text) = self.a_lock(false);
        terms.began = self.begun(terms.op, format!("run {text}"));
        match lock.wait(self.ms(1..=1500)) {
            Lock::Exclusive(lock) => self.run_under(lock, &names, terms).await,
            Lock::Shared(lock) => self.run_under(lock, &names, terms).await,
        }
    }

    async fn run_under<M: Mode>(&mut self, lock: MultiLock<M>, names: &[String], terms: Terms) {
        let (world, client) = (Arc::clone(&self.world), self.seat.place);
        let turns = self.rng.random_range(0..6);
        let pause = self.ms(0..=60);
        let outcome = lock
            .run(async |guard| {
                let lent = world.lent(client, terms, names, guard);
                for _ in 0..turns {
                    sleep(pause).await;
                    lent.look();
                }
            })
            .await;
        let why = match outcome {
            Ok(()) => "ran to its end".into(),
            Err(RunError::Lock(error)) => error.to_string(),
            Err(RunError::Lost(loss)) => loss.to_string(),
            Err(error) => error.to_string(),
        };
        let refused = Kind::Refused { op: terms.op, why };
        world.history.note(Some(client), refused);
    }

    async fn extend(&mut self) {
        let place = self.any();
        let lease = self.seat.plan.any_lease(&mut self.rng);
        let mine = &self.mine[place];
        let hold = mine.hold;
        let what = if self.rng.random_bool(0.2) {
            let after = self.rng.random_range(0..20);
            let extending = mine.guard.extend(lease);
            let answer = timeout(Duration::from_millis(after), extending).await;
            answer.map_or_else(|_| "extension dropped".into(), describe_extension)
        } else {
            describe_extension(mine.guard.extend(lease).await)
        };
        let what = format!("by {lease:?}: {what}");
        let client = Some(self.seat.place);
        self.world.history.note(client, Kind::Outcome { hold, what });
    }

    /// Has one of the guards that can read from now on; now and then its caller loses patience.
    async fn downgrade(&mut self) {
        let place = self.any();
        let mine = self.mine.swap_remove(place);
        let patience = self.rng.random_bool(0.2).then(|| self.ms(0..=20));
        let changed = self.world.downgrade(self.seat.place, mine, patience).await;
        self.mine.extend(changed);
    }

    async fn leave(&mut self) {
        let place = self.any();
        let mine = self.mine.swap_remove(place);
        let how = match self.rng.random_range(0..20) {
            0..=6 => Leaving::Drop,
            7 => Leaving::Leak,
            8 | 9 => Leaving::UnlockInVain,
            _ => Leaving::Unlock,
        };
        self.leave_by(how, mine).await;
    }

    async fn leave_by(&mut self, how: Leaving, mine: Mine) {
        let (hold, client) = (mine.hold, self.seat.place);
        match how {
            Leaving::Drop => drop(self.world.give_up(client, mine, "drop")),
            Leaving::Leak => self.world.give_up(client, mine, "leak").leak(),
            Leaving::UnlockInVain => {
                let guard = self.world.give_up(client, mine, "unlock");
                let within = self.ms(0..=20);
                let _ = timeout(within, guard.unlock()).await;
            }
            Leaving::Unlock => {
                let guard = self.world.give_up(client, mine, "unlock");
                let what = match guard.unlock().await {
                    Ok(Unlocked::Released) => "released".into(),
                    Ok(Unlocked::StillHeld(count)) => format!("still held by {count}"),
                    Ok(Unlocked::Downgraded) => "still held to read".into(),
                    Ok(Unlocked::HandedOn) => "handed on".into(),
                    Ok(Unlocked::KeptFor(rest)) => {
                        self.world.kept_for(hold);
                        format!("kept for {rest:?}")
                    }
                    Ok(_) => "unlocked".into(),
                    Err(error) => error.to_string(),
                };
                let outcome = Kind::Outcome { hold, what };
                self.world.history.note(Some(client), outcome);
            }
        }
    }

    async fn await_loss(&mut self) {
        let place = self.any();
        let longest = self.ms(0..=2000);
        let mine = &self.mine[place];
        let hold = mine.hold;
        if timeout(longest, mine.guard.lost()).await.is_ok() {
            let validity = mine.guard.validity();
            let told = Kind::Signalled { hold, validity };
            self.world.history.note(Some(self.seat.place), told);
        }
        let _ = mine.guard.ensure_valid();
    }

    async fn inspect(&mut self) {
        let name = pick(&mut self.rng, &self.world.plan.names);
        let _ = self.seat.masters().red_lock(name).inspect().await;
    }

    async fn force_own(&mut self) {
        if self.world.plan.class == Class::Forced {
            self.force().await;
        }
    }

    async fn force(&mut self) {
        let name = pick(&mut self.rng, &self.world.plan.names);
        force(&self.world, &self.seat, name).await;
    }

    fn begun(&self, op: usize, what: String) -> usize {
        let begun = Kind::Begun { op, what };
        self.world.history.note(Some(self.seat.place), begun)
    }

    fn any(&mut self) -> usize {
        self.rng.random_range(0..self.mine.len())
    }

    fn ms(&mut self, range: std::ops::RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.rng.random_range(range))
    }
}

/// Draws a lease and a least validity for a lock, and returns the lease, if it has one. `owner` is who may take it, and how
/// likely that is.
fn with_any_terms(
    plan: &ClientPlan,
    mut lock: MultiLock,
    terms: &mut Terms,
    owner: Option<(&Owner, f64)>,
    text: &mut String,
    rng: &mut StdRng,
) -> (MultiLock, Option<Duration>) {
    let mut lease = None;
    if rng.random_bool(0.6) {
        let drawn = plan.any_lease(rng);
        lease = Some(drawn);
        lock = lock.lease(drawn);
        terms.renews = false;
        let _ = write!(text, ", lease {drawn:?}");
    } else if rng.random_bool(0.1) {
        lock = lock.max_hold(plan.lease * 2);
        terms.renews = false;
    }
    if let Some((owner, often)) = owner
        && rng.random_bool(often)
    {
        lock = lock.owner(owner);
    }
    if rng.random_bool(0.2) {
        let longest = lease.unwrap_or(plan.lease);
        terms.min_validity = longest.mul_f64(pick(rng, &[0.3, 0.7, 0.95]));
        lock = lock.min_validity(terms.min_validity);
        let _ = write!(text, ", no less than {:?}", terms.min_validity);
    }
    (lock, lease)
}

fn describe_extension(answer: Result<(), ExtendError>) -> String {
    answer.map_or_else(|error| error.to_string(), |()| "extended".into())
}

/// For how long the names are to be kept: mostly not at all, and less than a lease that counts from before its round.
fn some_of(rng: &mut StdRng, lease: Duration, kind: LockKind) -> Duration {
    if kind != LockKind::Plain || rng.random_bool(0.9) {
        return Duration::ZERO;
    }
    lease.mul_f64(pick(rng, &[0.05, 0.3, 0.7]))
}
