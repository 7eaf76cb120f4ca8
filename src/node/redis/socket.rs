//! The byte stream to a server: TCP, TLS over TCP, or a unix socket.

use std::io;
use std::time::Duration;

use redis::ConnectionAddr;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
#[cfg(feature = "rustls")]
use tokio::time::{Instant, timeout_at};

use super::happy_eyeballs;
use super::tls::Tls;

/// A peer that has vanished without a word is noticed after this, even when nothing is sent.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// The part of the connect timeout in which a TLS handshake has to be done.
#[cfg(feature = "rustls")]
const HANDSHAKE: f64 = 0.9;

/// Error of a handshake that failed as with a server without TLS.
#[cfg(feature = "rustls")]
pub(super) fn without_tls(reason: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!(
        "no TLS handshake ({reason}): this port may have no TLS, for which the URL begins with redis://"
    ))
}

/// Anything that bytes flow through.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(super) async fn open(
    address: &ConnectionAddr,
    tls: Option<&Tls>,
    timeout: Duration,
) -> io::Result<Box<dyn Stream>> {
    match (address, tls) {
        (ConnectionAddr::Tcp(host, port), None) => Ok(Box::new(tcp(host, *port, timeout).await?)),
        #[cfg(feature = "rustls")]
        (ConnectionAddr::TcpTls { host, port, .. }, Some(tls)) => {
            // Before the time-out of the whole set-up, which does not tell how far it got.
            let end = Instant::now() + timeout.mul_f64(HANDSHAKE);
            let stream = tcp(host, *port, timeout).await?;
            let shaken = timeout_at(end, tls.handshake(host, stream)).await;
            Ok(Box::new(
                shaken.unwrap_or_else(|_| Err(without_tls("no answer")))?,
            ))
        }
        #[cfg(unix)]
        (ConnectionAddr::Unix(path), None) => Ok(Box::new(tokio::net::UnixStream::connect(path).await?)),
        (other, _) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("unsupported address {other}"),
        )),
    }
}

async fn tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let stream = happy_eyeballs::connect(host, port, timeout).await?;
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
