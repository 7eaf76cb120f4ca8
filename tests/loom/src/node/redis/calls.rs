//! The pipe: callers send from threads of their own while the driver writes, reads and closes.

use std::sync::Arc;

use loom::future::block_on;
use loom::thread;
use redis::Value;

use super::pipeline::Pipe;
use crate::explore;
use crate::node::{Answer, Inbox};
use crate::protocol::fault::Fault;
use crate::stream::Server;

/// Sends a call and waits for its answer.
fn call(pipe: &Pipe, byte: u8) -> Answer {
    let (inbox, reply) = Inbox::single();
    pipe.send(&[byte], reply);
    block_on(inbox.answer())
}

fn own(byte: u8) -> Answer {
    Ok(Value::Int(byte.into()))
}

/// Two callers and a driver that sleeps whenever there is nothing to send: each call wakes it or is seen by it, or its
/// caller would wait for ever; and each caller gets the answer to its own call.
pub fn no_call_is_lost() {
    explore(3, || {
        let (server, got) = Server::new(2);
        let (pipe, driver) = Pipe::open(Box::new(server), Arc::new(|_, _: &str, _: &str| {}));
        let other = Arc::clone(&pipe);
        let other = thread::spawn(move || assert_eq!(call(&other, 1), own(1)));
        let driver = thread::spawn(move || block_on(driver));
        assert_eq!(call(&pipe, 2), own(2));
        other.join().expect("no panic");
        driver.join().expect("no panic");
        got.lock().expect("one thread").sort_unstable();
        assert_eq!(*got.lock().expect("one thread"), [1, 2], "each was sent once");
        assert_eq!(pipe.waiting(), 0);
    });
}

/// Calls of one caller go out, and are answered, in the order in which they were sent, beside another caller's calls.
pub fn order_is_kept() {
    explore(2, || {
        let (server, got) = Server::new(3);
        let (pipe, driver) = Pipe::open(Box::new(server), Arc::new(|_, _: &str, _: &str| {}));
        let other = Arc::clone(&pipe);
        let other = thread::spawn(move || assert_eq!(call(&other, 3), own(3)));
        let driver = thread::spawn(move || block_on(driver));
        let (first, second) = (Inbox::single(), Inbox::single());
        pipe.send(&[1], first.1);
        pipe.send(&[2], second.1);
        assert_eq!(block_on(second.0.answer()), own(2));
        assert_eq!(block_on(first.0.answer()), own(1));
        assert!(pipe.waiting() <= 1, "the other's alone");
        other.join().expect("no panic");
        driver.join().expect("no panic");
        let order: Vec<u8> = got
            .lock()
            .expect("one thread")
            .iter()
            .copied()
            .filter(|call| *call < 3)
            .collect();
        assert_eq!(order, [1, 2]);
    });
}

/// The server ends the connection after its first answer. Every call is answered once all the same: by that answer, as
/// possibly executed, or as not sent.
pub fn a_call_while_it_closes_is_answered() {
    explore(3, || {
        let (server, got) = Server::new(1);
        let (pipe, driver) = Pipe::open(Box::new(server), Arc::new(|_, _: &str, _: &str| {}));
        let other = Arc::clone(&pipe);
        let other = thread::spawn(move || call(&other, 1));
        let driver = thread::spawn(move || block_on(driver));
        let answers = [(2, call(&pipe, 2)), (1, other.join().expect("no panic"))];
        driver.join().expect("no panic");
        let sent = got.lock().expect("one thread").clone();
        assert_eq!(answers.iter().filter(|(_, answer)| answer.is_ok()).count(), 1);
        for (byte, answer) in answers {
            match answer {
                Ok(value) => assert_eq!((Ok(value), sent[0]), (own(byte), byte)),
                Err(Fault::Unknown(_)) => {}
                Err(Fault::NotSent(_)) => assert!(!sent.contains(&byte), "it was sent"),
            }
        }
        assert_eq!(pipe.waiting(), 0);
    });
}

/// The driver's task is dropped, as when a connection is replaced: no caller waits on.
pub fn a_call_while_the_driver_is_dropped_is_answered() {
    explore(3, || {
        let (server, _) = Server::new(9);
        let (pipe, driver) = Pipe::open(Box::new(server), Arc::new(|_, _: &str, _: &str| {}));
        let other = Arc::clone(&pipe);
        let other = thread::spawn(move || call(&other, 1));
        let driver = thread::spawn(move || drop(driver));
        for answer in [call(&pipe, 2), other.join().expect("no panic")] {
            assert!(answer.is_err(), "{answer:?}");
        }
        driver.join().expect("no panic");
    });
}
