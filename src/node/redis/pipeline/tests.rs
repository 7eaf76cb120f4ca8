use std::sync::Mutex as StdMutex;
use std::time::Duration;

use futures::FutureExt;
use futures::poll;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::*;

/// A pipe, the server's end of its stream, and the received messages with their channels.
struct Line {
    pipe: Arc<Pipe>,
    driver: AbortOnDropHandle<()>,
    server: DuplexStream,
    messages: Arc<StdMutex<Vec<(String, String)>>>,
}

impl Line {
    /// Opens a pipe over a stream with room for `room` bytes.
    fn open(room: usize) -> Self {
        Self::with(room, false)
    }

    fn with(room: usize, notices_in_arrays: bool) -> Self {
        let (client, server) = duplex(room);
        let messages: Arc<StdMutex<Vec<(String, String)>>> = Arc::default();
        let note = Arc::clone(&messages);
        let listener = move |form: ChannelForm, channel: &str, message: &str| {
            assert_eq!(form == ChannelForm::Pattern, channel.ends_with('*'));
            let messages = (channel.to_owned(), message.to_owned());
            note.lock().expect("not poisoned").push(messages);
        };
        let (pipe, mut driver) = Pipe::open(Box::new(client), Arc::new(listener));
        if notices_in_arrays {
            driver.takes_notices_in_arrays();
        }
        Self {
            pipe,
            driver: AbortOnDropHandle::new(tokio::spawn(driver)),
            server,
            messages,
        }
    }

    fn call(&self, packed: &str) -> impl Future<Output = Answer> + use<> {
        let (inbox, reply) = Inbox::single();
        self.pipe.send(packed.as_bytes(), reply);
        inbox.answer()
    }

    async fn receives(&mut self, expected: &str) {
        let mut bytes = vec![0; expected.len()];
        let read = timeout(Duration::from_secs(5), self.server.read_exact(&mut bytes)).await;
        read.expect("in time").expect("open");
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }

    async fn says(&mut self, bytes: &str) {
        self.server.write_all(bytes.as_bytes()).await.expect("open");
    }
}

fn unknown(answer: &Answer) -> bool {
    matches!(answer, Err(Fault::Unknown(_)))
}

fn not_sent(answer: &Answer) -> bool {
    matches!(answer, Err(Fault::NotSent(_)))
}

#[tokio::test]
async fn answers_come_to_calls_in_order_however_the_bytes_fall() {
    let mut line = Line::open(1024);
    let calls = [line.call("one "), line.call("two "), line.call("three")];
    line.receives("one two three").await;
    for piece in [":1", "\r\n$3\r", "\nt", "wo\r\n-OOM no", " memory\r\n"] {
        line.says(piece).await;
        tokio::task::yield_now().await;
    }
    let [one, two, three] = calls;
    assert_eq!(one.await, Ok(Value::Int(1)));
    assert_eq!(two.await, Ok(Value::BulkString(b"two".to_vec())));
    let refused = three.await.expect_err("an error");
    assert_eq!(refused.class(), Some(crate::protocol::fault::FaultClass::Passing));
    // The next call finds a sleeping driver.
    let four = line.call("four");
    line.receives("four").await;
    line.says("_\r\n").await;
    assert_eq!(four.await, Ok(Value::Nil));
}

/// Messages answer no call.
#[tokio::test]
async fn channels_are_confirmed_one_by_one() {
    let mut line = Line::open(1024);
    let (first, second, denied) = (line.call("s"), line.call("s"), line.call("s"));
    let after = line.call("c");
    line.receives("sssc").await;
    let confirmed =
        |channel: &str, count: usize| format!(">3\r\n$9\r\nsubscribe\r\n$1\r\n{channel}\r\n:{count}\r\n");
    let message = b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$3\r\n7 \xff\r\n";
    line.says(&confirmed("a", 1)).await;
    line.server.write_all(message).await.expect("open");
    line.says(&confirmed("b", 2)).await;
    line.says(">4\r\n$8\r\npmessage\r\n$2\r\na*\r\n$2\r\nab\r\n$1\r\n8\r\n")
        .await;
    assert!(first.await.is_ok() && second.await.is_ok());
    line.says("-NOPERM no\r\n:7\r\n").await;
    assert!(denied.await.is_err());
    assert_eq!(after.await, Ok(Value::Int(7)));
    let messages = [("a", "7 \u{fffd}"), ("a*", "8")];
    let messages = messages.map(|(channel, message)| (channel.to_owned(), message.to_owned()));
    assert_eq!(*line.messages.lock().expect("not poisoned"), messages);
}

/// A service in front of a master may push what no client has asked for. Taken for an answer, it would give each later call
/// the answer of the call before: a release's, which would then count as a grant.
#[tokio::test]
async fn other_pushes_answer_no_call() {
    let mut line = Line::open(1024);
    let (first, second) = (line.call("r"), line.call("a"));
    line.receives("ra").await;
    let unasked = [
        ">2\r\n$10\r\ninvalidate\r\n_\r\n",
        ">3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$1\r\n0\r\n",
        ">2\r\n$6\r\nnotice\r\n:1\r\n",
    ];
    for push in unasked {
        line.says(push).await;
    }
    line.says(":1\r\n:7\r\n").await;
    assert_eq!(first.await, Ok(Value::Int(1)));
    assert_eq!(second.await, Ok(Value::Int(7)));
    assert!(line.messages.lock().expect("not poisoned").is_empty());
}

