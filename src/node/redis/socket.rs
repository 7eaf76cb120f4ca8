//! The byte stream to a server: TCP, TLS over TCP, or a unix socket.

use std::io;
use std::time::Duration;

use redis::ConnectionAddr;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A peer that has vanished without a word is noticed after this, even when nothing is sent.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Anything that bytes flow through.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(super) async fn open(address: &ConnectionAddr, timeout: Duration) -> io::Result<Box<dyn Stream>> {
    match address {
        ConnectionAddr::Tcp(host, port) => Ok(Box::new(tcp(host, *port, timeout).await?)),
        #[cfg(feature = "rustls")]
        ConnectionAddr::TcpTls { host, port, .. } => {
            let stream = tcp(host, *port, timeout).await?;
            Ok(Box::new(tls::handshake(host, stream).await?))
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => Ok(Box::new(tokio::net::UnixStream::connect(path).await?)),
        other => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("unsupported address {other}"),
        )),
    }
}

async fn tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    // Without it a second command waits for the first one's acknowledgement.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    // A closed connection is gone at once: what it had not yet sent must not arrive later.
    socket.set_linger(Some(Duration::ZERO))?;
    // Nor may the kernel go on resending what nobody waits for any more.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(timeout))?;
    #[cfg(not(target_os = "linux"))]
    let _ = timeout;
    Ok(stream)
}

#[cfg(feature = "rustls")]
mod tls {
    use std::io;
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::rustls::crypto::CryptoProvider;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    pub(super) async fn handshake(host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        // The choice of cryptography is the application's; a library must not make it for the process.
        let provider = CryptoProvider::get_default().ok_or_else(|| {
            io::Error::other(
                "no rustls crypto provider is installed; the application must call \
                 CryptoProvider::install_default() before it connects",
            )
        })?;
        let mut roots = RootCertStore::empty();
        // The platform's certificates, or those that SSL_CERT_FILE and SSL_CERT_DIR name.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}
