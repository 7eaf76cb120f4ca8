//! Grants that the tasks of one process hand on among themselves without a master, and grants that they do not hand on.

use std::sync::Arc;
use std::time::Duration;

use multilock::sim::{Direction, Master};
use multilock::{Closing, Owner, Policy, Unlocked};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::ask::{Ask, force, leave};
use crate::client_plan::ClientPlan;
use crate::plan::{Class, Plan, ms};
use crate::scene::{FENCE, Scene, ahead, in_time, plan, violated};
use crate::world::Mine;

const LEASE: Duration = ms(3000);
const PATIENCE: Duration = ms(20_000);

type Waiter = JoinHandle<Option<Mine>>;

/// Three clients that are a millisecond away from every master.
fn near() -> Plan {
    let mut plan = plan(Class::Calm, LEASE);
    plan.clients = 3;
    plan
}

/// The same, and no client minds other libraries.
fn alone() -> Plan {
    let mut plan = near();
    let client = ClientPlan {
        beside_redisson: false,
        ..ClientPlan::plain(&plan)
    };
    plan.each = vec![client; plan.clients];
    plan
}

async fn open(plan: Plan) -> Scene {
    let scene = Scene::open(plan).await;
    for master in scene.masters() {
        master.set_delay(ms(1), ms(1));
    }
    scene
}

fn waiting() -> Ask<'static> {
    Ask::new().lease(LEASE).wait(PATIENCE)
}

/// With the builder's lease, and renewed.
fn renewed() -> Ask<'static> {
    Ask::new().wait(PATIENCE)
}

