//! Client as the environment describes it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{ConnectError, InvalidInput};
use crate::masters::Masters;
use crate::masters::builder::MastersBuilder;
use crate::masters::config::{Config, Quarantine, Rounds};
use crate::masters::credentials::Provider;
use crate::masters::namespace::Namespace;
use crate::masters::node_options::Node;
use crate::node::{CA_FILE, CERT_FILE, KEY_FILE, TlsFiles};

const NODES: &str = "MULTILOCK_NODES";
const NODES_FILE: &str = "MULTILOCK_NODES_FILE";
const NODE_LABELS: &str = "MULTILOCK_NODE_LABELS";
const USER: &str = "MULTILOCK_USER";
const PASSWORD: &str = "MULTILOCK_PASSWORD";
const PASSWORD_FILE: &str = "MULTILOCK_PASSWORD_FILE";

impl Masters {
    /// Connects with the options in the environment.
    ///
    /// - `MULTILOCK_NODES`: URLs separated by commas (a comma in a password is written `%2C`); or
    ///   `MULTILOCK_NODES_FILE`: a file with URLs, separated by commas or lines. A `#` at the beginning of a
    ///   line or behind a space starts a comment. A password belongs in a file.
    /// - `MULTILOCK_NODE_LABELS`: labels of the masters, in the same order, separated by commas.
    /// - `MULTILOCK_PASSWORD` or `MULTILOCK_PASSWORD_FILE`, and optionally `MULTILOCK_USER`: login for every
    ///   master whose URL has no password. The file is read for each connection, and every five seconds. When
    ///   it changes, live connections log in again (see [`Node::credentials`](crate::Node::credentials)).
    /// - `MULTILOCK_TLS_CA_FILE`: trusted authorities in place of the platform's, in PEM;
    ///   `MULTILOCK_TLS_CERT_FILE` and `MULTILOCK_TLS_KEY_FILE`: certificate of the client, and its key. For
    ///   every `rediss://` URL. Files that have changed are read again for the next connection.
    /// - `MULTILOCK_LEASE`, `MULTILOCK_FOR_TESTS` (see [`MastersBuilder::for_tests`]), `MULTILOCK_MAX_HOLD`,
    ///   `MULTILOCK_NODE_TIMEOUT`, `MULTILOCK_CONNECT_TIMEOUT` (such as `30s` or `50ms`),
    ///   `MULTILOCK_DRIFT_FACTOR` (such as `0.01`), `MULTILOCK_NAMESPACE`, `MULTILOCK_CLIENT_LABEL`,
    ///   `MULTILOCK_QUARANTINE` (`auto`, `off` or a duration), `MULTILOCK_ROUNDS` (`adaptive`, `all` or `thrifty`), `MULTILOCK_ALLOW_EVICTION`,
    ///   `MULTILOCK_ALLOW_UNKNOWN_EVICTION`, `MULTILOCK_ALLOW_UNKNOWN_ROLE`, `MULTILOCK_REQUIRE_ALL`,
    ///   `MULTILOCK_STRICT` and `MULTILOCK_BESIDE_REDISSON` (`true` or `false`, `1` or `0`, `yes` or `no`, `on` or `off`).
    ///
    /// A variable that is empty counts as not set, but for passwords and files. A duration without a unit is one in seconds.
    ///
    /// ```no_run
    /// # async fn job() -> Result<(), Box<dyn std::error::Error>> {
    /// use multilock::Masters;
    ///
    /// // MULTILOCK_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
    /// let masters = Masters::from_env().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError::Invalid`] names the variable. Otherwise as [`MastersBuilder::connect`].
    ///
    /// # Cancel safety
    ///
    /// As [`MastersBuilder::connect`].
    pub async fn from_env() -> Result<Self, ConnectError> {
        let builder = MastersBuilder::from_variables(|name| std::env::var_os(name))?;
        // A file is read whenever it is named.
        let list = std::env::var_os(NODES_FILE).map_or(NODES, |_| NODES_FILE);
        let connected = builder.connect().await;
        connected.map_err(|error| match error {
            ConnectError::Invalid(invalid) => name_variable(invalid, list).into(),
            other => other,
        })
    }
}

