//! Receiving end for the answers to one question.
//!
//! The asker has the [`Inbox`], and each master's connection a [`ReplyTo`] to it. All answers of a round
//! share one allocation and one lock. The asker is woken only when it may be able to decide:
//! - by the assent that makes a quorum,
//! - by any other answer,
//! - by the last answer.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use redis::Value;

use crate::node::sync::Mutex;
use crate::protocol::fault::Fault;

/// A master's answer to a call, or the fault that prevented it.
pub(crate) type Answer = Result<Value, Fault>;

/// Receiver of answers that come after the asker has stopped waiting.
pub(crate) trait Late: Send + Sync {
    /// Takes in an answer of a master, or the end of its connection.
    fn answered(self: Arc<Self>, node: usize, answer: Answer);
}

/// Asker's side. Once dropped, it takes in no answers.
pub(crate) struct Inbox(Arc<Mutex<InboxEntries>>);

/// Way back for one answer. If dropped, it reports that the connection has ended.
pub(crate) struct ReplyTo {
    shared: Option<Arc<Mutex<InboxEntries>>>,
    node: usize,
}

struct InboxEntries {
    /// One entry for each master.
    entries: Vec<InboxEntry>,
    awaited: usize,
    /// Answers that have arrived and have not been taken.
    here: usize,
    /// Number of assents among these answers.
    assents: usize,
    /// Recognises an assent among the answers to the script.
    is_assent: fn(&Value) -> bool,
    /// Number of assents that wakes the asker.
    wake_after: usize,
    asker: Option<Waker>,
    late: Option<Arc<dyn Late>>,
}

enum InboxEntry {
    /// No answer is expected, or no longer.
    Closed,
    Awaited,
    /// The answer, and whether it assents.
    Here(Answer, bool),
}

impl Inbox {
    /// Makes an inbox for the answers of `nodes` masters to a script; `is_assent` recognises assents among
    /// them. No answer is expected yet.
    pub(crate) fn new(nodes: usize, is_assent: fn(&Value) -> bool) -> Self {
        Self(Arc::new(Mutex::new(InboxEntries {
            entries: (0..nodes).map(|_| InboxEntry::Closed).collect(),
            awaited: 0,
            here: 0,
            assents: 0,
            is_assent,
            wake_after: 1,
            asker: None,
            late: None,
        })))
    }

    /// Makes an inbox for one answer.
    pub(crate) fn single() -> (Self, ReplyTo) {
        let inbox = Self::new(1, |_| false);
        let reply = inbox.expect(0);
        (inbox, reply)
    }

    /// Expects the answer of one master, from which none is expected now. Returns the way back.
    pub(crate) fn expect(&self, node: usize) -> ReplyTo {
        let mut state = self.0.lock();
        state.entries[node] = InboxEntry::Awaited;
        state.awaited += 1;
        ReplyTo {
            shared: Some(Arc::clone(&self.0)),
            node,
        }
    }

    /// Sets the number of assents that wakes the asker; fewer do not.
    pub(crate) fn wake_after(&self, assents: usize) {
        self.0.lock().wake_after = assents;
    }

    /// Takes the next answer, with its master.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<(usize, Answer)> {
        let mut state = self.0.lock();
        if state.here > 0 {
            for node in 0..state.entries.len() {
                if let InboxEntry::Here(..) = state.entries[node]
                    && let InboxEntry::Here(answer, is_assent) =
                        std::mem::replace(&mut state.entries[node], InboxEntry::Closed)
                {
                    state.here -= 1;
                    if is_assent {
                        state.assents -= 1;
                        state.wake_after = state.wake_after.saturating_sub(1);
                    }
                    return Poll::Ready((node, answer));
                }
            }
        }
        match &state.asker {
            Some(asker) if asker.will_wake(cx.waker()) => {}
            _ => state.asker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Answers in place of every master that has not answered yet, and returns these masters. Their own
    /// answers go to `late`.
    pub(crate) fn stop_waiting(&self, late: Arc<dyn Late>, fault: impl Fn(usize) -> Fault) -> Vec<usize> {
        let mut state = self.0.lock();
        state.late = Some(late);
        let mut silent = Vec::new();
        for (node, entry) in state.entries.iter_mut().enumerate() {
            if let InboxEntry::Awaited = entry {
                *entry = InboxEntry::Here(Err(fault(node)), false);
                silent.push(node);
            }
        }
        state.here += silent.len();
        state.awaited = 0;
        silent
    }

    /// Waits for the only answer.
    pub(crate) async fn answer(self) -> Answer {
        poll_fn(|cx| self.poll_take(cx)).await.1
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.asker = None;
        for entry in &mut state.entries {
            *entry = InboxEntry::Closed;
        }
    }
}

impl ReplyTo {
    pub(crate) fn give(mut self, answer: Answer) {
        self.deliver(answer);
    }

