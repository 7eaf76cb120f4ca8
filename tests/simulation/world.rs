//! State that the actors of a run share: the masters, the record, and every guard that is out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use multilock::sim::{Cluster, Master, Network};
use multilock::{FencingToken, Holder, Leadership, Mode, MultiLockGuard, Vote, Votes};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::crowd;
use crate::guard::{Guard, LockKind};
use crate::history::{History, HoldFacts, HoldId, Kind, Sight};
use crate::out::{Out, close};
use crate::plan::{Plan, ms_of};
use crate::stored;

/// Keys of the crate that are no locks and have no end.
const KEPT: [&str; 1] = ["multilock_set"];

/// A guard and the hold it is in.
#[derive(Debug)]
pub(crate) struct Mine {
    pub(crate) hold: HoldId,
    pub(crate) names: Vec<String>,
    pub(crate) guard: Arc<Guard>,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) cluster: Cluster,
    /// Networks between each client and the masters.
    pub(crate) networks: Vec<Network>,
    pub(crate) history: History,
    out: Mutex<BTreeMap<HoldId, Out>>,
    resource: Mutex<BTreeMap<String, u64>>,
    next_op: AtomicUsize,
}

/// The terms under which a guard was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) op: usize,
    pub(crate) kind: LockKind,
    pub(crate) needed: usize,
    pub(crate) fenced: bool,
    pub(crate) min_validity: Duration,
    pub(crate) renews: bool,
    pub(crate) at_least: Duration,
    pub(crate) began: usize,
}

/// How far masters' clocks may be apart for all of them to have a vote where tokens are wanted.
const MASTERS_APART: Duration = Duration::from_secs(4 * 60);

impl World {
    pub(crate) fn new(plan: Plan) -> Arc<Self> {
        let cluster = Cluster::new(plan.nodes);
        let mut rng = StdRng::seed_from_u64(plan.seed ^ 0x000c_10c5);
        for master in cluster.iter() {
            let ahead = rng.random_range(0..=ms_of(plan.skew.min(MASTERS_APART)));
            master.set_clock_forward(Duration::from_millis(ahead));
        }
        for (master, rate) in cluster.iter().zip(&plan.rates) {
            master.set_clock_rate(*rate);
        }
        let networks = (0..plan.clients).map(|_| Network::new(plan.nodes)).collect();
        let history = History::begin(plan.nodes, plan.max_lease, plan.longest_deadline());
        Arc::new(Self {
            history,
            cluster,
            networks,
            out: Mutex::default(),
            resource: Mutex::default(),
            next_op: AtomicUsize::new(0),
            plan,
        })
    }

