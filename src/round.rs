//! One round: a request to every master at once, answers as they come, one deadline for all.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use redis::Value;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, timeout};

use crate::clock::Moment;
use crate::masters::Pool;
use crate::node::{By, Class, Fault, Link};
use crate::policy::forgetful_allowed;
use crate::script::{Request, Stamp};

/// A master's answer: its place in the pool, and a reply or why there is none.
pub(crate) type Answer = (usize, Result<Value, Fault>);

/// A round under way. Dropping it takes back nothing that was sent.
pub(crate) struct Round {
    pool: Arc<Pool>,
    request: Arc<Request>,
    /// By the clock of leases, before anything was sent.
    begun: Moment,
    sent: Instant,
    trust: Trust,
    calls: FuturesUnordered<Call>,
    /// Answers that took no network.
    at_once: VecDeque<Answer>,
    /// Who was asked and has not answered, over which connection.
    waiting: Vec<Option<Arc<Link>>>,
    within: Duration,
    /// For how much longer which masters have no vote, where that matters.
    quarantined: Option<Vec<Duration>>,
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Whose answers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Everybody's.
    All,
    /// In a vote for this many grants, those of masters that remember.
    Quorum(usize),
}

impl Trust {
    /// For how much longer each master has no vote, if that matters to this one.
    fn quarantined(self, links: &[Result<Arc<Link>, Fault>], now: Instant) -> Option<Vec<Duration>> {
        let Self::Quorum(needed) = self else {
            return None;
        };
        let left = |link: &Result<Arc<Link>, Fault>| {
            link.as_ref().map_or(Duration::ZERO, |link| link.quarantine(now))
        };
        let count = links.iter().filter(|link| !left(link).is_zero()).count();
        (count > forgetful_allowed(needed, links.len())).then(|| links.iter().map(left).collect())
    }
}

/// One master's part of it.
struct Call {
    place: usize,
    answer: BoxFuture<'static, Result<Value, Fault>>,
}

impl Future for Call {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        self.answer.as_mut().poll(cx).map(|answer| (self.place, answer))
    }
}

impl Round {
    /// Asks the masters whose place `asked` accepts. Everything is sent before this returns, so what
    /// is begun later comes later on every master; who has no live connection answers *not sent*.
    /// Works outside a runtime, too.
    pub(crate) fn begin(
        pool: &Arc<Pool>,
        request: &Arc<Request>,
        within: Duration,
        trust: Trust,
        asked: impl Fn(usize) -> bool,
    ) -> Self {
        let (begun, sent) = (pool.clock.now(), Instant::now());
        let links: Vec<_> = pool.slots.iter().map(|slot| slot.link()).collect();
        let mut round = Self {
            pool: Arc::clone(pool),
            request: Arc::clone(request),
            begun,
            sent,
            trust,
            calls: FuturesUnordered::new(),
            at_once: VecDeque::new(),
            waiting: vec![None; links.len()],
            within,
            deadline: None,
            quarantined: trust.quarantined(&links, sent),
        };
        for (place, link) in links.into_iter().enumerate().filter(|(place, _)| asked(*place)) {
            match link {
                Ok(link) => round.call(place, link, By::Sha),
                Err(fault) => round.at_once.push_back((place, Err(fault))),
            }
        }
        round
    }

    /// Before anything was sent.
    pub(crate) fn begun(&self) -> Moment {
        self.begun
    }

    /// Time since everything was sent.
    pub(crate) fn elapsed(&self) -> Duration {
        self.sent.elapsed()
    }

    fn call(&mut self, place: usize, link: Arc<Link>, by: By) {
        let mut call = Call {
            place,
            answer: link.call(&self.request, by),
        };
        self.waiting[place] = Some(link);
        // The first poll sends, also in a task that has used up its budget: what is begun here must be
        // on its way before anything that is begun later.
        match unconstrained(&mut call).now_or_never() {
            Some(answer) => self.at_once.push_back(answer),
            None => self.calls.push(call),
        }
    }

    /// The next answer; `None` when every master that was asked has answered. At the deadline those
    /// that have not are answered for: *unknown*.
    ///
    /// A master that has forgotten the script gets its text, over the same connection and so in order.
    pub(crate) async fn next(&mut self) -> Option<Answer> {
        loop {
            let (place, answer) = self.arrived().await?;
            let forgotten = answer.as_ref().err().and_then(Fault::class) == Some(Class::NoScript);
            match self.waiting[place].take() {
                Some(link) if forgotten => self.call(place, link, By::Source),
                link => return Some((place, self.weigh(place, link.as_deref(), answer))),
            }
        }
    }

