//! The masters that arguments and environment name.

use std::env;
use std::ffi::OsString;
use std::path::{self, Path};
use std::time::Duration;

use multilock::{ConnectError, InvalidInput, Masters, MastersBuilder, NodeError, Policy, Quarantine, Status};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::args::MastersArgs;
use crate::exit::Failure;
use crate::say::Voice;
use crate::sources::{self, is_set};
use crate::translation::{page, translated};

/// Pause between two attempts to connect. Each attempt takes its own time, too.
const PAUSE: Duration = Duration::from_millis(200);
/// The library's defaults, which a look at the masters uses, too.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

impl MastersArgs {
    /// Makes a builder with all settings of the arguments and the environment. An argument overrides the
    /// environment.
    pub(crate) fn builder(&self) -> Result<MastersBuilder, Failure> {
        let file = self.nodes_file.as_ref().map(|file| file.display().to_string());
        let is_named = self.nodes.is_some() || file.is_some();
        // A file without a name is refused by the library.
        if !is_named && !is_set("MULTILOCK_NODES") && env::var_os("MULTILOCK_NODES_FILE").is_none() {
            return Err(Failure::usage(format_args!(
                "no masters are given; allowed: --nodes, --nodes-file, MULTILOCK_NODES or MULTILOCK_NODES_FILE (see {})",
                page("nodes")
            )));
        }
        let mut builder = MastersBuilder::from_variables(|name| match name {
            "MULTILOCK_NODES" if is_named => self.nodes.clone().map(OsString::from),
            "MULTILOCK_NODES_FILE" if is_named => file.clone().map(OsString::from),
            // The arguments have its value already.
            name if sources::is_read_here(name) => None,
            name => env::var_os(name),
        })
        .map_err(|mut error: InvalidInput| {
            error.field = match error.field {
                "MULTILOCK_NODES" if is_named => "nodes",
                "MULTILOCK_NODES_FILE" if is_named => "nodes_file",
                other => other,
            };
            error
        })?;
        builder = builder
            .allow_eviction(self.allow_eviction.unwrap_or(false))
            .strict(self.strict_memory.unwrap_or(false));
        if let Some(namespace) = &self.namespace {
            builder = builder.namespace(namespace);
        }
        if let Some(timeout) = self.node_timeout {
            builder = builder.node_timeout(timeout);
        }
        if let Some(timeout) = self.connect_timeout {
            builder = builder.connect_timeout(timeout);
        }
        if let Some(longest) = self.for_tests {
            builder = builder.for_tests(longest);
        }
        if let Some(factor) = self.drift_factor {
            builder = builder.drift_factor(factor);
        }
        if let Some(quarantine) = self.quarantine {
            builder = builder.quarantine(quarantine);
        }
        Ok(builder)
    }

    /// Variables that tell a program of these arguments, so that its commands ask the same masters about the
    /// same names. `None` for one that is to be removed.
    pub(crate) fn variables(&self) -> Vec<(&'static str, Option<OsString>)> {
        let mut variables = Vec::new();
        // The program may go to another directory.
        let absolute = |file: &Path| path::absolute(file).unwrap_or_else(|_| file.to_owned());
        if let Some(file) = &self.nodes_file {
            let file = absolute(file);
            variables.push(("MULTILOCK_NODES_FILE", Some(file.into())));
            variables.push(("MULTILOCK_NODES", None));
        }
        if let Some(nodes) = &self.nodes {
            // A URL with a login has an @, or parameters. Without the variables, commands are refused, and ask no other masters.
            let has_login = nodes.contains(['@', '?']);
            variables.push(("MULTILOCK_NODES", (!has_login).then(|| nodes.into())));
            variables.push(("MULTILOCK_NODES_FILE", None));
        }
        if self.nodes.is_none()
            && self.nodes_file.is_none()
            && let Ok(file) = env::var("MULTILOCK_NODES_FILE")
        {
            // The library takes blanks away likewise.
            let file = absolute(Path::new(file.trim()));
            variables.push(("MULTILOCK_NODES_FILE", Some(file.into())));
        }
        let duration = |duration: Duration| humantime::format_duration(duration).to_string();
        let quarantine = |quarantine| match quarantine {
            Quarantine::Auto => Some("auto".to_owned()),
            Quarantine::Off => Some("off".to_owned()),
            Quarantine::For(time) => Some(duration(time)),
            _ => None,
        };
        let given = [
            ("MULTILOCK_NAMESPACE", self.namespace.clone()),
            ("MULTILOCK_NODE_TIMEOUT", self.node_timeout.map(duration)),
            ("MULTILOCK_CONNECT_TIMEOUT", self.connect_timeout.map(duration)),
            ("MULTILOCK_FOR_TESTS", self.for_tests.map(duration)),
            (
                "MULTILOCK_DRIFT_FACTOR",
                self.drift_factor.map(|factor| factor.to_string()),
            ),
            ("MULTILOCK_QUARANTINE", self.quarantine.and_then(quarantine)),
            (
                "MULTILOCK_ALLOW_EVICTION",
                self.allow_eviction.map(|is_on| is_on.to_string()),
            ),
            (
                "MULTILOCK_STRICT",
                self.strict_memory.map(|is_on| is_on.to_string()),
            ),
        ];
        let given = given
            .into_iter()
            .filter_map(|(name, value)| Some((name, Some(value?.into()))));
        variables.extend(given);
        variables
    }
}