    pub(crate) fn next_op(&self) -> usize {
        self.next_op.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes note of a new guard.
    pub(crate) fn granted(
        self: &Arc<Self>,
        client: usize,
        terms: Terms,
        names: &[String],
        guard: impl Into<Guard>,
    ) -> Mine {
        let guard = Arc::new(guard.into());
        let grant = Grant {
            owner: guard.holder(),
            token: guard.fencing_token().get(),
            validity: guard.validity(),
            cancelled: guard.cancellation_token(),
        };
        let hold = self.note_grant(client, terms, names, grant);
        self.out(|out| {
            out.entry(hold)
                .or_default()
                .enter(&guard, terms.kind, terms.renews);
        });
        self.look(None);
        Mine {
            hold,
            names: names.to_vec(),
            guard,
        }
    }

    /// As [`granted`](Self::granted), for a hold that is lent to the body of a call.
    pub(crate) fn lent<'a, L: LentHold>(
        self: &Arc<Self>,
        client: usize,
        terms: Terms,
        names: &[String],
        its: &'a L,
    ) -> Lent<'a, L> {
        let hold = self.note_grant(client, terms, names, its.grant());
        self.out(|out| {
            let entry = out.entry(hold).or_default();
            entry.lend(terms.kind);
            entry.term = its.term();
        });
        let lent = Lent {
            world: Arc::clone(self),
            client,
            hold,
            kind: terms.kind,
            its,
        };
        lent.look();
        lent
    }

    /// The body to which a hold was lent has ended, and its hold was valid for so much longer.
    fn returned(&self, client: usize, hold: HoldId, kind: LockKind, left: Duration) {
        let now = self.history.now();
        self.history.note(Some(client), Kind::Returned { hold, left });
        self.change(client, hold, |out| {
            let Some(entry) = out.get_mut(&hold) else { return };
            entry.term = None;
            entry.lent_is_back(kind);
            if entry.is_empty() {
                close(out, hold, now, left);
            }
        });
    }

    fn note_grant(self: &Arc<Self>, client: usize, terms: Terms, names: &[String], grant: Grant) -> HoldId {
        let Grant {
            owner,
            token,
            validity,
            cancelled,
        } = grant;
        let out: Vec<HoldId> = self.out(|out| out.keys().copied().collect());
        let is_out = |hold| out.contains(&hold);
        let (hold, again) = self.history.hold(&owner, is_out, || HoldFacts {
            client,
            owner: owner.clone(),
            names: names.to_vec(),
            kind: terms.kind,
            needed: terms.needed,
            token,
            began: terms.began,
        });
        self.history.note(
            Some(client),
            Kind::Granted {
                op: terms.op,
                hold,
                again,
                kind: terms.kind,
                min_validity: terms.min_validity,
                validity,
                needed: terms.needed,
                fenced: terms.fenced,
                at_least: terms.at_least,
                token,
            },
        );
        let kept_until = self.history.now() + terms.at_least;
        self.out(|out| {
            let entry = out.entry(hold).or_default();
            entry.kept_until = entry.kept_until.max(kept_until);
            if !again {
                entry.kind = terms.kind;
                entry.signal = Some(cancelled.clone());
            }
        });
        if !again {
            let world = Arc::clone(self);
            let watch = AbortOnDropHandle::new(tokio::spawn(async move {
                cancelled.cancelled().await;
                let validity = world.validity_of(hold).unwrap_or_default();
                if world.has_term(hold) && !validity.is_zero() {
                    // The leader is to step down, and has lost nothing.
                    return;
                }
                // A leaked one ends with that, too.
                world.out(|out| out.entry(hold).or_default().leaked_until = None);
                world
                    .history
                    .note(Some(client), Kind::Signalled { hold, validity });
            }));
            self.out(|out| out.entry(hold).or_default().watch = Some(watch));
        }
        hold
    }

    /// Kind that a hold has now, or was granted for if it is not out any more.
    pub(crate) fn kind_of(&self, hold: HoldId) -> LockKind {
        let now = self.out(|out| out.get(&hold).map(Out::kind_now));
        now.unwrap_or_else(|| self.history.with(|record| record.holds[hold].kind))
    }

    fn validity_of(&self, hold: HoldId) -> Option<Duration> {
        self.out(|out| Some(Told::of(out.get(&hold)?)?.validity))
    }

    /// Whether the hold is that of a leader whose body runs.
    fn has_term(&self, hold: HoldId) -> bool {
        self.out(|out| out.get(&hold).is_some_and(|entry| entry.term.is_some()))
    }

    /// Takes note that a guard is about to be given up; the guard itself.
    pub(crate) fn give_up(&self, client: usize, mine: Mine, how: &'static str) -> Guard {
        let Mine { hold, guard, .. } = mine;
        let (now, left) = (self.history.now(), guard.validity());
        let last = self.change(client, hold, |out| {
            let entry = out.get_mut(&hold).expect("given out");
            let known = entry.take(&guard);
            let alone = entry.is_empty();
            if how == "leak" {
                entry.keep(known);
                entry.leaked_until = alone.then(|| now + left);
            } else if alone {
                close(out, hold, now, left);
            }
            alone
        });
        let given_up = Kind::GivenUp {
            hold,
            how,
            last,
            left,
        };
        self.history.note(Some(client), given_up);
        Arc::into_inner(guard).expect("nobody else has it")
    }

    /// Has a guard read from now on. Its caller may lose patience, and drop it half-way.
    pub(crate) async fn downgrade(
        &self,
        client: usize,
        mine: Mine,
        patience: Option<Duration>,
    ) -> Option<Mine> {
        let Mine { hold, names, guard } = mine;
        let granted = self.history.with(|record| record.holds[hold].kind);
        // The guard of a lock that is not read/write stays the only one.
        let kind = match granted {
            LockKind::Plain => LockKind::Plain,
            LockKind::Write | LockKind::Read => LockKind::Read,
        };
        let known = self.change(client, hold, |out| {
            let entry = out.get_mut(&hold).expect("given out");
            entry.lend(kind);
            entry.take(&guard)
        });
        let guard = Arc::into_inner(guard).expect("nobody else has it");
        let changed = match patience {
            None => Some(guard.downgrade().await),
            Some(patience) => timeout(patience, guard.downgrade()).await.ok(),
        };
        let Some(guard) = changed else {
            let what = "downgrade dropped".into();
            self.history.note(Some(client), Kind::Outcome { hold, what });
            self.returned(client, hold, kind, Duration::ZERO);
            return None;
        };
        let guard = Arc::new(guard);
        self.out(|out| {
            let entry = out.entry(hold).or_default();
            entry.kind = granted;
            // A client that was closed meanwhile has its lent guards forgotten.
            entry.signal.get_or_insert_with(|| guard.cancellation_token());
            entry.lent_is_back(kind);
            entry.enter(&guard, kind, known.renews);
        });
        self.look(None);
        Some(Mine { hold, names, guard })
    }

    /// Changes the guards that are out. Notes a downgrade if a hold that wrote only reads after it.
    fn change<T>(&self, client: usize, hold: HoldId, act: impl FnOnce(&mut BTreeMap<HoldId, Out>) -> T) -> T {
        let kind = |out: &BTreeMap<HoldId, Out>| out.get(&hold).map(Out::kind_now);
        let (before, done, after) = self.out(|out| (kind(out), act(out), kind(out)));
        if before == Some(LockKind::Write) && after == Some(LockKind::Read) {
            self.history.note(Some(client), Kind::Downgraded { hold });
        }
        done
    }

    /// Writes to the resource behind every name that a guard holds. Its validity may have been checked long ago, and
    /// be over by now.
    pub(crate) fn write(&self, client: usize, mine: &Mine) {
        let token = mine.guard.fencing_token().get();
        for name in &mine.names {
            let mut resource = self.resource.lock().expect("not poisoned");
            let seen = resource.entry(name.clone()).or_default();
            let accepted = token >= *seen;
            // A reader shares the token of other readers, and must not shut them out.
            if mine.guard.is_exclusive() {
                *seen = token.max(*seen);
            }
            drop(resource);
            let (hold, name) = (mine.hold, name.clone());
            self.history
                .note(Some(client), Kind::Wrote { hold, name, accepted });
        }
    }

    /// Looks at every guard that is out; the shortest validity that is left anywhere.
    pub(crate) fn look(&self, lent: Option<(HoldId, Told)>) -> Option<Duration> {
        let now = self.history.now();
        let mut sights = Vec::new();
        self.out(|out| {
            for (hold, entry) in &mut *out {
                let told = Told::of(entry);
                let told = told.or_else(|| lent.filter(|(lent, _)| lent == hold).map(|(_, told)| told));
                let (kind, count) = (entry.kind_now(), entry.count());
                if let Some(told) = told {
                    sights.push(Sight {
                        hold: *hold,
                        kind,
                        validity: told.validity,
                        signalled: entry.is_signalled(),
                        count: told.count,
                        expected: count,
                        against: told.against,
                        renewed: entry.is_renewed(),
                        on: 0,
                    });
                } else if let Some(until) = entry.leaked_until.filter(|until| *until > now) {
                    sights.push(Sight {
                        hold: *hold,
                        kind,
                        validity: until.saturating_sub(now),
                        signalled: true,
                        count,
                        expected: count,
                        against: 0,
                        renewed: false,
                        on: 0,
                    });
                }
            }
        });
        for sight in &mut sights {
            if !sight.validity.is_zero() {
                sight.on = self.covered_by(sight);
            }
        }
        let validities = sights.iter().map(|sight| sight.validity);
        let shortest = validities.filter(|validity| !validity.is_zero()).min();
        if !sights.is_empty() {
            self.history.note(None, Kind::Seen(sights));
        }
        shortest
    }

    /// On how many masters a hold is covered for as long as it is valid; on the fewest, over all of its names.
    fn covered_by(&self, sight: &Sight) -> usize {
        let facts = self.history.with(|record| record.holds[sight.hold].clone());
        let on = |name: &String| {
            let covers = |master: &&Master| {
                stored::covers(master, name, &facts.owner, sight.kind, facts.kind, sight.validity)
            };
            self.cluster.iter().filter(covers).count()
        };
        facts.names.iter().map(on).min().unwrap_or(0)
    }

    /// The owners of every hold that may still be found on the masters: those with a guard, and those
    /// that were leaked.
    pub(crate) fn owners_out(&self) -> Vec<String> {
        let holds: Vec<_> = self.out(|out| out.keys().copied().collect());
        self.history.with(|record| {
            holds
                .iter()
                .map(|hold| record.holds[*hold].owner.clone())
                .collect()
        })
    }

    /// Lock keys that the masters keep, as `(master, name, owners)`.
    pub(crate) fn lock_keys(&self) -> Vec<(usize, String, Vec<String>)> {
        let mut found = Vec::new();
        for (place, master) in self.cluster.iter().enumerate() {
            for key in master
                .locks()
                .into_iter()
                .filter(|key| !KEPT.contains(&key.as_str()))
            {
                let owners = stored::owners(master, &key);
                found.push((place, key, owners));
            }
        }
        found
    }

    /// Entries of single owners that the masters keep, as `(master, key, owner)`.
    pub(crate) fn kept(&self) -> Vec<(usize, String, String)> {
        let is_lock = |key: &str| self.plan.names.contains(&key) || key.starts_with(crowd::PREFIX);
        let locks = self.lock_keys().into_iter().filter(|(_, key, _)| is_lock(key));
        let deleted = self.history.with(|record| record.deleted());
        let mut kept = Vec::new();
        for (place, key, owners) in locks {
            kept.extend(owners.into_iter().map(|owner| (place, key.clone(), owner)));
        }
        for (place, master) in self.cluster.iter().enumerate() {
            let beside = stored::beside(master, &self.plan.names).into_iter();
            // If a name was deleted under its readers, their entries beside it go with their leases.
            let beside = beside.filter(|(_, owner)| !deleted.contains(owner));
            kept.extend(beside.map(|(key, owner)| (place, key, owner)));
        }
        kept
    }

    /// Waiters in the masters' queues with clients that listen for calls.
    pub(crate) fn waiters(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (place, master) in self.cluster.iter().enumerate() {
            let channels = master.channels();
            for name in &self.plan.names {
                let waiters = stored::waiters(master, name).into_iter();
                let there = waiters.filter(|waiter| {
                    let client = waiter.split(':').next().expect("a first word");
                    channels.contains(&format!("multilock:{client}"))
                });
                found.extend(there.map(|waiter| format!("{waiter} for {name} on m{place}")));
            }
        }
        found
    }

    /// A quorum has said that it keeps the names of a hold that was given up.
    pub(crate) fn kept_for(&self, hold: HoldId) {
        self.out(|out| out.get_mut(&hold).map(Out::kept));
    }

    /// Forgets the leaked holds of a client that was closed: they have no owner any more.
    pub(crate) fn forget_leaks_of(&self, client: usize) {
        let holds = self.history.with(|record| record.holds.clone());
        self.out(|out| {
            out.retain(|hold, entry| entry.has_guards() || holds[*hold].client != client);
        });
    }

    /// Stops looking after guards altogether.
    pub(crate) fn forget_all(&self) {
        self.out(BTreeMap::clear);
    }

    fn out<T>(&self, act: impl FnOnce(&mut BTreeMap<HoldId, Out>) -> T) -> T {
        act(&mut self.out.lock().expect("not poisoned"))
    }
}

