//! The compose masters are one set for all tests, so the tests that use them queue up.

use std::fs::File;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::sleep;

/// Long enough for a queue of slow tests; a test that takes two clusters would otherwise wait for itself for ever.
const TURN_WITHIN: Duration = Duration::from_secs(600);

/// Among the tests of this process. A file lock alone would do, but only by polling.
static HERE: Mutex<()> = Mutex::const_new(());

/// The right to use the masters, until dropped. The system takes the file lock back from a process that dies.
#[derive(Debug)]
pub struct Exclusive {
    _file: File,
    _here: MutexGuard<'static, ()>,
}

impl Exclusive {
    pub async fn take() -> Result<Self> {
        tokio::time::timeout(TURN_WITHIN, Self::wait())
            .await
            .with_context(|| format!("the compose masters were in use for {TURN_WITHIN:?}"))?
    }

    async fn wait() -> Result<Self> {
        let here = HERE.lock().await;
        let path = std::env::temp_dir().join("multilock-compose.lock");
        let file = File::options().create(true).append(true).open(path)?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(Self {
                        _file: file,
                        _here: here,
                    });
                }
                Err(Errno::WOULDBLOCK) => sleep(Duration::from_millis(50)).await,
                Err(error) => bail!("the lock file of the compose masters: {error}"),
            }
        }
    }
}
