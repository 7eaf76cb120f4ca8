//! Read/write locks beside Redisson's `RReadWriteLock` on the same key: neither side gets in beside the other, and how each
//! hears of the other.

mod alone;
mod at_random;
mod contest;

use std::time::Duration;

use multilock::{LockError, Masters, MultiLock, NodeState, Shared};
use tokio::time::Instant;

use crate::support::foreign::Lock;
use crate::support::foreign::read_write::{Client, Half};
use crate::support::foreign::rlock;
use crate::support::{Server, WITHIN, called_before, connect_beside, until, until_free, within};

/// Our waiter would ask by itself after five seconds, and theirs when a lease of thirty has ended.
const SOON: Duration = Duration::from_secs(4);

async fn start() -> (Server, Masters, Client) {
    let server = Server::start_with(&["--appendonly", "no"]).await;
    let (ours, theirs) = (
        connect_beside([server.url()]).await,
        Client::connect(server.url()).await,
    );
    (server, ours, theirs)
}

fn reading(masters: &Masters) -> MultiLock<Shared> {
    masters.red_lock("a").read()
}

fn writing(masters: &Masters) -> MultiLock {
    masters.red_lock("a").write()
}

async fn is_granted(theirs: &Half) -> bool {
    theirs.lock(Some(Duration::ZERO)).await.is_some()
}

#[track_caller]
fn assert_contended<T: std::fmt::Debug>(tried: Result<T, LockError>) {
    let error = tried.expect_err("theirs");
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
}

async fn listeners(server: &Server) -> usize {
    let answer = server.command(&["PUBSUB", "NUMSUB", "redisson_rwlock:{a}"]).await;
    let (_, count): (String, usize) = redis::from_redis_value(answer).expect("a channel and its listeners");
    count
}

#[tokio::test]
async fn each_keeps_the_other_out() {
    let (server, ours, theirs) = start().await;
    let (read, write) = theirs.lock("a");
    let mine = reading(&ours).try_lock().await.expect("free");
    let beside = reading(&ours).try_lock().await.expect("only read");
    assert!(!is_granted(&read).await && !is_granted(&write).await);
    beside.unlock().await.expect("held");
    assert!(!is_granted(&read).await && !is_granted(&write).await);
    mine.unlock().await.expect("held");

    for half in [&read, &write] {
        let held = half.lock(Some(Duration::ZERO)).await.expect("free");
        assert_contended(reading(&ours).try_lock().await);
        assert_contended(writing(&ours).try_lock().await);
        assert_contended(ours.red_lock("a").try_lock().await);
        let seen = reading(&ours).inspect().await.expect("looks").remove(0);
        let is_told = match &seen.nodes[0].1 {
            NodeState::Read { holders, .. } => holders.len() == 1,
            NodeState::Write { count, .. } => *count == 1,
            _ => false,
        };
        assert!(is_told, "{seen:?}");
        assert!(half.unlock(held).await, "held");
    }

    let mine = writing(&ours).try_lock().await.expect("free");
    assert!(!is_granted(&read).await && !is_granted(&write).await);
    let mine = mine.downgrade().await;
    assert!(!is_granted(&read).await && !is_granted(&write).await);
    mine.unlock().await.expect("held");
    until_free([&server], "a").await;
    assert_eq!(server.keys().await, Vec::<String>::new());
}

/// One of their plain locks and our read/write locks keep each other out.
#[tokio::test]
async fn an_rlock_keeps_ours_out_and_ours_it() {
    let (server, ours, _) = start().await;
    let rlock = rlock::Client::connect(server.url()).await.lock("a");
    let held = rlock.lock(Some(Duration::ZERO)).await.expect("free");
    assert_contended(reading(&ours).try_lock().await);
    assert_contended(writing(&ours).try_lock().await);
    assert!(rlock.unlock(held).await, "held");
    let mine = reading(&ours).try_lock().await.expect("free");
    assert!(rlock.lock(Some(Duration::ZERO)).await.is_none());
    mine.unlock().await.expect("held");
    let mine = writing(&ours).try_lock().await.expect("free");
    assert!(rlock.lock(Some(Duration::ZERO)).await.is_none());
    mine.unlock().await.expect("held");
    until_free([&server], "a").await;
}

async fn assert_soon(wait: impl AsyncFnMut() -> Duration) {
    called_before(SOON, wait).await;
}