/// A hold that the body of a call has for as long as it runs.
pub(crate) struct Lent<'a, L: LentHold> {
    world: Arc<World>,
    client: usize,
    hold: HoldId,
    kind: LockKind,
    its: &'a L,
}

impl<L: LentHold> Lent<'_, L> {
    /// Looks at every hold, and at this one.
    pub(crate) fn look(&self) {
        self.world.look(Some((self.hold, self.its.told())));
    }
}

/// The body has ended, or was dropped: its hold is given up right after.
impl<L: LentHold> Drop for Lent<'_, L> {
    fn drop(&mut self) {
        let left = self.its.told().validity;
        self.world.returned(self.client, self.hold, self.kind, left);
    }
}

/// Hold that the body of a call is given: by a guard, or as a leader's term.
pub(crate) trait LentHold {
    fn grant(&self) -> Grant;
    fn told(&self) -> Told;

    /// The term, if it is one. It can be looked at from outside of its body.
    fn term(&self) -> Option<Leadership> {
        None
    }
}

impl<M: Mode> LentHold for MultiLockGuard<M> {
    fn grant(&self) -> Grant {
        Grant::new(
            &self.holder(),
            self.fencing_token(),
            self.validity(),
            self.cancellation_token(),
        )
    }

    fn told(&self) -> Told {
        Told::new(self.validity(), self.hold_count(), &self.votes())
    }
}

