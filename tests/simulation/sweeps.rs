//! Exhaustive sweeps: one scenario again and again, each time with another call, or pair of calls, that
//! is late, lost or cut off. No count, no token and no key may be wrong for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use multilock::Owner;
use multilock::sim::Fate;
use tokio::time::sleep;

use crate::ask::{Ask, leave};
use crate::client::Seat;
use crate::history::Record;
use crate::plan::{Class, Plan, ms};
use crate::properties::judge;
use crate::run::{end_in_peace, in_paused_time, tasks};
use crate::scene;
use crate::tap::Tap;
use crate::world::{World, watch};

/// Each call on its own: late by less than a node deadline, by more, by more than a lease; answered as
/// late; never answered; cut off before and after.
const FATES: [Fate; 9] = [
    Fate::RequestDelayed(ms(30)),
    Fate::RequestDelayed(ms(120)),
    Fate::RequestDelayed(ms(2500)),
    Fate::ReplyDelayed(ms(30)),
    Fate::ReplyDelayed(ms(120)),
    Fate::ReplyDelayed(ms(2500)),
    Fate::ReplyLost,
    Fate::ResetBefore,
    Fate::ResetAfter,
];

/// In pairs.
const PAIRED: [Fate; 4] = [
    Fate::RequestDelayed(ms(120)),
    Fate::ReplyLost,
    Fate::ResetBefore,
    Fate::ResetAfter,
];

const LEASE: Duration = ms(900);

#[derive(Clone, Copy)]
enum Scenario {
    /// Lock, unlock, and a rival.
    Small,
    /// Lock, enter again for longer, be renewed, leave, unlock, and a rival in between and after.
    Large,
    /// Write, read inside, and leave the write lock. Another client reads beside it, and a rival writes after it.
    Shared,
}

pub(crate) fn every_call() {
    for scenario in [Scenario::Large, Scenario::Shared] {
        let calls = calls(scenario);
        assert!(calls > 20, "{calls} calls");
        let mut runs = 0;
        for late in [false, true] {
            for call in 0..calls {
                for fate in FATES {
                    check(scenario, &[(call, fate)], late);
                    runs += 1;
                }
            }
        }
        println!("sweep of single calls: {calls} calls, {runs} runs");
    }
}

pub(crate) fn every_pair() {
    let calls = calls(Scenario::Small);
    let mut runs = 0;
    for one in 0..calls {
        for other in one + 1..calls {
            for (first, second) in PAIRED
                .iter()
                .flat_map(|first| PAIRED.map(|second| (*first, second)))
            {
                check(Scenario::Small, &[(one, first), (other, second)], false);
                runs += 1;
            }
        }
    }
    println!("sweep of pairs: {calls} calls, {runs} runs");
}

/// How many calls the scenario takes when all goes well.
fn calls(scenario: Scenario) -> usize {
    in_paused_time(play(scenario, &[], false)).1
}

fn check(scenario: Scenario, fates: &[(usize, Fate)], late: bool) {
    let plan = plan(late);
    let (record, _) = in_paused_time(play(scenario, fates, late));
    let violations = judge(&plan, &record);
    if let Some(first) = violations.first() {
        let marked: Vec<_> = violations.iter().flat_map(|found| found.events.clone()).collect();
        println!("{}", record.render(&marked));
        panic!(
            "violated: {}: {}; fates {fates:?}, late {late}",
            first.property, first.what
        );
    }
}

fn plan(late: bool) -> Plan {
    let class = if late { Class::Stale } else { Class::Durable };
    Plan {
        max_lease: ms(2000),
        length: ms(2000),
        ..scene::plan(class, LEASE)
    }
}

/// With `late`, requests that a broken connection had not delivered arrive up to half a second later.
async fn play(scenario: Scenario, fates: &[(usize, Fate)], late: bool) -> (Record, usize) {
    let world = World::new(plan(late));
    let tasks = tasks();
    let seats = [Seat::take(&world, 0).await, Seat::take(&world, 1).await];
    let tap = Tap::on(&world, fates);
    let watching = tokio::spawn(watch(Arc::clone(&world)));
    let delivery = late.then(|| tokio::spawn(deliver_late(Arc::clone(&world))));
    match scenario {
        Scenario::Small => small(&world, &seats).await,
        Scenario::Large => large(&world, &seats).await,
        Scenario::Shared => shared(&world, &seats).await,
    }
    let calls = tap.sent.load(Ordering::Relaxed);
    if let Some(delivery) = delivery {
        delivery.abort();
        let _ = delivery.await;
        for master in world.cluster.iter() {
            master.deliver_abandoned();
            master.keep_abandoned(false);
            master.deny_client_kill(false);
        }
    }
    // Delayed requests and replies have time to arrive.
    sleep(ms(2500)).await;
    (end_in_peace(&world, &seats, watching, tasks).await, calls)
}

async fn deliver_late(world: Arc<World>) {
    for master in world.cluster.iter() {
        master.keep_abandoned(true);
        master.deny_client_kill(true);
    }
    loop {
        sleep(ms(500)).await;
        for master in world.cluster.iter() {
            master.deliver_abandoned();
        }
    }
}

async fn small(world: &Arc<World>, seats: &[Arc<Seat>]) {
    let ask = Ask::new().lease(LEASE);
    let mine = ask.wait(ms(1500)).of(world, &seats[0]).await;
    let rival = ask.wait(ms(3)).of(world, &seats[1]).await;
    leave(world, 0, mine).await;
    leave(world, 1, rival).await;
    let rival = ask.wait(ms(1500)).of(world, &seats[1]).await;
    leave(world, 1, rival).await;
}

async fn large(world: &Arc<World>, seats: &[Arc<Seat>]) {
    let me = Owner::new();
    // The builder's lease, so it is renewed.
    let (mine, other) = (Ask::new().owner(&me), Ask::new().lease(LEASE));
    let outer = mine.wait(ms(1500)).of(world, &seats[0]).await;
    let inner = mine.lease(ms(1500)).wait(ms(100)).of(world, &seats[0]).await;
    let rival = other.wait(ms(3)).of(world, &seats[1]).await;
    sleep(ms(600)).await;
    leave(world, 0, inner).await;
    world.look(None);
    leave(world, 1, rival).await;
    leave(world, 0, outer).await;
    let rival = other.wait(ms(3000)).of(world, &seats[1]).await;
    leave(world, 1, rival).await;
}

async fn shared(world: &Arc<World>, seats: &[Arc<Seat>]) {
    let me = Owner::new();
    let mine = Ask::new().owner(&me);
    let (reading, writing) = (Ask::new().read().lease(LEASE), Ask::new().write().lease(LEASE));
    let outer = mine.write().wait(ms(1500)).of(world, &seats[0]).await;
    let inner = mine.read().wait(ms(100)).of(world, &seats[0]).await;
    leave(world, 0, outer).await;
    let beside = reading.wait(ms(300)).of(world, &seats[1]).await;
    sleep(ms(400)).await;
    world.look(None);
    leave(world, 0, inner).await;
    let rival = writing.wait(ms(100)).of(world, &seats[0]).await;
    leave(world, 1, beside).await;
    leave(world, 0, rival).await;
    let rival = writing.wait(ms(3000)).of(world, &seats[0]).await;
    if let Some(rival) = rival {
        let changed = world.downgrade(0, rival, None).await;
        leave(world, 0, changed).await;
    }
}
