//! Connections to the page. Each has one request, which has to arrive in time, and no more are accepted than there is room
//! for. So nobody keeps the page from others with halves of requests, or by not reading answers.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::look::MOST_VIEWERS;

/// Time for the head of a request to arrive, and for its body.
pub(super) const ARRIVES_WITHIN: Duration = Duration::from_secs(10);
/// Connections at a time: one for each viewer, and as many for requests that last for a moment.
const MOST: usize = 2 * MOST_VIEWERS;
/// Pause after a connection could not be accepted, because the process has no file descriptor left.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn serve(listener: TcpListener, router: Router) -> ! {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(ARRIVES_WITHIN);
    // A single answer fits into the buffers of the connection. More of them would have to wait for a peer that reads.
    http.keep_alive(false);
    let room = Arc::new(Semaphore::new(MOST));
    loop {
        let slot = Arc::clone(&room).acquire_owned().await;
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_of_the_peer(error.kind()) => continue,
            Err(_) => {
                sleep(PAUSE).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone().layer(Extension(ConnectInfo(peer))));
        let connection = http.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // The viewer closes it, or sends what is no request. Neither concerns anybody else.
            let _ = connection.await;
            drop(slot);
        });
    }
}

/// Whether the peer has ended the connection before it was accepted.
fn is_of_the_peer(error: ErrorKind) -> bool {
    matches!(
        error,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
    )
}