/// Connects for a look at the masters, whatever the number of their answers. A majority has the connect
/// timeout, and the other masters one node timeout more. A master that has failed by then is no longer
/// awaited.
pub(crate) async fn connect_for_a_look(args: &MastersArgs) -> Result<Masters, Failure> {
    let masters = args.builder()?.connect_lazy()?;
    let mut status = masters.watch_status();
    let enough = |status: &Status| has_majority(status) || all_have_answered(status);
    let connect_timeout = args.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    let _ = timeout(connect_timeout, status.wait_for(enough)).await;
    let node_timeout = args.node_timeout.unwrap_or(NODE_TIMEOUT);
    let _ = timeout(node_timeout, status.wait_for(all_have_answered)).await;
    Ok(masters)
}

fn has_majority(status: &Status) -> bool {
    let connected = status.nodes.iter().filter(|node| node.connection.is_ok());
    connected.count() >= Policy::RedLock.needed(status.nodes.len())
}

pub(crate) fn all_have_answered(status: &Status) -> bool {
    let mut nodes = status.nodes.iter();
    nodes.all(|node| !matches!(node.connection, Err(NodeError::Connecting)))
}

/// Whether too many masters are unfit for a quorum of fit ones.
pub(crate) fn are_unfit(masters: &Masters, policy: Policy) -> bool {
    let nodes = masters.status().nodes;
    let unfit = nodes
        .iter()
        .filter(|node| matches!(node.connection, Err(NodeError::Unfit(_))));
    unfit.count() > nodes.len() - policy.needed(nodes.len())
}

/// Reports the masters without a vote. An unfit one is always reported, because its configuration has to be
/// changed.
fn warn_of_missing(masters: &Masters, voice: Voice) {
    for node in masters.status().nodes {
        let Err(error) = node.connection else { continue };
        let message = format!("{} has no vote: {}", node.node, translated(&error));
        match error {
            NodeError::Unfit(_) => voice.warn(message),
            _ => voice.detail(message),
        }
    }
}

/// Time for which a connection is awaited, beyond the first attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// No further attempt.
    None,
    Until(Instant),
    Endless,
}

/// Connects to enough of the masters, and tries again if only time would help. After the first failure `check` may refuse the
/// arguments, which no time mends.
pub(crate) async fn connect(
    builder: MastersBuilder,
    patience: Patience,
    check: impl Fn(&Masters) -> Result<(), Failure>,
    voice: Voice,
) -> Result<Masters, Failure> {
    let mut warned = false;
    loop {
        let error = match builder.clone().connect().await {
            Err(error @ ConnectError::TooFew { .. }) => error,
            settled => {
                let masters = settled?;
                warn_of_missing(&masters, voice);
                return Ok(masters);
            }
        };
        if !warned {
            check(&builder.clone().connect_lazy()?)?;
        }
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
        if !std::mem::replace(&mut warned, true) {
            voice.warn(format_args!("{}; it is tried again", translated(&error)));
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Args;

    fn told(args: &[&str]) -> Vec<(&'static str, Option<OsString>)> {
        let args = [&["multilock", "list"], args].concat();
        let args = Args::try_parse_from(args).expect("arguments");
        args.masters.variables()
    }

    /// Every program that a program starts reads them.
    #[test]
    fn a_list_with_a_login_is_told_to_no_program() {
        for (nodes, is_told) in [
            ("redis://a,redis://b", true),
            ("redis://a,redis://:secret@b", false),
            ("unix:///a,unix:///b?pass=secret", false),
        ] {
            let told = told(&["--nodes", nodes]);
            let expected = is_told.then(|| nodes.into());
            assert!(told.contains(&("MULTILOCK_NODES", expected)), "{told:?}");
            assert!(told.contains(&("MULTILOCK_NODES_FILE", None)), "{told:?}");
        }
    }

    #[test]
    fn a_set_for_tests_is_told_to_the_program() {
        let told = told(&["--for-tests", "2s"]);
        assert!(
            told.contains(&("MULTILOCK_FOR_TESTS", Some("2s".into()))),
            "{told:?}"
        );
    }
}