/// How long after their holder leaves a waiter of ours is inside.
async fn ours_behind_theirs(server: &Server, ours: &Masters, holder: &Half, reads: bool) -> Duration {
    let held = holder.lock(Some(WITHIN)).await.expect("free");
    let (read, write) = (reading(ours), writing(ours));
    let waiting = tokio::spawn(async move {
        if reads {
            let guard = read.lock().await.expect("in the end");
            (Instant::now(), guard.unlock().await)
        } else {
            let guard = write.lock().await.expect("in the end");
            (Instant::now(), guard.unlock().await)
        }
    });
    until("it listens", async || listeners(server).await == 1).await;
    let begun = Instant::now();
    assert!(holder.unlock(held).await, "held");
    let (inside, left) = within("it is woken", waiting).await.expect("no panic");
    left.expect("held");
    until_free([server], "a").await;
    until("nobody listens", async || listeners(server).await == 0).await;
    inside - begun
}

#[tokio::test]
async fn our_waiters_hear_of_their_release() {
    let (server, ours, theirs) = start().await;
    for reads in [true, false] {
        let writer = theirs.write("a");
        assert_soon(async || ours_behind_theirs(&server, &ours, &writer, reads).await).await;
    }
    for reads in [true, false] {
        let reader = theirs.read("a");
        assert_soon(async || ours_behind_theirs(&server, &ours, &reader, reads).await).await;
    }
}

/// How long after `leave` has begun their waiter is inside.
async fn theirs_behind_ours(server: &Server, waiter: Half, leave: impl Future<Output = ()>) -> Duration {
    let waiting = tokio::spawn(async move {
        let held = waiter.lock(None).await.expect("in the end");
        let inside = Instant::now();
        assert!(waiter.unlock(held).await, "held");
        inside
    });
    // It asks once more when it listens.
    until("it listens", async || listeners(server).await == 1).await;
    until("it has asked twice", async || {
        server.commandstats().await.get("eval").copied().unwrap_or(0) >= 2
    })
    .await;
    let begun = Instant::now();
    leave.await;
    let inside = within("it is woken", waiting).await.expect("no panic");
    inside - begun
}

#[tokio::test]
async fn their_waiters_hear_of_our_release() {
    let (server, ours, theirs) = start().await;
    for waiter in [theirs.read("a"), theirs.write("a")] {
        assert_soon(async || {
            let guard = writing(&ours).lock().await.expect("free");
            server.reset_stats().await;
            let leave = async {
                guard.unlock().await.expect("held");
            };
            theirs_behind_ours(&server, waiter.clone(), leave).await
        })
        .await;
    }
    for waiter in [theirs.read("a"), theirs.write("a")] {
        assert_soon(async || {
            let guard = reading(&ours).lock().await.expect("free");
            server.reset_stats().await;
            let leave = async {
                guard.unlock().await.expect("held");
            };
            theirs_behind_ours(&server, waiter.clone(), leave).await
        })
        .await;
    }
}

/// Redisson's read/write lock takes a hash without a mode for free: a plain lock, ours or its own, does not keep it out.
/// `.write()` does.
#[tokio::test]
async fn plain_under_java_rw() {
    let (server, ours, theirs) = start().await;
    for half in [theirs.read("a"), theirs.write("a")] {
        let plain = ours.red_lock("a").lock().await.expect("free");
        assert!(is_granted(&half).await, "granted to both");
        assert!(plain.is_valid());
        drop(plain);
        server.flushall().await;
        let rlock = rlock::Client::connect(server.url()).await.lock("a");
        rlock.lock(None).await.expect("free");
        assert!(is_granted(&half).await, "granted to both");
        server.flushall().await;
        let writer = writing(&ours).lock().await.expect("free");
        assert!(!is_granted(&half).await);
        writer.unlock().await.expect("held");
        until_free([&server], "a").await;
    }
}

/// The `forceUnlock` of their write lock takes our read and write locks away. Our clients notice it.
#[tokio::test]
async fn their_force_takes_ours() {
    let (server, ours, theirs) = start().await;
    let (read, write) = theirs.lock("a");
    let mine = reading(&ours).lock().await.expect("free");
    assert!(!read.force().await, "not in its mode");
    assert!(write.force().await);
    assert!(!server.exists("a").await);
    assert!(mine.extend(Duration::from_secs(30)).await.is_err(), "gone");
    let again = reading(&ours).try_lock().await.expect("free");
    again.unlock().await.expect("held");
    until_free([&server], "a").await;
    assert_eq!(server.keys().await, Vec::<String>::new());
}