    /// Makes a way back for an answer that has no asker.
    pub(crate) fn left_to(late: Arc<dyn Late>) -> Self {
        let inbox = Inbox::new(1, |_| false);
        inbox.0.lock().late = Some(late);
        Self {
            shared: Some(Arc::clone(&inbox.0)),
            node: 0,
        }
    }

    fn deliver(&mut self, answer: Answer) {
        let Some(shared) = self.shared.take() else {
            return;
        };
        let asker = {
            let mut state = shared.lock();
            let InboxEntry::Awaited = state.entries[self.node] else {
                let late = state.late.clone();
                drop(state);
                if let Some(late) = late {
                    late.answered(self.node, answer);
                }
                return;
            };
            let assents = answer.as_ref().is_ok_and(state.is_assent);
            state.entries[self.node] = InboxEntry::Here(answer, assents);
            state.awaited -= 1;
            state.here += 1;
            state.assents += usize::from(assents);
            if !assents || state.assents >= state.wake_after || state.awaited == 0 {
                state.asker.take()
            } else {
                None
            }
        };
        if let Some(asker) = asker {
            asker.wake();
        }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        if self.shared.is_some() {
            self.deliver(Err(Fault::Unknown("connection closed".into())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Asker(AtomicUsize);

    impl Wake for Asker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[derive(Default)]
    struct Listener(Mutex<Vec<(usize, Answer)>>);

    impl Late for Listener {
        fn answered(self: Arc<Self>, node: usize, answer: Answer) {
            self.0.lock().push((node, answer));
        }
    }

    /// Number of times that each of these answers wakes an asker that takes none of them.
    fn wakes(worth: usize, answers: Vec<Answer>) -> Vec<usize> {
        let inbox = Inbox::new(answers.len(), |answer| *answer == Value::Int(1));
        inbox.wake_after(worth);
        let replies: Vec<_> = (0..answers.len()).map(|node| inbox.expect(node)).collect();
        let asker = Arc::new(Asker::default());
        let waker = Waker::from(Arc::clone(&asker));
        assert!(inbox.poll_take(&Context::from_waker(&waker)).is_pending());
        let give = |(reply, answer): (ReplyTo, Answer)| {
            reply.give(answer);
            asker.0.load(Ordering::SeqCst)
        };
        replies.into_iter().zip(answers).map(give).collect()
    }

    #[test]
    fn only_what_may_decide_wakes() {
        let granted = || Ok(Value::Int(1));
        assert_eq!(wakes(2, vec![granted(), granted(), granted()]), [0, 1, 1]);
        let closed = Err(Fault::Unknown("closed".into()));
        assert_eq!(wakes(3, vec![closed, granted(), granted()]), [1, 1, 1]);
        let refused = Ok(Value::Int(0));
        assert_eq!(wakes(3, vec![granted(), refused, granted()]), [0, 1, 1]);
        assert_eq!(wakes(9, vec![granted(), granted()]), [0, 1], "no more will come");
    }

    #[test]
    fn an_answer_counts_once_and_only_while_it_is_awaited() {
        let inbox = Inbox::new(3, |_| true);
        let cx = Context::from_waker(Waker::noop());
        let (first, late, lost) = (inbox.expect(0), inbox.expect(1), inbox.expect(2));
        drop(lost);
        assert!(matches!(
            inbox.poll_take(&cx),
            Poll::Ready((2, Err(Fault::Unknown(_))))
        ));
        first.give(Ok(Value::Int(1)));
        let silence = Fault::Unknown("none".into());
        let listener = Arc::new(Listener::default());
        assert_eq!(
            inbox.stop_waiting(Arc::clone(&listener) as _, |_| silence.clone()),
            [1]
        );
        late.give(Ok(Value::Int(1)));
        assert_eq!(*listener.0.lock(), [(1, Ok(Value::Int(1)))]);
        assert_eq!(inbox.poll_take(&cx), Poll::Ready((0, Ok(Value::Int(1)))));
        assert_eq!(inbox.poll_take(&cx), Poll::Ready((1, Err(silence))));
        assert!(inbox.poll_take(&cx).is_pending());
        assert_eq!(
            inbox.stop_waiting(listener, |_| Fault::Unknown("again".into())),
            []
        );
    }
}