impl LentHold for Leadership {
    fn grant(&self) -> Grant {
        Grant::new(
            self.holder(),
            self.fencing_token(),
            self.validity(),
            self.cancellation_token(),
        )
    }

    fn told(&self) -> Told {
        Told::new(self.validity(), 1, &self.votes())
    }

    fn term(&self) -> Option<Leadership> {
        Some(self.clone())
    }
}

/// Facts that a new guard gives.
pub(crate) struct Grant {
    owner: String,
    token: u64,
    validity: Duration,
    cancelled: CancellationToken,
}

impl Grant {
    fn new(holder: &Holder, token: FencingToken, validity: Duration, cancelled: CancellationToken) -> Self {
        Self {
            owner: holder.redacted_owner().to_string(),
            token: token.get(),
            validity,
            cancelled,
        }
    }
}

/// Facts that a guard gives about its hold.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    validity: Duration,
    count: u64,
    against: usize,
}

impl Told {
    fn new(validity: Duration, count: u64, votes: &Votes) -> Self {
        Self {
            validity,
            count,
            against: against(votes),
        }
    }

    /// Facts about a hold, if it can be looked at from outside of a body.
    fn of(entry: &Out) -> Option<Self> {
        let guard = entry.guard();
        let of_guard = guard.map(|guard| Self::new(guard.validity(), guard.hold_count(), &guard.votes()));
        of_guard.or_else(|| entry.term.as_ref().map(LentHold::told))
    }
}

/// How many masters answered last that they do not keep a guard's hold.
fn against(votes: &Votes) -> usize {
    let denies = |vote: &Vote| matches!(vote, Vote::NotHeld | Vote::Refused { .. } | Vote::Revoked { .. });
    votes.iter().filter(|node| denies(&node.vote)).count()
}

/// Looks at every guard again and again: right before a validity is to end, and exactly then.
pub(crate) async fn watch(world: Arc<World>) {
    let tick = Duration::from_millis((ms_of(world.plan.length) / 64).max(20));
    let least = Duration::from_millis(1);
    loop {
        let next = match world.look(None) {
            Some(left) if left > least * 2 => left.saturating_sub(least).min(tick),
            Some(left) => left,
            None => tick,
        };
        tokio::time::sleep(next.max(least)).await;
    }
}

/// Time of a master's clock, in microseconds.
pub(crate) fn clock_us(master: &Master) -> u64 {
    let time = master.command(&["TIME"]).expect("a clock");
    let time: Vec<u64> = time
        .iter()
        .map(|digits| digits.parse().expect("digits"))
        .collect();
    time[0] * 1_000_000 + time[1]
}