/// Options with values that have a range, and their variables.
const OPTIONS: [(&str, &str); 10] = [
    ("lease", "MULTILOCK_LEASE"),
    ("for_tests", "MULTILOCK_FOR_TESTS"),
    ("max_hold", "MULTILOCK_MAX_HOLD"),
    ("node_timeout", "MULTILOCK_NODE_TIMEOUT"),
    ("connect_timeout", "MULTILOCK_CONNECT_TIMEOUT"),
    ("drift_factor", "MULTILOCK_DRIFT_FACTOR"),
    ("quarantine", "MULTILOCK_QUARANTINE"),
    ("namespace", "MULTILOCK_NAMESPACE"),
    ("client_label", "MULTILOCK_CLIENT_LABEL"),
    ("label", NODE_LABELS),
];

/// Names the variable in place of the option that it sets; `list` is that of the masters.
fn name_variable(mut invalid: InvalidInput, list: &'static str) -> InvalidInput {
    let mut options = OPTIONS.into_iter().chain([("node", list), ("nodes", list)]);
    let its = options.find(|(option, _)| *option == invalid.field);
    invalid.field = its.map_or(invalid.field, |(_, variable)| variable);
    invalid
}

impl MastersBuilder {
    /// Starts with the values of the variables that [`Masters::from_env`] reads. `variable` gets a name, and
    /// returns the variable's value from any source. Options that are set on the builder later take
    /// precedence.
    ///
    /// ```
    /// # use multilock::MastersBuilder;
    /// let builder = MastersBuilder::from_variables(|name| match name {
    ///     "MULTILOCK_NODES" => Some("redis://10.0.0.1".to_owned()),
    ///     name => std::env::var(name).ok(),
    /// })?;
    /// # Ok::<(), multilock::InvalidInput>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] names the variable. [`connect`](Self::connect) checks most of the values, and names the option of
    /// this builder. A file with
    /// URLs is read here, which blocks meanwhile.
    pub fn from_variables<T: Into<OsString>>(
        variable: impl Fn(&str) -> Option<T>,
    ) -> Result<Self, InvalidInput> {
        Self::from_variables_and_files(variable, |file| std::fs::read_to_string(file))
    }

    /// Starts with the values of the variables; `read` reads a list of nodes.
    pub(crate) fn from_variables_and_files<T: Into<OsString>>(
        variable: impl Fn(&str) -> Option<T>,
        read: impl Fn(&Path) -> io::Result<String>,
    ) -> Result<Self, InvalidInput> {
        let variables = Variables(variable);
        let mut builder = Self {
            nodes: variables.nodes(read)?,
            ..Self::default()
        };
        variables.label(&mut builder.nodes)?;
        if let Some(provider) = variables.credentials()? {
            let nodes = builder.nodes.into_iter();
            builder.nodes = nodes.map(|node| node.or_credentials(&provider)).collect();
        }
        builder.tls_files = TlsFiles {
            ca: variables.file(CA_FILE)?,
            cert: variables.file(CERT_FILE)?,
            key: variables.file(KEY_FILE)?,
        };
        variables.configure(&mut builder.config)?;
        Ok(builder)
    }
}

const DURATION: &str = "a duration such as 30s or 50ms, or a number of seconds";

/// A number without a unit is one of seconds.
fn duration(text: &str) -> Option<Duration> {
    let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
    seconds.map_or_else(|| humantime::parse_duration(text).ok(), Result::ok)
}

fn quarantine(text: &str) -> Option<Quarantine> {
    match text {
        "auto" => Some(Quarantine::Auto),
        "off" => Some(Quarantine::Off),
        text => duration(text).map(Quarantine::For),
    }
}

