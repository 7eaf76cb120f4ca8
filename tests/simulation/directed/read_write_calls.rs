//! Many read and one writes: the calls of waiters, and the readers that go in together.

use multilock::sim::{Direction, Master};
use multilock::{Owner, Unlocked};
use tokio::time::{Instant, sleep};

use super::read_write::{LEASE, reading, scene, stands, writing};
use crate::ask::Ask;
use crate::plan::{Class, ms};
use crate::scene::{Scene, in_time, settle, violated};

/// Clients that are a millisecond away from every master.
async fn near(clients: usize) -> Scene {
    let scene = scene(Class::Calm, clients).await;
    for master in scene.masters() {
        master.set_delay(ms(1), ms(1));
    }
    scene
}

/// A waiter that is neither reader nor writer waits behind three readers. It is refused, and sleeps.
#[tokio::test(start_paused = true)]
async fn many_holders() {
    let scene = near(4).await;
    let mut readers = Vec::new();
    for client in 0..3 {
        readers.push(scene.lock(client, Ask::new().read()).await);
    }
    settle().await;
    let before = scene.executed("acquire");
    let waiting = scene.locking(3, Ask::new().wait(ms(20_000)));
    sleep(ms(4000)).await;
    let asked = scene.executed("acquire") - before;
    if asked > 3 {
        violated("calm", &format!("asked {asked} times"));
    }
    let begun = Instant::now();
    for (client, reader) in readers.into_iter().enumerate() {
        scene.leave(client, reader).await;
    }
    let waiting = waiting.await.expect("no panic");
    in_time(begun, ms(50));
    scene.leave(3, waiting).await;
    scene.end().await;
}

/// Readers of many processes wait for a writer.
#[tokio::test(start_paused = true)]
async fn readers_go_in_together() {
    let scene = near(8).await;
    let writer = scene.lock(0, writing()).await;
    let mut waiting = Vec::new();
    for client in 1..8 {
        waiting.push(scene.locking(client, reading(LEASE).wait(LEASE)));
        sleep(ms(5)).await;
    }
    let begun = Instant::now();
    scene.leave(0, writer).await;
    let mut readers = Vec::new();
    for reader in waiting {
        readers.push(reader.await.expect("no panic"));
    }
    // Time for a release, a call, and a question. One after the other, each reader would need one question more.
    in_time(begun, ms(8));
    for (client, reader) in readers.into_iter().enumerate() {
        scene.leave(client + 1, reader).await;
    }
    scene.end().await;
}

/// Readers of one process wait for a writer, and the first of them gives up.
#[tokio::test(start_paused = true)]
async fn readers_of_one_process_go_in_together() {
    let scene = near(2).await;
    let writer = scene.lock(0, writing()).await;
    let first = scene.locking(1, reading(LEASE).wait(ms(500)));
    sleep(ms(5)).await;
    let waiting: Vec<_> = (0..5)
        .map(|_| scene.locking(1, reading(LEASE).wait(LEASE)))
        .collect();
    assert!(first.await.expect("no panic").is_none(), "its time is over");
    sleep(ms(20)).await;
    let begun = Instant::now();
    scene.leave(0, writer).await;
    let mut readers = Vec::new();
    for reader in waiting {
        readers.push(reader.await.expect("no panic"));
    }
    // One of them asks when it is called, and the others when it is let in.
    in_time(begun, ms(8));
    for reader in readers {
        scene.leave(1, reader).await;
    }
    scene.end().await;
}

/// A writer waits for three readers. The first to go has the shortest lease, and the next one the longest, so that the name
/// is read for less long then.
#[tokio::test(start_paused = true)]
async fn a_writer_sleeps_until_the_last_reader_goes() {
    let scene = near(4).await;
    let long = scene.lock(0, reading(LEASE)).await;
    let short = scene.lock(1, reading(ms(8_000))).await;
    let last = scene.lock(3, reading(ms(9_000))).await;
    for reader in [&long, &short, &last] {
        assert!(reader.is_some(), "a name that is read is open to readers");
    }
    let writer = scene.locking(2, writing().wait(LEASE));
    sleep(ms(20)).await;
    let before = scene.executed("acquire");
    for (client, reader) in [(1, short), (0, long)] {
        scene.leave(client, reader).await;
        sleep(ms(20)).await;
        if scene.executed("acquire") > before {
            violated("calm", "a writer is called while a name is read");
        }
    }
    let begun = Instant::now();
    scene.leave(3, last).await;
    let writer = writer.await.expect("no panic");
    assert!(writer.is_some(), "granted");
    in_time(begun, ms(8));
    scene.leave(2, writer).await;
    scene.end().await;
}