    /// As [`next`](Self::next), but where the script was forgotten, the request is not sent again: for
    /// one that must not be sent later than it was begun. The script alone is, for the next one: else a
    /// master that always answers late would never know it again.
    pub(crate) async fn next_as_sent(&mut self) -> Option<Answer> {
        let (place, answer) = self.arrived().await?;
        let link = self.waiting[place].take();
        if let (Some(link), Some(Class::NoScript)) = (&link, answer.as_ref().err().and_then(Fault::class)) {
            let loading = timeout(self.within, link.load(self.request.script));
            self.pool.in_background(loading.map(|_| ()));
        }
        Some((place, self.weigh(place, link.as_deref(), answer)))
    }

    /// Goes on without the caller, to hear what the rest answers. A forgotten script is not sent
    /// again here: the hold that it is for may be given up at any moment, and a late acquire must not
    /// follow its release.
    pub(crate) fn note_stragglers(
        mut self,
        mut note: impl FnMut(usize, Result<Value, Fault>) + Send + 'static,
    ) {
        if self.is_over() {
            return;
        }
        let pool = Arc::clone(&self.pool);
        pool.in_background(async move {
            while let Some((place, answer)) = self.next_as_sent().await {
                note(place, answer);
            }
        });
    }

    /// Goes on without the caller as if the caller were still there.
    pub(crate) fn see_through(mut self, mut note: impl FnMut(usize, Result<Value, Fault>) + Send + 'static) {
        if self.is_over() {
            return;
        }
        let pool = Arc::clone(&self.pool);
        pool.in_background(async move {
            while let Some((place, answer)) = self.next().await {
                note(place, answer);
            }
        });
    }

    /// What a master answers does not count while it is in quarantine, nor when it shows by its
    /// answers since the round began that it may have forgotten.
    fn weigh(&self, place: usize, link: Option<&Link>, answer: Result<Value, Fault>) -> Result<Value, Fault> {
        let answer = heed(link, answer);
        if let (Trust::Quorum(_), Some(link), Ok(value)) = (self.trust, link, &answer)
            && let Some(stamp) = Stamp::of(value)
            && let Some(remaining) = link.testify(stamp, self.begun, self.sent, self.pool.clock.now())
        {
            return Err(Fault::Quarantined(remaining));
        }
        match self.quarantined.as_ref().map(|quarantined| quarantined[place]) {
            Some(remaining) if !remaining.is_zero() => answer.and(Err(Fault::Quarantined(remaining))),
            _ => answer,
        }
    }

    fn is_over(&self) -> bool {
        self.calls.is_empty() && self.at_once.is_empty()
    }

    async fn arrived(&mut self) -> Option<Answer> {
        if let Some(answer) = self.at_once.pop_front() {
            return Some(answer);
        }
        if self.calls.is_empty() {
            return None;
        }
        let end = self.sent + self.within;
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        tokio::select! {
            // Answers first: one that is here counts, even at the deadline.
            biased;
            answer = self.calls.next() => answer,
            () = deadline => {
                self.give_up();
                self.at_once.pop_front()
            }
        }
    }

    fn give_up(&mut self) {
        self.calls.clear();
        let reason: Arc<str> = format!("none within {}", humantime::format_duration(self.within)).into();
        for (place, link) in self.waiting.iter().enumerate() {
            if let Some(link) = link {
                link.kept_silent(self.sent);
                self.at_once
                    .push_back((place, Err(Fault::Unknown(Arc::clone(&reason)))));
            }
        }
    }
}

/// Acts on what an answer says about the server, beside what it says about the request.
fn heed(link: Option<&Link>, answer: Result<Value, Fault>) -> Result<Value, Fault> {
    if let Some(link) = link {
        match &answer {
            Err(Fault::Unknown(_) | Fault::NotSent(_) | Fault::Unfit(_) | Fault::Quarantined(_)) => {}
            // Its role has changed: connect again and look who it is now.
            Err(fault) if fault.class() == Some(Class::NotMaster) => link.replace(),
            _ => link.answered(),
        }
    }
    answer
}
