//! Where a master is and how to log in: a URL, checked before anything is touched.

use std::fmt;
use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::error::InvalidInput;

const ALLOWED: &str = "redis://[user:password@]host[:port][/db], rediss://… with the feature rustls, \
                       or unix:///path/to/socket[?db=n&user=u&pass=p]; in user and password all but letters and \
                       digits percent-encoded (a comma is %2C)";

/// What may stand before `://`. Anything else may be a part of a password, too.
const SCHEMES: [&str; 7] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "unix",
    "redis+unix",
    "valkey+unix",
];

/// A node URL as it was given. What of it may be shown is known only once it is parsed.
#[derive(Clone)]
pub(crate) struct NodeUrl(String);

impl NodeUrl {
    pub(crate) fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// `number` is its place in the list, counted from 1, by which a URL that cannot be parsed is known.
    pub(crate) fn parse(&self, number: usize) -> Result<Address, InvalidInput> {
        Address::parse(&self.0)
            .map_err(|why| InvalidInput::new("node", format!("number {number}, {self:?} ({why})"), ALLOWED))
    }

    fn scheme(&self) -> Option<&str> {
        let (scheme, _) = self.0.split_once("://")?;
        SCHEMES.contains(&scheme).then_some(scheme)
    }
}

/// Nothing but its scheme: of a URL of an odd shape any other part may be a part of the password.
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
    /// How the node is called in errors and logs: no credentials.
    pub(crate) label: Arc<str>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl Address {
    /// The reason why it is none repeats nothing of the URL.
    fn parse(url: &str) -> Result<Self, &'static str> {
        let Some((_, rest)) = url.split_once("://") else {
            return Err("no scheme");
        };
        // The credentials end before the first of these. Where they contain one themselves, what is left
        // of them would be taken for a host, and shown.
        let (authority, beyond) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
        if authority.matches('@').count() > 1 || (!authority.is_empty() && beyond.contains('@')) {
            return Err("an @ that is not percent-encoded");
        }
        let info = url.into_connection_info().map_err(|error| reason(&error))?;
        if info.redis_settings().db() < 0 {
            return Err("negative database number");
        }
        let label = match info.addr() {
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err("a lock must know which server it talks to");
            }
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

/// Why the client library takes a URL for none, in words that cannot hold a part of it.
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_hold_no_credentials() {
        let label = |url: &str| Address::parse(url).map(|address| address.label.to_string());
        assert_eq!(
            label("redis://u:secret@10.0.0.1:6380/2"),
            Ok("10.0.0.1:6380".into())
        );
        assert_eq!(label("redis://db"), Ok("db:6379".into()));
        assert_eq!(label("redis://[::1]:7000"), Ok("[::1]:7000".into()));
        #[cfg(unix)]
        assert_eq!(
            label("unix:///run/redis@a.sock?pass=s%40ecret"),
            Ok("/run/redis@a.sock".into())
        );
    }

    #[test]
    fn errors_hold_no_credentials() {
        for (url, shown) in [
            ("", "number 2, … (no scheme)"),
            ("10.0.0.1:6379?password=secret", "number 2, … (no scheme)"),
            ("u:secret@db", "number 2, … (no scheme)"),
            ("secret://db", "number 2, … (not such a URL)"),
            (
                "redis://u:secret@db/x",
                "number 2, redis://… (invalid database number)",
            ),
            (
                "redis://u:secret@db/-1",
                "number 2, redis://… (negative database number)",
            ),
            (
                "unix:///s?db=x&pass=secret",
                "number 2, unix://… (invalid database number)",
            ),
            ("redis://:secret", "number 2, redis://… (not such a URL)"),
            // The port would be a number, and the rest of the password the path.
            (
                "redis://u:12/secret@db",
                "number 2, redis://… (an @ that is not percent-encoded)",
            ),
            (
                "redis://u:12?secret@db",
                "number 2, redis://… (an @ that is not percent-encoded)",
            ),
        ] {
            let error = NodeUrl::new(url).parse(2).expect_err("not a node URL");
            assert_eq!((error.field, &*error.value), ("node", shown));
            assert!(error.allowed.starts_with("redis://"), "{error}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
    }

    #[cfg(not(feature = "rustls"))]
    #[test]
    fn tls_without_its_feature_is_refused_by_name() {
        let error = NodeUrl::new("rediss://db").parse(1).expect_err("no TLS here");
        assert!(error.to_string().contains("feature rustls"), "{error}");
    }

    /// Characters that stand for nothing else in what is shown, odd ones, and ones that take a URL apart.
    const PASSWORD: &str = "[QXZ]{3}[QXZ~!$&'()*+,;=:/?#%@\\\\ \"<>^`{|}äß€0-9]{0,8}[QXZ]{0,4}";

    fn encoded(text: &str) -> String {
        let byte = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        };
        text.bytes().map(byte).collect()
    }

    /// The URL of a shape, the right ones first.
    fn shaped(shape: usize, user: &str, password: &str) -> String {
        match shape {
            0 => format!("redis://{user}:{}@db:6379/1", encoded(password)),
            1 => format!("unix:///run/s?db=1&user={user}&pass={}", encoded(password)),
            2 => format!("redis://{user}:{password}@db"),
            3 => format!("{user}:{password}@db:6379"),
            4 => format!("unix:///s?db=x&pass={password}"),
            5 => format!("10.0.0.1:6379?password={password}"),
            6 => format!("redis://db:6379?password={password}"),
            7 => format!("redis://db/{password}"),
            // As a list is cut at a comma; with an @ before it, what follows would be a host.
            8 => format!("redis://:{}", password.replace('@', "")),
            9 => format!("redis://{user}:1{password}@db"),
            10 => format!("{password}://{user}@db"),
            11 => format!("redis://{user}:{password}@db/x"),
            12 => format!("rediss://{user}:{password}@db/#insecure"),
            _ => format!("http://{user}:{password}@db"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        /// Nothing that can be shown of a URL holds its password, as it is, as it was written, nor a part
        /// of it that one would know again.
        #[test]
        fn no_password_is_shown(shape in 0_usize..14, user in "[a-z]{0,6}", password in PASSWORD) {
            let url = shaped(shape, &user, &password);
            let node = NodeUrl::new(url.clone());
            let builder = crate::Masters::builder().node(url.clone());
            let parsed = match node.parse(3) {
                Ok(address) => {
                    if shape < 2 {
                        prop_assert_eq!(address.info.redis_settings().password(), Some(&*password));
                    }
                    format!("{address:?} {}", address.label)
                }
                Err(error) => {
                    prop_assert!(shape >= 2, "{} {}", url, error);
                    format!("{error} {error:?}")
                }
            };
            let shown = format!("{node:?} {builder:?} {parsed}");
            let parts = password.split(|part: char| !part.is_ascii_alphanumeric());
            let telling = |part: &&str| part.len() >= 3 && part.contains(['Q', 'X', 'Z']);
            for secret in parts.filter(telling).chain([&*password, &*encoded(&password)]) {
                prop_assert!(!shown.to_lowercase().contains(&secret.to_lowercase()), "{url}: {shown}");
            }
        }
    }
}
