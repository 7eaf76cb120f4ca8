//! Where a master is and how to log in: a URL, checked before anything is touched.

use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::error::InvalidInput;

const ALLOWED: &str = "redis://[user:password@]host[:port][/db], rediss://… with the feature rustls, \
                       or unix:///path/to/socket[?db=n&user=u&pass=p]";

/// A parsed node URL.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) info: ConnectionInfo,
    /// How the node is called in errors and logs: no credentials.
    pub(crate) label: Arc<str>,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, InvalidInput> {
        // What cannot be parsed may hold a password anywhere, so nothing of it is repeated but its
        // scheme and what stands behind the credentials.
        let shown = || match (url.split_once("://"), url.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
            _ => format!("{url:?}"),
        };
        let refuse = |why: String| InvalidInput::new("node", format!("{} ({why})", shown()), ALLOWED);
        let info = url
            .into_connection_info()
            .map_err(|error| refuse(error.to_string()))?;
        if info.redis_settings().db() < 0 {
            return Err(refuse("negative database number".into()));
        }
        let label = match info.addr() {
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err(refuse("a lock must know which server it talks to".into()));
            }
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                host_and_port(host, *port)
            }
            ConnectionAddr::Unix(path) => path.display().to_string(),
            other => return Err(refuse(format!("unsupported address {other}"))),
        };
        Ok(Self {
            info,
            label: label.into(),
        })
    }
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
            label("unix:///run/redis.sock?pass=secret"),
            Ok("/run/redis.sock".into())
        );
    }

    #[test]
    fn errors_hold_no_credentials() {
        for url in [
            "",
            "10.0.0.1:6379",
            "http://u:secret@db",
            "redis://u:secret@db/x",
            "redis://u:secret@db/-1",
        ] {
            let error = Address::parse(url).expect_err("not a node URL").to_string();
            assert!(error.starts_with("node: "), "{error}");
            assert!(error.contains("allowed: redis://"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[cfg(not(feature = "rustls"))]
    #[test]
    fn tls_without_its_feature_is_refused_by_name() {
        let error = Address::parse("rediss://db")
            .expect_err("no TLS here")
            .to_string();
        assert!(error.contains("feature"), "{error}");
    }
}
