//! Calls that nobody waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::{Answer, By, Late, Link, ReplyTo};
use crate::protocol::command::Request;
use crate::protocol::fault::Fault;

/// A call without an answer. Its connection has to bring the answer, or end.
struct BackgroundCall<F> {
    link: Arc<Link>,
    request: Arc<Request>,
    with_source: AtomicBool,
    then: Mutex<Option<F>>,
}

impl Link {
    /// Sends one script call, and sends it again with its source if the master does not have the script. `then` takes in
    /// the answer.
    pub(super) fn call_in_background<F>(self: &Arc<Self>, request: &Arc<Request>, then: F)
    where
        F: FnOnce(&Self, Answer) + Send + 'static,
    {
        let call = Arc::new(BackgroundCall {
            link: Arc::clone(self),
            request: Arc::clone(request),
            with_source: AtomicBool::new(false),
            then: Mutex::new(Some(then)),
        });
        self.call(request, By::Sha, ReplyTo::left_to(call));
    }
}

impl<F: FnOnce(&Link, Answer) + Send + 'static> Late for BackgroundCall<F> {
    fn answered(self: Arc<Self>, _: usize, answer: Answer) {
        if Fault::is_no_script(&answer) && !self.with_source.swap(true, Ordering::Relaxed) {
            let reply = ReplyTo::left_to(Arc::clone(&self) as _);
            return self.link.call(&self.request, By::Source, reply);
        }
        let then = self.then.lock().take();
        if let Some(then) = then {
            then(&self.link, answer);
        }
    }
}
