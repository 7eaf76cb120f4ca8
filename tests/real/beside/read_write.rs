//! Read/write locks beside Redisson's `RReadWriteLock` on the same key: who keeps whom out, how each hears of the
//! other, and what would go wrong with another layout.
//!
//! Counter-examples 28 to 32 stand here by their names: `java_unlock_loop`, `java_unlock_deletes`, `extra_field`,
//! `plain_under_java_rw`, `watchdog_shortens`.

mod alone;
mod contest;
mod walk;

use std::time::Duration;

use multilock::{LockError, Masters, MultiLock, NodeState, Shared};
use redis::Value;
use tokio::time::Instant;

use crate::support::foreign::Lock;
use crate::support::foreign::read_write::{Client, Half};
use crate::support::foreign::rlock;
use crate::support::{Server, WITHIN, called_before, connect, patient, until, until_free, within};

/// Our waiter would ask by itself after five seconds, and theirs when a lease of thirty has ended.
const SOON: Duration = Duration::from_secs(4);

async fn start() -> (Server, Masters, Client) {
    let server = Server::start_with(&["--appendonly", "no"]).await;
    let (ours, theirs) = (connect([server.url()]).await, Client::connect(server.url()).await);
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
async fn readers_of_both_go_in_together_and_writers_alone() {
    let (server, ours, theirs) = start().await;
    let (read, write) = theirs.lock("a");
    let mine = reading(&ours).try_lock().await.expect("free");
    let held = read.lock(Some(Duration::ZERO)).await.expect("only read");
    assert!(!is_granted(&theirs.write("a")).await);
    assert_contended(writing(&ours).try_lock().await);
    let seen = reading(&ours).inspect().await.expect("looks").remove(0);
    assert!(
        matches!(&seen.nodes[0].1, NodeState::Read { holders, .. } if holders.len() == 2),
        "{seen:?}"
    );
    mine.unlock().await.expect("held");
    assert_contended(writing(&ours).try_lock().await);
    let mine = reading(&ours).try_lock().await.expect("only read");
    assert!(read.unlock(held).await, "held");
    assert!(!is_granted(&theirs.write("a")).await);
    mine.unlock().await.expect("held");

    let held = write.lock(Some(Duration::ZERO)).await.expect("free");
    assert_contended(reading(&ours).try_lock().await);
    assert_contended(writing(&ours).try_lock().await);
    assert_contended(ours.red_lock("a").try_lock().await);
    assert!(write.unlock(held).await, "held");

    let mine = writing(&ours).try_lock().await.expect("free");
    assert!(!is_granted(&theirs.read("a")).await && !is_granted(&theirs.write("a")).await);
    let mine = mine.downgrade().await;
    let held = read.lock(Some(Duration::ZERO)).await.expect("only read");
    mine.unlock().await.expect("held");
    assert!(read.unlock(held).await, "held");
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
    let reader = theirs.read("a");
    assert_soon(async || ours_behind_theirs(&server, &ours, &reader, false).await).await;
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
    assert_soon(async || {
        let guard = reading(&ours).lock().await.expect("free");
        server.reset_stats().await;
        let leave = async {
            guard.unlock().await.expect("held");
        };
        theirs_behind_ours(&server, theirs.write("a"), leave).await
    })
    .await;
}

/// Redisson tells nobody where a writer goes on reading; ours does.
#[tokio::test]
async fn their_readers_hear_of_our_downgrade() {
    let (server, ours, theirs) = start().await;
    assert_soon(async || {
        let guard = writing(&ours).lock().await.expect("free");
        server.reset_stats().await;
        let mut reader = None;
        let leave = async { reader = Some(guard.downgrade().await) };
        let time = theirs_behind_ours(&server, theirs.read("a"), leave).await;
        reader.expect("downgraded").unlock().await.expect("held");
        until_free([&server], "a").await;
        time
    })
    .await;
}

/// 28: were a field an absolute time, a Redisson reader that leaves would go through as many numbers, and the server
/// would serve nobody meanwhile. Rule: counts only.
#[tokio::test]
async fn java_unlock_loop() {
    let options = ["--appendonly", "no", "--busy-reply-threshold", "50"];
    let server = Server::start_with(&options).await;
    let theirs = Client::connect(server.url()).await;
    let read = theirs.read("a");
    let held = read.lock(None).await.expect("free");
    server.command(&["HSET", "a", "8:1", "1790000000000"]).await;
    let unlocking = tokio::spawn(async move { read.unlock(held).await });
    until("it serves nobody", async || {
        let told = server.try_command(&["PING"]).await;
        told.is_err_and(|error| format!("{error:#}").contains("BUSY"))
    })
    .await;
    unlocking.abort();
    server.kill().await;

    // As it is, the same is over at once.
    let (server, ours, theirs) = start().await;
    let mine = reading(&ours).lock().await.expect("free");
    let read = theirs.read("a");
    let held = read.lock(None).await.expect("only read");
    assert!(read.unlock(held).await, "held");
    let fields = server.hgetall("a").await;
    assert_eq!(fields.len(), 2, "{fields:?}");
    assert!(fields.values().any(|count| count == "1"), "{fields:?}");
    mine.unlock().await.expect("held");
}

/// 29: a Redisson reader that leaves deletes the key under a reader whose time-out key is missing, or whose field is no
/// count. Rule: both stand as Redisson has them.
#[tokio::test]
async fn java_unlock_deletes() {
    let (server, ours, theirs) = start().await;
    for value in ["1", "text"] {
        let read = theirs.read("a");
        let held = read.lock(None).await.expect("free");
        server.command(&["HSET", "a", "8:1", value]).await;
        assert!(read.unlock(held).await, "held");
        assert!(!server.exists("a").await, "{value}");
    }
    let mine = reading(&ours).lock().await.expect("free");
    let read = theirs.read("a").leasing(Duration::from_secs(5));
    let held = read.lock(None).await.expect("only read");
    assert!(read.unlock(held).await, "held");
    assert!(server.pttl("a").await > 10_000, "for as long as ours");
    assert!(!is_granted(&theirs.write("a")).await);
    mine.unlock().await.expect("held");
    until_free([&server], "a").await;
}

/// 30: with one more field in it, a hash that Redisson's writer leaves stays behind in mode read, and nobody writes until
/// its time is over. Rule: nothing but the mode and the owners.
#[tokio::test]
async fn extra_field() {
    let (server, ours, theirs) = start().await;
    let write = theirs.write("a");
    let held = write.lock(None).await.expect("free");
    server.command(&["HSET", "a", "deadlines", "1"]).await;
    assert!(write.unlock(held).await, "held");
    assert_eq!(server.hgetall("a").await["mode"], "read");
    assert!(!is_granted(&theirs.write("a")).await);
    server.command(&["DEL", "a"]).await;
    // Whatever ours does meanwhile, it leaves nothing in theirs.
    let held = write.lock(None).await.expect("free");
    assert_contended(reading(&ours).try_lock().await);
    assert_contended(writing(&ours).try_lock().await);
    let waited = writing(&ours).wait(Duration::from_millis(100)).lock().await;
    assert!(matches!(waited, Err(LockError::TimedOut { .. })), "{waited:?}");
    assert_eq!(server.hgetall("a").await.len(), 2);
    assert!(write.unlock(held).await, "held");
    assert!(!server.exists("a").await);
}

/// 31: Redisson's read/write lock takes a hash without a mode for free: a plain lock, ours or its own, does not keep it
/// out. Rule: `.write()` beside it.
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

/// 32: a Redisson reader's renewal sets what is left to the key, under a longer lease of ours. Rule: leases of at most its
/// watchdog's there; and our own renewal mends it.
#[tokio::test]
async fn watchdog_shortens() {
    let long = Duration::from_secs(60);
    let server = Server::start_with(&["--appendonly", "no"]).await;
    let ours = patient([server.url()]).max_lease(long).connect().await;
    let ours = ours.expect("masters that can be used");
    let theirs = Client::connect(server.url()).await;
    let mine = reading(&ours).lease(long).lock().await.expect("free");
    let read = theirs.read("a");
    read.lock(None).await.expect("only read");
    assert!(server.pttl("a").await > 31_000);
    assert!(read.renew().await);
    assert!(server.pttl("a").await <= 30_000, "while ours has more");
    assert!(mine.validity() > Duration::from_secs(31));
    mine.extend(long).await.expect("held");
    assert!(server.pttl("a").await > 31_000, "mended");
    mine.unlock().await.expect("held");
    // What is as long as theirs at most is left whole.
    let mine = reading(&ours).lock().await.expect("only read");
    assert!(read.renew().await);
    let left = server.command(&["PTTL", "a"]).await;
    let Value::Int(left) = left else {
        panic!("{left:?}")
    };
    let left = Duration::from_millis(u64::try_from(left).expect("held"));
    assert!(left + Duration::from_millis(2) >= mine.validity(), "{left:?}");
}
