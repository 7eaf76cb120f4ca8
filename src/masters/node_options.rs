//! A master as users list it: where it is, and what belongs to it alone.

use std::fmt;
#[cfg(feature = "rustls")]
use std::sync::Arc;

#[cfg(feature = "rustls")]
use tokio_rustls::rustls::ClientConfig;

use crate::error::InvalidInput;
use crate::masters::credentials::{BoxError, Credentials, Provider};
use crate::node::{Address, NodeUrl, Tls};

/// The longest label, in bytes.
const LONGEST_LABEL: usize = 64;

/// One master of the list, for [`MastersBuilder::node`](crate::MastersBuilder::node): a URL, and where wanted options that
/// belong to this master alone. A string that is a URL is a node.
///
/// ```
/// use multilock::{Credentials, Masters, Node};
///
/// async fn credentials() -> Result<Credentials, multilock::BoxError> {
///     let password = std::fs::read_to_string("/run/secrets/redis")?;
///     Ok(Credentials::new("app", password.trim_end()).refresh_after(std::time::Duration::from_secs(60)))
/// }
///
/// let builder = Masters::builder()
///     .node("redis://10.0.0.1:6379")
///     .node(Node::url("redis://10.0.0.2:6379").label("eu-2").credentials(credentials));
/// ```
///
/// All is checked by [`connect`](crate::MastersBuilder::connect). `Debug` shows no credentials.
#[derive(Clone)]
#[must_use = "a node does nothing until it is listed"]
pub struct Node {
    url: NodeUrl,
    label: Option<String>,
    pub(crate) credentials: Option<Provider>,
    pub(crate) tls: Option<Tls>,
}

impl Node {
    /// `redis://[user:password@]host[:port][/db]`, `rediss://…` (feature `rustls`) or `unix:///path`.
    pub fn url(url: impl Into<String>) -> Self {
        Self {
            url: NodeUrl::new(url),
            label: None,
            credentials: None,
            tls: None,
        }
    }

    /// What this master is called in errors, votes and logs, in place of its address. Letters, digits and `-._:/`, at
    /// most 64 of them; no two masters may be called the same.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Asks for user and password whenever a connection is made, in place of those of a URL, and again when what was
    /// given is to be refreshed ([`Credentials::refresh_after`]).
    ///
    /// If others are given then, the live connection is logged in with them, between the calls that are under way: none
    /// is lost, and no lock. A password that is replaced on the masters should be valid for at least so long beside its
    /// successor. If nothing can be had, or the master refuses it, the connection stays as it is, the provider is asked
    /// again every second, and a warning is logged. A connection that the master ends or logs out meanwhile is made anew,
    /// with fresh credentials.
    ///
    /// The provider runs on the runtime of [`connect`](crate::MastersBuilder::connect) and has nine tenths of
    /// [`connect_timeout`](crate::MastersBuilder::connect_timeout), less what the connection has taken; its future is
    /// dropped then, which must do no harm. Its error is shown as that of the master, so it should not tell secrets.
    pub fn credentials<F, A>(mut self, provider: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Credentials, BoxError>> + Send + 'static,
    {
        self.credentials = Some(Provider::new(provider));
        self
    }

    /// How the connection is secured, for a `rediss://` URL: say with the authority of one's own, or with a certificate
    /// that the client shows. `multilock::rustls` is re-exported for it. Sessions are resumed if several nodes and
    /// their connections share one configuration.
    ///
    /// By default all masters share a configuration that trusts the authorities that the platform trusts, with the crypto
    /// provider that the application has installed.
    #[cfg(feature = "rustls")]
    pub fn tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = Some(Tls::new(config));
        self
    }

    /// The same, unless the node says for itself.
    pub(crate) fn or_credentials(mut self, provider: &Provider) -> Self {
        let address = self.url.parse(1);
        if self.credentials.is_none() && address.is_ok_and(|address| !address.has_password()) {
            self.credentials = Some(provider.clone());
        }
        self
    }

    pub(crate) fn has_label(&self) -> bool {
        self.label.is_some()
    }

    /// Where it is and how it is called; `number` is its place in the list, counted from 1.
    pub(crate) fn address(&self, number: usize) -> Result<Address, InvalidInput> {
        let mut address = self.url.parse(number)?;
        if self.credentials.is_some() && address.has_password() {
            let value = format!("number {number}, whose URL has a password too");
            return Err(InvalidInput::new(
                "credentials",
                value,
                "a URL without a password",
            ));
        }
        if self.tls.is_some() && !address.is_tls() {
            let value = format!("number {number}, {}", address.label);
            return Err(InvalidInput::new(
                "tls",
                value,
                "a URL that begins with rediss://",
            ));
        }
        if let Some(label) = &self.label {
            check_label(label)?;
            address.label = label.as_str().into();
        }
        Ok(address)
    }
}

fn check_label(label: &str) -> Result<(), InvalidInput> {
    let fits = |symbol: char| symbol.is_ascii_alphanumeric() || "-._:/".contains(symbol);
    if (1..=LONGEST_LABEL).contains(&label.len()) && label.chars().all(fits) {
        return Ok(());
    }
    let value = if label.len() > LONGEST_LABEL {
        format!("a label of {} bytes", label.len())
    } else {
        format!("{label:?}")
    };
    let allowed = format!("1 to {LONGEST_LABEL} letters, digits and -._:/");
    Err(InvalidInput::new("label", value, allowed))
}

impl<S: Into<String>> From<S> for Node {
    fn from(url: S) -> Self {
        Self::url(url)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("url", &self.url)
            .field("label", &self.label)
            .field("credentials", &self.credentials)
            .field("tls", &self.tls)
            .finish()
    }
}

#[cfg(test)]
mod tests;