/// The first of some waiters of a process that have all waited for a client elsewhere, and the others.
async fn lined_up(scene: &Scene, asks: &[Ask<'static>]) -> (Mine, Vec<Waiter>) {
    let theirs = scene.lock(2, waiting()).await;
    let mut waiters = Vec::new();
    for ask in asks {
        waiters.push(scene.locking(0, *ask));
        sleep(ms(2)).await;
    }
    scene.leave(2, theirs).await;
    let first = waiters.remove(0).await.expect("no panic");
    (first.expect("its turn"), waiters)
}

/// Takes the lock in a task, holds it for the time of a section, and leaves it. Does so the given number of times.
fn working(
    scene: &Scene,
    client: usize,
    ask: Ask<'static>,
    section: Duration,
    times: usize,
) -> JoinHandle<()> {
    let (world, seat) = (Arc::clone(&scene.world), Arc::clone(&scene.seats[client]));
    tokio::spawn(async move {
        for _ in 0..times {
            let mine = ask.of(&world, &seat).await;
            sleep(section).await;
            leave(&world, client, mine).await;
        }
    })
}

/// Leaves a hold that the next task of the process is to have.
async fn hand_on(scene: &Scene, client: usize, mine: Option<Mine>) {
    let left = scene.leave(client, mine).await;
    if !matches!(left, Some(Ok(Unlocked::HandedOn))) {
        violated("handed on", &format!("{left:?}"));
    }
}

/// Leaves a hold that the next task of the process is not to have.
async fn release(scene: &Scene, client: usize, mine: Option<Mine>) {
    let left = scene.leave(client, mine).await;
    if !matches!(left, Some(Ok(Unlocked::Released))) {
        violated("handed on", &format!("{left:?}"));
    }
}

fn has(mine: &Mine, least: Duration, most: Duration) {
    let left = mine.guard.validity();
    if left < least || left > most {
        violated("terms are kept", &format!("{left:?} of {least:?} to {most:?}"));
    }
}

/// A majority has granted the lock, and the next task wants it from all masters. One of them hears nothing.
#[tokio::test(start_paused = true)]
async fn who_needs_more_masters_does_not_take_over() {
    let mut plan = near();
    plan.class = Class::Durable;
    let scene = open(plan).await;
    scene.cut(0, 2, Direction::ToMaster);
    let mine = scene.lock(0, waiting()).await;
    let all = scene.locking(0, waiting().policy(Policy::MultiLock));
    sleep(ms(5)).await;
    scene.leave(0, mine).await;
    sleep(ms(100)).await;
    scene.heal(0, 2);
    let mine = all.await.expect("no panic");
    assert!(mine.is_some(), "all grant");
    scene.leave(0, mine).await;
    scene.end().await;
}

/// Four holds of one block, and then another client's.
#[tokio::test(start_paused = true)]
async fn each_hold_has_a_token_of_its_own() {
    let scene = open(near()).await;
    let mut mine = scene.lock(0, waiting()).await;
    let others = [(); 3].map(|()| scene.locking(0, waiting()));
    sleep(ms(5)).await;
    let rival = scene.locking(1, waiting());
    sleep(ms(5)).await;
    for next in others {
        hand_on(&scene, 0, mine).await;
        mine = next.await.expect("no panic");
    }
    release(&scene, 0, mine).await;
    let mine = rival.await.expect("no panic");
    scene.leave(1, mine).await;
    scene.end().await;
}

/// Stores a fence ahead of the clocks, so that tokens do not follow them. A client that asks goes on behind the stored
/// token.
fn store_a_fence(scene: &Scene) {
    for place in 0..3 {
        let fence = ahead(scene, place, Duration::from_secs(3600));
        let set = ["SET", FENCE, &fence, "PX", "7200000"];
        scene.master(place).command(&set).expect("stored");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_else_gets_a_token_of_the_block() {
    let scene = open(near()).await;
    store_a_fence(&scene);
    let mine = scene.lock(0, waiting()).await;
    let next = scene.locking(0, waiting());
    sleep(ms(5)).await;
    hand_on(&scene, 0, mine).await;
    let mine = next.await.expect("no panic");
    release(&scene, 0, mine).await;
    let mine = scene.lock(1, waiting()).await;
    scene.leave(1, mine).await;
    scene.end().await;
}

/// More tasks have waited than a block has tokens, and leave at once.
#[tokio::test(start_paused = true)]
async fn a_block_is_not_left_behind() {
    let scene = open(near()).await;
    store_a_fence(&scene);
    let (first, others) = lined_up(&scene, &[waiting().fair(); 70]).await;
    let mut released = 0;
    let mut mine = Some(first);
    for next in others {
        let left = scene.leave(0, mine).await;
        released += usize::from(matches!(left, Some(Ok(Unlocked::Released))));
        mine = next.await.expect("no panic");
    }
    scene.leave(0, mine).await;
    assert_eq!(released, 1, "two blocks");
    let mine = scene.lock(1, waiting()).await;
    scene.leave(1, mine).await;
    scene.end().await;
}

/// The one ahead keeps it for longer than that the next one would have enough of it.
#[tokio::test(start_paused = true)]
async fn a_hold_has_most_of_its_lease() {
    let scene = open(near()).await;
    let lease = ms(200);
    let (mine, next) = lined_up(&scene, &[waiting().lease(lease); 2]).await;
    // Within the slice.
    sleep(ms(24)).await;
    release(&scene, 0, Some(mine)).await;
    let mine = next.into_iter().next().expect("one").await.expect("no panic");
    has(mine.as_ref().expect("its turn"), lease * 9 / 10, lease);
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The one ahead is not renewed, and the next one would be.
#[tokio::test(start_paused = true)]
async fn a_renewed_hold_has_two_thirds_of_its_lease() {
    let (mut plan, lease) = (alone(), ms(600));
    plan.each.iter_mut().for_each(|client| client.lease = lease);
    let scene = open(plan).await;
    let mine = scene.lock(0, waiting().lease(lease)).await;
    let next = scene.locking(0, renewed());
    sleep(lease * 2 / 5).await;
    release(&scene, 0, mine).await;
    let mine = next.await.expect("no panic");
    has(mine.as_ref().expect("its turn"), lease * 2 / 3, lease);
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The remaining validity would be enough for most waiters.
#[tokio::test(start_paused = true)]
async fn a_hold_has_more_than_its_least_validity() {
    let scene = open(near()).await;
    let lease = ms(400);
    let demanding = waiting().lease(lease).min_validity(lease * 95 / 100);
    let (mine, next) = lined_up(&scene, &[demanding; 3]).await;
    sleep(ms(2)).await;
    hand_on(&scene, 0, Some(mine)).await;
    let mut next = next.into_iter();
    let mine = next.next().expect("one").await.expect("no panic");
    sleep(ms(16)).await;
    release(&scene, 0, mine).await;
    let mine = next.next().expect("one").await.expect("no panic");
    has(mine.as_ref().expect("its turn"), lease * 95 / 100, lease);
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The one ahead has it extended by more than the next one wants.
#[tokio::test(start_paused = true)]
async fn a_hold_has_no_more_than_its_lease() {
    let mut plan = near();
    plan.max_lease = LEASE * 3;
    let scene = open(plan).await;
    let mine = scene.lock(0, waiting()).await.expect("free");
    let next = scene.locking(0, waiting());
    sleep(ms(5)).await;
    mine.guard.extend(LEASE * 3).await.expect("all continue");
    release(&scene, 0, Some(mine)).await;
    let mine = next.await.expect("no panic");
    has(mine.as_ref().expect("its turn"), LEASE * 9 / 10, LEASE);
    scene.leave(0, mine).await;
    scene.end().await;
}

/// A waiter elsewhere stands behind the first of very many waiters of one process.
#[tokio::test(start_paused = true)]
async fn those_who_have_waited_have_a_slice() {
    let scene = open(near()).await;
    let theirs = scene.lock(2, waiting()).await;
    let mut tasks = vec![working(&scene, 0, waiting(), ms(5), 1)];
    sleep(ms(5)).await;
    let rival = scene.locking(1, waiting());
    sleep(ms(5)).await;
    tasks.extend([(); 20].map(|()| working(&scene, 0, waiting(), ms(5), 1)));
    sleep(ms(5)).await;
    let begun = Instant::now();
    scene.leave(2, theirs).await;
    let mine = rival.await.expect("no panic");
    // Two hand-offs, a slice and a section.
    in_time(begun, ms(35));
    scene.leave(1, mine).await;
    for task in tasks {
        task.await.expect("no panic");
    }
    scene.end().await;
}

/// Two tasks come again and again, and somebody elsewhere has waited for as long as they.
#[tokio::test(start_paused = true)]
async fn who_comes_again_is_behind_those_who_wait_elsewhere() {
    let scene = open(near()).await;
    let theirs = scene.lock(2, waiting()).await;
    let tasks = [(); 2].map(|()| working(&scene, 0, waiting(), ms(2), 20));
    sleep(ms(5)).await;
    let rival = scene.locking(1, waiting());
    sleep(ms(5)).await;
    let begun = Instant::now();
    scene.leave(2, theirs).await;
    let mine = rival.await.expect("no panic");
    // Two hand-offs and two sections.
    in_time(begun, ms(16));
    scene.leave(1, mine).await;
    for task in tasks {
        task.await.expect("no panic");
    }
    scene.end().await;
}

/// They had it among themselves when somebody came elsewhere.
#[tokio::test(start_paused = true)]
async fn who_comes_again_keeps_nobody_waiting_long() {
    let scene = open(alone()).await;
    let tasks = [(); 2].map(|()| working(&scene, 0, waiting(), ms(5), 60));
    sleep(ms(10)).await;
    for _ in 0..3 {
        let begun = Instant::now();
        let mine = scene.lock(1, waiting()).await;
        // A recall, a slice, a section and a hand-off.
        in_time(begun, ms(35));
        sleep(ms(5)).await;
        scene.leave(1, mine).await;
        sleep(ms(20)).await;
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    scene.end().await;
}

/// How often masters were asked for a lock.
fn asked(scene: &Scene) -> u64 {
    let all = scene.masters().map(Master::executed);
    all.map(|scripts| scripts.get("acquire").copied().unwrap_or(0))
        .sum()
}

/// With `beside_redisson` the names are free every 30 ms, for clients that cannot recall them.
#[tokio::test(start_paused = true)]
async fn who_comes_again_leaves_other_libraries_their_turn() {
    let scene = open(near()).await;
    let before = asked(&scene);
    let tasks = [(); 4].map(|()| working(&scene, 0, renewed(), ms(5), 40));
    for task in tasks {
        task.await.expect("no panic");
    }
    // 160 holds of 5 ms, at most eight of them of one grant.
    if asked(&scene) - before < 3 * 20 {
        violated(
            "turns of other libraries",
            &format!("asked {} times", asked(&scene) - before),
        );
    }
    scene.end().await;
}

/// Nobody elsewhere wants it: it goes from task to task for a second, and the masters are not asked.
#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_elsewhere_is_passed_on() {
    let scene = open(alone()).await;
    let before = asked(&scene);
    let tasks = [(); 4].map(|()| working(&scene, 0, renewed(), ms(20), 10));
    for task in tasks {
        task.await.expect("no panic");
    }
    // 40 holds of 20 ms.
    assert_eq!(asked(&scene) - before, 3, "three masters, once");
    scene.end().await;
}

/// If the recalls of a waiter elsewhere are lost, it waits until the answer of the masters to the other process is a
/// second old.
#[tokio::test(start_paused = true)]
async fn lost_recalls_cost_a_second() {
    let mut plan = alone();
    // So long that a hold is worth handing on for more than a second.
    let lease = ms(20_000);
    (plan.lease, plan.max_lease) = (lease, lease);
    for client in &mut plan.each {
        (client.lease, client.max_lease) = (lease, lease);
    }
    let scene = open(plan).await;
    // In a second they use up half of the tokens of a grant.
    let tasks = [(); 2].map(|()| working(&scene, 0, renewed(), ms(30), 50));
    sleep(ms(100)).await;
    for master in scene.masters() {
        master.lose_notices(true);
    }
    let begun = Instant::now();
    let waiting = scene.locking(1, waiting());
    sleep(ms(50)).await;
    for master in scene.masters() {
        master.lose_notices(false);
    }
    let mine = waiting.await.expect("no panic");
    if begun.elapsed() < ms(500) {
        violated("the schedule", "the recalls were not lost");
    }
    in_time(begun, ms(1_080));
    scene.leave(1, mine).await;
    for task in tasks {
        task.await.expect("no panic");
    }
    scene.end().await;
}

/// A waiter elsewhere has the lock before the last waiter of the process that hands it on.
async fn is_first(scene: &Scene, mine: Option<Mine>, rival: Waiter, last: Waiter) {
    let begun = Instant::now();
    scene.leave(0, mine).await;
    sleep(ms(10)).await;
    if last.is_finished() || !rival.is_finished() {
        violated("order", "who came first was not let in first");
    }
    let mine = rival.await.expect("no panic");
    in_time(begun, ms(20));
    scene.leave(1, mine).await;
    let mine = last.await.expect("no panic");
    scene.leave(0, mine).await;
}

/// All three have waited, one of them elsewhere.
#[tokio::test(start_paused = true)]
async fn a_fair_pass_goes_by_tickets() {
    let scene = open(near()).await;
    let theirs = scene.lock(2, waiting()).await;
    let fair = waiting().fair();
    let first = scene.locking(0, fair);
    sleep(ms(5)).await;
    let rival = scene.locking(1, fair);
    sleep(ms(5)).await;
    let last = scene.locking(0, fair);
    sleep(ms(5)).await;
    scene.leave(2, theirs).await;
    let mine = first.await.expect("no panic");
    is_first(&scene, mine, rival, last).await;
    scene.end().await;
}

/// Nobody waited at the time of the grant. Then a waiter came elsewhere, and its recalls are lost. After that came a
/// task of the holder's process.
#[tokio::test(start_paused = true)]
async fn a_fair_pass_is_not_to_a_newcomer() {
    let scene = open(near()).await;
    let fair = waiting().fair();
    let mine = scene.lock(0, fair).await;
    scene.masters().for_each(|master| master.lose_notices(true));
    let rival = scene.locking(1, fair);
    sleep(ms(5)).await;
    scene.masters().for_each(|master| master.lose_notices(false));
    let last = scene.locking(0, fair);
    sleep(ms(5)).await;
    is_first(&scene, mine, rival, last).await;
    scene.end().await;
}

/// The lock is handed on to a task that is dropped before it has noticed. Later the last task, too, is dropped like
/// that.
#[tokio::test(start_paused = true)]
async fn who_is_dropped_when_it_is_passed_to_passes_it_on() {
    let scene = open(near()).await;
    let mine = scene.lock(0, renewed()).await;
    let [dropped, next, last] = [(); 3].map(|()| scene.locking(0, renewed()));
    sleep(ms(5)).await;
    let begun = Instant::now();
    hand_on(&scene, 0, mine).await;
    dropped.abort();
    let mine = next.await.expect("no panic");
    in_time(begun, ms(0));
    hand_on(&scene, 0, mine).await;
    last.abort();
    let rival = scene.lock(1, waiting()).await;
    in_time(begun, ms(20));
    scene.leave(1, rival).await;
    scene.end().await;
}

/// Somebody has set the fence forward meanwhile, so the grant takes a second round.
#[tokio::test(start_paused = true)]
async fn a_grant_with_a_raised_token_tells_who_waits() {
    let scene = open(near()).await;
    let theirs = scene.lock(2, waiting()).await;
    let fair = waiting().fair();
    let first = scene.locking(0, fair);
    sleep(ms(5)).await;
    let rival = scene.locking(1, fair);
    sleep(ms(5)).await;
    let last = scene.locking(0, fair);
    sleep(ms(5)).await;
    store_a_fence(&scene);
    scene.leave(2, theirs).await;
    let mine = first.await.expect("no panic");
    is_first(&scene, mine, rival, last).await;
    scene.end().await;
}

/// It was asked for, and then not polled any more.
#[tokio::test(start_paused = true)]
async fn who_is_not_polled_gives_up_what_was_passed_to_it() {
    let scene = open(near()).await;
    let mine = scene.lock(0, renewed()).await;
    let mut next = Box::pin(renewed().of(&scene.world, &scene.seats[0]));
    assert!(futures::poll!(next.as_mut()).is_pending(), "it is held");
    sleep(ms(5)).await;
    hand_on(&scene, 0, mine).await;
    let begun = Instant::now();
    // Else it would be renewed for ever.
    let Ok(rival) = timeout(LEASE * 2, scene.lock(1, waiting())).await else {
        violated("progress", "who is not polled keeps what was passed to it");
    };
    in_time(begun, ms(1200));
    scene.leave(1, rival).await;
    let mine = next.await;
    assert!(mine.is_some(), "its turn comes");
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The next of the process was given its turn, or was called, and is not polled any more.
#[tokio::test(start_paused = true)]
async fn who_is_not_polled_gives_up_its_turn() {
    for client in [0, 1] {
        let scene = open(near()).await;
        let mine = scene.lock(0, waiting()).await;
        let mut next = Box::pin(waiting().of(&scene.world, &scene.seats[client]));
        assert!(timeout(ms(20), &mut next).await.is_err(), "it is held");
        let (behind, elsewhere) = (scene.locking(client, waiting()), scene.locking(2, waiting()));
        // Longer than anything passes on.
        sleep(ms(100)).await;
        scene.leave(0, mine).await;
        let begun = Instant::now();
        for (place, waiter) in [(client, behind), (2, elsewhere)] {
            let Ok(theirs) = timeout(LEASE, waiter).await else {
                violated("progress", "one that is not polled is waited for");
            };
            in_time(begun, ms(1200));
            scene.leave(place, theirs.expect("no panic")).await;
        }
        let mine = next.await;
        assert!(mine.is_some(), "its turn comes");
        scene.leave(client, mine).await;
        scene.end().await;
    }
}

/// The first task of a process that asks is not polled any more while its own round is under way.
#[tokio::test(start_paused = true)]
async fn who_asks_first_and_is_not_polled_gives_up_its_turn() {
    let scene = open(near()).await;
    let rival = scene.lock(1, waiting()).await;
    let mut first = Box::pin(waiting().of(&scene.world, &scene.seats[0]));
    assert!(
        futures::poll!(first.as_mut()).is_pending(),
        "masters are a millisecond away"
    );
    let second = scene.locking(0, waiting());
    sleep(ms(1500)).await;
    let begun = Instant::now();
    scene.leave(1, rival).await;
    let Ok(mine) = timeout(LEASE * 2, second).await else {
        violated("progress", "one that is not polled is waited for");
    };
    // It had its second before the release: the other one stands in the queue in its place, and is called.
    in_time(begun, ms(100));
    scene.leave(0, mine.expect("no panic")).await;
    let mine = first.await;
    assert!(mine.is_some(), "its turn comes");
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The holder is cut off and the hold ends with its lease, so that no master calls the task that has the turn.
#[tokio::test(start_paused = true)]
async fn a_turn_goes_on_if_its_task_is_not_polled_when_the_lease_has_ended() {
    let scene = open(near()).await;
    let begun = Instant::now();
    let theirs = scene.lock(1, waiting()).await;
    let mut first = Box::pin(waiting().of(&scene.world, &scene.seats[0]));
    assert!(timeout(ms(20), &mut first).await.is_err(), "it is held");
    let second = scene.locking(0, waiting());
    for place in 0..3 {
        scene.cut(1, place, Direction::Both);
    }
    let Ok(mine) = timeout(LEASE * 3, second).await else {
        violated("progress", "one that is not polled is waited for");
    };
    in_time(begun, LEASE + ms(1200));
    scene.leave(0, mine.expect("no panic")).await;
    let mine = first.await;
    assert!(mine.is_some(), "its turn comes");
    scene.leave(0, mine).await;
    (0..3).for_each(|place| scene.heal(1, place));
    scene.leave(1, theirs).await;
    scene.end().await;
}

/// A task that is called by one master alone, and is not polled in time, has withdrawn. Once it is polled, it asks again, because
/// no master calls it.
#[tokio::test(start_paused = true)]
async fn who_has_given_up_its_turn_at_rest_asks_once_it_is_polled() {
    let scene = open(near()).await;
    let rival = scene.lock(1, waiting()).await;
    let (world, seat) = (Arc::clone(&scene.world), Arc::clone(&scene.seats[0]));
    let mut first = Box::pin(async move { waiting().of(&world, &seat).await });
    assert!(timeout(ms(20), &mut first).await.is_err(), "it is held");
    let second = scene.locking(0, waiting());
    sleep(ms(20)).await;
    second.abort();
    scene.cut(1, 0, Direction::ToMaster);
    scene.cut(1, 1, Direction::ToMaster);
    scene.leave(1, rival).await;
    sleep(ms(1500)).await;
    let first = tokio::spawn(first);
    sleep(ms(20)).await;
    scene.heal(1, 0);
    scene.heal(1, 1);
    let begun = Instant::now();
    let mine = first.await.expect("no panic");
    in_time(begun, ms(100));
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The same task, polled again while the name is still held: it joins its line again at once, and does not sleep where nobody
/// calls it.
#[tokio::test(start_paused = true)]
async fn who_has_given_up_its_turn_joins_the_line_again_once_it_is_polled() {
    let scene = open(near()).await;
    let rival = scene.lock(1, waiting()).await;
    let (world, seat) = (Arc::clone(&scene.world), Arc::clone(&scene.seats[0]));
    let mut first = Box::pin(async move { waiting().of(&world, &seat).await });
    assert!(
        futures::poll!(first.as_mut()).is_pending(),
        "masters are a millisecond away"
    );
    let second = scene.locking(0, waiting());
    sleep(ms(1500)).await;
    let first = tokio::spawn(first);
    sleep(ms(20)).await;
    scene.leave(1, rival).await;
    let mine = second.await.expect("no panic");
    let begun = Instant::now();
    scene.leave(0, mine).await;
    let mine = first.await.expect("no panic");
    in_time(begun, ms(100));
    scene.leave(0, mine).await;
    scene.end().await;
}

/// A process is frozen right after a release that has taken its next one along.
#[tokio::test(start_paused = true)]
async fn whom_a_release_takes_along_has_to_come_as_if_it_were_called() {
    let scene = open(near()).await;
    let mine = scene.lock(0, waiting()).await;
    let mut next = Box::pin(waiting().of(&scene.world, &scene.seats[0]));
    assert!(timeout(ms(20), &mut next).await.is_err(), "it is held");
    let elsewhere = scene.locking(1, waiting());
    // Longer than anything passes on.
    sleep(ms(100)).await;
    scene.leave(0, mine).await;
    let begun = Instant::now();
    sleep(ms(5)).await;
    for place in 0..3 {
        scene.cut(0, place, Direction::ToMaster);
    }
    let Ok(theirs) = timeout(LEASE * 4, elsewhere).await else {
        violated("progress", "one that was taken along and is frozen is waited for");
    };
    in_time(begun, ms(5100));
    scene.leave(1, theirs.expect("no panic")).await;
    for place in 0..3 {
        scene.heal(0, place);
    }
    let mine = next.await;
    assert!(mine.is_some(), "its turn comes");
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The one ahead had the same lease, and was left to its end.
#[tokio::test(start_paused = true)]
async fn who_is_renewed_is_renewed_behind_one_that_was_not() {
    let scene = open(near()).await;
    let mine = scene.lock(0, waiting()).await;
    let next = scene.locking(0, renewed());
    sleep(ms(5)).await;
    hand_on(&scene, 0, mine).await;
    let mine = next.await.expect("no panic").expect("passed to it");
    sleep(LEASE * 2).await;
    if !mine.guard.is_valid() {
        violated("terms are kept", "it was not renewed");
    }
    scene.leave(0, Some(mine)).await;
    scene.end().await;
}

/// The one ahead was renewed.
#[tokio::test(start_paused = true)]
async fn who_has_a_lease_of_its_own_is_not_renewed() {
    let scene = open(near()).await;
    let mine = scene.lock(0, renewed()).await;
    let next = scene.locking(0, waiting());
    sleep(ms(5)).await;
    hand_on(&scene, 0, mine).await;
    let mine = next.await.expect("no panic").expect("passed to it");
    let begun = Instant::now();
    let rival = scene.lock(1, waiting()).await;
    in_time(begun, LEASE + ms(100));
    drop(scene.world.give_up(0, mine, "drop"));
    scene.leave(1, rival).await;
    scene.end().await;
}

/// Both want to be renewed for a bounded time.
#[tokio::test(start_paused = true)]
async fn what_is_passed_on_is_renewed_for_a_bounded_time() {
    let scene = open(near()).await;
    let ask = renewed().max_hold(LEASE * 2);
    let (mine, mut next) = lined_up(&scene, &[ask, ask]).await;
    sleep(ms(10)).await;
    hand_on(&scene, 0, Some(mine)).await;
    let mine = next.remove(0).await.expect("no panic").expect("passed to it");
    sleep(LEASE * 3 / 2).await;
    if !mine.guard.is_valid() {
        violated("terms are kept", "it was renewed for too short a time");
    }
    sleep(LEASE * 3 / 2 + ms(100)).await;
    if mine.guard.is_valid() {
        violated("terms are kept", "it was renewed for too long");
    }
    drop(scene.world.give_up(0, mine, "drop"));
    scene.end().await;
}

/// It was taken away by force, and its holder has just heard of that; others have it meanwhile.
#[tokio::test(start_paused = true)]
async fn what_is_lost_is_not_passed_on() {
    let mut plan = near();
    plan.class = Class::Forced;
    let scene = open(plan).await;
    let mine = scene.lock(0, waiting()).await.expect("free");
    let next = scene.locking(0, waiting());
    sleep(ms(5)).await;
    force(&scene.world, &scene.seats[2], "a").await;
    let theirs = scene.lock(1, waiting()).await.expect("free again");
    let extended = mine.guard.extend(LEASE).await;
    assert!(extended.is_err(), "it is somebody else's");
    scene.leave(0, Some(mine)).await;
    sleep(ms(20)).await;
    if next.is_finished() && theirs.guard.is_valid() {
        violated("mutual exclusion", "it was passed on after it was lost");
    }
    scene.leave(1, Some(theirs)).await;
    let mine = next.await.expect("no panic");
    scene.leave(0, mine).await;
    scene.end().await;
}

/// It was taken away by force, and passes on before anybody has heard of that.
#[tokio::test(start_paused = true)]
async fn who_was_forced_out_holds_no_longer_for_passing_it_on() {
    let mut plan = near();
    plan.class = Class::Forced;
    let scene = open(plan).await;
    let mine = scene.lock(0, renewed()).await;
    let others = [(); 2].map(|()| scene.locking(0, renewed()));
    sleep(ms(5)).await;
    force(&scene.world, &scene.seats[2], "a").await;
    hand_on(&scene, 0, mine).await;
    let [next, last] = others;
    let mine = next.await.expect("no panic").expect("passed to it");
    sleep(ms(2)).await;
    hand_on(&scene, 0, Some(mine)).await;
    let mine = last.await.expect("no panic").expect("passed to it");
    let begun = Instant::now();
    let rival = scene.lock(1, waiting()).await;
    in_time(begun, ms(10));
    // With the next renewal.
    sleep(LEASE / 3 + ms(10)).await;
    if mine.guard.is_valid() {
        violated("known loss", "it goes on");
    }
    drop(scene.world.give_up(0, mine, "drop"));
    scene.leave(1, rival).await;
    scene.end().await;
}

/// The client is closed when one of its tasks has passed the hold on, and the other has not seen it yet.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_while_it_passes_on_releases_once() {
    let scene = open(near()).await;
    let mine = scene.lock(0, renewed()).await;
    let others = [(); 2].map(|()| scene.locking(0, renewed()));
    sleep(ms(5)).await;
    hand_on(&scene, 0, mine).await;
    let begun = Instant::now();
    let seat = &scene.seats[0];
    seat.close(&seat.masters(), Closing::Release).await;
    for other in others {
        assert!(other.await.expect("no panic").is_none(), "it is told so");
    }
    seat.begin_anew(Closing::Release).await;
    let rival = scene.lock(1, waiting()).await;
    in_time(begun, ms(100));
    scene.leave(1, rival).await;
    scene.end().await;
}

/// An owner that could not win waits for `a`, and another of its tasks tries for `a` and `b`: its turn at `a` is kept
/// with both.
#[tokio::test(start_paused = true)]
async fn a_turn_at_other_names_passes_nothing_on() {
    let mut plan = near();
    plan.class = Class::Durable;
    plan.names = vec!["a", "b"];
    let scene = open(plan).await;
    for place in 0..2 {
        scene
            .master(place)
            .answer_with(Some("LOADING Redis is loading the dataset in memory"));
    }
    let me = Owner::new();
    let (world, seat, owner) = (Arc::clone(&scene.world), Arc::clone(&scene.seats[0]), me.clone());
    let inner = tokio::spawn(async move { waiting().owner(&owner).of(&world, &seat).await });
    sleep(ms(5)).await;
    let next = scene.locking(0, waiting());
    // It pauses longer and longer.
    sleep(ms(1500)).await;
    for place in 0..2 {
        scene.master(place).answer_with(None);
    }
    sleep(ms(5)).await;
    let both = Ask::new().names(&["b", "a"]).lease(LEASE).owner(&me);
    let outer = scene.lock(0, both).await;
    assert!(outer.is_some(), "nobody stands in the queues");
    let inner = inner.await.expect("no panic");
    scene.leave(0, outer).await;
    release(&scene, 0, inner).await;
    let mine = next.await.expect("no panic");
    let begun = Instant::now();
    let other = scene.lock(1, waiting().names(&["b"])).await;
    in_time(begun, ms(20));
    scene.leave(1, other).await;
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The next one lapses.
#[tokio::test(start_paused = true)]
async fn what_was_passed_on_is_not_lost() {
    let scene = open(near()).await;
    let mine = scene.lock(0, waiting()).await.expect("free");
    let earlier = mine.guard.cancellation_token();
    let next = scene.locking(0, waiting());
    sleep(ms(5)).await;
    hand_on(&scene, 0, Some(mine)).await;
    let mine = next.await.expect("no panic").expect("passed to it");
    let later = mine.guard.cancellation_token();
    sleep(LEASE).await;
    if earlier.is_cancelled() || !later.is_cancelled() {
        violated("lost in time", "the wrong one is told so");
    }
    drop(scene.world.give_up(0, mine, "drop"));
    scene.end().await;
}
