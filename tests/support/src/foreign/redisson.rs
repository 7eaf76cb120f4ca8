//! Common parts of the stand-ins for Redisson's locks: a process of theirs at one master, its threads, and how one
//! asks and sleeps in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::channels::Channels;
use super::dial;

/// Of a lock that was taken without one, and of every renewal.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// Of a wait that nothing else ends.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Delay between a message of the server and the thread that waits for it. It decides more than anything else which
/// client comes first after a release. So it decides each side's share, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As in Java, from one thread to another: about so that a lock and its unlock take 0.43 ms where nobody
    /// else is, and a waiter asks 0.5 ms after a message.
    Java,
    /// At once. Such a neighbour is the hardest: the last holder asks again before any other client can.
    AtOnce,
}

/// Time for a change of threads, beyond the time that a task needs here.
const HANDED_OVER: Duration = Duration::from_micros(100);

/// Value that unlocks. It is empty: a thread that holds needs nothing more.
#[derive(Debug)]
pub struct Held(());

#[derive(Debug)]
pub(super) struct Process {
    id: Uuid,
    commands: MultiplexedConnection,
    channels: Channels,
    threads: AtomicU64,
    pace: Pace,
}

enum Answer {
    Granted,
    /// Time to sleep: the rest of the holder's lease, or no limit.
    Refused(Option<Duration>),
    /// The library throws: a key has another type, or the master does not answer.
    Failed,
}

/// A lock in the hands of a thread.
pub(super) trait Asking: Sync {
    fn process(&self) -> &Process;

    /// Takes the lock. The answer is nothing if it was taken, else the time to sleep.
    fn command(&self) -> Cmd;

    /// Takes a waiter that gives up out of the queue, where the lock has one.
    fn give_up(&self) -> Option<Cmd> {
        None
    }
}

impl Process {
    pub(super) async fn connect(url: &str, pace: Pace) -> Arc<Self> {
        let client = redis::Client::open(url).expect("a URL");
        Arc::new(Self {
            id: Uuid::new_v4(),
            commands: dial(&client).await,
            channels: Channels::connect(&client).await,
            threads: AtomicU64::new(1),
            pace,
        })
    }

    /// A thread more, by the field that stands for it.
    pub(super) fn thread(&self) -> String {
        format!("{}:{}", self.id, self.threads.fetch_add(1, Ordering::Relaxed))
    }

    /// Time that a thread takes from one call to the next. A thread sleeps, since the runtime's own timer goes by
    /// milliseconds.
    pub(super) async fn handed_over(&self) {
        if self.pace == Pace::Java {
            let sleeping = spawn_blocking(|| thread::sleep(HANDED_OVER));
            sleeping.await.expect("no panic");
        }
    }

    pub(super) async fn run(&self, command: Cmd) -> RedisResult<Option<i64>> {
        let answer = command.query_async(&mut self.commands.clone()).await;
        self.handed_over().await;
        answer
    }
}

async fn ask(lock: &impl Asking) -> Answer {
    match lock.process().run(lock.command()).await {
        Ok(None) => Answer::Granted,
        Ok(Some(left)) => Answer::Refused(u64::try_from(left).ok().map(Duration::from_millis)),
        Err(_) => Answer::Failed,
    }
}

/// Takes a lock, or gives up after `wait`. The lock's releases are announced on `channel`. A lock without a queue
/// listens only if there is time to wait.
pub(super) async fn take(lock: &impl Asking, wait: Option<Duration>, channel: &str) -> Option<Held> {
    let deadline = wait.map(|wait| Instant::now() + wait);
    match ask(lock).await {
        Answer::Granted => return Some(Held(())),
        Answer::Failed => return None,
        Answer::Refused(_) => {}
    }
    let give_up = lock.give_up();
    if left(deadline).is_zero() && give_up.is_none() {
        return None;
    }
    let process = lock.process();
    let messages = process.channels.join(channel).await;
    process.handed_over().await;
    let granted = ask_until(lock, deadline, &messages).await;
    process.channels.leave(channel).await;
    if let Some(give_up) = give_up.filter(|_| !granted) {
        let _ = process.run(give_up).await;
    }
    granted.then_some(Held(()))
}

/// Asks and sleeps in turn: until a message that is for this waiter, or the end of the time that it was answered.
async fn ask_until(lock: &impl Asking, deadline: Option<Instant>, messages: &Semaphore) -> bool {
    loop {
        if left(deadline).is_zero() {
            return false;
        }
        let sleep = match ask(lock).await {
            Answer::Granted => return true,
            Answer::Failed => return false,
            Answer::Refused(held_for) => held_for.unwrap_or(FOR_EVER).min(left(deadline)),
        };
        if let Ok(permit) = timeout(sleep, messages.acquire()).await {
            permit.expect("never closed").forget();
            lock.process().handed_over().await;
        }
    }
}

/// How long a wait goes on.
fn left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(FOR_EVER, |deadline| {
        deadline.saturating_duration_since(Instant::now())
    })
}

/// A name in the names of other keys and of channels. Braces that it has already decide its place in a cluster.
pub(super) fn tagged(name: &str) -> String {
    if name.contains('{') {
        name.to_owned()
    } else {
        format!("{{{name}}}")
    }
}
