//! Instructions that an operation costs the client, counted by callgrind: the same on a busy
//! machine as on an idle one. The masters are hollow, so neither network nor Lua counts.
//!
//! The counts are compared with the figures in `committed.txt`, which are meant to fall only. A count of more than
//! [`ALLOWED`] times its figure fails. `UPDATE=1` writes the new figures down.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use multilock::{Masters, Owner, sim};

/// Compilers and libraries differ a little.
const ALLOWED: f64 = 1.10;

/// Each operation is counted over two runs of different length. Their difference leaves out the instructions before the
/// first and after the last operation.
const SHORT: u64 = 500;
const LONG: u64 = 2500;

const OPERATIONS: [&str; 8] = [
    "pair.n1",
    "pair.n3",
    "pair.n5",
    "pair.n9",
    "fenced_pair.n5",
    "waiting_pair.n5",
    "reentry.n5",
    "validity.n5",
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => compare(),
        ["connect"] => {
            connect();
            ExitCode::SUCCESS
        }
        [operation, times] => {
            perform(operation, times.parse().expect("a number"));
            ExitCode::SUCCESS
        }
        other => panic!("no arguments, or an operation and how often: {other:?}"),
    }
}

/// Looks for a real server, and finds none. Such a client reads the clocks of the machine, and masters in memory have their own.
fn connect() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let masters = Masters::builder().node("redis://127.0.0.1:1").connect();
    runtime.block_on(masters).expect_err("no server is there");
}

fn perform(operation: &str, times: u64) {
    let (verb, nodes) = operation.split_once(".n").expect("operation.n<masters>");
    let verb = verb.to_owned();
    let nodes = nodes.parse().expect("a number of masters");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    // In a task of its own, as in a service: the future of `block_on` is woken by another way, which costs more.
    let performed = runtime.spawn(async move {
        // Valgrind is slow; no deadline is to pass meanwhile.
        let builder = Masters::builder().node_timeout(Duration::from_secs(10));
        let masters = sim::connect_to_hollow(nodes, builder).await.expect("connects");
        let lock = masters.red_lock("invoice:42");
        match verb.as_str() {
            "pair" | "fenced_pair" => {
                let lock = lock.fenced(verb == "fenced_pair");
                for _ in 0..times {
                    lock.try_lock()
                        .await
                        .expect("granted")
                        .unlock()
                        .await
                        .expect("held");
                }
            }
            "waiting_pair" => {
                let lock = lock.fenced(false);
                for _ in 0..times {
                    lock.lock().await.expect("granted").unlock().await.expect("held");
                }
            }
            "reentry" => {
                let me = Owner::new();
                let lock = lock.owner(&me);
                let outer = lock.try_lock().await.expect("granted");
                for _ in 0..times {
                    lock.try_lock()
                        .await
                        .expect("inside")
                        .unlock()
                        .await
                        .expect("held");
                }
                outer.unlock().await.expect("held");
            }
            "validity" => {
                let guard = lock.try_lock().await.expect("granted");
                for _ in 0..times {
                    assert!(guard.is_valid());
                }
                guard.unlock().await.expect("held");
            }
            other => panic!("no such operation: {other}"),
        }
    });
    runtime.block_on(performed).expect("performed");
}

fn compare() -> ExitCode {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("committed.txt");
    let committed = read(&std::fs::read_to_string(&path).unwrap_or_default());
    let mut now =
        String::from("# Client instructions an operation, by `make instructions`; UPDATE=1 writes them.\n");
    let mut worse = 0;
    // Services run under valgrind, too.
    under_valgrind(&["connect"]);
    for operation in OPERATIONS {
        let (short, long) = (count(operation, SHORT), count(operation, LONG));
        let each = long.saturating_sub(short) / (LONG - SHORT);
        writeln!(now, "{operation} {each}").expect("a string takes it");
        let Some(before) = committed.get(operation) else {
            println!("scenario=S12.{operation} ours_instructions={each} committed=none");
            worse += 1;
            continue;
        };
        #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
        let ratio = each as f64 / *before as f64;
        println!(
            "scenario=S12.{operation} ours_instructions={each} committed={before} ratio_committed={ratio:.3}"
        );
        worse += u32::from(ratio > ALLOWED);
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, now).expect("the figures can be written");
        return ExitCode::SUCCESS;
    }
    println!("instructions: operations={} worse={worse}", OPERATIONS.len());
    if worse == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn read(figures: &str) -> BTreeMap<String, u64> {
    figures
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(operation, figure)| (operation.to_owned(), figure.parse().expect("a number")))
        .collect()
}

/// All instructions of a run.
fn count(operation: &str, times: u64) -> u64 {
    let said = under_valgrind(&[operation, &times.to_string()]);
    let total = said
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .map(|(_, total)| total.trim().parse());
    match total {
        Some(Ok(total)) => total,
        _ => panic!("valgrind did not tell the total: {said}"),
    }
}

/// Runs this program with these arguments under valgrind. Returns the output of valgrind.
fn under_valgrind(args: &[&str]) -> String {
    let this = std::env::current_exe().expect("has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(this)
        .args(args)
        .output()
        .expect("valgrind is missing; install your system's valgrind package");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?} under valgrind: {said}");
    said
}