fn rounds(text: &str) -> Option<Rounds> {
    match text {
        "adaptive" => Some(Rounds::Adaptive),
        "all" => Some(Rounds::All),
        "thrifty" => Some(Rounds::Thrifty),
        _ => None,
    }
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// Source of variables.
struct Variables<V>(V);

impl<S: Into<OsString>, V: Fn(&str) -> Option<S>> Variables<V> {
    /// Masters, from a list or from a file with one.
    fn nodes(&self, read: impl Fn(&Path) -> io::Result<String>) -> Result<Vec<Node>, InvalidInput> {
        let list = self.given(NODES)?.filter(|list| !list.trim().is_empty());
        let (list, file) = (list, self.file(NODES_FILE)?);
        let (name, value, list, allowed) = match (list, file) {
            (Some(_), Some(file)) => {
                let allowed = format!("one of the two: {NODES_FILE} or {NODES}");
                return Err(InvalidInput::new(NODES_FILE, file.display(), allowed));
            }
            (None, Some(file)) => {
                let allowed = "a file with URLs, separated by commas or lines";
                let refuse =
                    |error| InvalidInput::new(NODES_FILE, format!("{} ({error})", file.display()), allowed);
                (
                    NODES_FILE,
                    file.display().to_string(),
                    read(&file).map_err(refuse)?,
                    allowed,
                )
            }
            (list, None) => (
                NODES,
                if list.is_some() { "\"\"" } else { "not set" }.into(),
                list.unwrap_or_default(),
                "URLs separated by commas, or MULTILOCK_NODES_FILE",
            ),
        };
        // A # inside a URL is not cut off, so that the URL is refused: if it were cut there, half a password
        // would be a host.
        let comment = |line: &str| {
            line.split_once(" #")
                .map_or(line.len(), |(before, _)| before.len())
        };
        // Editors of Windows begin a file with a byte order mark.
        let list = list.trim_start_matches('\u{feff}');
        let lines = list.lines().map(|line| line[..comment(line)].trim());
        let lines = lines.filter(|line| !line.starts_with('#'));
        let urls = lines.flat_map(|line| line.split(',')).map(str::trim);
        let nodes: Vec<Node> = urls.filter(|url| !url.is_empty()).map(Node::url).collect();
        if nodes.is_empty() {
            return Err(InvalidInput::new(name, value, allowed));
        }
        Ok(nodes)
    }

    fn label(&self, nodes: &mut Vec<Node>) -> Result<(), InvalidInput> {
        let Some(text) = self.text(NODE_LABELS)? else {
            return Ok(());
        };
        let labels: Vec<&str> = text.split(',').map(str::trim).collect();
        if labels.len() != nodes.len() {
            let allowed = format!("{} labels separated by commas, one for each master", nodes.len());
            return Err(InvalidInput::new(NODE_LABELS, format!("{text:?}"), allowed));
        }
        let labelled = std::mem::take(nodes).into_iter().zip(labels);
        *nodes = labelled.map(|(node, label)| node.label(label)).collect();
        Ok(())
    }

    /// Login of every master that has no password in its URL.
    fn credentials(&self) -> Result<Option<Provider>, InvalidInput> {
        let (user, password) = (self.text(USER)?, self.given(PASSWORD)?);
        let either = format!("one of the two: {PASSWORD_FILE} or {PASSWORD}");
        match (password, self.file(PASSWORD_FILE)?) {
            (Some(_), Some(file)) => Err(InvalidInput::new(PASSWORD_FILE, file.display(), either)),
            (Some(password), None) if password.is_empty() => {
                Err(InvalidInput::new(PASSWORD, "\"\"", "a password"))
            }
            (Some(password), None) => Ok(Some(Provider::fixed(user, password))),
            (None, Some(file)) => Ok(Some(Provider::file(user, file))),
            (None, None) => match user {
                None => Ok(None),
                Some(user) => {
                    let allowed = format!("a user together with {PASSWORD_FILE} or {PASSWORD}");
                    Err(InvalidInput::new(USER, format!("{user:?}"), allowed))
                }
            },
        }
    }

    /// Name of a file.
    fn file(&self, name: &'static str) -> Result<Option<PathBuf>, InvalidInput> {
        match self.given(name)? {
            // A set variable means that a secret or an authority is wanted from there.
            Some(text) if text.trim().is_empty() => {
                Err(InvalidInput::new(name, format!("{text:?}"), "the name of a file"))
            }
            text => Ok(text.map(|text| PathBuf::from(text.trim()))),
        }
    }

    /// Text of a variable. An empty one is not set: Compose and Helm pass those on.
    fn text(&self, name: &'static str) -> Result<Option<String>, InvalidInput> {
        let given = self.given(name)?;
        Ok(given.filter(|text| !text.trim().is_empty()))
    }

    /// Value of a variable. One that cannot be read does not count as not set: the client would lock other names, or with
    /// other settings.
    fn given(&self, name: &'static str) -> Result<Option<String>, InvalidInput> {
        let refuse = |_| InvalidInput::new(name, "a value that is not UTF-8", "text in UTF-8");
        let given = (self.0)(name).map(|value| value.into().into_string());
        given.transpose().map_err(refuse)
    }

    fn configure(&self, config: &mut Config) -> Result<(), InvalidInput> {
        if let Some(namespace) = self.text("MULTILOCK_NAMESPACE")? {
            config.namespace = Namespace::new(namespace);
        }
        config.client_label = self.text("MULTILOCK_CLIENT_LABEL")?;
        config.lease = self.value("MULTILOCK_LEASE", DURATION, duration)?;
        config.for_tests = self.value("MULTILOCK_FOR_TESTS", DURATION, duration)?;
        config.max_hold = self.value("MULTILOCK_MAX_HOLD", DURATION, duration)?;
        self.duration("MULTILOCK_NODE_TIMEOUT", &mut config.node_timeout)?;
        self.duration("MULTILOCK_CONNECT_TIMEOUT", &mut config.connect_timeout)?;
        self.set(
            "MULTILOCK_DRIFT_FACTOR",
            &mut config.drift_factor,
            "a number such as 0.01",
            |text| text.parse().ok(),
        )?;
        self.set(
            "MULTILOCK_QUARANTINE",
            &mut config.quarantine,
            "auto, off or a duration such as 40s",
            quarantine,
        )?;
        self.set(
            "MULTILOCK_ROUNDS",
            &mut config.rounds,
            "adaptive, all or thrifty",
            rounds,
        )?;
        let accepted = &mut config.accepted;
        self.switch("MULTILOCK_ALLOW_EVICTION", &mut accepted.eviction)?;
        self.switch("MULTILOCK_ALLOW_UNKNOWN_EVICTION", &mut accepted.unknown_eviction)?;
        self.switch("MULTILOCK_ALLOW_UNKNOWN_ROLE", &mut accepted.unknown_role)?;
        self.switch("MULTILOCK_REQUIRE_ALL", &mut config.require_all)?;
        self.switch("MULTILOCK_STRICT", &mut config.strict)?;
        self.switch("MULTILOCK_BESIDE_REDISSON", &mut config.beside_redisson)?;
        Ok(())
    }

    /// Value of a variable, if it is set.
    fn value<T>(
        &self,
        name: &'static str,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, InvalidInput> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let refuse = || InvalidInput::new(name, format!("{text:?}"), allowed);
        parse(text.trim()).map(Some).ok_or_else(refuse)
    }

    /// Leaves an option as it is, unless its variable is set.
    fn set<T>(
        &self,
        name: &'static str,
        option: &mut T,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<(), InvalidInput> {
        if let Some(value) = self.value(name, allowed, parse)? {
            *option = value;
        }
        Ok(())
    }

    fn duration(&self, name: &'static str, option: &mut Duration) -> Result<(), InvalidInput> {
        self.set(name, option, DURATION, duration)
    }

    fn switch(&self, name: &'static str, option: &mut bool) -> Result<(), InvalidInput> {
        self.set(name, option, "true or false", switch)
    }
}

#[cfg(test)]
mod tests;
