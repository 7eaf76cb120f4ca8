//! Connects to the first address of a host that answers. Each is tried soon enough to have its chance within the time-out,
//! so that one that is dead, often the IPv6 one, does not use it up (RFC 8305, "happy eyeballs").

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::sleep;

/// How long an address is ahead of the next one, where there is time for it; as the RFC recommends.
const AHEAD: Duration = Duration::from_millis(250);

/// What the host's name leads to is asked for anew each time. `within` is the time that all of it may take, which the
/// caller watches.
pub(super) async fn connect(host: &str, port: u16, within: Duration) -> io::Result<TcpStream> {
    let found: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    race(interleaved(&found), within, TcpStream::connect).await
}

/// Begins with the next address when one has failed or is late, and goes on with the earlier ones meanwhile.
async fn race<T, F>(
    addresses: Vec<SocketAddr>,
    within: Duration,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    // All are begun within half of the time, so that the last one has the other half.
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let ahead = AHEAD.min(within / 2 / count);
    let mut waiting = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut reason = None;
    loop {
        attempts.extend(waiting.next().map(&connect));
        tokio::select! {
            Some(attempt) = attempts.next() => match attempt {
                Ok(stream) => return Ok(stream),
                Err(error) => reason = reason.or(Some(error)),
            },
            () = sleep(ahead), if waiting.len() > 0 => {}
            else => break,
        }
    }
    Err(reason.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address")))
}

/// In the resolver's order, but with the two families in turn.
fn interleaved(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let of_first = |address: &SocketAddr| address.is_ipv6() == addresses[0].is_ipv6();
    let (first, second): (Vec<SocketAddr>, Vec<SocketAddr>) =
        addresses.iter().partition(|&address| of_first(address));
    let longer = first.len().max(second.len());
    let in_turn = (0..longer).flat_map(|at| [first.get(at), second.get(at)]);
    in_turn.flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::net::{Ipv4Addr, TcpListener};

    use socket2::{Domain, Socket, Type};
    use tokio::time::{Instant, timeout};

    const WITHIN: Duration = Duration::from_secs(1);

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect()
    }

    /// Connects where the last group is even; addresses that end in `dead` never answer, all others refuse.
    async fn race_to(texts: &[&str]) -> (io::Result<SocketAddr>, Duration) {
        let begun = Instant::now();
        let dead = |address: &SocketAddr| address.ip().to_string().ends_with("dead");
        let connect = async |address: SocketAddr| match address.port() {
            _ if dead(&address) => pending().await,
            1 => Ok(address),
            _ => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
        };
        let won = timeout(WITHIN, race(addresses(texts), WITHIN, connect)).await;
        let won = won.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        (won, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_address_does_not_use_up_the_time() {
        let live: SocketAddr = "10.0.0.1:1".parse().expect("an address");
        let (won, took) = race_to(&["[::dead]:1", "10.0.0.1:1"]).await;
        assert_eq!(won.expect("the second answers"), live);
        assert_eq!(took, AHEAD);
        // However many there are, the last one is begun within half of the time.
        let many = ["[::dead]:1"; 9];
        let (won, took) = race_to(&[&many[..], &["10.0.0.1:1"]].concat()).await;
        assert_eq!(won.expect("the last answers"), live);
        assert!(took <= WITHIN / 2, "{took:?}");
        let (won, _) = race_to(&many).await;
        assert_eq!(won.expect_err("all are dead").kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_address_follows_a_refusal_at_once() {
        let (won, took) = race_to(&["[::1]:2", "10.0.0.1:1"]).await;
        assert!(won.is_ok() && took.is_zero(), "{took:?}");
        let (won, took) = race_to(&["[::1]:2", "10.0.0.1:2"]).await;
        assert_eq!(
            won.expect_err("both refuse").kind(),
            io::ErrorKind::ConnectionRefused
        );
        assert!(took.is_zero(), "{took:?}");
        let (won, _) = race_to(&[]).await;
        assert_eq!(won.expect_err("none").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn families_take_turns() {
        let sorted = interleaved(&addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1"]));
        assert_eq!(
            sorted,
            addresses(&["[::1]:1", "10.0.0.1:1", "[::2]:1", "[::3]:1"])
        );
        assert_eq!(interleaved(&[]), []);
    }

    /// With sockets: one whose queue of connections is full answers nothing, on the same machine.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_host_with_a_dead_address_is_connected() {
        let dead = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        dead.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
            .expect("a free port");
        dead.listen(0).expect("listening");
        let silent = dead
            .local_addr()
            .ok()
            .and_then(|address| address.as_socket())
            .expect("bound");
        let mut queued = Vec::new();
        while let Ok(Ok(stream)) = timeout(Duration::from_millis(200), TcpStream::connect(silent)).await {
            queued.push(stream);
        }
        let live = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let live = live.local_addr().map(|address| (live, address)).expect("bound");
        let within = Duration::from_secs(10);
        let racing = race(vec![silent, live.1], within, TcpStream::connect);
        let stream = timeout(within, racing)
            .await
            .expect("in time")
            .expect("the second answers");
        assert_eq!(stream.peer_addr().expect("connected"), live.1);
    }
}
