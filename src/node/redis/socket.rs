//! The byte stream to a server: TCP, TLS over TCP, or a unix socket.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::select_ok;
use redis::ConnectionAddr;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::sleep;
#[cfg(feature = "rustls")]
use tokio::time::{Instant, timeout_at};

use super::lookup::Lookup;
use super::tls::Tls;

/// Time without a byte after which the kernel asks whether the peer is there.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Interval of these questions. On Linux the connection ends with the first one that comes later than the connect timeout
/// after the last byte.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Part of the connect timeout in which a name has to be looked up and a TLS handshake has to be done. They end before the
/// time-out of the whole set-up, whose error does not show how far it came.
const EARLIER: f64 = 0.9;

/// Part of the connect timeout by which one address is ahead of the others, if another one has failed before.
const HEAD_START: f64 = 0.25;

/// Error of a handshake that failed as with a server without TLS.
#[cfg(feature = "rustls")]
pub(super) fn without_tls(reason: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!(
        "no TLS handshake ({reason}): this port may have no TLS, for which the URL begins with redis://"
    ))
}

/// Any stream of bytes.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Opens a stream. Begins with the address after the one that has `failed`.
pub(super) async fn open(
    address: &ConnectionAddr,
    lookup: &Lookup,
    failed: Option<SocketAddr>,
    tls: Option<&Tls>,
    timeout: Duration,
) -> io::Result<Box<dyn Stream>> {
    match (address, tls) {
        (ConnectionAddr::Tcp(host, port), None) => {
            Ok(Box::new(tcp(lookup, host, *port, failed, timeout).await?))
        }
        #[cfg(feature = "rustls")]
        (ConnectionAddr::TcpTls { host, port, .. }, Some(tls)) => {
            let end = Instant::now() + timeout.mul_f64(EARLIER);
            let stream = tcp(lookup, host, *port, failed, timeout).await?;
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

/// Connects to the first address that answers, as the client library does. A dead address, often the IPv6
/// one, does not use up the time. The address `ahead` has a head start.
async fn first_of(
    addresses: Vec<SocketAddr>,
    ahead: Option<SocketAddr>,
    head_start: Duration,
) -> io::Result<TcpStream> {
    let attempts: Vec<_> = addresses
        .into_iter()
        .map(|address| {
            Box::pin(async move {
                if ahead.is_some_and(|ahead| ahead != address) {
                    sleep(head_start).await;
                }
                TcpStream::connect(address).await
            })
        })
        .collect();
    if attempts.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    }
    select_ok(attempts).await.map(|(stream, _)| stream)
}

/// The address after this one in their order, and after the last one the first.
fn after(addresses: &[SocketAddr], failed: SocketAddr) -> Option<SocketAddr> {
    let later = addresses.iter().filter(|address| **address > failed).min();
    later.or(addresses.iter().min()).copied()
}

async fn tcp(
    lookup: &Lookup,
    host: &str,
    port: u16,
    failed: Option<SocketAddr>,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let addresses = lookup.addresses(host, port, timeout.mul_f64(EARLIER)).await?;
    let ahead = failed.and_then(|failed| after(&addresses, failed));
    let stream = first_of(addresses, ahead, timeout.mul_f64(HEAD_START)).await?;
    lookup.set_failed(stream.peer_addr().ok());
    // Without this option a second command waits for the first one's acknowledgement.
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE_INTERVAL),
    )?;
    // A closed connection is gone at once: bytes that it had not sent must not arrive later.
    socket.set_linger(Some(Duration::ZERO))?;
    // The kernel must not resend bytes either once no task waits for the answer.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(timeout))?;
    #[cfg(not(target_os = "linux"))]
    let _ = timeout;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use socket2::{Domain, Socket, Type};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_host_without_an_address_that_answers_is_refused() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let lookup = Lookup::default();
        let addresses = lookup.addresses("localhost", port, Duration::from_secs(10));
        let addresses = addresses.await.expect("a known name");
        let refused = first_of(addresses, None, Duration::ZERO)
            .await
            .expect_err("nobody listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let none = first_of(Vec::new(), None, Duration::ZERO)
            .await
            .expect_err("no address");
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn each_address_has_its_turn() {
        let address = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let found = [address(3), address(1), address(2)];
        let turn = [1, 2, 3, 1].map(address);
        for pair in turn.windows(2) {
            assert_eq!(after(&found, pair[0]), Some(pair[1]));
        }
        assert_eq!(after(&found[..1], address(9)), Some(address(3)), "it is gone");
        assert_eq!(after(&[], address(1)), None);
    }

    /// An address with a full queue of connections does not answer.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_host_with_a_dead_address_is_connected() {
        let dead = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        dead.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
            .expect("a free port");
        dead.listen(0).expect("listening");
        let silent = dead.local_addr().ok().and_then(|address| address.as_socket());
        let silent = silent.expect("bound");
        let mut queued = Vec::new();
        while let Ok(Ok(stream)) = timeout(Duration::from_millis(200), TcpStream::connect(silent)).await {
            queued.push(stream);
        }
        let live = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let live = live.local_addr().map(|address| (live, address)).expect("bound");
        let connecting = first_of(vec![silent, live.1], None, Duration::ZERO);
        let connected = timeout(Duration::from_secs(10), connecting).await;
        let stream = connected.expect("in time").expect("the second answers");
        assert_eq!(stream.peer_addr().expect("connected"), live.1);
    }
}
