//! Many read and one writes: the ends of names that are read, the modes of their holds, and the tokens of readers.

use std::time::Duration;

use multilock::sim::Direction;
use multilock::{LockError, Owner, Policy};
use tokio::time::{Instant, sleep};

use crate::ask::Ask;
use crate::history::Kind;
use crate::plan::{Class, Kinds, ms};
use crate::scene::{FENCE, Scene, ahead, in_time, plan, settle, violated};
use crate::stored::mode;
use crate::world::Mine;

/// Longer than most waits here, so that nobody is saved by its end.
pub(super) const LEASE: Duration = ms(10_000);
const HOUR: Duration = Duration::from_secs(3600);

pub(super) async fn scene(class: Class, clients: usize) -> Scene {
    let mut plan = plan(class, LEASE);
    plan.clients = clients;
    plan.kinds = Kinds::ReadWrite;
    Scene::open(plan).await
}

pub(super) fn reading(lease: Duration) -> Ask<'static> {
    Ask::new().read().lease(lease)
}

pub(super) fn writing() -> Ask<'static> {
    Ask::new().write().lease(LEASE)
}

/// Fails unless at least the given number of masters have the name in the wanted mode.
pub(super) fn stands(scene: &Scene, wanted: &str, least: usize) {
    let modes: Vec<_> = scene.masters().map(|master| mode(master, "a")).collect();
    if modes.iter().flatten().filter(|mode| *mode == wanted).count() < least {
        violated("covered", &format!("{modes:?}, not {wanted}"));
    }
}

/// One of two readers goes.
#[tokio::test(start_paused = true)]
async fn leaver_frees_all() {
    let scene = scene(Class::Calm, 3).await;
    let one = scene.lock(0, reading(LEASE)).await;
    assert!(one.is_some(), "free");
    let other = scene.lock(1, reading(LEASE)).await;
    assert!(other.is_some(), "both read");
    scene.leave(0, one).await;
    let rival = scene.lock(2, writing()).await;
    scene.world.look(None);
    scene.leave(2, rival).await;
    scene.leave(1, other).await;
    scene.end().await;
}

/// Readers with a short, a long and a short lease come one after the other.
#[tokio::test(start_paused = true)]
async fn last_reader_sets_ttl() {
    let scene = scene(Class::Calm, 3).await;
    let mut readers = Vec::new();
    for (client, lease) in [ms(1000), ms(3000), ms(1500)].into_iter().enumerate() {
        let reader = scene.lock(client, reading(lease)).await;
        assert!(reader.is_some(), "all read");
        readers.push(reader);
    }
    settle().await;
    scene.world.look(None);
    for (client, reader) in readers.into_iter().enumerate() {
        scene.leave(client, reader).await;
    }
    scene.end().await;
}

/// The reader with the shorter of two leases extends it: to less than the lease of the other, and to more.
#[tokio::test(start_paused = true)]
async fn an_extension_sets_ttl() {
    let scene = scene(Class::Calm, 2).await;
    let long = scene.lock(0, reading(ms(3000))).await;
    assert!(long.is_some(), "free");
    let short = scene.lock(1, reading(ms(1000))).await.expect("both read");
    short.guard.extend(ms(2000)).await.expect("all continue");
    settle().await;
    scene.world.look(None);
    short.guard.extend(ms(5000)).await.expect("all continue");
    settle().await;
    scene.world.look(None);
    scene.leave(0, long).await;
    scene.leave(1, Some(short)).await;
    scene.end().await;
}

/// Of two readers the one with the long lease goes, and the other one is never heard of again.
#[tokio::test(start_paused = true)]
async fn leaver_leaves_its_ttl() {
    let scene = scene(Class::Calm, 3).await;
    let begun = Instant::now();
    let long = scene.lock(0, reading(LEASE)).await;
    let short = scene.lock(1, reading(ms(1000))).await.expect("both read");
    scene.world.give_up(1, short, "leak").leak();
    scene.leave(0, long).await;
    let writer = scene.lock(2, writing().wait(ms(8000))).await;
    assert!(writer.is_some(), "nobody reads any more");
    in_time(begun, ms(1100));
    scene.leave(2, writer).await;
    scene.end().await;
}

/// A name that was deleted under its reader is read again. The former reader is none of its readers.
#[tokio::test(start_paused = true)]
async fn a_fresh_key_has_no_former_readers() {
    let scene = scene(Class::Forced, 3).await;
    let former = scene.lock(0, reading(LEASE)).await;
    assert!(former.is_some(), "free");
    let owners = former.as_ref().map(|mine| mine.guard.holder()).into_iter();
    let name = "a".to_owned();
    let owners = owners.collect();
    scene.world.history.note(None, Kind::Deleted { name, owners });
    for master in scene.masters() {
        master.evict("a");
    }
    let short = scene.lock(1, reading(ms(1000))).await;
    assert!(short.is_some(), "the name is free again");
    let long = scene.lock(2, reading(ms(2000))).await;
    assert!(long.is_some(), "both read");
    scene.leave(2, long).await;
    scene.leave(1, short).await;
    scene.leave(0, former).await;
    // The entries beside a name go with the lease.
    sleep(LEASE).await;
    scene.end().await;
}

