//! The inbox: masters answer from threads of their own while the asker takes, gives up or goes away.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Waker};

use loom::future::block_on;
use loom::sync::Mutex;
use loom::thread;
use redis::Value;

use crate::explore;
use crate::node::{Answer, Inbox, Late};
use crate::protocol::fault::Fault;

fn granted(place: usize) -> Answer {
    Ok(Value::Int(i64::try_from(place).expect("a few")))
}

fn is_assent(_: &Value) -> bool {
    true
}

fn silent(_: usize) -> Fault {
    Fault::Unknown("no answer".into())
}

/// Takes in late answers.
struct Kept(Mutex<Vec<(usize, Answer)>>);

impl Kept {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Vec::new())))
    }

    fn take(&self) -> Vec<(usize, Answer)> {
        std::mem::take(&mut *self.0.lock().expect("not poisoned"))
    }
}

impl Late for Kept {
    fn answered(self: Arc<Self>, place: usize, answer: Answer) {
        self.0.lock().expect("not poisoned").push((place, answer));
    }
}

/// Three assents, and two of them are wanted. The answer that makes the quorum, or the last of all, wakes the asker. It
/// takes each answer once.
pub fn no_answer_is_lost() {
    explore(3, || {
        let inbox = Inbox::new(3, is_assent);
        let replies: Vec<_> = (0..3).map(|place| inbox.expect(place)).collect();
        inbox.wake_after(2);
        let masters: Vec<_> = replies
            .into_iter()
            .enumerate()
            .map(|(place, reply)| thread::spawn(move || reply.give(granted(place))))
            .collect();
        let mut seen = [0; 3];
        block_on(async {
            for _ in 0..3 {
                let (place, answer) = poll_fn(|cx| inbox.poll_take(cx)).await;
                assert_eq!(answer, granted(place));
                seen[place] += 1;
            }
        });
        assert_eq!(seen, [1, 1, 1]);
        for master in masters {
            master.join().expect("no panic");
        }
    });
}

/// A refusal, a fault or an end wakes at once, however many assents are wanted.
pub fn a_connection_that_ends_wakes_the_asker() {
    explore(3, || {
        let inbox = Inbox::new(2, is_assent);
        let (first, second) = (inbox.expect(0), inbox.expect(1));
        inbox.wake_after(2);
        let ends = thread::spawn(move || drop(second));
        let (place, answer) = block_on(poll_fn(|cx| inbox.poll_take(cx)));
        assert_eq!(place, 1);
        assert!(matches!(answer, Err(Fault::Unknown(_))));
        ends.join().expect("no panic");
        drop(first);
    });
}

/// The deadline comes while masters answer: each master counts once, by its answer or as silent. An answer after the
/// silence goes to the `Late` that takes in late answers.
pub fn giving_up_and_an_answer_are_one_answer() {
    explore(3, || {
        let inbox = Inbox::new(2, is_assent);
        let replies = [inbox.expect(0), inbox.expect(1)];
        let masters: Vec<_> = replies
            .into_iter()
            .enumerate()
            .map(|(place, reply)| thread::spawn(move || reply.give(granted(place))))
            .collect();
        let kept = Kept::new();
        let late: Arc<dyn Late> = kept.clone();
        let gave_up = inbox.stop_waiting(late, silent);
        let cx = Context::from_waker(Waker::noop());
        let mut seen = [0; 2];
        for _ in 0..2 {
            let std::task::Poll::Ready((place, answer)) = inbox.poll_take(&cx) else {
                panic!("all have been answered for");
            };
            assert_eq!(answer.is_err(), gave_up.contains(&place));
            seen[place] += 1;
        }
        assert_eq!(seen, [1, 1]);
        for master in masters {
            master.join().expect("no panic");
        }
        assert!(inbox.poll_take(&cx).is_pending(), "nothing counts twice");
        let mut came_late: Vec<usize> = kept.take().into_iter().map(|(place, _)| place).collect();
        came_late.sort_unstable();
        assert_eq!(came_late, gave_up, "each that is late is told of once");
    });
}

/// The asker goes away while masters answer: nothing is kept, and no absent asker is woken.
pub fn an_answer_to_nobody_is_dropped() {
    explore(3, || {
        let inbox = Inbox::new(2, is_assent);
        let (first, second) = (inbox.expect(0), inbox.expect(1));
        let masters = [
            thread::spawn(move || first.give(granted(0))),
            thread::spawn(move || drop(second)),
        ];
        let cx = Context::from_waker(Waker::noop());
        let _ = inbox.poll_take(&cx);
        drop(inbox);
        for master in masters {
            master.join().expect("no panic");
        }
    });
}
