//! A candidate that tells of its terms, as Curator's `LeaderLatch` does to its listeners.

use std::future::pending;
use std::time::Duration;

use multilock::{CancellationToken, FencingToken, Leadership, MultiLock};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Candidate in a task of its own. Its body never ends by itself.
#[derive(Debug)]
pub(crate) struct Latch {
    terms: watch::Receiver<Vec<Leadership>>,
    stop: CancellationToken,
    task: JoinHandle<Option<()>>,
}

impl Latch {
    pub(crate) fn start(lock: MultiLock) -> Self {
        let (told, terms) = watch::channel(Vec::new());
        let stop = CancellationToken::new();
        let until = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move {
            let lock = lock.grace(Duration::ZERO);
            let body = |leadership| {
                told.send_modify(|terms: &mut Vec<Leadership>| terms.push(leadership));
                pending::<()>()
            };
            lock.lead_until(until, body).await.expect("no error")
        });
        Self { terms, stop, task }
    }

    pub(crate) fn has_leadership(&self) -> bool {
        self.terms.borrow().iter().any(Leadership::is_valid)
    }

    /// Number of terms so far.
    pub(crate) fn gained(&self) -> usize {
        self.terms.borrow().len()
    }

    /// Number of terms with an end that was told.
    pub(crate) fn lost(&self) -> usize {
        let is_told = |term: &&Leadership| term.cancellation_token().is_cancelled();
        self.terms.borrow().iter().filter(is_told).count()
    }

    pub(crate) fn tokens(&self) -> Vec<FencingToken> {
        self.terms
            .borrow()
            .iter()
            .map(Leadership::fencing_token)
            .collect()
    }

    /// Waits for the term of that number, counted from 1.
    pub(crate) async fn term(&self, number: usize) -> Leadership {
        let mut terms = self.terms.clone();
        let is_there = |terms: &Vec<Leadership>| terms.len() >= number;
        let come = tokio::time::timeout(Duration::from_secs(600), terms.wait_for(is_there)).await;
        come.expect("a term in time").expect("it stands")[number - 1].clone()
    }

    /// Ends the term, and campaigns again behind the others (`LeaderLatch.reset` of a leader).
    pub(crate) fn step_down(&self) {
        let term = self.terms.borrow().last().cloned();
        term.expect("it has led").step_down();
    }

    /// Gives up, and waits until that is done.
    pub(crate) async fn close(self) {
        self.stop.cancel();
        assert_eq!(self.task.await.expect("no panic"), None, "no body ends");
    }

    /// Ends the task at once, wherever it is.
    pub(crate) fn abort(self) {
        self.task.abort();
    }
}

/// Number of latches that lead.
pub(crate) fn leaders<'a>(latches: impl IntoIterator<Item = &'a Latch>) -> usize {
    let latches = latches.into_iter();
    latches.filter(|latch| latch.has_leadership()).count()
}
