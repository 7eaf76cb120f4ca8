//! Masters, the command, and a witness that tells when two children ran at once.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use multilock_test_support::{Server, WITHIN, until};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::timeout;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_multilock");

/// The command, with masters at these addresses and deadlines that only a fault makes one miss. A lease of less than 11 s
/// needs a shorter node timeout.
pub(crate) fn multilock<S: AsRef<str>>(urls: &[S]) -> Command {
    let urls: Vec<&str> = urls.iter().map(AsRef::as_ref).collect();
    // A shell that starts the tests in the background has them ignore some signals, and the command keeps to that.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT", PROGRAM]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MULTILOCK_")) {
        command.env_remove(name);
    }
    command
        // Lines of the help are looked for as a whole.
        .env_remove("COLUMNS")
        .env("MULTILOCK_NODES", urls.join(","))
        // The masters of a test have just been started.
        .env("MULTILOCK_QUARANTINE", "off")
        .env("MULTILOCK_NODE_TIMEOUT", "5s")
        .env("MULTILOCK_CONNECT_TIMEOUT", "5s")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Gives a command the variables of another one, and takes away what that one has not.
pub(crate) fn with_variables_of(command: &mut Command, other: &Command) {
    for (name, value) in other.as_std().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

pub(crate) fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(Server::url).collect()
}

/// Exit code or signal of a process, and its output.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// `multilock run` with these arguments, to its end.
pub(crate) async fn run<S: AsRef<OsStr>>(mut command: Command, args: &[S]) -> Said {
    said(command.arg("run").args(args).spawn().expect("the command")).await
}

pub(crate) async fn said(child: Child) -> Said {
    let output = timeout(WITHIN * 2, child.wait_with_output()).await;
    let Output {
        status,
        stdout,
        stderr,
    } = output.expect("in time").expect("its output");
    Said {
        code: status.code(),
        signal: status.signal(),
        stdout: String::from_utf8(stdout).expect("text"),
        stderr: String::from_utf8(stderr).expect("text"),
    }
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    let id = child.id().expect("it runs");
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("an id"), signal).expect("it is there");
}

/// Log of the children, and a file that stays locked for as long as any process of a child is alive, stopped or not.
#[derive(Debug)]
pub(crate) struct Witness {
    dir: TempDir,
}

impl Witness {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of that name beside them.
    pub(crate) fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A script for `sh -c` that first makes sure to be alone: it and the processes that it starts keep the file locked.
    /// `say WORD` in it writes a line.
    pub(crate) fn script(&self, body: &str) -> String {
        let (lock, log) = (self.path("lock"), self.path("log"));
        format!(
            "say() {{ echo \"$1\" >>'{log}'; }}
            exec 9>>'{lock}'
            flock -n 9 || {{ say OVERLAP; exit 99; }}
            {body}",
            lock = lock.display(),
            log = log.display()
        )
    }

    /// The lines, in the order in which they were written.
    pub(crate) fn lines(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.lines().iter().any(|line| line == word)
    }

    pub(crate) async fn until_said(&self, word: &str) {
        until(&format!("{word} is written"), async || self.has(word)).await;
    }

    /// Waits until nothing of any child is left.
    pub(crate) async fn until_nobody_lives(&self) {
        until("every child is gone", async || {
            let mut flock = Command::new("flock");
            let status = flock.arg("-n").arg(self.path("lock")).arg("true").status();
            status.await.expect("flock").success()
        })
        .await;
    }
}

/// A pipe that nobody reads, and its end for writing, where a write waits.
pub(crate) fn full_pipe() -> (UnixStream, OwnedFd) {
    let (unread, mut full) = UnixStream::pair().expect("a pair");
    full.set_nonblocking(true).expect("a socket");
    while full.write(b"x").is_ok() {}
    full.set_nonblocking(false).expect("a socket");
    (unread, full.into())
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
