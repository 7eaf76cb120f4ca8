//! The masters, as arguments and environment name them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use multilock::{ConnectError, Masters, MastersBuilder};
use tokio::time::{Instant, sleep, sleep_until};

use crate::args::MastersArgs;
use crate::exit::Failure;
use crate::say::Voice;

/// Between two attempts to connect, each of which takes its own time, too.
const PAUSE: Duration = Duration::from_millis(200);

impl MastersArgs {
    /// A builder with all that is set.
    pub(crate) fn builder(&self) -> Result<MastersBuilder, Failure> {
        let mut builder = Masters::builder()
            .nodes(self.urls()?)
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

    fn urls(&self) -> Result<Vec<String>, Failure> {
        let variable = |name| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let (list, file) = if self.nodes.is_some() || self.nodes_file.is_some() {
            (self.nodes.clone(), self.nodes_file.clone())
        } else {
            let file = variable("MULTILOCK_NODES_FILE").map(PathBuf::from);
            (variable("MULTILOCK_NODES"), file)
        };
        let urls = match (list, file) {
            (Some(list), None) => split(&list),
            (None, Some(file)) => read(&file)?,
            (Some(_), Some(_)) => {
                return Err(Failure::usage(
                    "MULTILOCK_NODES and MULTILOCK_NODES_FILE are both set; one of them is to name the masters",
                ));
            }
            (None, None) => Vec::new(),
        };
        if urls.is_empty() {
            return Err(Failure::usage(
                "no masters are named: set MULTILOCK_NODES or MULTILOCK_NODES_FILE, or give --nodes or --nodes-file",
            ));
        }
        Ok(urls)
    }
}

fn read(file: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(file);
    let text = text.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    Ok(split(&without_comments(&text)))
}

fn without_comments(text: &str) -> String {
    // A # inside of a word may belong to a password.
    let line = |line: &str| match line.split_once(" #") {
        Some((before, _)) => before.to_owned(),
        None if line.trim_start().starts_with('#') => String::new(),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn split(list: &str) -> Vec<String> {
    let urls = list.split([',', '\n']).map(str::trim);
    urls.filter(|url| !url.is_empty()).map(str::to_owned).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_comments_and_lines() {
        let text = "# of production\nredis://:a#b@one:6379 # rack 1\n\n redis://two, redis://three,\n  #redis://four\n";
        assert_eq!(
            split(&without_comments(text)),
            ["redis://:a#b@one:6379", "redis://two", "redis://three"]
        );
    }
}
