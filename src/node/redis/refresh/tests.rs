use std::collections::VecDeque;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::*;
use crate::masters::credentials::BoxError;
use crate::node::NodeUrl;

const AFTER: Duration = Duration::from_secs(60);
const WITHIN: Duration = Duration::from_secs(2);

/// Server's end of a connection that is kept logged in, as `app` with the password `one`.
struct Line {
    server: DuplexStream,
    pipe: Arc<Pipe>,
    keeping: AbortOnDropHandle<()>,
    _driver: AbortOnDropHandle<()>,
}

type Provided = Result<Credentials, BoxError>;

fn password(password: &str) -> Credentials {
    Credentials::new("app", password).refresh_after(AFTER)
}

impl Line {
    /// Opens a line; its provider gives these answers one after the other, and then none.
    fn open(answers: Vec<Provided>) -> Self {
        let answers = Mutex::new(VecDeque::from(answers));
        let provider = Provider::new(move || {
            let answer = answers.lock().pop_front();
            async move {
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            }
        });
        let (client, server) = duplex(1024);
        let (pipe, driver) = Pipe::open(Box::new(client), Arc::new(|_, _, _| {}));
        let address = NodeUrl::new("redis://db").parse(1).expect("a URL");
        let keeping = keep_logged_in(Arc::clone(&pipe), address, provider, password("one"), WITHIN);
        Self {
            server,
            pipe,
            keeping: AbortOnDropHandle::new(tokio::spawn(keeping)),
            _driver: AbortOnDropHandle::new(tokio::spawn(driver)),
        }
    }

    /// Receives the next bytes, and returns the time that passed.
    async fn receives(&mut self, expected: &str) -> Duration {
        let begun = Instant::now();
        let mut bytes = vec![0; expected.len()];
        let read = timeout(Duration::from_secs(600), self.server.read_exact(&mut bytes)).await;
        read.expect("in time").expect("open");
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
        begun.elapsed()
    }

    async fn says(&mut self, bytes: &str) {
        self.server.write_all(bytes.as_bytes()).await.expect("open");
    }
}

fn auth(password: &str) -> String {
    auth_as("app", password)
}

fn auth_as(user: &str, password: &str) -> String {
    let words = [user, password].map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*3\r\n$4\r\nAUTH\r\n{}", words.concat())
}

#[tokio::test(start_paused = true)]
async fn a_new_password_goes_between_the_calls() {
    let mut line = Line::open(vec![Ok(password("two")), Ok(password("three"))]);
    let before = line.pipe.ask(&redis::cmd("A"));
    line.receives("*1\r\n$1\r\nA\r\n").await;
    assert_eq!(line.receives(&auth("two")).await, AFTER);
    let after = line.pipe.ask(&redis::cmd("B"));
    line.receives("*1\r\n$1\r\nB\r\n").await;
    line.says(":1\r\n+OK\r\n:2\r\n").await;
    assert_eq!(before.await, Ok(redis::Value::Int(1)));
    assert_eq!(after.await, Ok(redis::Value::Int(2)));
    // The refreshes go on.
    assert_eq!(line.receives(&auth("three")).await, AFTER);
}

#[tokio::test(start_paused = true)]
async fn the_same_password_is_not_sent_again() {
    let mut line = Line::open(vec![Ok(password("one")), Ok(password("two"))]);
    assert_eq!(line.receives(&auth("two")).await, 2 * AFTER);
}

/// A user that is to be deleted may have had the same password.
#[tokio::test(start_paused = true)]
async fn the_same_password_of_another_user_is_sent() {
    let mut line = Line::open(vec![Ok(Credentials::new("job", "one"))]);
    assert_eq!(line.receives(&auth_as("job", "one")).await, AFTER);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_and_a_refusal_leave_the_connection_as_it_is() {
    let failed = || Err("the vault is sealed".into());
    let mut line = Line::open(vec![
        failed(),
        failed(),
        Ok(password("two")),
        Ok(password("three")),
    ]);
    assert_eq!(line.receives(&auth("two")).await, AFTER + 2 * RETRY);
    line.says(REFUSED).await;
    assert_eq!(line.receives(&auth("three")).await, RETRY);
    line.says("+OK\r\n").await;
    let call = line.pipe.ask(&redis::cmd("A"));
    line.receives("*1\r\n$1\r\nA\r\n").await;
    line.says(":1\r\n").await;
    assert_eq!(call.await, Ok(redis::Value::Int(1)));
}

const REFUSED: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

/// Counts the warnings of this thread.
struct Warnings(Arc<AtomicUsize>);

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let is_warning = *event.metadata().level() == Level::WARN;
        self.0.fetch_add(usize::from(is_warning), Ordering::Relaxed);
    }
}

fn count_warnings() -> (Arc<AtomicUsize>, DefaultGuard) {
    // With a single subscriber, a line that a thread without one meets first is switched off for all threads.
    static OTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
    LazyLock::force(&OTHER);
    let count = Arc::default();
    let layer = Warnings(Arc::clone(&count));
    (count, set_default(Registry::default().with(layer)))
}

/// Each refused login is in the server's log of refusals.
#[tokio::test(start_paused = true)]
async fn a_refused_login_is_tried_again_after_pauses_that_grow() {
    let (warnings, _installed) = count_warnings();
    let mut line = Line::open((0..7).map(|_| Ok(password("two"))).collect());
    assert_eq!(line.receives(&auth("two")).await, AFTER);
    for pause in [1, 2, 4, 8, 10, 10] {
        line.says(REFUSED).await;
        let paused = line.receives(&auth("two")).await;
        assert_eq!(paused, Duration::from_secs(pause));
    }
    // At 0, 15, 25 and not at 1, 3 and 7 s.
    assert_eq!(warnings.load(Ordering::Relaxed), 3);
}

/// A file may be missing for as long as it is being replaced, so it is looked for often.
#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_for_long_is_asked_each_second_and_logged_once_in_ten() {
    let (warnings, _installed) = count_warnings();
    let failures = (0..25).map(|_| Err("no such file".into()));
    let mut line = Line::open(failures.chain([Ok(password("two"))]).collect());
    assert_eq!(line.receives(&auth("two")).await, AFTER + 25 * RETRY);
    assert_eq!(warnings.load(Ordering::Relaxed), 3);
}

/// The refresh falls due while the server is slow with much, and is tried again.
#[tokio::test(start_paused = true)]
async fn too_much_under_way_does_not_end_it() {
    let mut line = Line::open(vec![Ok(password("two")), Ok(password("three"))]);
    let large = "x".repeat(17 << 20);
    let call = line.pipe.ask(redis::cmd("A").arg(&large));
    sleep(AFTER + RETRY / 2).await;
    line.receives(&format!("*2\r\n$1\r\nA\r\n${}\r\n{large}\r\n", large.len()))
        .await;
    line.says(":1\r\n").await;
    assert_eq!(call.await, Ok(redis::Value::Int(1)));
    line.receives(&auth("three")).await;
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_the_connection_or_when_no_refresh_is_wanted() {
    let mut line = Line::open(vec![Ok(Credentials::new("app", "two"))]);
    line.receives(&auth("two")).await;
    line.says("+OK\r\n").await;
    timeout(AFTER, line.keeping)
        .await
        .expect("no refresh is wanted")
        .expect("no panic");
    let mut line = Line::open(vec![Ok(password("two"))]);
    line.receives(&auth("two")).await;
    drop(line.server);
    timeout(AFTER, line.keeping)
        .await
        .expect("nobody answers")
        .expect("no panic");
}
