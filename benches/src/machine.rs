//! The machine of the figures, and the versions of the crates and servers.

use std::fs;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory: String,
    pub system: String,
    /// How many processes wanted to run in the minute before.
    pub load: String,
    pub redis: String,
    pub rustc: String,
    /// The crate and those it is compared with.
    pub versions: Vec<(String, String)>,
    /// Seconds since 1970.
    pub date: u64,
}

impl Machine {
    pub fn this() -> Self {
        let server = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let date = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            processor: first("/proc/cpuinfo", "model name"),
            cores: available_parallelism().map_or(1, Into::into),
            memory: first("/proc/meminfo", "MemTotal"),
            system: said("uname", &["-sr"]),
            load: fs::read_to_string("/proc/loadavg")
                .unwrap_or_default()
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_owned(),
            redis: said(&server, &["--version"]),
            rustc: said("rustc", &["--version"]),
            versions: versions(),
            date: date.as_secs(),
        }
    }
}

/// The value of the first line `key : value`.
fn first(path: &str, key: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(key));
    let value = line.and_then(|line| line.split_once(':')).map(|(_, value)| value);
    value.unwrap_or("unknown").trim().to_owned()
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map_or_else(
        |_| "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).into(),
    );
    text.trim().to_owned()
}

/// As the lock file has them.
fn versions() -> Vec<(String, String)> {
    const OF: [&str; 7] = [
        "multilock",
        "redis",
        "tokio",
        "rslock",
        "distributed-lock-redis",
        "redlock",
        "redsync",
    ];
    let lock = include_str!("../../Cargo.lock");
    let lines: Vec<&str> = lock.lines().collect();
    let version = |name: &str| {
        let mut found = lines
            .windows(2)
            .filter(|pair| pair[0] == format!("name = \"{name}\""));
        // The last is the newest where the peers still use an older one as well.
        let version = found.next_back().map_or("unknown", |pair| pair[1]);
        version
            .trim_start_matches("version = ")
            .trim_matches('"')
            .to_owned()
    };
    OF.iter()
        .map(|name| ((*name).to_owned(), version(name)))
        .collect()
}
