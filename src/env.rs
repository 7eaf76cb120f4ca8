//! A client as the environment describes it.

use std::time::Duration;

use crate::builder::MastersBuilder;
use crate::config::Quarantine;
use crate::error::{ConnectError, InvalidInput};
use crate::masters::Masters;
use crate::namespace::Namespace;
use crate::node::NodeUrl;

impl Masters {
    /// Connects as the environment says: `MULTILOCK_NODES` (URLs separated by commas; one in a
    /// password is written `%2C`), and where they are set `MULTILOCK_LEASE`, `MULTILOCK_MAX_LEASE`,
    /// `MULTILOCK_LEASE_WITHOUT_CHARTER`, `MULTILOCK_NODE_TIMEOUT`,
    /// `MULTILOCK_CONNECT_TIMEOUT` (such as `30s` or `50ms`), `MULTILOCK_DRIFT_FACTOR` (such as
    /// `0.01`), `MULTILOCK_NAMESPACE`, `MULTILOCK_QUARANTINE` (`auto`, `off` or a duration), `MULTILOCK_ALLOW_EVICTION` and
    /// `MULTILOCK_STRICT` (`true` or `false`).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Invalid`] names the variable; otherwise as [`MastersBuilder::connect`].
    ///
    /// # Cancel safety
    ///
    /// As [`MastersBuilder::connect`].
    pub async fn from_env() -> Result<Self, ConnectError> {
        MastersBuilder::from_variables(|name| std::env::var(name).ok())?
            .connect()
            .await
    }
}

impl MastersBuilder {
    /// The options that `variable` knows.
    pub(crate) fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, InvalidInput> {
        let mut builder = Self::default();
        let nodes = variable("MULTILOCK_NODES").unwrap_or_default();
        let urls = nodes.split(',').map(str::trim).filter(|url| !url.is_empty());
        builder.urls = urls.map(NodeUrl::new).collect();
        if builder.urls.is_empty() {
            return Err(InvalidInput::new(
                "MULTILOCK_NODES",
                "\"\"",
                "URLs separated by commas",
            ));
        }
        let config = &mut builder.config;
        if let Some(namespace) = variable("MULTILOCK_NAMESPACE") {
            config.namespace = Namespace::new(namespace);
        }
        let read = Variables(variable);
        read.duration("MULTILOCK_LEASE", &mut config.lease)?;
        config.max_lease = read.value("MULTILOCK_MAX_LEASE", DURATION, duration)?;
        read.duration(
            "MULTILOCK_LEASE_WITHOUT_CHARTER",
            &mut config.lease_without_charter,
        )?;
        read.duration("MULTILOCK_NODE_TIMEOUT", &mut config.node_timeout)?;
        read.duration("MULTILOCK_CONNECT_TIMEOUT", &mut config.connect_timeout)?;
        read.set(
            "MULTILOCK_DRIFT_FACTOR",
            &mut config.drift_factor,
            "a number such as 0.01",
            |text| text.parse().ok(),
        )?;
        read.set(
            "MULTILOCK_QUARANTINE",
            &mut config.quarantine,
            "auto, off or a duration such as 40s",
            quarantine,
        )?;
        read.switch("MULTILOCK_ALLOW_EVICTION", &mut config.allow_eviction)?;
        read.switch("MULTILOCK_STRICT", &mut config.strict)?;
        Ok(builder)
    }
}

const DURATION: &str = "a duration such as 30s or 50ms";

fn duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok()
}

fn quarantine(text: &str) -> Option<Quarantine> {
    match text {
        "auto" => Some(Quarantine::Auto),
        "off" => Some(Quarantine::Off),
        text => duration(text).map(Quarantine::For),
    }
}

/// Where variables are looked up.
struct Variables<V>(V);

impl<V: Fn(&str) -> Option<String>> Variables<V> {
    /// What a variable says, if it is set.
    fn value<T>(
        &self,
        name: &'static str,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, InvalidInput> {
        let Some(text) = (self.0)(name) else {
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
        self.set(name, option, "true or false", |text| text.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn from(variables: &'static [(&str, &str)]) -> Result<MastersBuilder, String> {
        let value = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        MastersBuilder::from_variables(value).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_become_options() {
        let builder = from(&[
            ("MULTILOCK_NODES", "redis://a, redis://b,"),
            ("MULTILOCK_LEASE", "10s"),
            ("MULTILOCK_NODE_TIMEOUT", "20ms"),
            ("MULTILOCK_DRIFT_FACTOR", "0.05"),
            ("MULTILOCK_ALLOW_EVICTION", "true"),
        ])
        .expect("all valid");
        let nodes = builder.urls.iter().map(|url| url.parse(1).expect("a URL").label);
        assert!(nodes.map(|label| label.to_string()).eq(["a:6379", "b:6379"]));
        assert_eq!(builder.config.lease, Duration::from_secs(10));
        assert_eq!(builder.config.node_timeout, Duration::from_millis(20));
        assert!((builder.config.drift_factor - 0.05).abs() < f64::EPSILON);
        assert!(builder.config.allow_eviction);
    }

    proptest! {
        /// A password with a comma cuts a list of URLs in pieces that are none, or look like one.
        #[test]
        fn no_password_that_is_cut_is_shown(password in "[QXZ]{3}[QXZ@:/,1]{0,6},[QXZ@:/1]{3,6}") {
            let nodes = format!("redis://u:{password}@db:6379, redis://b");
            let builder = MastersBuilder::from_variables(|name| (name == "MULTILOCK_NODES").then(|| nodes.clone()));
            let builder = builder.expect("a list");
            let error = builder.addresses().expect_err("its second piece has no scheme");
            let shown = format!("{builder:?} {error:?} {error}");
            prop_assert!(error.value.contains("number "), "{error}");
            prop_assert!(!shown.contains(['Q', 'X', 'Z']), "{password}: {shown}");
        }
    }

    #[test]
    fn bad_variables_are_named() {
        let error = |variables| from(variables).expect_err("must be refused");
        assert_eq!(
            error(&[]),
            "MULTILOCK_NODES: \"\" is not allowed; allowed: URLs separated by commas"
        );
        assert_eq!(
            error(&[("MULTILOCK_NODES", "redis://a"), ("MULTILOCK_LEASE", "soon")]),
            "MULTILOCK_LEASE: \"soon\" is not allowed; allowed: a duration such as 30s or 50ms"
        );
        assert_eq!(
            error(&[
                ("MULTILOCK_NODES", "redis://a"),
                ("MULTILOCK_DRIFT_FACTOR", "1 %")
            ]),
            "MULTILOCK_DRIFT_FACTOR: \"1 %\" is not allowed; allowed: a number such as 0.01"
        );
    }
}
