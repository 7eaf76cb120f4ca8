//! Stand-ins for the lock libraries that others run on the same masters, for tests beside them.
//!
//! Each stand-in sends the commands of its library, in their order, and waits like it. The library's reaction to
//! broken masters is not imitated. A value called `Client` is one process of theirs. Its tasks share its id and its
//! connections, and everything ends when the client and its locks are dropped.
//!
//! A future that is dropped while it locks leaves its grants behind, like a process that is killed.

mod channels;
pub mod fair;
pub mod multi_lock;
pub mod node_redlock;
pub mod read_write;
mod redisson;
pub mod redsync;
pub mod rlock;

use std::future::Future;
use std::time::Duration;

use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd};
use tokio::time::{Instant, sleep, timeout_at};

use super::locks::PATIENT;

/// Operations that all stand-ins have.
pub trait Lock: Send + Sync {
    /// Value that unlocks the lock, also in other hands.
    type Held: Send;

    /// Takes the lock, or gives up after so long; without a wait it goes on until it has the lock. `None`
    /// where the library would return without it, or throw.
    fn lock(&self, wait: Option<Duration>) -> impl Future<Output = Option<Self::Held>> + Send;

    /// Gives it back; whether it was still held on enough masters.
    fn unlock(&self, held: Self::Held) -> impl Future<Output = bool> + Send;
}

/// A connection for commands, which all tasks of a process share.
async fn dial(client: &redis::Client) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENT))
        .set_response_timeout(Some(PATIENT));
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .expect("a server that answers")
}

async fn dial_all<S: AsRef<str>>(urls: impl IntoIterator<Item = S>) -> Vec<MultiplexedConnection> {
    let clients = urls
        .into_iter()
        .map(|url| redis::Client::open(url.as_ref()).expect("a URL"));
    let clients: Vec<redis::Client> = clients.collect();
    join_all(clients.iter().map(dial)).await
}

/// Sends a command to all masters at once; how many answered that it did something. An error is none.
async fn ask_all(masters: &[MultiplexedConnection], command: &Cmd) -> usize {
    let answers = join_all(masters.iter().map(|master| {
        let mut master = master.clone();
        async move { command.query_async::<bool>(&mut master).await }
    }));
    let done = answers.await.into_iter().filter(|answer| *answer == Ok(true));
    done.count()
}

/// A script with the names of keys and the arguments that follow them.
pub fn script(text: &str, keys: &[&str], args: &[&str]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(text).arg(keys.len()).arg(keys).arg(args);
    command
}

/// Deletes a string if it is still the caller's.
pub fn delete_if_mine(name: &str, value: &str) -> Cmd {
    const DELETE: &str = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";
    script(DELETE, &[name], &[value])
}

/// More than half.
pub fn quorum(masters: usize) -> usize {
    masters / 2 + 1
}

fn milliseconds(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// Sleeps for a time at random between two; whether the deadline has not come before.
async fn pause((least, most): (Duration, Duration), deadline: Option<Instant>) -> bool {
    let pause = sleep(rand::random_range(least..most));
    match deadline {
        None => {
            pause.await;
            true
        }
        Some(deadline) => timeout_at(deadline, pause).await.is_ok(),
    }
}
