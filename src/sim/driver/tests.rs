use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use super::*;
use crate::node::{By, ChannelForm, Inbox};
use crate::protocol::calls;
use crate::protocol::fault::Fault;
use crate::protocol::kind::HoldKind;

type Messages = Arc<Mutex<Vec<(String, String)>>>;

/// Makes a connection that listens to `channel`, and records its messages.
async fn listen(master: &Master, channel: &str) -> (Connection, Messages) {
    let messages = Messages::default();
    let note = Arc::clone(&messages);
    let listener = move |_: ChannelForm, channel: &str, message: &str| {
        let messages = (channel.to_owned(), message.to_owned());
        note.lock().push(messages);
    };
    let connecting = master.connect(None, channel, Arc::new(listener));
    (connecting.await.expect("it is up"), messages)
}

fn count(master: &Master, channel: &str) -> String {
    let script = "return redis.call('pubsub', 'numsub', ARGV[1])[2]";
    master.eval(script, &[], &[channel]).expect("a count").concat()
}

#[tokio::test(start_paused = true)]
async fn a_message_of_any_script_reaches_those_who_listen() {
    let master = Master::new(0);
    let (_one, first) = listen(&master, "multilock:7").await;
    let (_other, second) = listen(&master, "multilock:8").await;
    // The channel is made by the script, and the bytes are no text.
    let script = "return redis.call('publish', 'multilock:' .. 3 + 4, 'go \\255')";
    assert_eq!(master.eval(script, &[], &[]), Ok(vec!["1".to_owned()]));
    assert_eq!(
        master.command(&["PUBLISH", "multilock:9", "lost"]),
        Ok(vec!["0".to_owned()])
    );
    sleep(Duration::from_millis(1)).await;
    let expected = ("multilock:7".to_owned(), "go \u{fffd}".to_owned());
    assert_eq!(*first.lock(), [expected]);
    assert!(second.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_listens_over_a_connection_that_has_ended() {
    let master = Master::new(0);
    let (kept, messages) = listen(&master, "a").await;
    let (mut given_up, _) = listen(&master, "a").await;
    assert_eq!(count(&master, "a"), "2");
    given_up.driver.abort();
    let _ = (&mut given_up.driver).await;
    assert_eq!(count(&master, "a"), "1", "its wire is still there");
    let (inbox, reply) = Inbox::single();
    kept.wire.listen(false, ChannelForm::Exact, "a", reply);
    inbox.answer().await.expect("confirmed");
    assert_eq!(count(&master, "a"), "0");

    let (_one, _) = listen(&master, "a").await;
    // No task has run since.
    master.reset_connections();
    assert_eq!(count(&master, "a"), "0");
    let (_one, _) = listen(&master, "a").await;
    master.crash();
    assert_eq!(count(&master, "a"), "0");
    assert!(messages.lock().is_empty());
}

/// The listener has the client's slot, which has the wire of its connection.
#[tokio::test(start_paused = true)]
async fn a_connection_that_has_ended_keeps_no_listener() {
    let master = Master::new(0);
    let (mut connection, messages) = listen(&master, "a").await;
    assert_eq!(Arc::strong_count(&messages), 2);
    connection.driver.abort();
    let _ = (&mut connection.driver).await;
    assert_eq!(Arc::strong_count(&messages), 1, "its wire is still there");
    drop(connection.wire);
}

/// The request of one client breaks the connections of all.
#[tokio::test(start_paused = true)]
async fn a_reset_at_the_next_request_ends_idle_connections_at_once() {
    let master = Master::new(0);
    let ((mut idle, _), (asking, _)) = (listen(&master, "a").await, listen(&master, "b").await);
    master.reset_at_next_request();
    let (inbox, reply) = Inbox::single();
    asking
        .wire
        .call(&calls::inspect(&"a".into(), HoldKind::Plain), By::Source, reply);
    let (answer, ended) = tokio::join!(inbox.answer(), timeout(Duration::from_secs(1), &mut idle.driver));
    assert!(matches!(answer, Err(Fault::Unknown(_))), "{answer:?}");
    assert!(ended.is_ok(), "the other client does not notice");
}
