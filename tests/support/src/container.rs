//! A master of `docker-compose.yml`, started before the tests by `scripts/cluster.sh up`.

use std::env;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::Command;

use super::address::Address;

pub const COUNT: usize = 5;
const DOCKER_WITHIN: Duration = Duration::from_secs(60);
const PAUSE_TRIES: usize = 5;

#[derive(Debug)]
pub struct Container {
    pub address: Address,
    /// 1 to 5, as in the compose file.
    number: usize,
    /// The container's id while it is paused.
    frozen: Mutex<Option<String>>,
}

impl Container {
    /// Takes the master over from the test before, in any state. Afterwards it is running, empty and without
    /// statistics.
    pub async fn take(number: usize) -> Result<Self> {
        let port = match env::var(format!("MULTILOCK_PORT_{number}")) {
            Ok(port) => port.parse().with_context(|| format!("MULTILOCK_PORT_{number}"))?,
            Err(_) => 7400 + u16::try_from(number)?,
        };
        let address = Address { port, password: None };
        let container = Self {
            address,
            number,
            frozen: Mutex::new(None),
        };
        let id = container.id().await?;
        match docker(&["inspect", "-f", "{{.State.Status}}", &id])
            .await?
            .as_str()
        {
            "running" => {}
            "paused" => drop(docker(&["unpause", &id]).await?),
            _ => drop(docker(&["start", &id]).await?),
        }
        container.until_ready().await?;
        let commands = [
            // Limit that a failed test may have left.
            &["CONFIG", "SET", "maxmemory", "0"][..],
            &["FLUSHALL"],
            &["SCRIPT", "FLUSH"],
            &["CONFIG", "RESETSTAT"],
        ];
        for command in commands {
            container.address.command(command).await?;
        }
        Ok(container)
    }

    pub async fn freeze(&self) -> Result<()> {
        let id = self.id().await?;
        if self.frozen().is_none() {
            pause(&id).await?;
            *self.frozen() = Some(id);
        }
        Ok(())
    }

    pub async fn thaw(&self) -> Result<()> {
        let frozen = self.frozen().take();
        if let Some(id) = frozen {
            docker(&["unpause", &id]).await?;
        }
        Ok(())
    }

    /// Kills the server, frozen or not. No harm if it does not run.
    pub async fn kill(&self) -> Result<()> {
        let id = self.id().await?;
        if docker(&["inspect", "-f", "{{.State.Running}}", &id]).await? == "true" {
            docker(&["kill", &id]).await?;
            docker(&["wait", &id]).await?;
        }
        self.frozen().take();
        Ok(())
    }

    pub async fn restart(&self, keep_data: bool) -> Result<()> {
        self.kill().await?;
        if keep_data {
            docker(&["start", &self.id().await?]).await?;
        } else {
            // A new container on a new volume: nothing of the old master can come back.
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cluster.sh");
            run(Command::new(script).args(["renew", &self.number.to_string()])).await?;
        }
        self.until_ready().await
    }

    async fn until_ready(&self) -> Result<()> {
        // The port is published for this container alone, so any answer is from it.
        self.address.until_ready(None, || Ok(())).await
    }

    /// Id of the container. It is asked for each time, because a renewed master has another id. It is found by label,
    /// because names differ between Compose versions.
    async fn id(&self) -> Result<String> {
        let project = env::var("COMPOSE_PROJECT_NAME").unwrap_or_else(|_| "multilock".to_owned());
        let id = docker(&[
            "ps",
            "-aq",
            "--filter",
            &format!("label=com.docker.compose.project={project}"),
            "--filter",
            &format!("label=com.docker.compose.service=redis{}", self.number),
        ])
        .await?;
        ensure!(
            !id.is_empty(),
            "redis{} is not there; start the masters by `make cluster-up`",
            self.number
        );
        Ok(id)
    }

    fn frozen(&self) -> MutexGuard<'_, Option<String>> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // For users of the masters after the last test; the next test would thaw the master itself.
        if let Some(id) = self.frozen().take() {
            let _ = std::process::Command::new("docker")
                .args(["unpause", &id])
                .stdout(Stdio::null())
                .status();
        }
    }
}

/// Pauses a container. Beside much other work the engine may give up before all processes have stopped, so it is asked
/// again.
async fn pause(id: &str) -> Result<()> {
    let mut tries = 0;
    loop {
        tries += 1;
        match docker(&["pause", id]).await {
            Err(error) if tries < PAUSE_TRIES && format!("{error:#}").contains("unable to freeze") => {}
            paused => return paused.map(drop),
        }
    }
}

async fn docker(args: &[&str]) -> Result<String> {
    run(Command::new("docker").args(args)).await
}

async fn run(command: &mut Command) -> Result<String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(DOCKER_WITHIN, command.output())
        .await
        .with_context(|| format!("{command:?}: not done within {DOCKER_WITHIN:?}"))?
        .with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
