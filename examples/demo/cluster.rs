//! Redis masters of the demo's own: real servers on loopback ports, which do not outlive it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rand::RngExt;
use rustix::process::{Pid, Signal, getppid, kill_process};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::args::SERVER;

/// Below the range from which systems choose the port of an outgoing connection, so that a killed
/// master's port is still free when it comes back.
const PORTS: std::ops::Range<u16> = 20_000..30_000;
const READY_WITHIN: Duration = Duration::from_secs(5);
const ATTEMPTS: usize = 5;

#[derive(Debug)]
pub(crate) struct Cluster {
    masters: Vec<Master>,
    /// Removed after the masters, whose data it holds.
    dir: TempDir,
}

#[derive(Debug)]
struct Master {
    port: u16,
    dir: PathBuf,
    /// `None` while it is killed.
    child: Option<Child>,
}

impl Cluster {
    pub(crate) async fn start(masters: usize) -> Result<Self> {
        check_installed()?;
        let dir = tempfile::Builder::new().prefix("multilock-demo-").tempdir();
        let dir = dir.context("no temporary directory for the masters' data")?;
        let mut cluster = Self {
            masters: Vec::new(),
            dir,
        };
        for number in 1..=masters {
            let master = Master::start(cluster.dir.path().join(number.to_string())).await;
            let master = master.with_context(|| format!("starting master {number}"))?;
            cluster.masters.push(master);
        }
        Ok(cluster)
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.masters.iter().map(Master::url).collect()
    }

    /// The end without a word: SIGKILL.
    pub(crate) fn kill(&mut self, number: usize) -> Result<()> {
        self.master(number)?.kill();
        Ok(())
    }

    /// Starts a killed master again, with the data that it had.
    pub(crate) async fn restart(&mut self, number: usize) -> Result<()> {
        let master = self.master(number)?;
        master.kill();
        master.launch().await
    }

    /// Neither dead nor alive: connections are taken and nothing is answered.
    pub(crate) fn freeze(&mut self, number: usize) -> Result<()> {
        self.master(number)?.signal(Signal::STOP)
    }

    pub(crate) fn thaw(&mut self, number: usize) -> Result<()> {
        self.master(number)?.signal(Signal::CONT)
    }

    fn master(&mut self, number: usize) -> Result<&mut Master> {
        let index = number.wrapping_sub(1);
        self.masters.get_mut(index).context("there is no such master")
    }
}

impl Master {
    /// On a free port, whichever it is.
    async fn start(dir: PathBuf) -> Result<Self> {
        fs::create_dir(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let mut attempt = 1;
        loop {
            let port = free_port().context("no free port on 127.0.0.1")?;
            let mut master = Self {
                port,
                dir: dir.clone(),
                child: None,
            };
            match master.launch().await {
                Ok(()) => return Ok(master),
                // Somebody else may have taken the port meanwhile.
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Starts the process and waits until it answers.
    async fn launch(&mut self) -> Result<()> {
        let log = self.dir.join("log");
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let program = std::env::current_exe().context("the demo's own program")?;
        let child = Command::new(program)
            .args([SERVER, &std::process::id().to_string(), &redis_server()])
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .arg("--dir")
            .arg(&self.dir)
            // What was answered for must be there after a kill.
            .args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""])
            .args(["--maxmemory-policy", "noeviction"])
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("the server's log")?)
            .stderr(output)
            // Ctrl-C at the terminal is for the demo, which then ends the server.
            .process_group(0)
            .spawn()
            .context("starting redis-server")?;
        let pid = child.id();
        self.child = Some(child);
        let begun = Instant::now();
        while !self.answers_as(pid).await {
            let ended = self.child.as_mut().map(Child::try_wait).transpose()?.flatten();
            if let Some(status) = ended {
                bail!("redis-server has ended ({status}): {}", last_words(&log));
            }
            ensure!(
                begun.elapsed() < READY_WITHIN,
                "redis-server does not answer: {}",
                last_words(&log)
            );
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Whether the server on the port is this process and has read its data.
    async fn answers_as(&self, pid: u32) -> bool {
        let ask = async {
            let client = redis::Client::open(self.url())?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            redis::cmd("INFO").query_async::<String>(&mut connection).await
        };
        let answer = timeout(Duration::from_millis(500), ask).await;
        let info = answer.ok().and_then(Result::ok).unwrap_or_default();
        let says = |fact: &str| info.lines().any(|line| line == fact);
        says(&format!("process_id:{pid}")) && says("loading:0")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("the master does not run")?;
        kill_process(Pid::from_child(child), signal).context("signalling the master")
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only for a process that has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.kill();
    }
}

/// In the process that is to be a server: sees to it that it ends with the demo, however that ends,
/// and hands over to the program.
pub(crate) fn become_server(command: &[String]) -> Result<()> {
    let [parent, program, args @ ..] = command else {
        bail!("a server takes the process that it belongs to, a program and its arguments");
    };
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The demo may have ended before the request above.
    let parent_now = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    ensure!(parent_now.as_ref() == Some(parent), "the demo is gone");
    let error = Command::new(program).args(args).exec();
    Err(error).context(format!("starting {program}"))
}

fn redis_server() -> String {
    std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

fn check_installed() -> Result<()> {
    let program = redis_server();
    match Command::new(&program).arg("--version").output() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "'{program}' is not installed (on Debian: apt-get install redis-server); \
             or run on masters of your own with --nodes, or name another binary in REDIS_SERVER"
        ),
        Err(error) => Err(error).with_context(|| format!("'{program}' cannot be run")),
    }
}

fn free_port() -> Option<u16> {
    let tries = (0..100).map(|_| rand::rng().random_range(PORTS));
    let mut tries = tries.filter(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    tries.next()
}

fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or("its log is empty").to_owned()
}
