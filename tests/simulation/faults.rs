//! Faults that strike the masters at random, and their ends.

use std::sync::Arc;
use std::time::Duration;

use multilock::sim::{Cluster, Direction, Keep, Master};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, advance, sleep};

use crate::history::Kind;
use crate::plan::{Class, Late, Plan, ms, pick};
use crate::world::World;

/// A fault that lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Crash(Keep),
    Freeze,
    Slow(u64, u64),
    Notices(Option<u64>),
    HoldRequests,
    HoldReplies,
    Error(&'static str),
    OutOfMemory,
    /// Between one client and the master.
    Cut(usize, Direction),
}

/// A fault that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    FlushScripts,
    ForgetScript(&'static str),
    Reset,
    LoseReplies(usize),
    DeliverAbandoned,
    /// An operator flushes a master under clients that go on.
    FlushAll,
    /// An operator flushes a master, and its connections break.
    FlushAndReset,
    /// A master takes the snapshot that it may be restarted with later.
    Save,
    EvictLock,
    EvictFence,
    /// Somebody deletes a lock's keys on all masters.
    DeleteLock(&'static str),
    HostStops(u64),
    ClockForward(u64),
    /// By less than anybody may notice.
    ClockSlips(u64),
    ClockBack(u64),
    /// Another server, which has run for long and is in no set, takes a master's place.
    Replace,
    /// An operator deletes a master's record, and its connections break.
    DeleteRecord,
}

enum Fault {
    Lasting(Trouble),
    Sudden(Blow),
}

const ERRORS: [&str; 6] = [
    "BUSY Redis is busy running a script.",
    "LOADING Redis is loading the dataset in memory",
    "MISCONF Redis is configured to save RDB snapshots",
    "NOREPLICAS Not enough good replicas to write.",
    "READONLY You can't write against a read only replica.",
    "OOM command not allowed when used memory > 'maxmemory'.",
];

/// Longest time by which one master's clock slips in all. It is the drift of a lease of 200 ms, less the rounding of
/// masters.
pub(crate) const MOST_SLIPPED: Duration = ms(3);

/// How long requests and replies take, while nothing makes a master slower.
type Usual = Vec<(Duration, Duration)>;

/// Strikes until `end`, and then makes everything well again.
pub(crate) async fn strike(world: Arc<World>, mut rng: StdRng, end: Instant) {
    let mut active: Vec<(Instant, usize, Trouble)> = Vec::new();
    let near = prepare(&world, &mut rng);
    let mut slipped = vec![Duration::ZERO; world.plan.nodes];
    let mut usual = near.clone();
    // Drawn apart, so that seeds stand for the same schedules as before.
    let mut rng_steps = StdRng::seed_from_u64(world.plan.seed ^ 0x57e9_ac70);
    // From rarely to all the time.
    let pace = pick(&mut rng, &[60, 150, 400, 1200]);
    while Instant::now() < end {
        sleep(ms(rng.random_range(1..=pace))).await;
        let now = Instant::now();
        let slower = usual_now(&world, &near);
        if slower != usual {
            usual = slower;
            settle_in(&world, &usual);
        }
        active.retain(|(until, place, trouble)| {
            let over = *until <= now;
            if over {
                cease(&world, *place, *trouble, &usual);
            }
            !over
        });
        if world.plan.steps && rng_steps.random_bool(0.2) {
            let mut masters: Vec<_> = (0..world.plan.nodes).collect();
            masters.shuffle(&mut rng_steps);
            masters.truncate(rng_steps.random_range(1..=world.plan.nodes));
            for master in masters {
                let step = Blow::ClockForward(rng_steps.random_range(1000..6000));
                deal(&world, master, step).await;
            }
        }
        let struck = rng.random_range(0..world.plan.nodes);
        match draw(&world.plan, &mut rng) {
            Fault::Sudden(Blow::ClockSlips(time)) => {
                slipped[struck] += ms(time);
                // A longer slip in all may exceed the drift of the shortest lease.
                if slipped[struck] <= MOST_SLIPPED {
                    deal(&world, struck, Blow::ClockSlips(time)).await;
                }
            }
            Fault::Sudden(blow) => deal(&world, struck, blow).await,
            Fault::Lasting(trouble) => {
                if active.iter().any(|(_, other, _)| *other == struck) {
                    continue;
                }
                begin(&world, struck, trouble);
                let lasts = if rng.random_bool(0.7) {
                    rng.random_range(1..200)
                } else {
                    rng.random_range(200..4000)
                };
                active.push((now + ms(lasts), struck, trouble));
            }
        }
    }
    for (_, place, trouble) in active {
        cease(&world, place, trouble, &usual);
    }
    heal(&world);
}

/// Sets up the conditions of the whole run. Returns the distances of the masters.
fn prepare(world: &World, rng: &mut StdRng) -> Usual {
    let class = world.plan.class;
    let far = rng.random_bool(0.5);
    let near: Usual = world
        .cluster
        .iter()
        .map(|_| {
            if far {
                (ms(rng.random_range(0..8)), ms(rng.random_range(0..8)))
            } else {
                (Duration::ZERO, Duration::ZERO)
            }
        })
        .collect();
    settle_in(world, &near);
    if matches!(class, Class::Stale | Class::Reckless) {
        let deny = rng.random_bool(0.5);
        for master in world.cluster.iter() {
            master.keep_abandoned(true);
            master.deny_client_kill(deny);
        }
    }
    near
}

/// Distances of the masters, with the delays of the masters that are late at the moment.
fn usual_now(world: &World, near: &Usual) -> Usual {
    let now = world.history.now();
    let late = world.plan.late.as_ref();
    let late = late.filter(|late| (late.from..late.until).contains(&now));
    let is_late = |place| late.filter(|late: &&Late| late.masters.contains(&place));
    near.iter()
        .enumerate()
        .map(|(place, near)| is_late(place).map_or(*near, |late| (late.request, late.reply)))
        .collect()
}

fn settle_in(world: &World, usual: &Usual) {
    note(world, format!("requests and replies take {usual:?}"), &[], &[]);
    for (master, (request, reply)) in world.cluster.iter().zip(usual) {
        master.set_delay(*request, *reply);
    }
}

fn draw(plan: &Plan, rng: &mut StdRng) -> Fault {
    use Fault::{Lasting, Sudden};
    let (class, clients) = (plan.class, plan.clients);
    if rng.random_bool(0.05) {
        return Sudden(Blow::ClockSlips(rng.random_range(1..=2)));
    }
    let slow = |rng: &mut StdRng| {
        let most = pick(rng, &[5, 30, 120]);
        Lasting(Trouble::Slow(
            rng.random_range(0..most),
            rng.random_range(0..most),
        ))
    };
    let gentle = |rng: &mut StdRng| match rng.random_range(0..5) {
        0 => Sudden(Blow::FlushScripts),
        1 => Sudden(Blow::ForgetScript(pick(
            rng,
            &["acquire", "release", "extend", "downgrade"],
        ))),
        2 => {
            let delay = rng.random_range(0..300);
            Lasting(Trouble::Notices(rng.random_bool(0.5).then_some(delay)))
        }
        _ => slow(rng),
    };
    if class == Class::Calm || rng.random_bool(0.2) {
        return gentle(rng);
    }
    if class == Class::Stale && rng.random_bool(0.5) {
        return match rng.random_range(0..4) {
            0 => Lasting(Trouble::HoldRequests),
            1 => Sudden(Blow::Reset),
            _ => Sudden(Blow::DeliverAbandoned),
        };
    }
    if class == Class::Forgetful && rng.random_bool(0.3) {
        return match rng.random_range(0..8) {
            0 | 1 => Sudden(Blow::Replace),
            2 => Sudden(Blow::FlushAndReset),
            3 => Sudden(Blow::Save),
            4 | 5 => Lasting(Trouble::Crash(Keep::Saved)),
            _ => Lasting(Trouble::Crash(Keep::Nothing)),
        };
    }
    if class == Class::Forced && rng.random_bool(0.1) {
        return Sudden(Blow::DeleteLock(pick(rng, &plan.names)));
    }
    if class == Class::Reckless && rng.random_bool(0.5) {
        return match rng.random_range(0..8) {
            6 => Sudden(Blow::ClockForward(rng.random_range(1..6000))),
            7 => Sudden(Blow::ClockBack(rng.random_range(1..6000))),
            0 => Sudden(Blow::FlushAll),
            1 | 2 => Sudden(Blow::EvictLock),
            3 => Sudden(Blow::EvictFence),
            4 => Sudden(Blow::HostStops(rng.random_range(1..3000))),
            _ => Lasting(Trouble::Crash(Keep::Nothing)),
        };
    }
    match rng.random_range(0..17) {
        16 => Sudden(Blow::DeleteRecord),
        12 => Sudden(Blow::LoseReplies(1)),
        13..=15 => {
            let ways = [Direction::ToMaster, Direction::ToClient, Direction::Both];
            Lasting(Trouble::Cut(rng.random_range(0..clients), pick(rng, &ways)))
        }
        0 | 1 => Lasting(Trouble::Crash(Keep::Data)),
        2 => Lasting(Trouble::Freeze),
        3 | 4 => Lasting(Trouble::HoldRequests),
        5 | 6 => Lasting(Trouble::HoldReplies),
        7 => Lasting(Trouble::Error(pick(rng, &ERRORS))),
        8 => Lasting(Trouble::OutOfMemory),
        9 => Sudden(Blow::LoseReplies(rng.random_range(1..4))),
        10 => Sudden(Blow::Reset),
        _ => slow(rng),
    }
}

fn begin(world: &World, place: usize, trouble: Trouble) {
    let master = world.cluster.master(place);
    note(world, format!("m{place}: {trouble:?}"), &[], &[]);
    match trouble {
        Trouble::Crash(_) => master.crash(),
        Trouble::Freeze => master.freeze(),
        Trouble::Slow(there, back) => master.set_delay(ms(there), ms(back)),
        Trouble::Notices(Some(delay)) => master.set_notice_delay(Some(ms(delay))),
        Trouble::Notices(None) => master.lose_notices(true),
        Trouble::HoldRequests => master.hold_requests(true),
        Trouble::HoldReplies => master.hold_replies(true),
        Trouble::Error(line) => master.answer_with(Some(line)),
        Trouble::OutOfMemory => master.out_of_memory(true),
        Trouble::Cut(client, way) => world.networks[client].cut(place, way),
    }
}

fn cease(world: &World, place: usize, trouble: Trouble, usual: &Usual) {
    let master = world.cluster.master(place);
    let forgets = [place];
    let forgets: &[usize] = match trouble {
        Trouble::Crash(Keep::Nothing | Keep::Saved) => &forgets,
        _ => &[],
    };
    note(world, format!("m{place}: end of {trouble:?}"), forgets, forgets);
    match trouble {
        Trouble::Crash(keep) => master.restart(keep),
        Trouble::Freeze => master.thaw(),
        Trouble::Slow(..) => master.set_delay(usual[place].0, usual[place].1),
        Trouble::Notices(Some(_)) => master.set_notice_delay(None),
        Trouble::Notices(None) => master.lose_notices(false),
        Trouble::HoldRequests => master.hold_requests(false),
        Trouble::HoldReplies => master.hold_replies(false),
        Trouble::Error(_) => master.answer_with(None),
        Trouble::OutOfMemory => master.out_of_memory(false),
        Trouble::Cut(client, _) => world.networks[client].heal(place),
    }
}

async fn deal(world: &World, place: usize, blow: Blow) {
    let master = world.cluster.master(place);
    let at = [place];
    let (locks, fences): (&[usize], &[usize]) = match blow {
        Blow::FlushAll | Blow::FlushAndReset | Blow::Replace => (&at, &at),
        Blow::EvictLock => (&at, &[]),
        Blow::EvictFence => (&[], &at),
        _ => (&[], &[]),
    };
    if let Blow::ClockSlips(time) | Blow::ClockForward(time) = blow {
        let by = ms(time);
        world.history.note(None, Kind::Slipped { master: place, by });
    }
    match blow {
        Blow::ClockSlips(_) => {}
        Blow::ClockBack(time) => {
            let by = ms(time);
            world.history.note(None, Kind::SetBack { master: place, by });
        }
        Blow::DeleteLock(name) => {
            let keys = world.lock_keys().into_iter();
            let owners = keys
                .filter(|(_, key, _)| key == name)
                .flat_map(|(.., owners)| owners);
            let (name, owners) = (name.to_owned(), owners.collect());
            world.history.note(None, Kind::Deleted { name, owners });
        }
        _ => note(world, format!("m{place}: {blow:?}"), locks, fences),
    }
    let evict = |key: String| {
        master.evict(&key);
    };
    match blow {
        Blow::FlushScripts => master.flush_scripts(),
        Blow::ForgetScript(script) => master.forget_script(script),
        Blow::Reset => master.reset_connections(),
        Blow::ClockForward(time) | Blow::ClockSlips(time) => master.set_clock_forward(ms(time)),
        Blow::ClockBack(time) => master.set_clock_back(ms(time)),
        Blow::LoseReplies(count) => master.lose_replies(count),
        Blow::DeliverAbandoned => {
            master.deliver_abandoned();
        }
        Blow::FlushAll => master.flush_all(),
        Blow::FlushAndReset => {
            master.flush_all();
            master.reset_connections();
        }
        Blow::Save => master.save(),
        Blow::EvictLock => world.plan.names.iter().for_each(|name| evict((*name).to_owned())),
        Blow::EvictFence => {
            let fence = |name: &&str| evict(format!("multilock_fence:{{{name}}}"));
            world.plan.names.iter().for_each(fence);
        }
        Blow::DeleteLock(name) => {
            for master in world.cluster.iter() {
                master.evict(name);
            }
        }
        // The troubles of the old server go with it, and it never comes back.
        Blow::Replace => master.change_places(Cluster::new(1).master(0)),
        Blow::DeleteRecord => {
            evict("multilock_set".to_owned());
            master.reset_connections();
        }
        Blow::HostStops(time) => advance(ms(time)).await,
    }
}

fn heal(world: &World) {
    for master in world.cluster.iter() {
        heal_master(master);
    }
    note(world, "all is well again".into(), &[], &[]);
}

fn heal_master(master: &Master) {
    master.deliver_abandoned();
    master.keep_abandoned(false);
    master.deny_client_kill(false);
    master.set_delay(Duration::ZERO, Duration::ZERO);
    master.lose_replies(0);
}

fn note(world: &World, what: String, forgets: &[usize], forgets_fences: &[usize]) {
    let (forgets, forgets_fences) = (forgets.to_vec(), forgets_fences.to_vec());
    let fault = Kind::Fault {
        what,
        forgets,
        forgets_fences,
    };
    world.history.note(None, fault);
}
