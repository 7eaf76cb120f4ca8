//! Toxiproxy as a process: a proxy for each worker's link to each master, and the calls of its HTTP interface.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::support::spawn;

/// Names the program, which is Toxiproxy's server.
const PROGRAM: &str = "TOXIPROXY";
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);
/// Below the ports that the system gives to outgoing connections: a proxy that is off must find its port free again.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
const ATTEMPTS: usize = 20;

#[derive(Debug)]
pub struct Toxiproxy {
    child: Child,
    api: u16,
    /// By worker's place, then by master.
    ports: Vec<Vec<u16>>,
}

impl Toxiproxy {
    /// Starts it with a proxy for each worker and each master's port.
    pub async fn start(workers: usize, masters: Vec<u16>, rng: &mut StdRng) -> Result<Self> {
        let program = std::env::var(PROGRAM).with_context(|| {
            format!(
                "{PROGRAM} does not name the program of Toxiproxy's server; scripts/toxiproxy.sh builds it"
            )
        })?;
        let mut toxiproxy = Self::launch(&program, rng).await?;
        for worker in 0..workers {
            let mut ports = Vec::new();
            for (master, &upstream) in masters.iter().enumerate() {
                ports.push(toxiproxy.create(&name(worker, master), upstream, rng).await?);
            }
            toxiproxy.ports.push(ports);
        }
        Ok(toxiproxy)
    }

    async fn launch(program: &str, rng: &mut StdRng) -> Result<Self> {
        let api = free_port(rng)?;
        let mut command = spawn::command(program);
        command
            .args(["-host", "127.0.0.1", "-port", &api.to_string()])
            .env("LOG_LEVEL", "fatal")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = spawn::start(command).with_context(|| format!("starting '{program}'"))?;
        let mut toxiproxy = Self {
            child,
            api,
            ports: Vec::new(),
        };
        let begun = Instant::now();
        while let Err(error) = toxiproxy.call("GET", "/version", "").await {
            if let Some(status) = toxiproxy.child.try_wait()? {
                bail!("'{program}' has ended ({status})");
            }
            ensure!(
                begun.elapsed() < ANSWERS_WITHIN,
                "'{program}' does not answer: {error:#}"
            );
            sleep(Duration::from_millis(20)).await;
        }
        Ok(toxiproxy)
    }

    /// Makes a proxy on a free port, which it returns.
    async fn create(&self, name: &str, upstream: u16, rng: &mut StdRng) -> Result<u16> {
        let mut attempt = 1;
        loop {
            let port = free_port(rng)?;
            let body = format!(
                r#"{{"name":"{name}","listen":"127.0.0.1:{port}","upstream":"127.0.0.1:{upstream}","enabled":true}}"#
            );
            match self.call("POST", "/proxies", &body).await {
                Ok(()) => return Ok(port),
                // The port was lost between the choice and the call.
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// The masters as a worker reaches them.
    pub fn urls(&self, worker: usize) -> Vec<String> {
        let ports = self.ports[worker].iter();
        ports.map(|port| format!("redis://127.0.0.1:{port}")).collect()
    }

    /// Puts a toxic into a link. `stream` is `upstream`, towards the master, or `downstream`.
    pub async fn add(&self, link: (usize, usize), kind: &str, stream: &str, attributes: &str) -> Result<()> {
        let path = format!("/proxies/{}/toxics", name(link.0, link.1));
        let body = format!(
            r#"{{"name":"toxic","type":"{kind}","stream":"{stream}","toxicity":1.0,"attributes":{{{attributes}}}}}"#
        );
        self.call("POST", &path, &body).await
    }

    pub async fn remove(&self, link: (usize, usize)) -> Result<()> {
        let path = format!("/proxies/{}/toxics/toxic", name(link.0, link.1));
        self.call("DELETE", &path, "").await
    }

    /// Switches a proxy off, which ends its connections, or on.
    pub async fn enable(&self, link: (usize, usize), enabled: bool) -> Result<()> {
        let path = format!("/proxies/{}", name(link.0, link.1));
        self.call("POST", &path, &format!(r#"{{"enabled":{enabled}}}"#))
            .await
    }

    /// One request over a connection of its own. An answer other than success is an error.
    async fn call(&self, method: &str, path: &str, body: &str) -> Result<()> {
        let asked = async {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.api)).await?;
            let length = body.len();
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
                 Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = timeout(ANSWERS_WITHIN, asked)
            .await
            .with_context(|| format!("{method} {path}: no answer within {ANSWERS_WITHIN:?}"))?
            .with_context(|| format!("{method} {path}"))?;
        let is_success = answer
            .split(' ')
            .nth(1)
            .is_some_and(|status| status.starts_with('2'));
        ensure!(is_success, "{method} {path} {body}: {answer}");
        Ok(())
    }
}

impl Drop for Toxiproxy {
    fn drop(&mut self) {
        // Both fail only for a process that has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn name(worker: usize, master: usize) -> String {
    format!("worker-{worker}-master-{master}")
}

fn free_port(rng: &mut StdRng) -> Result<u16> {
    for _ in 0..ATTEMPTS {
        let port = rng.random_range(PORTS);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port of {PORTS:?} in {ATTEMPTS} attempts")
}