/// Fewer readers than a majority would not meet every writer.
#[tokio::test(start_paused = true)]
async fn read_one() {
    let scene = scene(Class::Calm, 2).await;
    let lock = scene.seats[0].masters().lock("a", Policy::AtLeast(1)).read();
    let answer = lock.try_lock().await;
    if !matches!(answer, Err(LockError::Invalid(_))) {
        violated("mutual exclusion", &format!("{answer:?}"));
    }
    scene.end().await;
}

/// Keeps requests of the first client to a master in a socket that nobody can close. They arrive when the client has
/// connected again.
fn keep_what_is_sent(scene: &Scene, master: usize) {
    let master = scene.master(master);
    master.keep_abandoned(true);
    master.deny_client_kill(true);
    master.hold_requests(true);
}

async fn connect_anew(scene: &Scene, master: usize) {
    let master = scene.master(master);
    master.reset_connections();
    master.hold_requests(false);
    sleep(ms(500)).await;
}

/// An extension of the writer's arrives when it reads and another one has joined it.
#[tokio::test(start_paused = true)]
async fn late_extension_upgrades() {
    let scene = scene(Class::Stale, 2).await;
    let writer = scene.lock(0, writing()).await.expect("free");
    settle().await;
    keep_what_is_sent(&scene, 0);
    writer.guard.extend(LEASE).await.expect("1 and 2 continue");
    connect_anew(&scene, 0).await;
    let first = scene.world.downgrade(0, writer, None).await;
    settle().await;
    let second = scene.lock(1, reading(LEASE)).await;
    assert!(second.is_some(), "the first one reads, too");
    scene.master(0).deliver_abandoned();
    settle().await;
    stands(&scene, "read", 3);
    scene.leave(1, second).await;
    scene.leave(0, first).await;
    scene.end().await;
}

/// The acquire itself arrives that late, where the hold was taken again to read.
#[tokio::test(start_paused = true)]
async fn late_acquire_upgrades() {
    let scene = scene(Class::Stale, 2).await;
    keep_what_is_sent(&scene, 0);
    let writer = scene.lock(0, writing()).await.expect("1 and 2 grant");
    connect_anew(&scene, 0).await;
    let first = scene.world.downgrade(0, writer, None).await.expect("not dropped");
    first.guard.extend(LEASE).await.expect("1 and 2 continue");
    settle().await;
    let second = scene.lock(1, reading(LEASE)).await;
    assert!(second.is_some(), "the first one reads, too");
    stands(&scene, "read", 3);
    scene.master(0).deliver_abandoned();
    settle().await;
    stands(&scene, "read", 3);
    scene.leave(1, second).await;
    scene.leave(0, Some(first)).await;
    scene.end().await;
}

/// The masters have heard of a downgrade and let a reader in; the writer has not heard that they have, and asks for its
/// lock again.
#[tokio::test(start_paused = true)]
async fn downgrade_confirmed() {
    let scene = scene(Class::Calm, 2).await;
    let me = Owner::new();
    let writer = scene.lock(0, writing().owner(&me)).await.expect("free");
    settle().await;
    for place in 0..3 {
        scene.cut(0, place, Direction::ToClient);
    }
    let meanwhile = async {
        sleep(ms(5)).await;
        let reader = scene.lock(1, reading(LEASE)).await;
        assert!(reader.is_some(), "the masters know");
        let again = scene.lock(0, writing().owner(&me)).await;
        scene.world.look(None);
        for place in 0..3 {
            scene.heal(0, place);
        }
        (reader, again)
    };
    let (first, (reader, again)) = tokio::join!(scene.world.downgrade(0, writer, None), meanwhile);
    scene.leave(0, again).await;
    scene.leave(1, reader).await;
    scene.leave(0, first).await;
    scene.end().await;
}

/// A writer holds 0 and 1, and 1 forgets it. A reader reaches only 1 and 2.
#[tokio::test(start_paused = true)]
async fn quarantined_reader() {
    let mut plan = plan(Class::Forgetful, ms(3000));
    plan.kinds = Kinds::ReadWrite;
    let scene = Scene::open(plan).await;
    scene.cut(0, 2, Direction::ToMaster);
    let writer = scene.lock(0, Ask::new().write().lease(ms(3000))).await;
    assert!(writer.is_some(), "0 and 1 grant");
    scene.cut(1, 0, Direction::Both);
    settle().await;
    scene.restart_empty(1);
    let mut reader = None;
    for _ in 0..100 {
        reader = scene.lock(1, reading(ms(3000))).await;
        if reader.is_some() {
            settle().await;
            break;
        }
        sleep(ms(50)).await;
    }
    assert!(reader.is_some(), "1 and 2 grant in the end");
    scene.world.look(None);
    scene.leave(1, reader).await;
    scene.leave(0, writer).await;
    scene.end().await;
}

