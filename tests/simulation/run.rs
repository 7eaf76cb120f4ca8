//! One run: faults and actors at random, then peace, then the end. It includes the conditions that must hold
//! throughout.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use multilock::Closing;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::actor::Actor;
use crate::client::Seat;
use crate::crowd;
use crate::faults::strike;
use crate::guard::Lock;
use crate::history::{Kind, Record};
use crate::opening;
use crate::operator::operate;
use crate::partitions;
use crate::plan::{Class, Crowd, Late, Plan};
use crate::tap::Tap;
use crate::world::{World, watch};

/// Runs the schedule of a seed from its beginning to its end.
pub(crate) fn run(seed: u64) -> Record {
    in_paused_time(schedule(Plan::of_seed(seed)))
}

async fn schedule(plan: Plan) -> Record {
    let world = World::new(plan.clone());
    let tap = Tap::on(&world, &[]);
    let tasks = tasks();
    let mut seats = Vec::new();
    for place in 0..plan.clients {
        seats.push(Seat::take(&world, place).await);
    }
    let watching = tokio::spawn(watch(Arc::clone(&world)));
    if let Some(opening) = &plan.opening {
        let rng = StdRng::seed_from_u64(plan.seed ^ 0x09e4);
        opening::open(&world, &seats, opening, rng).await;
    }
    let end = Instant::now() + plan.length;
    tap.striking.store(true, Ordering::Relaxed);
    let mut rng = StdRng::seed_from_u64(plan.seed ^ 0xac70);
    let faults = tokio::spawn(strike(
        Arc::clone(&world),
        StdRng::seed_from_u64(rng.random()),
        end,
    ));
    let mut actors = Vec::new();
    if plan.partitioned {
        let rng = StdRng::seed_from_u64(plan.seed ^ 0x9a27_ac70);
        actors.push(tokio::spawn(partitions::turn(Arc::clone(&world), rng, end)));
    }
    for seat in &seats {
        for _ in 0..seat.plan.tasks {
            let actor = Actor::new(&world, seat, StdRng::seed_from_u64(rng.random()));
            actors.push(tokio::spawn(actor.act(end)));
        }
    }
    // Drawn apart, so that seeds stand for the same schedules as before.
    let mut rng_permits = StdRng::seed_from_u64(plan.seed ^ 0x9e12_ac70);
    for seat in &seats {
        for _ in 0..plan.permit_tasks {
            let actor = Actor::new(&world, seat, StdRng::seed_from_u64(rng_permits.random()));
            actors.push(tokio::spawn(actor.take_permits(end)));
        }
    }
    let mut rng_candidates = StdRng::seed_from_u64(plan.seed ^ 0x1ead_ac70);
    for seat in &seats {
        for _ in 0..plan.candidates {
            let actor = Actor::new(&world, seat, StdRng::seed_from_u64(rng_candidates.random()));
            actors.push(tokio::spawn(actor.campaign(end)));
        }
    }
    if let Some(pace) = plan.operator {
        let rng = StdRng::seed_from_u64(rng.random());
        let operator = operate(Arc::clone(&world), seats.clone(), pace, rng, end);
        actors.push(tokio::spawn(operator));
    }
    if let Some(Crowd::Throughout(count)) = plan.crowd {
        let rng = StdRng::seed_from_u64(rng.random());
        let crowd = crowd::come_and_go(Arc::clone(&world), Arc::clone(&seats[0]), count, rng, end);
        actors.push(tokio::spawn(crowd));
    }
    faults.await.expect("no panic");
    tap.striking.store(false, Ordering::Relaxed);
    for actor in actors {
        actor.await.expect("no panic");
    }
    end_in_peace(&world, &seats, watching, tasks).await
}

/// Sees to it that nothing is wrong in the end.
pub(crate) async fn end_in_peace(
    world: &Arc<World>,
    seats: &[Arc<Seat>],
    watching: JoinHandle<()>,
    tasks: usize,
) -> Record {
    peace(world, seats).await;
    watching.abort();
    let _ = watching.await;
    finish(world, seats, tasks).await;
    world.history.with(std::mem::take)
}