/// A reader that is never heard of again has a lease that has ended when the last other reader goes.
#[tokio::test(start_paused = true)]
async fn the_last_reader_to_go_calls_also_beside_a_lease_that_has_ended() {
    let scene = near(3).await;
    let long = scene.lock(0, reading(LEASE)).await;
    let short = scene.lock(1, reading(ms(1000))).await.expect("both read");
    scene.world.give_up(1, short, "leak").leak();
    let writer = scene.locking(2, writing().wait(LEASE));
    sleep(ms(1500)).await;
    let begun = Instant::now();
    scene.leave(0, long).await;
    let writer = writer.await.expect("no panic");
    in_time(begun, ms(8));
    scene.leave(2, writer).await;
    scene.end().await;
}

/// A writer waits for two readers. The one with the long lease goes, and the other one is never heard of again.
#[tokio::test(start_paused = true)]
async fn a_writer_is_told_of_a_lease_that_ends_earlier_than_the_one_before() {
    let scene = near(3).await;
    let begun = Instant::now();
    let long = scene.lock(0, reading(LEASE)).await;
    let short = scene.lock(1, reading(ms(1000))).await.expect("both read");
    scene.world.give_up(1, short, "leak").leak();
    let writer = scene.locking(2, writing().wait(LEASE));
    sleep(ms(20)).await;
    scene.leave(0, long).await;
    let writer = writer.await.expect("no panic");
    in_time(begun, ms(1100));
    scene.leave(2, writer).await;
    scene.end().await;
}

/// A reader extends its lease by less than it has, and goes.
#[tokio::test(start_paused = true)]
async fn a_reader_that_extends_by_less_than_it_has_frees_the_name() {
    let scene = near(2).await;
    let reader = scene.lock(0, reading(LEASE)).await.expect("free");
    reader.guard.extend(ms(1000)).await.expect("all continue");
    let writer = scene.locking(1, writing().wait(LEASE));
    sleep(ms(20)).await;
    let begun = Instant::now();
    scene.leave(0, Some(reader)).await;
    let writer = writer.await.expect("no panic");
    in_time(begun, ms(8));
    scene.leave(1, writer).await;
    scene.end().await;
}

/// A reader, a writer and a reader wait in this order for a name that becomes read. The first one alone is called, and nobody
/// when the last one gives up.
#[tokio::test(start_paused = true)]
async fn nobody_is_called_that_would_be_refused() {
    let scene = near(4).await;
    let writer = scene.lock(0, writing()).await.expect("free");
    let first = scene.locking(1, reading(LEASE).wait(LEASE));
    sleep(ms(5)).await;
    let next = scene.locking(2, writing().wait(LEASE));
    sleep(ms(5)).await;
    let last = scene.locking(3, reading(LEASE).wait(ms(1000)));
    sleep(ms(20)).await;
    let before = scene.executed("acquire");
    let mine = scene.world.downgrade(0, writer, None).await;
    let first = first.await.expect("no panic");
    assert!(last.await.expect("no panic").is_none(), "its time is over");
    sleep(ms(20)).await;
    let asked = scene.executed("acquire") - before;
    if asked > 3 {
        violated("calm", &format!("asked {asked} times for one reader"));
    }
    scene.leave(1, first).await;
    scene.leave(0, mine).await;
    let next = next.await.expect("no panic");
    scene.leave(2, next).await;
    scene.end().await;
}

/// A client waits to read a name that is written, until its writer only reads.
#[tokio::test(start_paused = true)]
async fn a_downgrade_calls_readers() {
    let scene = near(2).await;
    let writer = scene.lock(0, writing()).await.expect("free");
    let reader = scene.locking(1, reading(LEASE).wait(LEASE));
    sleep(ms(20)).await;
    let begun = Instant::now();
    let first = scene.world.downgrade(0, writer, None).await;
    let reader = reader.await.expect("no panic");
    in_time(begun, ms(10));
    scene.leave(0, first).await;
    scene.leave(1, reader).await;
    scene.end().await;
}

/// Two masters have not heard of the downgrade. The next extension mends that, and calls the waiting reader.
#[tokio::test(start_paused = true)]
async fn an_extension_that_mends_a_downgrade_calls_readers() {
    let scene = near(2).await;
    let writer = scene.lock(0, writing()).await.expect("free");
    let reader = scene.locking(1, reading(LEASE).wait(LEASE));
    sleep(ms(20)).await;
    for place in [1, 2] {
        scene.cut(0, place, Direction::ToMaster);
    }
    let first = scene.world.downgrade(0, writer, None).await.expect("not dropped");
    for place in [1, 2] {
        scene.master(place).reset_connections();
        scene.heal(0, place);
    }
    sleep(ms(500)).await;
    stands(&scene, "write", 2);
    let begun = Instant::now();
    first.guard.extend(LEASE).await.expect("all continue");
    let reader = reader.await.expect("no panic");
    in_time(begun, ms(10));
    scene.leave(0, Some(first)).await;
    scene.leave(1, reader).await;
    scene.end().await;
}

