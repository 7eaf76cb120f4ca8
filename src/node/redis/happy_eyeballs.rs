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
mod tests;