/// The set-up polls the driver first, and then a task does.
#[tokio::test]
async fn a_driver_that_moves_to_another_task_is_woken_there() {
    let (client, mut server) = duplex(1024);
    let (pipe, mut driver) = Pipe::open(Box::new(client), Arc::new(|_: ChannelForm, _: &str, _: &str| {}));
    assert!(futures::poll!(&mut driver).is_pending());
    let _driver = AbortOnDropHandle::new(tokio::spawn(driver));
    tokio::task::yield_now().await;
    let (_inbox, reply) = Inbox::single();
    pipe.send(b"one", reply);
    let mut bytes = [0; 3];
    let read = timeout(Duration::from_secs(5), server.read_exact(&mut bytes)).await;
    read.expect("its task was woken").expect("open");
}

/// Over RESP2 messages and confirmations of subscriptions are arrays. On a connection for calls such an array
/// is an answer.
#[tokio::test]
async fn messages_in_arrays_are_notices_where_nothing_else_is_asked() {
    let message = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$3\r\n7 b\r\n";
    let mut line = Line::with(1024, true);
    let (first, second) = (line.call("s"), line.call("s"));
    line.receives("ss").await;
    line.says("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n").await;
    line.says(message).await;
    line.says("*4\r\n$8\r\npmessage\r\n$2\r\na*\r\n$2\r\nab\r\n$1\r\n8\r\n")
        .await;
    line.says("*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n").await;
    assert!(first.await.is_ok() && second.await.is_ok());
    let messages = [("a", "7 b"), ("a*", "8")];
    let messages = messages.map(|(channel, message)| (channel.to_owned(), message.to_owned()));
    assert_eq!(*line.messages.lock().expect("not poisoned"), messages);
    let mut line = Line::open(1024);
    let call = line.call("c");
    line.receives("c").await;
    line.says(message).await;
    assert!(matches!(call.await, Ok(Value::Array(_))));
    assert!(line.messages.lock().expect("not poisoned").is_empty());
}

/// A slow peer gets all requests, whole and in order.
#[tokio::test]
async fn a_slow_peer_gets_everything_in_order() {
    let mut line = Line::open(7);
    let words: Vec<String> = (0..200).map(|number| format!("request {number};")).collect();
    let calls: Vec<_> = words.iter().map(|word| line.call(word)).collect();
    line.receives(&words.concat()).await;
    for number in 0..calls.len() {
        line.says(&format!(":{number}\r\n")).await;
    }
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await, Ok(Value::Int(i64::try_from(number).expect("small"))));
    }
}

#[tokio::test]
async fn an_end_answers_every_call_and_takes_no_more() {
    let mut line = Line::open(1024);
    let call = line.call("one");
    line.receives("one").await;
    drop(line.server);
    assert!(unknown(&call.await), "it may have been executed");
    line.driver.await.expect("no panic");
    let (inbox, reply) = Inbox::single();
    line.pipe.send(b"late", reply);
    assert!(not_sent(&inbox.answer().await), "nothing was sent any more");
}

const REFUSAL: &str = "ERR max number of clients reached";

/// A server that refuses a connection says so before the first call, and closes it.
#[tokio::test]
async fn an_error_before_the_first_call_answers_every_later_one() {
    let mut line = Line::open(1024);
    for piece in ["-ERR max number", " of clients reached\r\n"] {
        line.says(piece).await;
        tokio::task::yield_now().await;
    }
    drop(line.server);
    line.driver.await.expect("no panic");
    for _ in 0..2 {
        let (inbox, reply) = Inbox::single();
        line.pipe.send(b"late", reply);
        let answer = inbox.answer().await;
        assert!(
            matches!(&answer, Err(Fault::Server(_, error)) if **error == *REFUSAL),
            "{answer:?}"
        );
    }
}

/// Servers repeat their input in errors, and a login may be among it.
#[tokio::test]
async fn an_error_after_a_call_that_answers_none_is_not_quoted() {
    for words in ["-ERR no\r\n-ERR what is 's3cret'?\r\n", "+OK\r\n$6\r\ns3cret\r\n"] {
        let mut line = Line::open(1024);
        let call = line.call("AUTH s3cret");
        line.receives("AUTH s3cret").await;
        line.says(words).await;
        let _ = call.await;
        line.driver.await.expect("no panic");
        let (inbox, reply) = Inbox::single();
        line.pipe.send(b"late", reply);
        assert_eq!(
            inbox.answer().await,
            Err(Fault::NotSent("an answer to nothing".into()))
        );
    }
}

