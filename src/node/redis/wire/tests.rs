use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::node::Inbox;

/// A server's end of one connection, and what moves the bytes of the client's end.
struct Line {
    server: DuplexStream,
    driver: AbortOnDropHandle<()>,
}

impl Line {
    fn open(is_for_notices: bool) -> (Arc<Pipe>, Self) {
        let (client, server) = duplex(1024);
        let (pipe, driver) = Pipe::open(Box::new(client), Arc::new(|_: &str, _: &str| {}));
        let driver = if is_for_notices {
            driver.for_notices()
        } else {
            driver
        };
        let driver = AbortOnDropHandle::new(tokio::spawn(driver));
        (pipe, Self { server, driver })
    }

    /// All that has come until nothing more does.
    async fn received(&mut self) -> String {
        let mut bytes = Vec::new();
        while let Ok(read) = timeout(Duration::from_millis(50), self.server.read_buf(&mut bytes)).await {
            assert_ne!(read.expect("open"), 0, "ended");
        }
        String::from_utf8(bytes).expect("text")
    }

    async fn says(&mut self, bytes: &str) {
        self.server.write_all(bytes.as_bytes()).await.expect("open");
    }
}

fn two() -> (ServerWire, Line, Line) {
    let ((calls, calls_line), (notices, notices_line)) = (Line::open(false), Line::open(true));
    (
        ServerWire::new(calls, Some(notices), None),
        calls_line,
        notices_line,
    )
}

fn call(wire: &ServerWire, packed: &str) -> Inbox {
    let (inbox, reply) = Inbox::single();
    wire.send(packed.as_bytes(), reply);
    inbox
}

fn subscribe(wire: &ServerWire, channel: &str) -> Inbox {
    let (inbox, reply) = Inbox::single();
    wire.subscribe(&[channel.to_owned()], reply);
    inbox
}

fn confirmed(channel: &str) -> String {
    format!("*3\r\n$9\r\nsubscribe\r\n$1\r\n{channel}\r\n:1\r\n")
}

/// As on one connection, although there are two: nobody stands in a queue who could not be called.
#[tokio::test(start_paused = true)]
async fn what_is_called_behind_a_subscription_is_sent_once_it_is_confirmed() {
    let (wire, mut calls, mut notices) = two();
    let first = call(&wire, "1");
    let subscribing = subscribe(&wire, "a");
    let (second, third) = (call(&wire, "2"), call(&wire, "3"));
    assert_eq!(calls.received().await, "1");
    assert!(notices.received().await.contains("SUBSCRIBE"));
    assert_eq!(wire.waiting(), 3, "what is held waits for its answer, too");
    let again = subscribe(&wire, "b");
    let fourth = call(&wire, "4");
    notices.says(&confirmed("a")).await;
    assert!(subscribing.answer().await.is_ok());
    assert_eq!(calls.received().await, "", "the second is not confirmed");
    notices.says("-NOPERM not you\r\n").await;
    assert!(again.answer().await.is_err(), "it goes by timers");
    assert_eq!(calls.received().await, "234");
    let fifth = call(&wire, "5");
    assert_eq!(calls.received().await, "5");
    calls.says("+1\r\n+2\r\n+3\r\n+4\r\n+5\r\n").await;
    for (inbox, answer) in [
        (first, "1"),
        (second, "2"),
        (third, "3"),
        (fourth, "4"),
        (fifth, "5"),
    ] {
        let said = redis::Value::SimpleString(answer.to_owned());
        assert_eq!(inbox.answer().await, Ok(said));
    }
    assert_eq!(wire.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_answered_when_a_connection_ends() {
    let (wire, mut calls, notices) = two();
    let (subscribing, held) = (subscribe(&wire, "a"), call(&wire, "1"));
    drop(notices);
    assert!(subscribing.answer().await.is_err());
    assert_eq!(
        calls.received().await,
        "1",
        "the caller ends this connection, too"
    );
    drop(calls.server);
    calls.driver.await.expect("no panic");
    assert!(held.answer().await.is_err());
    let (subscribing, late) = (subscribe(&wire, "b"), call(&wire, "2"));
    assert!(subscribing.answer().await.is_err() && late.answer().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn no_more_is_held_than_may_wait() {
    let (wire, _calls, _notices) = two();
    let _subscribing = subscribe(&wire, "a");
    let large = "c".repeat(MOST);
    let _held = call(&wire, &large);
    assert!(matches!(call(&wire, "1").answer().await, Err(Fault::NotSent(_))));
}
