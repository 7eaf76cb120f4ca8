//! A server as a process of this machine.

use std::env;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;
use tokio::net::TcpSocket;

use super::address::Address;
use super::spawn;

/// A server of a Redis Cluster has a port for its bus, too, 10,000 above the first. That one may be taken, or too high.
const ATTEMPTS: u32 = 10;

#[derive(Debug)]
pub struct Native {
    pub address: Address,
    pub tls_port: u16,
    args: Vec<String>,
    /// The environment beside this process's own.
    env: Vec<(String, String)>,
    dir: TempDir,
    /// `None` while the server is killed.
    child: Mutex<Option<Child>>,
    /// Both ports, for as long as it lives, killed or not.
    _held: [TcpSocket; 2],
}

impl Native {
    /// Starts a server on a free port; `args` follow the ones of every server, and win.
    pub async fn start(args: &[String], env: &[(String, String)]) -> Result<Self> {
        binary()?;
        let mut attempt = 1;
        loop {
            match Self::start_once(args, env).await {
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                started => return started.with_context(|| format!("attempt {attempt} to start a server")),
            }
        }
    }

    async fn start_once(args: &[String], env: &[(String, String)]) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("multilock-redis-").tempdir()?;
        let path = dir
            .path()
            .to_str()
            .context("the temporary directory has a UTF-8 name")?;
        let held = [held_port()?, held_port()?];
        let [port, tls_port] = [held[0].local_addr()?.port(), held[1].local_addr()?.port()];
        let fill = |text: &String| {
            text.replace("{dir}", path)
                .replace("{tls_port}", &tls_port.to_string())
        };
        let args: Vec<String> = args.iter().map(fill).collect();
        let env = env.iter().map(|(name, value)| (name.clone(), fill(value)));
        let env: Vec<(String, String)> = env.collect();
        let password = value_of(&args, "--requirepass").map(str::to_owned);
        let server = Self {
            address: Address { port, password },
            tls_port,
            args,
            env,
            dir,
            child: Mutex::new(None),
            _held: held,
        };
        server.launch().await?;
        Ok(server)
    }

    /// Starts the process in the server's directory and waits until it answers.
    async fn launch(&self) -> Result<()> {
        let data = self.data();
        fs::create_dir_all(&data)?;
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = spawn::command(&binary()?);
        command
            .args(["--port", &self.address.port.to_string()])
            .arg("--dir")
            .arg(&data)
            .args([
                "--bind",
                "127.0.0.1",
                "--protected-mode",
                "no",
                "--daemonize",
                "no",
            ])
            // A write that was answered must be there after a kill, so that a restart can keep it.
            .args(["--save", "", "--appendonly", "yes", "--appendfsync", "always"])
            .args(["--maxmemory-policy", "noeviction"])
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let child = spawn::start(command).context("redis-server cannot be started")?;
        let pid = child.id();
        *self.child() = Some(child);
        self.address.until_ready(Some(pid), || self.check_running()).await
    }

    fn check_running(&self) -> Result<()> {
        let ended = self
            .child()
            .as_mut()
            .context("the server was killed")?
            .try_wait()?;
        if let Some(status) = ended {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            bail!("redis-server has ended ({status}); its log:\n{log}");
        }
        Ok(())
    }

    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn freeze(&self) -> Result<()> {
        let pid = self.signal(Signal::STOP)?;
        // The signal is sent, not yet obeyed. NOWAIT leaves the state to be seen again by the next call.
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT)?;
        Ok(())
    }

    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT).map(drop)
    }

    fn signal(&self, signal: Signal) -> Result<Pid> {
        let child = self.child();
        let pid = Pid::from_child(child.as_ref().context("the server is not running")?);
        kill_process(pid, signal)?;
        Ok(pid)
    }

    /// Kills the process, frozen or not, and waits for its end. No harm if there is none.
    pub fn kill(&self) -> Result<()> {
        if let Some(mut child) = self.child().take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    pub async fn restart(&self, keep_data: bool) -> Result<()> {
        self.kill()?;
        if !keep_data {
            fs::remove_dir_all(self.data())?;
        }
        self.launch().await.context("the server cannot be restarted")
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Beside the data, so that it outlives them.
    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // A panic elsewhere must not keep Drop from killing the process.
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// A port that nobody else is given while it is held, although a server may listen on it: the socket is bound and does
/// not listen. Otherwise another test could be given the port of a server that is down for a moment.
fn held_port() -> Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    Ok(socket)
}

fn value_of<'a>(args: &'a [String], option: &str) -> Option<&'a str> {
    let at = args.iter().position(|arg| arg == option)?;
    args.get(at + 1).map(String::as_str)
}

/// The server's binary: `redis-server`, or the one named by `REDIS_SERVER`. It is looked up here, because behind
/// `setpriv` a missing binary would look like a server that ends at once.
pub fn binary() -> Result<String> {
    let name = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
    let found = if name.contains('/') {
        Path::new(&name).is_file()
    } else {
        env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(&name).is_file()))
    };
    ensure!(
        found,
        "'{name}' is missing, and real servers are needed: install it by `apt-get install redis-server`, \
         or set REDIS_SERVER to another binary"
    );
    Ok(name)
}
