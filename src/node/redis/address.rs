//! Address of a master and login, as a URL that is checked before the client connects.

use std::fmt;
use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult};

use crate::error::InvalidInput;

const ALLOWED: &str = "redis://[user:password@]host[:port][/db], rediss://… with the feature rustls, \
                       or unix:///path/to/socket[?db=n&user=u&pass=p]; in user and password all but letters and \
                       digits percent-encoded (a comma is %2C)";

/// Keys that the query of `unix://` may have.
const QUERY: [&str; 3] = ["db", "user", "pass"];

/// Schemes that may stand before `://`. Any other text may be part of a password.
const SCHEMES: [&str; 7] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "unix",
    "redis+unix",
    "valkey+unix",
];

/// A node URL as given. Its parts may be shown only after parsing.
#[derive(Clone)]
pub(crate) struct NodeUrl(String);

impl NodeUrl {
    pub(crate) fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// Parses the URL. Errors name a URL that cannot be parsed by `number`, its place in the list from 1.
    pub(crate) fn parse(&self, number: usize) -> Result<Address, InvalidInput> {
        Address::parse(&self.0)
            .map_err(|why| InvalidInput::new("node", format!("number {number}, {self:?} ({why})"), ALLOWED))
    }

    fn scheme(&self) -> Option<&str> {
        let (scheme, _) = self.0.split_once("://")?;
        SCHEMES.contains(&scheme).then_some(scheme)
    }
}

/// Shows only the scheme: in a malformed URL any other part may be part of the password.
impl fmt::Debug for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme() {
            Some(scheme) => write!(f, "{scheme}://…"),
            None => f.write_str("…"),
        }
    }
}

/// A parsed node URL.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) info: ConnectionInfo,
    /// Name of the node in errors and logs: its address without credentials, or the user's name for it.
    pub(crate) label: Arc<str>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl Address {
    pub(crate) fn has_password(&self) -> bool {
        self.info.redis_settings().password().is_some()
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    pub(crate) fn is_tcp_in_the_clear(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::Tcp(..))
    }

    /// Parses a URL. The error repeats nothing of the URL.
    fn parse(url: &str) -> Result<Self, &'static str> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err("no scheme");
        };
        // The credentials end before the first of these characters. If the credentials contain one
        // themselves, their rest would be taken for a host, and shown.
        let (authority, beyond) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
        if authority.matches('@').count() > 1 || (!authority.is_empty() && beyond.contains('@')) {
            return Err("an @ that is not percent-encoded");
        }
        let info = match scheme.to_ascii_lowercase().as_str() {
            "rediss" | "valkeys" if cfg!(not(feature = "rustls")) => {
                return Err("TLS needs the feature rustls");
            }
            "rediss" | "valkeys" if beyond.contains('#') => {
                return Err("a lock must know which server it talks to");
            }
            // The client library ignores it: `?db=3` would lock in database 0.
            "redis" | "valkey" | "rediss" | "valkeys" if beyond.contains('?') => {
                return Err("a query, which only unix:// may have; database 3 is /3");
            }
            "unix" | "redis+unix" | "valkey+unix" if !query_keys(beyond).all(|key| QUERY.contains(&key)) => {
                return Err("a query with a key that is not db, user or pass");
            }
            "rediss" | "valkeys" => secured(rest),
            _ => url.into_connection_info(),
        };
        let info = info.map_err(|error| reason(&error))?;
        if info.redis_settings().db() < 0 {
            return Err("negative database number");
        }
        let label = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                host_and_port(host, *port)
            }
            ConnectionAddr::Unix(path) => path.display().to_string(),
            _ => return Err("unsupported address"),
        };
        Ok(Self {
            info,
            label: label.into(),
        })
    }
}

/// Keys of the query of a URL. The client library ignores those that it does not know.
fn query_keys(url: &str) -> impl Iterator<Item = &str> {
    let (_, query) = url.split_once('?').unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').map_or(pair, |(key, _)| key))
}

/// The client library would parse such a URL only with its own TLS.
fn secured(rest: &str) -> RedisResult<ConnectionInfo> {
    let info = format!("redis://{rest}").into_connection_info()?;
    let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
        return Ok(info);
    };
    Ok(info.set_addr(ConnectionAddr::TcpTls {
        host,
        port,
        insecure: false,
        tls_params: None,
    }))
}

/// Reason why the client library rejects a URL, in words that cannot contain a part of it.
fn reason(error: &redis::RedisError) -> &'static str {
    const KNOWN: [(&str, &str); 5] = [
        ("TLS", "TLS needs the feature rustls"),
        ("database number", "invalid database number"),
        ("hostname", "no host"),
        ("wildcard", "a wildcard address is no server's"),
        ("UTF-8", "credentials that are not UTF-8"),
    ];
    let text = error.to_string();
    let known = KNOWN.iter().find(|(word, _)| text.contains(word));
    known.map_or("not such a URL", |(_, reason)| reason)
}

fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests;