/// A writer reads inside its own lock, and leaves its write lock first.
#[tokio::test(start_paused = true)]
async fn a_writer_that_leaves_its_reader_inside() {
    let scene = near(2).await;
    let me = Owner::new();
    let writer = scene.lock(0, writing().owner(&me)).await;
    let inner = scene.lock(0, Ask::new().read().owner(&me)).await;
    assert!(inner.is_some(), "it enters its own hold");
    let reader = scene.locking(1, reading(LEASE).wait(LEASE));
    sleep(ms(20)).await;
    let begun = Instant::now();
    let left = scene.leave(0, writer).await;
    if !matches!(left, Some(Ok(Unlocked::Downgraded))) {
        violated("holds stay whole", &format!("{left:?}"));
    }
    let reader = reader.await.expect("no panic");
    in_time(begun, ms(10));
    stands(&scene, "read", 3);
    scene.leave(1, reader).await;
    scene.leave(0, inner).await;
    scene.end().await;
}

/// A reader asks to write. Two such readers would wait for each other for ever.
#[tokio::test(start_paused = true)]
async fn who_reads_does_not_come_to_write() {
    let scene = near(2).await;
    let me = Owner::new();
    let reader = scene.lock(0, Ask::new().read().owner(&me)).await;
    let other = scene.lock(1, reading(LEASE)).await;
    let begun = Instant::now();
    let again = scene.lock(0, writing().owner(&me).wait(ms(3000))).await;
    if again.is_none() {
        in_time(begun, ms(0));
    }
    scene.world.look(None);
    scene.leave(0, again).await;
    scene.leave(1, other).await;
    scene.leave(0, reader).await;
    scene.end().await;
}

const READERS_QUEUE: &str = "multilock_readers_queue:{a}";

/// Waiting readers, in their order, and the ticket of each.
fn waiting_readers(master: &Master) -> Vec<(String, u64)> {
    let listed = master.command(&["ZRANGE", READERS_QUEUE, "0", "-1", "WITHSCORES"]);
    let listed = listed.expect("a queue");
    let waiter = |pair: &[String]| (pair[0].clone(), pair[1].parse().expect("a ticket"));
    listed.chunks_exact(2).map(waiter).collect()
}

/// Puts readers of a process into the queues, with these tickets and numbers that it has not given out.
fn place_readers(scene: &Scene, client: &str, tickets: std::ops::Range<u64>) {
    for master in scene.masters() {
        let deadline = (crate::world::clock_us(master) / 1000 + 15_000).to_string();
        for ticket in tickets.clone() {
            let waiter = format!("{client}:9{ticket}r:1000");
            let add = |key: &str, score: &str| master.command(&["ZADD", key, score, &waiter]);
            add(READERS_QUEUE, &ticket.to_string()).expect("written");
            add("multilock_deadlines:{a}", &deadline).expect("written");
        }
    }
}

/// More readers wait than are called in one go, and of these all are frozen but one.
#[tokio::test(start_paused = true)]
async fn frozen_readers_keep_nobody_out() {
    let scene = near(4).await;
    let mine = scene.lock(3, writing()).await;
    let known = scene.locking(3, writing().wait(ms(20)));
    known.await.expect("no panic");
    let field = scene
        .master(0)
        .fields("a")
        .into_iter()
        .find(|field| field.contains(':'));
    let field = field.expect("an owner");
    let frozen = field.split(':').next().expect("an id").to_owned();
    scene.leave(3, mine).await;
    settle().await;
    let writer = scene.lock(0, writing()).await;
    for place in 0..3 {
        scene.cut(3, place, Direction::ToClient);
    }
    place_readers(&scene, &frozen, 1..101);
    let first = scene.locking(1, reading(LEASE).wait(LEASE));
    sleep(ms(20)).await;
    let (_, ticket) = waiting_readers(scene.master(0)).pop().expect("it waits");
    place_readers(&scene, &frozen, ticket + 1..ticket + 41);
    sleep(ms(20)).await;
    let second = scene.locking(2, reading(LEASE).wait(LEASE));
    sleep(ms(20)).await;
    let begun = Instant::now();
    scene.leave(0, writer).await;
    let first = first.await.expect("no panic");
    in_time(begun, ms(10));
    let second = second.await.expect("no panic");
    in_time(begun, ms(20));
    scene.leave(1, first).await;
    scene.leave(2, second).await;
    for place in 0..3 {
        scene.heal(3, place);
    }
    scene.end().await;
}
