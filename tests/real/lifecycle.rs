//! Connections and tasks: few while in use, none afterwards, and no more after a thousand locks than
//! after one.

use std::time::Duration;

use crate::support::{
    Server, WITHIN, connect, held_everywhere, in_a_child, is_child, patient, three, until, until_free,
};
use multilock::{Masters, Owner, Unlocked};
use redis::Value;
use tokio::runtime::Handle;

/// For all holds, for all deadlines, for all stragglers, for figures.
const POOL: usize = 4;
const NODES: usize = 3;
/// Thousands of writes: none of them has to survive anything.
const ARGS: &[&str] = &["--appendonly", "no"];

async fn connected(servers: &[Server]) -> Masters {
    connect(servers.iter().map(Server::url)).await
}

/// Number of connections, without the connection of this question.
async fn connections(server: &Server) -> usize {
    let Value::BulkString(list) = server.command(&["CLIENT", "LIST"]).await else {
        panic!("CLIENT LIST answers text")
    };
    let list = String::from_utf8(list).expect("text");
    list.lines()
        .filter(|client| !client.contains(" cmd=client"))
        .count()
}

async fn until_connections(servers: &[Server], expected: usize) {
    for server in servers {
        // Earlier connections of the test itself may need a moment to be gone, too.
        until("so many connections", async || {
            connections(server).await == expected
        })
        .await;
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

async fn until_tasks(most: usize) {
    let what = format!("at most {most} tasks");
    until(&what, async || tasks() <= most).await;
}

#[tokio::test]
async fn nothing_is_left_when_the_last_is_gone() {
    let servers = three(ARGS).await;
    let before = tasks();
    for round in 0..3 {
        let masters = connected(&servers).await;
        let clone = masters.clone();
        let lock = clone.red_lock("a");
        if round > 0 {
            let guard = lock.try_lock().await.expect("free");
            assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        }
        drop(masters);
        until_connections(&servers, 1).await;
        drop(clone);
        // A lock is a clone as well.
        held_everywhere(&lock).await.unlock().await.expect("held");
        drop(lock);
        until_connections(&servers, 0).await;
        until_tasks(before).await;
    }
    until_free(&servers, "a").await;
}

#[tokio::test]
async fn nothing_is_left_of_masters_that_are_out_of_reach() {
    let servers = three(ARGS).await;
    let before = tasks();
    let builder = patient(servers.iter().map(Server::url)).node_timeout(Duration::from_secs(3));
    let masters = builder.connect().await.expect("masters that can be used");
    let guard = held_everywhere(&masters.red_lock("a")).await;
    servers[0].freeze().await;
    drop(guard);
    drop(masters.red_lock("b").try_lock().await.expect("two are well"));
    drop(masters);
    // Work under way has its deadline, and then it is over.
    until_tasks(before).await;
    servers[0].thaw().await;
    until_connections(&servers, 0).await;
}

#[tokio::test]
async fn two_tasks_and_one_connection_a_master() {
    let servers = three(ARGS).await;
    let before = tasks();
    let masters = connected(&servers).await;
    until_tasks(before + 2 * NODES + POOL).await;
    let mut guards = Vec::new();
    for i in 0..50 {
        guards.push(held_everywhere(&masters.red_lock(format!("a{i}"))).await);
    }
    // However many locks are held.
    until_tasks(before + 2 * NODES + POOL).await;
    until_connections(&servers, 1).await;
    let clones: Vec<_> = (0..50).map(|_| masters.clone()).collect();
    until_tasks(before + 2 * NODES + POOL).await;
    drop(clones);
    drop(guards);
    until_tasks(before + 2 * NODES + POOL).await;
    until_connections(&servers, 1).await;
    drop(masters);
    until_tasks(before).await;
}

#[tokio::test]
async fn a_guard_outlives_its_masters() {
    let servers = three(ARGS).await;
    let before = tasks();
    let masters = connected(&servers).await;
    let me = Owner::new();
    let guard = held_everywhere(&masters.red_lock("a").owner(&me)).await;
    drop(masters);
    until_connections(&servers, 1).await;
    assert!(guard.is_valid());
    guard.extend(Duration::from_secs(30)).await.expect("held");
    assert_eq!(guard.owner(), &me);
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    until_free(&servers, "a").await;
    until_connections(&servers, 0).await;
    until_tasks(before).await;

    // A drop sends its release as well, though it is the last that anybody has of these masters.
    let masters = connected(&servers).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    drop(masters);
    drop(guard);
    until_free(&servers, "a").await;
    until_connections(&servers, 0).await;
    until_tasks(before).await;
}

#[tokio::test]
async fn an_owner_keeps_nothing_alive() {
    let servers = three(ARGS).await;
    let before = tasks();
    let me = Owner::new();
    let masters = connected(&servers).await;
    let guard = masters.red_lock("a").owner(&me).try_lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    masters
        .red_lock("b")
        .owner(&me)
        .try_lock()
        .await
        .expect("free")
        .leak();
    drop(masters);
    until_connections(&servers, 0).await;
    until_tasks(before).await;
    drop(me);
}

/// Resident memory of this process in bytes.
#[cfg(target_os = "linux")]
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = resident.expect("resident").trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().expect("a number") * 1024
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn thousands_of_locks_leave_nothing() {
    const CYCLES: usize = 2000;
    // Other tests of this process need memory meanwhile.
    if !is_child() {
        return in_a_child("lifecycle::thousands_of_locks_leave_nothing", &[]).await;
    }
    let servers = three(ARGS).await;
    let masters = connected(&servers).await;
    let me = Owner::new();
    let cycles = async |count: usize| {
        for i in 0..count {
            let lock = masters.red_lock(format!("name {}", i % 7)).owner(&me);
            let guard = lock.wait(WITHIN).lock().await.expect("free");
            if i % 3 == 0 {
                drop(guard);
            } else {
                guard.unlock().await.expect("held");
            }
        }
    };
    cycles(500).await;
    until_tasks(tasks()).await;
    let (tasks_before, memory_before) = (tasks(), memory());
    cycles(CYCLES).await;
    until_tasks(tasks_before).await;
    let grown = memory().saturating_sub(memory_before);
    // 4 kB a cycle would be 8 MB.
    assert!(grown < 8 << 20, "{grown} bytes more after {CYCLES} cycles");
    for server in &servers {
        until("nothing is left", async || server.keys().await.is_empty()).await;
    }
}