/// Has masters keep a fence that is an hour ahead.
fn fence(scene: &Scene, masters: &[usize]) {
    let token = ahead(scene, 0, HOUR);
    for master in masters {
        let set = ["SET", FENCE, &token, "PX", "7200000"];
        scene.master(*master).command(&set).expect("stored");
    }
}

/// Only 0 has the largest token, and a reader takes it from 0 and 1; then a writer gets 1 and 2.
#[tokio::test(start_paused = true)]
async fn token_not_written_back() {
    let scene = scene(Class::Durable, 2).await;
    fence(&scene, &[0]);
    scene.cut(0, 2, Direction::ToMaster);
    let reader = scene.lock(0, reading(LEASE)).await;
    assert!(reader.is_some(), "0 and 1 grant");
    scene.leave(0, reader).await;
    scene.cut(1, 0, Direction::ToMaster);
    let writer = scene.lock(1, writing()).await;
    assert!(writer.is_some(), "1 and 2 grant");
    scene.leave(1, writer).await;
    scene.end().await;
}

/// A writer has had 0 and 1 with a token that 2 has never heard of; then a reader asks some of them.
async fn after_a_writer(without: Option<usize>) {
    let scene = scene(Class::Durable, 2).await;
    fence(&scene, &[0, 1]);
    scene.cut(0, 2, Direction::ToMaster);
    let writer = scene.lock(0, writing()).await;
    assert!(writer.is_some(), "0 and 1 grant");
    scene.leave(0, writer).await;
    if let Some(without) = without {
        scene.cut(1, without, Direction::ToMaster);
    }
    let reader = scene.lock(1, reading(LEASE)).await;
    assert!(reader.is_some(), "nobody writes");
    scene.leave(1, reader).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn smallest_token() {
    after_a_writer(Some(0)).await;
}

#[tokio::test(start_paused = true)]
async fn own_proposal() {
    after_a_writer(Some(2)).await;
    after_a_writer(None).await;
}

/// A reader holds for much longer than a fence lives without readers.
#[tokio::test(start_paused = true)]
async fn those_that_come_later_share_the_token() {
    let scene = scene(Class::Calm, 3).await;
    let first = scene.lock(0, reading(LEASE)).await.expect("free");
    let token = first.guard.fencing_token();
    for turn in 0..8 {
        sleep(ms(60_000)).await;
        let next = scene.lock(1, reading(LEASE)).await.expect("it is read");
        if next.guard.fencing_token() != token {
            let other = next.guard.fencing_token();
            violated("shared", &format!("turn {turn}: {other} beside {token}"));
        }
        scene.leave(1, Some(next)).await;
    }
    scene.leave(0, Some(first)).await;
    let writer = scene.lock(2, writing()).await.expect("free");
    assert!(writer.guard.fencing_token() > token);
    scene.leave(2, Some(writer)).await;
    scene.end().await;
}

/// A reader, and a master that has lost its hold.
async fn lost_on_one_master() -> (Scene, Option<Mine>) {
    let mut plan = plan(Class::Reckless, ms(3000));
    plan.kinds = Kinds::ReadWrite;
    let scene = Scene::open(plan).await;
    let first = scene.lock(0, Ask::new().read()).await;
    settle().await;
    scene.forgets(1, "loses a key");
    scene.master(1).evict("a");
    (scene, first)
}

/// A master loses a hold that reads, and gets it again: to read, beside others.
#[tokio::test(start_paused = true)]
async fn a_reader_is_taken_again_to_read() {
    let (scene, first) = lost_on_one_master().await;
    sleep(ms(1200)).await;
    stands(&scene, "read", 3);
    let second = scene.lock(1, Ask::new().read().policy(Policy::MultiLock)).await;
    if second.is_none() {
        violated("covered", "nobody may read beside it");
    }
    scene.leave(1, second).await;
    scene.leave(0, first).await;
    scene.end().await;
}

/// A master loses a hold that reads. Another reader comes there before the first one is taken again, beside it.
#[tokio::test(start_paused = true)]
async fn a_reader_is_taken_again_beside_another_one() {
    let (scene, first) = lost_on_one_master().await;
    let second = scene.lock(1, Ask::new().read().policy(Policy::MultiLock)).await;
    assert!(second.is_some(), "both read");
    sleep(ms(1200)).await;
    let readers = scene
        .master(1)
        .command(&["ZRANGE", "multilock_readers:{a}", "0", "-1"]);
    let readers = readers.expect("readers").len();
    if readers != 2 {
        violated("covered", &format!("{readers} of 2 read there"));
    }
    scene.leave(1, second).await;
    scene.leave(0, first).await;
    scene.end().await;
}