/// Runs something from the beginning of its own time.
pub(crate) fn in_paused_time<T>(run: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(run)
}

/// From here on every client asks for every name, and nothing goes wrong.
pub(crate) const ASKING: &str = "everybody asks for everything";

/// Fields that the masters keep for nobody.
fn orphans(world: &Arc<World>, seats: &[Arc<Seat>]) -> Vec<(usize, String, String)> {
    let out = world.owners_out();
    let mut orphans = world.kept();
    orphans.retain(|(_, _, owner)| !out.contains(owner));
    // Names that stay with a client while nobody holds them are no orphans.
    let staying: usize = seats.iter().map(|seat| seat.masters().status().idle).sum();
    let sticky: BTreeSet<_> = orphans
        .iter()
        .map(|(_, _, owner)| owner.clone())
        .filter(|owner| owner.ends_with('s'))
        .collect();
    if sticky.len() <= staying {
        orphans.retain(|(_, _, owner)| !sticky.contains(owner));
    }
    orphans
}

/// Everything works again. Nothing may be left of locks that were given up, and every client gets every name.
async fn peace(world: &Arc<World>, seats: &[Arc<Seat>]) {
    let plan = &world.plan;
    phase(world, "peace");
    // Time for clients to notice, to connect again and to send pending releases.
    sleep(Duration::from_secs(3)).await;
    let mut orphans = orphans(world, seats);
    if !orphans.is_empty() {
        // The release of a name that stayed with a client may be on its way.
        sleep(Duration::from_millis(100)).await;
        let before = std::mem::take(&mut orphans);
        orphans = self::orphans(world, seats);
        orphans.retain(|orphan| before.contains(orphan));
    }
    left(
        world,
        "after the faults",
        orphans
            .into_iter()
            .map(|(master, key, owner)| format!("{key} of {owner} on m{master}")),
    );
    if !orphans_allowed(plan.class) {
        left(
            world,
            "in the queues while nobody waits",
            world.waiters().into_iter(),
        );
    }
    let quarantine = plan.max_lease.mul_f64(1.01) + Duration::from_secs(2);
    sleep(quarantine).await;
    let patience = plan.max_lease + Duration::from_secs(20);
    phase(world, ASKING);
    forget_a_script(world);
    // Two tasks of each client, so that one waits behind the other in its line.
    let of_seat = |seat| plan.names.iter().flat_map(move |name| [(seat, *name); 2]);
    let asking = seats.iter().flat_map(of_seat);
    join_all(asking.map(async |(seat, name)| {
        let lock = seat.masters().multi_lock(name).wait(patience);
        let lock = Lock::of(lock, plan.kinds.of_turn(seat.place));
        let error = match lock.lock().await {
            Ok(guard) => guard.unlock().await.err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        let name = name.to_owned();
        world
            .history
            .note(Some(seat.place), Kind::Progress { name, error });
    }))
    .await;
    sleep(Duration::from_secs(1)).await;
    left(
        world,
        "in the queues once all had all",
        world.waiters().into_iter(),
    );
    let channels = world.cluster.iter().flat_map(multilock::sim::Master::channels);
    // A client keeps the channel on which it is called.
    let others = channels.filter(|channel| !channel.starts_with("multilock:"));
    left(world, "as subscriptions while nobody waits", others);
    idle(world, "to do while nobody wants anything").await;
    if plan.class == Class::Calm {
        // A client that takes a memory for wiped introduces itself again.
        let masters = world.cluster.iter().enumerate();
        let doubted = masters.filter(|(_, master)| master.executed().contains_key("introduce"));
        left(
            world,
            "to introduce, at masters that forgot nothing",
            doubted.map(|(place, _)| format!("m{place}")),
        );
    }
    if let Some(late) = &plan.late {
        be_late(world, seats, late).await;
    }
}

/// Lets some masters forget one script, in one of two runs. Its calls are sent again, behind those that came after them.
fn forget_a_script(world: &Arc<World>) {
    let mut rng = StdRng::seed_from_u64(world.plan.seed ^ 0xf029_e751);
    let scripts = ["acquire", "release", "withdraw", "extend"];
    let script = scripts[rng.random_range(0..scripts.len())];
    if rng.random_bool(0.5) {
        for master in world.cluster.iter().filter(|_| rng.random_bool(0.7)) {
            master.forget_script(script);
        }
    }
}

/// For so long a waiter's ticket counts after it has asked (`lua/queue.lua`).
const TICKET: Duration = Duration::from_secs(15);

/// No task wants a lock, so no client may ask the masters for anything. Clients only repeat their labels now and then.
async fn idle(world: &World, when: &'static str) {
    let executed = || {
        world.cluster.iter().map(|master| {
            let mut executed = master.executed();
            executed.remove("label");
            executed
        })
    };
    let before: Vec<_> = executed().collect();
    sleep(Duration::from_secs(7)).await;
    let busy = executed().zip(before).enumerate();
    let busy = busy.filter(|(_, (now, before))| now != before);
    left(world, when, busy.map(|(place, _)| format!("calls to m{place}")));
}

/// Masters are late once more, and every client asks for every name. All work that follows comes to an end all the
/// same.
async fn be_late(world: &Arc<World>, seats: &[Arc<Seat>], late: &Late) {
    let delay = |request, reply| {
        for place in &late.masters {
            world.cluster.master(*place).set_delay(request, reply);
        }
    };
    delay(late.request, late.reply);
    let names = &world.plan.names;
    let asking = seats
        .iter()
        .flat_map(|seat| names.iter().map(move |name| (seat, *name)));
    join_all(asking.map(async |(seat, name)| {
        if let Ok(guard) = seat.masters().red_lock(name).try_lock().await {
            let _ = guard.unlock().await;
        }
    }))
    .await;
    sleep(Duration::from_secs(3)).await;
    idle(world, "to do while nobody wants anything, and masters are late").await;
    delay(Duration::ZERO, Duration::ZERO);
    sleep(Duration::from_secs(1)).await;
}

async fn finish(world: &Arc<World>, seats: &[Arc<Seat>], tasks: usize) {
    phase(world, "the end");
    let crowd = match world.plan.crowd {
        Some(Crowd::AtTheEnd(count)) => crowd::take(world, &seats[0], count).await,
        _ => Vec::new(),
    };
    join_all(seats.iter().map(|seat| async {
        seat.close(&seat.masters(), Closing::Release).await;
    }))
    .await;
    world.forget_all();
    sleep(Duration::from_millis(20)).await;
    let running = self::tasks().saturating_sub(tasks);
    left(
        world,
        "running after closing",
        (running > 0).then(|| format!("{running} tasks")).into_iter(),
    );
    let channels = world.cluster.iter().flat_map(multilock::sim::Master::channels);
    left(world, "as subscriptions after closing", channels);
    drop(crowd);
    let of_crowd = keys_left(world).filter(|text| text.starts_with(crowd::PREFIX));
    left(world, "on masters after closing", of_crowd);
    sleep(world.plan.max_lease.max(TICKET) + Duration::from_secs(1)).await;
    left(world, "after the longest lease", keys_left(world));
    let keys = world.cluster.iter().flat_map(multilock::sim::Master::keys);
    let queues = keys.filter(|key| {
        let kinds = ["queue", "readers_queue", "deadlines", "permits"];
        kinds
            .iter()
            .any(|kind| key.starts_with(&format!("multilock_{kind}:")))
    });
    left(
        world,
        "as queues and numbers of permits when all tickets have ended",
        queues,
    );
}

fn keys_left(world: &World) -> impl Iterator<Item = String> {
    let keys = world.lock_keys().into_iter();
    keys.map(|(master, key, owners)| format!("{key} of {} on m{master}", owners.join(" ")))
}

fn phase(world: &World, name: &'static str) {
    world.history.note(None, Kind::Phase(name));
}

fn left(world: &World, when: &'static str, what: impl Iterator<Item = String>) {
    // A key that a closed client or a late socket left behind goes with its lease.
    world.history.note(
        None,
        Kind::Left {
            when,
            what: what.collect(),
        },
    );
}

pub(crate) fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Whether an orphan may last until its lease ends.
pub(crate) fn orphans_allowed(class: Class) -> bool {
    matches!(class, Class::Stale | Class::Reckless)
}
