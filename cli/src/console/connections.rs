//! Connections of the page's viewers. A request that does not go on is given up, and no more connections are accepted than
//! the process has room for. So nobody keeps the page from others by sending halves of requests.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::look::MOST_VIEWERS;

/// Time for a request to arrive. A connection without a request is closed after it.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);
/// Time for a request's body to arrive and for the answer to begin; a lock that is taken away takes a call to each master.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// Connections at a time. Beside each viewer's there is room for the requests that last for a moment.
const MOST: usize = 2 * MOST_VIEWERS;
/// Pause after a connection could not be accepted: the process has no file descriptor left.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) async fn serve(listener: TcpListener, router: Router) -> ! {
    let router = router.layer(from_fn(in_time));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(ARRIVES_WITHIN);
    let room = Arc::new(Semaphore::new(MOST));
    loop {
        let slot = Arc::clone(&room).acquire_owned().await;
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // The viewer closes it, or sends what is no request. Neither concerns anybody else.
            let _ = connection.await;
            drop(slot);
        });
    }
}

/// Events go on after the answer has begun.
async fn in_time(request: Request, next: Next) -> Response {
    let answer = timeout(ANSWERED_WITHIN, next.run(request)).await;
    answer.unwrap_or_else(|_| StatusCode::REQUEST_TIMEOUT.into_response())
}
