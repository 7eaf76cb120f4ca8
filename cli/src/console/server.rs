//! Answers the requests of the page.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt;
use multilock::{LockError, Masters, Policy};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::access::{Access, Refusal, cookie_name, is_by_tls};
use super::connections::ARRIVES_WITHIN;
use super::look::Looks;
use super::snapshot::Order;
use crate::report::belongs_to;
use crate::say::{Voice, visible};
use crate::translation::translated;
use crate::writer;

const PAGE: &str = include_str!("page/index.html");
const SIGN_IN: &str = include_str!("page/sign_in.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Nothing but this page's own script and style is loaded or run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Largest body of a request, in bytes. Reasons of forces are far shorter.
const LARGEST_BODY: usize = 64 * 1024;

#[derive(Clone)]
struct Console {
    masters: Masters,
    looks: Looks,
    access: Arc<Access>,
    allow_force: bool,
}

pub(super) fn router(masters: Masters, looks: Looks, access: Arc<Access>, allow_force: bool) -> Router {
    let console = Console {
        masters,
        looks,
        access,
        allow_force,
    };
    Router::new()
        .route("/", get(page))
        .route(
            "/page.js",
            get(async || file("text/javascript; charset=utf-8", SCRIPT)),
        )
        .route("/events", get(events))
        .route("/force", post(force))
        .layer(from_fn_with_state(console.clone(), with_token))
        .route("/style.css", get(async || file("text/css; charset=utf-8", STYLE)))
        .route("/token", post(sign_in))
        .layer(from_fn(with_whole_body))
        .layer(from_fn_with_state(console.clone(), from_here))
        .with_state(console)
}

/// Refuses requests that pages of other sites cause, and adds the headers of every answer.
async fn from_here(State(console): State<Console>, request: Request, next: Next) -> Response {
    let mut answer =
        match console
            .access
            .check_source(request.method(), request.uri().path(), request.headers())
        {
            Ok(()) => next.run(request).await,
            Err(Refusal::Host) => refused(
                StatusCode::MISDIRECTED_REQUEST,
                "this host name is not allowed; allowed: localhost, an address, or a name that --host gives",
            ),
            Err(Refusal::Origin) => refused(StatusCode::FORBIDDEN, "requests of other sites are not allowed"),
        };
    let headers: [(HeaderName, &str); 6] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Gives up a request with a body that does not arrive, or is larger than any body of the page.
async fn with_whole_body(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match timeout(ARRIVES_WITHIN, to_bytes(body, LARGEST_BODY)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(_)) => refused(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is too large, or is cut off",
        ),
        Err(_) => refused(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"),
    }
}

/// Asks for the token.
async fn with_token(State(console): State<Console>, request: Request, next: Next) -> Response {
    if console.access.has_token(request.headers()) {
        return next.run(request).await;
    }
    sign_in_page("")
}

/// Stores the token in the browser, out of reach of scripts and other sites.
async fn sign_in(
    State(console): State<Console>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body = String::from_utf8_lossy(&body);
    let token = body.strip_prefix("token=").unwrap_or_default();
    if !console.access.accepts(token) {
        Voice::Normal.warn(format_args!("{peer} gave a wrong token"));
        return sign_in_page("This is another token.");
    }
    // Behind a proxy with TLS the browser keeps it to TLS.
    let name = cookie_name(&headers);
    let secure = if is_by_tls(&headers) { "; Secure" } else { "" };
    // A stricter one would be kept back when a link of another site leads to the page. It would hold back no more from
    // other ports, because they are of the same site.
    let cookie = format!("{name}={token}; HttpOnly; SameSite=Lax; Path=/{secure}");
    let headers = [(LOCATION, String::from("/")), (SET_COOKIE, cookie)];
    (StatusCode::SEE_OTHER, headers).into_response()
}

fn sign_in_page(said: &str) -> Response {
    let page = SIGN_IN.replace("{said}", said);
    (StatusCode::UNAUTHORIZED, file("text/html; charset=utf-8", page)).into_response()
}

async fn page(State(console): State<Console>) -> Response {
    let force = if console.allow_force { "yes" } else { "no" };
    file("text/html; charset=utf-8", PAGE.replace("{force}", force))
}

fn file(kind: &'static str, text: impl Into<String>) -> Response {
    ([(CONTENT_TYPE, kind)], text.into()).into_response()
}

fn refused(status: StatusCode, why: &'static str) -> Response {
    (status, format!("{why}\n")).into_response()
}

/// Snapshots, with the locks that the query's text selects.
async fn events(State(console): State<Console>, Query(query): Query<HashMap<String, String>>) -> Response {
    let text: Arc<str> = query.get("text").map_or("", String::as_str).into();
    let order = Order::of(query.get("order").map_or("", String::as_str));
    let Some(snapshots) = console.looks.stream() else {
        return refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many viewers look at this page",
        );
    };
    let events = snapshots.then(move |snapshot| {
        let text = Arc::clone(&text);
        async move {
            // Not on a thread that talks to the masters: their deadlines are short, and a list may be long.
            let shown = spawn_blocking(move || snapshot.with_locks(&text, order)).await;
            shown.map(|shown| Event::default().data(shown))
        }
    });
    // nginx would hold the events back.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    let events = Sse::new(events).keep_alive(KeepAlive::default());
    (unbuffered, events).into_response()
}

/// Takes a name away from one hold, and says so on stderr.
async fn force(
    State(console): State<Console>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    body: Bytes,
) -> Response {
    if !console.allow_force {
        return refused(
            StatusCode::FORBIDDEN,
            "this page changes nothing; --allow-force lets it",
        );
    }
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (Some(name), Some(hold)) = (asked["name"].as_str(), asked["hold"].as_str()) else {
        return refused(StatusCode::BAD_REQUEST, "name and hold are needed, as text");
    };
    let mut lock = console.masters.lock(name, Policy::RedLock);
    let reason = asked["reason"].as_str().unwrap_or_default();
    if !reason.is_empty() {
        lock = lock.force_reason(reason);
    }
    let forced = lock.force_release_from(|holder| belongs_to(holder, hold)).await;
    let (status, answer) = match forced {
        Ok(forced) => {
            let former: Vec<String> = forced.former.iter().map(ToString::to_string).collect();
            if !former.is_empty() {
                let who = former.join(", ");
                let done = format!("{peer} took {name} away from {who}, reason: {reason:?}");
                Voice::Normal.warn(visible(&done));
                // The journal has it before the answer.
                writer::settle();
            }
            (StatusCode::OK, json!({"former": former}))
        }
        Err(error) => {
            let is_invalid = matches!(error, LockError::Invalid(_));
            let status = if is_invalid {
                StatusCode::BAD_REQUEST
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            (status, json!({"error": translated(error)}))
        }
    };
    (status, [(CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}