/// The call cannot be written any more, and the server's words are still to be read.
#[tokio::test]
async fn an_answer_that_came_before_a_write_failed_is_handed_out() {
    let words = format!("-{REFUSAL}\r\n");
    let (closed, _) = duplex(16);
    let stream = tokio::io::join(std::io::Cursor::new(words), closed);
    let (pipe, driver) = Pipe::open(Box::new(stream), Arc::new(|_: ChannelForm, _: &str, _: &str| {}));
    let (inbox, reply) = Inbox::single();
    pipe.send(b"early", reply);
    driver.await;
    let answer = inbox.answer().await;
    assert!(
        matches!(&answer, Err(Fault::Server(_, error)) if **error == *REFUSAL),
        "{answer:?}"
    );
}

/// A driver that is polled by the test, and calls whose answers have arrived.
async fn many_answers() -> (Arc<Pipe>, Driver, DuplexStream, Vec<impl Future<Output = Answer>>) {
    let (client, mut server) = duplex(4096);
    let (pipe, mut driver) = Pipe::open(Box::new(client), Arc::new(|_, _, _| {}));
    let command = redis::cmd("PING");
    let calls: Vec<_> = (0..MANY).map(|_| pipe.ask(&command)).collect();
    let mut sent = vec![0; MANY * command.get_packed_command().len()];
    // On a busy connection the first poll writes nothing.
    assert!(poll!(&mut driver).is_pending() && poll!(&mut driver).is_pending());
    server.read_exact(&mut sent).await.expect("open");
    server
        .write_all(":1\r\n".repeat(MANY).as_bytes())
        .await
        .expect("open");
    (pipe, driver, server, calls)
}

/// Otherwise the server would wait for the askers of all answers, and then they for it.
#[tokio::test]
async fn half_of_many_answers_come_before_the_next_write() {
    let (pipe, mut driver, mut server, calls) = many_answers().await;
    assert!(poll!(&mut driver).is_pending());
    let mut open = Vec::new();
    for call in calls {
        let mut call = Box::pin(call);
        if poll!(&mut call).is_pending() {
            open.push(call);
        }
    }
    assert_eq!(open.len(), MANY / 2);
    let next = redis::cmd("TIME");
    let calls: Vec<_> = (0..BUSY).map(|_| pipe.ask(&next)).collect();
    assert!(poll!(&mut driver).is_pending());
    let mut sent = vec![0; BUSY * next.get_packed_command().len()];
    let read = timeout(Duration::from_secs(5), server.read_exact(&mut sent)).await;
    read.expect("they are written").expect("open");
    for call in open {
        assert_eq!(call.now_or_never(), Some(Ok(Value::Int(1))));
    }
    drop(calls);
}

/// They are answers to calls that have taken effect.
#[tokio::test]
async fn answers_that_have_arrived_are_handed_out_at_the_end() {
    let (_pipe, mut driver, _server, calls) = many_answers().await;
    assert!(poll!(&mut driver).is_pending());
    drop(driver);
    for call in calls {
        assert_eq!(call.now_or_never(), Some(Ok(Value::Int(1))));
    }
}

/// A connection that is given up must not write another byte, so that it cannot overtake a later one.
#[tokio::test]
async fn nothing_is_written_once_the_driver_is_gone() {
    let mut line = Line::open(1024);
    let sent = line.call("sent");
    line.receives("sent").await;
    let queued = line.call("queued");
    line.driver.abort();
    let _ = line.driver.await;
    assert!(unknown(&sent.await) && unknown(&queued.await));
    let mut rest = String::new();
    line.server.read_to_string(&mut rest).await.expect("closed");
    assert_eq!(rest, "");
}

#[tokio::test]
async fn what_is_no_answer_ends_the_connection() {
    for bytes in [":1\r\nHTTP/1.1 400 Bad Request\r\n", ":1\r\n:2\r\n"] {
        let mut line = Line::open(1024);
        let call = line.call("one");
        line.receives("one").await;
        line.says(bytes).await;
        assert_eq!(call.await, Ok(Value::Int(1)), "what came before it counts");
        timeout(Duration::from_secs(5), line.driver)
            .await
            .expect("it ends")
            .expect("no panic");
    }
}

#[tokio::test]
async fn a_burst_is_refused_where_it_would_never_end() {
    let mut line = Line::open(1024);
    let large = "c".repeat(MOST / 16);
    let calls: Vec<_> = (0..16).map(|_| line.call(&large)).collect();
    assert_eq!(line.pipe.waiting(), MOST);
    assert!(not_sent(&line.call("c").await));
    line.receives(&large).await;
    line.says("+OK\r\n").await;
    let mut calls = calls.into_iter();
    assert_eq!(calls.next().expect("sixteen").await, Ok(Value::Okay));
    assert_eq!(
        line.pipe.waiting(),
        MOST - large.len(),
        "what was answered waits no longer"
    );
    assert!(line.pipe.last_received().is_some());
}

/// The buffer grows for a long reply, and shrinks again.
#[tokio::test]
async fn a_long_reply_is_read_whole() {
    let mut line = Line::open(4096);
    let call = line.call("info");
    line.receives("info").await;
    let long = "x".repeat(5 * BUFFER);
    line.says(&format!("${}\r\n{long}\r\n", long.len())).await;
    assert_eq!(call.await, Ok(Value::BulkString(long.into_bytes())));
}
