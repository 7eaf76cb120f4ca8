//! The masters, as arguments and environment name them.

use std::env;
use std::time::Duration;

use multilock::{ConnectError, Masters, MastersBuilder};
use tokio::time::{Instant, sleep, sleep_until};

use crate::args::MastersArgs;
use crate::exit::Failure;
use crate::say::Voice;

/// Between two attempts to connect, each of which takes its own time, too.
const PAUSE: Duration = Duration::from_millis(200);

impl MastersArgs {
    /// A builder with all that is set: by the environment, and before that by an argument.
    pub(crate) fn builder(&self) -> Result<MastersBuilder, Failure> {
        let file = self.nodes_file.as_ref().map(|file| file.display().to_string());
        let is_named = self.nodes.is_some() || file.is_some();
        let mut builder = MastersBuilder::from_variables(|name| match name {
            "MULTILOCK_NODES" if is_named => self.nodes.clone(),
            "MULTILOCK_NODES_FILE" if is_named => file.clone(),
            name => env::var(name).ok(),
        })?;
        builder = builder
            .allow_eviction(self.allow_eviction)
            .strict(self.mark_memory);
        if let Some(namespace) = &self.namespace {
            builder = builder.namespace(namespace);
        }
        if let Some(timeout) = self.node_timeout {
            builder = builder.node_timeout(timeout);
        }
        if let Some(timeout) = self.connect_timeout {
            builder = builder.connect_timeout(timeout);
        }
        if let Some(max) = self.max_lease {
            builder = builder.max_lease(max);
        }
        if let Some(lease) = self.lease_without_charter {
            builder = builder.lease_without_charter(lease);
        }
        if let Some(factor) = self.drift_factor {
            builder = builder.drift_factor(factor);
        }
        if let Some(quarantine) = self.quarantine {
            builder = builder.quarantine(quarantine);
        }
        Ok(builder)
    }
}

/// How long a connection is waited for, beyond the first attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    Until(Instant),
    Endless,
}

/// Connects to enough of the masters, and tries again where only time would help.
pub(crate) async fn connect(
    builder: MastersBuilder,
    patience: Patience,
    voice: Voice,
) -> Result<Masters, Failure> {
    let mut told = false;
    loop {
        let error = match builder.clone().connect().await {
            Err(error @ ConnectError::TooFew { .. }) => error,
            settled => return Ok(settled?),
        };
        let over = match patience {
            Patience::None => true,
            Patience::Until(end) => Instant::now() + PAUSE >= end,
            Patience::Endless => false,
        };
        if over {
            if let Patience::Until(end) = patience {
                sleep_until(end).await;
            }
            return Err(error.into());
        }
        if !std::mem::replace(&mut told, true) {
            voice.warn(format_args!("{error}; it is tried again"));
        }
        sleep(PAUSE).await;
    }
}
