//! A master as users list it: its URL and its own options.

use std::fmt;
#[cfg(feature = "rustls")]
use std::sync::Arc;

#[cfg(feature = "rustls")]
use tokio_rustls::rustls::ClientConfig;

use crate::error::InvalidInput;
use crate::masters::credentials::{BoxError, Credentials, Provider};
use crate::node::{Address, NodeUrl, Tls};

/// Longest label, in bytes.
const LONGEST_LABEL: usize = 64;

/// One master of the list, for [`MastersBuilder::node`](crate::MastersBuilder::node): a URL and, optionally,
/// options of this master alone. A string that is a URL is a node, too.
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
/// [`connect`](crate::MastersBuilder::connect) checks all options. `Debug` shows no credentials.
#[derive(Clone)]
#[must_use = "a node does nothing until it is listed"]
pub struct Node {
    url: NodeUrl,
    label: Option<String>,
    pub(crate) credentials: Option<Provider>,
    pub(crate) tls: Option<Tls>,
}

impl Node {
    /// Takes a URL: `redis://[user:password@]host[:port][/db]`, `rediss://…` (feature `rustls`) or
    /// `unix:///path[?db=n&user=u&pass=p]`. A query is refused with `redis://` and `rediss://`.
    pub fn url(url: impl Into<String>) -> Self {
        Self {
            url: NodeUrl::new(url),
            label: None,
            credentials: None,
            tls: None,
        }
    }

    /// Sets the label of this master in errors, votes and logs, in place of its address. At most 64 letters,
    /// digits and `-._:/`; no two masters may have the same.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets a provider of user and password, in place of those in the URL. It is asked for each connection,
    /// and again when its last answer is to be refreshed ([`Credentials::refresh_after`]).
    ///
    /// If the new credentials differ, the live connection logs in with them, between the calls in progress:
    /// no call is lost, and no lock. So keep an old password valid on the masters for one refresh beside its
    /// successor.
    ///
    /// If the provider fails, or the master refuses the credentials, the connection stays as it is, and a warning is logged.
    /// The provider is asked again after a second, or after [`refresh_after`](Credentials::refresh_after) if that is shorter.
    /// After each further refusal by the master the pause doubles, up to 10 s. If the master ends the connection or
    /// logs it out meanwhile, the client connects again, with fresh credentials.
    ///
    /// The provider runs on the runtime of [`connect`](crate::MastersBuilder::connect). For a new connection
    /// it has nine tenths of [`connect_timeout`](crate::MastersBuilder::connect_timeout), less the time for the
    /// connection. For a refresh it has all of it. Its future is then dropped, which must do no harm. Its error is
    /// shown as that of the master, so the error should contain no secrets.
    pub fn credentials<F, A>(mut self, provider: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<Credentials, BoxError>> + Send + 'static,
    {
        self.credentials = Some(Provider::new(provider));
        self
    }

    /// Sets the TLS configuration for a `rediss://` URL: for example with an authority of your own, or with a
    /// certificate of the client. `multilock::rustls` is re-exported for it. Sessions are resumed if several
    /// nodes and their connections share one configuration.
    ///
    /// By default all masters share a configuration with the authorities that the platform trusts, and with
    /// the crypto provider that the application has installed.
    #[cfg(feature = "rustls")]
    pub fn tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = Some(Tls::new(config));
        self
    }

    /// Sets a provider, unless the node has its own credentials.
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

    /// Address and label of the node; `number` is its place in the list, counted from 1.
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
    let unfit = |symbol: char| !symbol.is_ascii_alphanumeric() && !"-._:/".contains(symbol);
    let of = "letters, digits and -._:/";
    InvalidInput::unless_fits("label", "a label", label, LONGEST_LABEL, unfit, of)
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
