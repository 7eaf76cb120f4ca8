//! `DistributedLockCoreTestCases.cs`: another process has the lock. On real servers, with that process for real.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use multilock::{LockError, Masters};
use multilock_test_support::{Server, WITHIN, child, is_child, three, within};
use tokio::time::{Instant, sleep, timeout};

use crate::steps::{wait_in_vain, waiting};

/// Lease of the other process: its lock is free that long after its end at the latest.
const LEASE: Duration = Duration::from_secs(5);

async fn connect(urls: impl IntoIterator<Item = String>) -> Masters {
    let builder = Masters::builder().nodes(urls).lease(LEASE);
    // The masters of a test have just been started, and the machine may be busy.
    let builder = builder.quarantine(multilock::Quarantine::Off);
    let connecting = builder.node_timeout(Duration::from_millis(800)).connect();
    connecting.await.expect("masters that can be used")
}

/// The other process: takes the lock, says so, and follows the next line of its input.
async fn take_lock() {
    let urls = std::env::var("MULTILOCK_TEST_URLS").expect("set by the parent");
    let masters = connect(urls.split(',').map(str::to_owned)).await;
    let guard = masters.red_lock("cross-process").lock().await.expect("free");
    println!("taken");
    let mut order = String::new();
    tokio::task::block_in_place(|| std::io::stdin().read_line(&mut order)).expect("a line");
    if order.trim() == "abandon" {
        // Without a word to the masters.
        std::process::exit(0);
    }
    guard.unlock().await.expect("held");
}

/// The other process, as its parent sees it. Ends with this.
struct LockTaker {
    process: Child,
    orders: ChildStdin,
}

impl LockTaker {
    /// Returns once it has the lock.
    async fn start(test: &str, servers: &[Server]) -> Self {
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let mut command = child(test);
        command.env("MULTILOCK_TEST_URLS", urls.join(","));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("a child process");
        let orders = process.stdin.take().expect("piped");
        let said = BufReader::new(process.stdout.take().expect("piped"));
        let taker = Self { process, orders };
        // The reader goes on to the end of the output, so that the child never waits for it.
        let (told, was_taken) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let mut told = Some(told);
            for line in said.lines().map_while(Result::ok) {
                if line.ends_with("taken") {
                    let _ = told.take().map(|told| told.send(()));
                }
            }
        });
        within("it has the lock", was_taken)
            .await
            .expect("it has not failed");
        taker
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("it listens");
    }

    /// Whether it ended well.
    async fn ended(&mut self) -> bool {
        let deadline = Instant::now() + WITHIN;
        loop {
            if let Some(status) = self.process.try_wait().expect("a child") {
                return status.success();
            }
            assert!(Instant::now() < deadline, "it does not end");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for LockTaker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `TestCrossProcess`: refused while the other process has it, and granted after its unlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_cross_process() {
    if is_child() {
        return take_lock().await;
    }
    let servers = three(&[]).await;
    let mut taker = LockTaker::start("distributed_lock::processes::test_cross_process", &servers).await;
    let masters = connect(servers.iter().map(Server::url)).await;
    let lock = masters.red_lock("cross-process");
    // Longer than the lease: it is renewed there.
    let refused = wait_in_vain(lock.clone().wait(LEASE + LEASE / 2)).await;
    assert!(matches!(refused, Err(LockError::TimedOut { .. })), "{refused:?}");
    taker.order("done");
    let guard = within("it is released", lock.lock()).await.expect("free");
    guard.ensure_valid().expect("granted just now");
    assert!(taker.ended().await, "its unlock was confirmed");
}

/// The other process goes while a waiter waits. Returns the time until that one is granted.
async fn abandoned(test: &str, leave: impl FnOnce(&mut LockTaker)) -> Duration {
    let servers = three(&[]).await;
    let mut taker = LockTaker::start(test, &servers).await;
    let masters = connect(servers.iter().map(Server::url)).await;
    let mut waits = waiting(masters.red_lock("cross-process").wait(Duration::from_secs(20)));
    let early = timeout(Duration::from_millis(100), &mut waits).await;
    assert!(early.is_err(), "it is held there");
    let begun = Instant::now();
    leave(&mut taker);
    taker.ended().await;
    let guard = within("the lease ends", waits).await.expect("no panic");
    guard.expect("granted").ensure_valid().expect("granted just now");
    begun.elapsed()
}

/// `TestCrossProcessAbandonment`: the process ends without giving the lock up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_cross_process_abandonment() {
    if is_child() {
        return take_lock().await;
    }
    let test = "distributed_lock::processes::test_cross_process_abandonment";
    let after = abandoned(test, |taker| taker.order("abandon")).await;
    assert!(after > LEASE / 3, "nobody has given it up: {after:?}");
}

/// `TestCrossProcessAbandonmentWithKill`: the process is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_cross_process_abandonment_with_kill() {
    if is_child() {
        return take_lock().await;
    }
    let test = "distributed_lock::processes::test_cross_process_abandonment_with_kill";
    let after = abandoned(test, |taker| taker.process.kill().expect("a child")).await;
    assert!(after > LEASE / 3, "nobody has given it up: {after:?}");
}
