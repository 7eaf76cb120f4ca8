//! What the actors of a run share: the masters, the record, and every guard that is out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use multilock::sim::{Cluster, Master, Network};
use multilock::{Either, Mode, MultiLockGuard, Vote};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio_util::task::AbortOnDropHandle;

use crate::crowd;
use crate::history::{History, HoldFacts, HoldId, Kind, Sight, shortened};
use crate::plan::{Plan, ms_of};

/// Keys of the crate that are no locks and have no end.
const KEPT: [&str; 2] = ["multilock_marker", "multilock_charter"];

/// A guard and the hold it is in.
#[derive(Debug)]
pub(crate) struct Mine {
    pub(crate) hold: HoldId,
    pub(crate) names: Vec<String>,
    pub(crate) guard: Arc<MultiLockGuard<Either>>,
}

/// What is known of a hold that somebody has a guard of.
#[derive(Default)]
struct Out {
    guards: Vec<Weak<MultiLockGuard<Either>>>,
    /// Those of them that have it renewed.
    renewing: Vec<Weak<MultiLockGuard<Either>>>,
    /// Guards that are in although nobody has them: leaked, or lent to a body.
    unseen: u64,
    /// Until when nobody else may have it although nobody has it any more: it was leaked, or its names are kept.
    leaked_until: Option<Duration>,
    /// Until when its names are kept if it is given up before.
    kept_until: Duration,
    watch: Option<AbortOnDropHandle<()>>,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) cluster: Cluster,
    /// What lies between each client and the masters.
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
        guard: impl Into<MultiLockGuard<Either>>,
    ) -> Mine {
        let guard = Arc::new(guard.into());
        let hold = self.note_grant(client, terms, names, &guard);
        self.out(|out| {
            let out = out.entry(hold).or_default();
            out.guards.push(Arc::downgrade(&guard));
            if terms.renews {
                out.renewing.push(Arc::downgrade(&guard));
            }
            // From here on its validity may be prolonged.
            out.leaked_until = None;
        });
        self.look(None);
        Mine {
            hold,
            names: names.to_vec(),
            guard,
        }
    }

    /// As [`granted`](Self::granted), for a guard that is lent.
    pub(crate) fn lent<M: Mode>(
        self: &Arc<Self>,
        client: usize,
        terms: Terms,
        names: &[String],
        guard: &MultiLockGuard<M>,
    ) -> HoldId {
        let hold = self.note_grant(client, terms, names, guard);
        self.out(|out| out.entry(hold).or_default().unseen += 1);
        self.look(Some((hold, Told::by(guard))));
        hold
    }

    /// The body to which a guard was lent has ended, and its hold may have been lost before.
    pub(crate) fn returned(&self, hold: HoldId, is_valid: bool) {
        let now = self.history.now();
        self.out(|out| {
            let Some(entry) = out.get_mut(&hold) else { return };
            entry.unseen -= 1;
            if entry.unseen == 0 && entry.guards.is_empty() {
                close(out, hold, now, is_valid);
            }
        });
    }

    fn note_grant<M: Mode>(
        self: &Arc<Self>,
        client: usize,
        terms: Terms,
        names: &[String],
        guard: &MultiLockGuard<M>,
    ) -> HoldId {
        let owner = guard.holder().to_string();
        let token = guard.fencing_token().get();
        let out: Vec<HoldId> = self.out(|out| out.keys().copied().collect());
        let is_out = |hold| out.contains(&hold);
        let (hold, again) = self.history.hold(&owner, is_out, || HoldFacts {
            client,
            owner: owner.clone(),
            names: names.to_vec(),
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
                min_validity: terms.min_validity,
                validity: guard.validity(),
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
        });
        if !again {
            let (world, token) = (Arc::clone(self), guard.cancellation_token());
            let watch = AbortOnDropHandle::new(tokio::spawn(async move {
                token.cancelled().await;
                let validity = world.validity_of(hold).unwrap_or_default();
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

    fn validity_of(&self, hold: HoldId) -> Option<Duration> {
        self.out(|out| {
            let guards = &out.get(&hold)?.guards;
            Some(guards.iter().find_map(Weak::upgrade)?.validity())
        })
    }

    /// Takes note that a guard is about to be given up; the guard itself.
    pub(crate) fn give_up(&self, client: usize, mine: Mine, how: &'static str) -> MultiLockGuard<Either> {
        let Mine { hold, guard, .. } = mine;
        let last = self.out(|out| {
            let entry = out.get_mut(&hold).expect("given out");
            entry
                .guards
                .retain(|other| other.upgrade().is_some_and(|other| !Arc::ptr_eq(&other, &guard)));
            let alone = entry.guards.is_empty() && entry.unseen == 0;
            let now = self.history.now();
            if how == "leak" {
                entry.unseen += 1;
                entry.leaked_until = alone.then(|| now + guard.validity());
            } else if alone {
                close(out, hold, now, guard.is_valid());
            }
            alone
        });
        self.history.note(Some(client), Kind::GivenUp { hold, how, last });
        Arc::into_inner(guard).expect("nobody else has it")
    }

    /// Writes to the resource behind every name that a guard holds, as one that looked at its validity
    /// long ago may.
    pub(crate) fn write(&self, client: usize, mine: &Mine) {
        let token = mine.guard.fencing_token().get();
        for name in &mine.names {
            let mut resource = self.resource.lock().expect("not poisoned");
            let seen = resource.entry(name.clone()).or_default();
            let accepted = token >= *seen;
            *seen = token.max(*seen);
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
                let guards: Vec<_> = entry.guards.iter().filter_map(Weak::upgrade).collect();
                let told = guards.first().map(|guard| Told::by(guard));
                let told = told.or_else(|| lent.filter(|(lent, _)| lent == hold).map(|(_, told)| told));
                let count = guards.len() as u64 + entry.unseen;
                if let Some(told) = told {
                    sights.push(Sight {
                        hold: *hold,
                        validity: told.validity,
                        signalled: told.signalled,
                        count: told.count,
                        expected: count,
                        against: told.against,
                        renewed: entry.renewing.iter().any(|guard| guard.strong_count() > 0),
                        on: 0,
                    });
                } else if let Some(until) = entry.leaked_until.filter(|until| *until > now) {
                    sights.push(Sight {
                        hold: *hold,
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
                sight.on = self.masters_with(sight.hold);
            }
        }
        let validities = sights.iter().map(|sight| sight.validity);
        let shortest = validities.filter(|validity| !validity.is_zero()).min();
        if !sights.is_empty() {
            self.history.note(None, Kind::Seen(sights));
        }
        shortest
    }

    fn masters_with(&self, hold: HoldId) -> usize {
        let (owner, names) = self.history.with(|record| {
            let facts = &record.holds[hold];
            (facts.owner.clone(), facts.names.clone())
        });
        let has = |master: &&Master, name: &String| {
            let fields = master.fields(name);
            fields.iter().step_by(2).any(|field| shortened(field) == owner)
        };
        let on = |name: &String| self.cluster.iter().filter(|master| has(master, name)).count();
        names.iter().map(on).min().unwrap_or(0)
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

    /// What the masters keep of locks, as `(master, name, owner)`.
    pub(crate) fn lock_keys(&self) -> Vec<(usize, String, String)> {
        let mut found = Vec::new();
        for (place, master) in self.cluster.iter().enumerate() {
            for key in master
                .locks()
                .into_iter()
                .filter(|key| !KEPT.contains(&key.as_str()))
            {
                let fields = master.fields(&key);
                let owners = fields.iter().step_by(2).map(|field| shortened(field));
                let owners: Vec<String> = owners.collect();
                found.push((place, key, owners.join(" ")));
            }
        }
        found
    }

    /// Whether a key is a lock that anybody of the run asks for.
    pub(crate) fn is_lock(&self, key: &str) -> bool {
        self.plan.names.contains(&key) || key.starts_with(crowd::PREFIX)
    }

    /// A client was closed: what it leaked is nobody's any more.
    pub(crate) fn forget_leaks_of(&self, client: usize) {
        let holds = self.history.with(|record| record.holds.clone());
        self.out(|out| {
            out.retain(|hold, entry| !entry.guards.is_empty() || holds[*hold].client != client);
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

/// The last guard of a hold goes. One that was valid leaves its names kept for as long as was asked for.
fn close(out: &mut BTreeMap<HoldId, Out>, hold: HoldId, now: Duration, is_valid: bool) {
    match out.get_mut(&hold) {
        Some(entry) if is_valid && entry.kept_until > now => {
            entry.unseen += 1;
            entry.leaked_until = Some(entry.kept_until);
        }
        _ => drop(out.remove(&hold)),
    }
}

/// What a guard says of its hold.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    validity: Duration,
    signalled: bool,
    count: u64,
    against: usize,
}

impl Told {
    pub(crate) fn by<M: Mode>(guard: &MultiLockGuard<M>) -> Self {
        Self {
            validity: guard.validity(),
            signalled: guard.cancellation_token().is_cancelled(),
            count: guard.hold_count(),
            against: against(guard),
        }
    }
}

/// How many masters answered last that they do not keep a guard's hold.
fn against<M: Mode>(guard: &MultiLockGuard<M>) -> usize {
    let votes = guard.votes();
    let denies = |vote: &Vote| matches!(vote, Vote::NotHeld | Vote::Refused { .. } | Vote::Revoked);
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

/// What a master's clock shows, in microseconds.
pub(crate) fn clock_us(master: &Master) -> u64 {
    let time = master.command(&["TIME"]).expect("a clock");
    let time: Vec<u64> = time
        .iter()
        .map(|digits| digits.parse().expect("digits"))
        .collect();
    time[0] * 1_000_000 + time[1]
}
