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
