//! One round: a request to every master at once, answers as they come, one deadline for all.

pub(crate) mod clocks;
mod overdue;
pub(crate) mod pool;
pub(crate) mod stragglers;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, timeout};

use crate::events::{EventObserver, METERED, RoundTrace, VoteKind};
use crate::node::{self, By, Inbox, Link, Links, PendingRelease};
use crate::protocol::claim::Claim;
use crate::protocol::command::Request;
use crate::protocol::fault::{Fault, FaultClass};
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::{self, Stamp};
use crate::round::overdue::{Hook, Overdue};
use crate::round::pool::Pool;
use crate::round::stragglers::LateAnswers;
use crate::time::alarms::Alarm;
use crate::time::clock::Moment;
use crate::values::policy::{Policy, forgetful_allowed};
use crate::values::votes::Vote;

/// A master's answer: its index in the pool, and a reply or why there is none.
pub(crate) type NodeAnswer = (usize, Result<Value, Fault>);

/// Why there is no answer where nobody could have heard one.
const STANDS_STILL: &str = "the runtime that drives the connections, in which they were made, does not run";

/// A round under way. Dropping it takes back nothing that was sent.
pub(crate) struct Round {
    pool: Arc<Pool>,
    request: Arc<Request>,
    /// By the clock of leases, before anything was sent.
    begun: Moment,
    /// Steps of clocks that had been noticed by then.
    steps: u64,
    sent: Instant,
    trust: Trust,
    /// What it releases: that is done even where nobody hears of it.
    release: Option<Claim>,
    /// One a master.
    links: Links,
    inbox: Inbox,
    /// Calls whose answer has not been given out.
    outstanding: usize,
    /// Whether any has been.
    heard: bool,
    /// For how much longer which masters have no vote, where that matters.
    quarantined: Option<Box<[Duration]>>,
    deadline: Instant,
    alarm: Option<Alarm>,
    trace: RoundTrace,
    /// Masters to which it was sent.
    sent_to: NodeSet,
    /// Apart, as few rounds have any, and a round moves often.
    hooks: Option<Box<Hooks>>,
}

/// What is called with the index of a master.
#[derive(Default)]
struct Hooks {
    sent_again: Option<Hook>,
    untold: Option<Hook>,
}

/// What is done for a master that has forgotten the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnNoScript {
    /// It gets the request with the script's text, over the same connection and so in order.
    Resend,
    /// It gets the script alone, for the next request: else a master that always answers late would
    /// never know it again. For a request that must not be sent later than it was begun.
    Loaded,
}

/// Whose answers count. Of masters in quarantine those do that a quorum of so many can bear (`policy.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Everybody's.
    All,
    /// In a vote for this many grants, those of masters that remember.
    Quorum(usize),
    /// The same for an extension: what a master says whose clock was seen to step counts here, and the
    /// extension judges it hold by hold.
    Kept(usize),
}

impl Trust {
    /// So many masters have to assent.
    fn needed(self) -> usize {
        match self {
            Self::All => 0,
            Self::Quorum(needed) | Self::Kept(needed) => needed,
        }
    }

    /// For how much longer each master has no vote, if that matters to this one.
    fn quarantined(self, links: &Links, now: Instant) -> Option<Box<[Duration]>> {
        let (needed, of_link): (_, fn(&Link, Instant) -> Duration) = match self {
            Self::All => return None,
            Self::Quorum(needed) => (needed, Link::quarantine),
            Self::Kept(needed) => (needed, Link::memory_quarantine),
        };
        let left =
            |link: &Result<Arc<Link>, Fault>| link.as_ref().map_or(Duration::ZERO, |link| of_link(link, now));
        let count = links.iter().filter(|link| !left(link).is_zero()).count();
        (count > forgetful_allowed(needed, links.len())).then(|| links.iter().map(left).collect())
    }
}

impl Round {
    /// Asks the masters that `asked` accepts. Everything is sent before this returns, so what
    /// is begun later comes later on every master; who has no live connection answers *not sent*.
    /// Works outside a runtime, too.
    pub(crate) fn begin(
        pool: &Arc<Pool>,
        request: &Arc<Request>,
        trust: Trust,
        asked: impl Fn(usize) -> bool,
    ) -> Self {
        Self::send_to(pool, request, trust, None, asked)
    }

    /// The same with a release, which every master is told that it is owed.
    pub(crate) fn release(
        pool: &Arc<Pool>,
        request: &Arc<Request>,
        claim: Claim,
        asked: impl Fn(usize) -> bool,
    ) -> Self {
        Self::send_to(pool, request, Trust::All, Some(claim), asked)
    }

    fn send_to(
        pool: &Arc<Pool>,
        request: &Arc<Request>,
        trust: Trust,
        release: Option<Claim>,
        asked: impl Fn(usize) -> bool,
    ) -> Self {
        let steps = pool.steps.count();
        let (begun, sent) = (pool.clock.now(), Instant::now());
        let links: Links = pool.slots.iter().map(|slot| slot.link()).collect();
        let mut round = Self {
            pool: Arc::clone(pool),
            request: Arc::clone(request),
            begun,
            steps,
            sent,
            trust,
            release,
            quarantined: trust.quarantined(&links, sent),
            inbox: Inbox::new(links.len(), reply::assent_to(request.script.op)),
            links,
            outstanding: 0,
            heard: false,
            deadline: sent + pool.config.node_timeout,
            alarm: None,
            trace: RoundTrace::begin(&pool.events, request.script.op, trust.needed()),
            sent_to: NodeSet::default(),
            hooks: None,
        };
        if round.release.is_some() {
            round.trace.needs(Policy::RedLock.needed(round.links.len()));
        }
        for node in (0..round.links.len()).filter(|node| asked(*node)) {
            round.send(node, By::Sha);
            round.outstanding += 1;
            if round.links[node].is_ok() {
                round.sent_to.insert(node);
            }
        }
        round
    }

    /// Before anything was sent.
    pub(crate) fn begun(&self) -> Moment {
        self.begun
    }

    /// Steps of clocks that had been noticed before the round began.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// For how much longer a master has no vote, if its clock was seen to have stepped while it can have
    /// run the request.
    pub(crate) fn clock_quarantine(&self, node: usize) -> Option<Duration> {
        let link = self.links[node].as_ref().ok()?;
        let standing = || Some(link.clock_quarantine(self.sent)).filter(|left| !left.is_zero());
        link.suspected_since(self.sent).or_else(standing)
    }

    /// Masters to which it was sent.
    pub(crate) fn sent_to(&self) -> NodeSet {
        self.sent_to
    }

    /// Has `hook` called once the request was sent again, with its text, to a master that had forgotten the script. What
    /// `hook` sends comes behind it.
    pub(crate) fn when_sent_again(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.get_or_insert_default().sent_again = Some(Arc::new(hook));
        self
    }

    fn untold(&self) -> Option<&Hook> {
        self.hooks.as_ref()?.untold.as_ref()
    }

    /// Has `hook` called for a master that did not execute the request, or may not have.
    pub(crate) fn when_untold(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.get_or_insert_default().untold = Some(Arc::new(hook));
        self
    }

    /// What the clocks of its masters show, as far as they have been heard.
    pub(crate) fn clocks_us(&self, at: Moment) -> impl Iterator<Item = u64> {
        self.links.iter().flatten().map(move |link| link.clock_us(at))
    }

    /// When everything was sent.
    pub(crate) fn sent(&self) -> Instant {
        self.sent
    }

    /// Time since everything was sent.
    pub(crate) fn elapsed(&self) -> Duration {
        self.sent.elapsed()
    }

    /// When masters that have not answered are given up.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// So many masters have to assent. Whoever waits is not woken by fewer, as long as nobody says
    /// anything else, and nobody is in quarantine, whose assent is none.
    pub(crate) fn wake_after(mut self, assents: usize) -> Self {
        self.trace.needs(assents);
        if self.quarantined.is_none() {
            self.inbox.wake_after(assents);
        }
        self
    }

    /// Ends at that deadline instead: that of the round before it, where both are parts of one attempt.
    pub(crate) fn until(mut self, deadline: Instant) -> Self {
        self.deadline = deadline;
        self
    }

    /// The next answer; `None` when every master that was asked has answered. At the deadline those
    /// that have not are answered for: *late*.
    pub(crate) async fn next(&mut self) -> Option<NodeAnswer> {
        poll_fn(|cx| self.poll_next(cx, OnNoScript::Resend)).await
    }

    /// As [`next`](Self::next), but the request is not sent again.
    pub(crate) async fn next_as_sent(&mut self) -> Option<NodeAnswer> {
        poll_fn(|cx| self.poll_next(cx, OnNoScript::Loaded)).await
    }

    /// So many masters have to assent, where it is not a quorum of all.
    pub(crate) fn needs(mut self, assents: usize) -> Self {
        self.trace.needs(assents);
        self
    }

    /// An answer was about several holds, each of which is voted on by itself: it assents where it does for all.
    pub(crate) fn told<'a>(&mut self, mut votes: impl Iterator<Item = &'a Vote>) {
        let against = votes.find(|vote| **vote != Vote::Granted);
        self.trace.voted(VoteKind::of(against.unwrap_or(&Vote::Granted)));
    }

    /// Takes note of the vote that an answer comes to.
    #[inline]
    pub(crate) fn voted(&mut self, node: usize, vote: &Vote) {
        if METERED || self.trace.is_open() {
            self.counted(node, VoteKind::of(vote));
        }
    }

    #[inline]
    fn counted(&mut self, node: usize, vote: Option<VoteKind>) {
        if METERED {
            self.pool.slots[node].events().voted(self.trace.op(), vote);
        }
        self.trace.voted(vote);
    }

    /// Goes on without the caller, to hear what the rest answers, and what vote each answer comes to, if it is one.
    pub(crate) fn leave(
        mut self,
        forgotten: OnNoScript,
        mut note: impl FnMut(usize, Result<Value, Fault>) -> Option<VoteKind> + Send + 'static,
    ) {
        if self.outstanding == 0 {
            return;
        }
        let pool = Arc::clone(&self.pool);
        if !self.heard {
            // Nothing is decided yet, so nothing of it is late.
            pool.in_background(async move {
                while let Some((node, answer)) = poll_fn(|cx| self.poll_next(cx, forgotten)).await {
                    let vote = note(node, answer);
                    self.counted(node, vote);
                }
            });
            return;
        }
        self.trace.end();
        let late_answers = LateAnswers::new(pool.tracker.token(), move |cx| {
            while let Some((node, answer)) = ready!(self.poll_next(cx, forgotten)) {
                let vote = note(node, answer);
                self.counted(node, vote);
            }
            Poll::Ready(())
        });
        pool.stragglers.leave(late_answers);
    }

    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        forgotten: OnNoScript,
    ) -> Poll<Option<NodeAnswer>> {
        loop {
            let Some((node, answer)) = ready!(self.poll_arrived(cx)) else {
                return Poll::Ready(None);
            };
            if answer.as_ref().err().and_then(Fault::class) == Some(FaultClass::NoScript)
                && let Ok(link) = &self.links[node]
            {
                match forgotten {
                    OnNoScript::Resend => {
                        self.send(node, By::Source);
                        let hooks = self.hooks.as_ref();
                        if let Some(hook) = hooks.and_then(|hooks| hooks.sent_again.as_ref()) {
                            hook(node);
                        }
                        continue;
                    }
                    OnNoScript::Loaded => {
                        let within = self.pool.config.node_timeout;
                        let loaded = link.load(self.request.script).answer();
                        self.pool.in_background(async move {
                            let _ = timeout(within, loaded).await;
                        });
                    }
                }
            }
            self.outstanding -= 1;
            self.heard = true;
            // What has no answer yet may still get one.
            if let Some(hook) = self.untold()
                && !node::is_done(&answer)
                && !answer.as_ref().is_err_and(Fault::is_late)
            {
                hook(node);
            }
            return Poll::Ready(Some((node, self.weigh(node, answer))));
        }
    }

    /// What a master answers does not count while it is in quarantine, nor when it shows by its
    /// answers since the round began that it may have forgotten.
    ///
    /// A step that is noticed while a round is under way may have come before the master ran the
    /// request, whichever answer shows it. Then it may have granted what is another client's still, so
    /// its grant is void, however long the lease that was asked for.
    fn weigh(&self, node: usize, answer: Result<Value, Fault>) -> Result<Value, Fault> {
        let Ok(link) = &self.links[node] else {
            return answer;
        };
        if METERED && matches!(answer, Ok(_) | Err(Fault::Server { .. })) {
            self.pool.slots[node]
                .events()
                .answered(self.trace.op(), self.sent);
        }
        let answer = answer.map_err(|fault| fault.inside(self.request.script));
        link.react_to(&answer);
        if self.trust != Trust::All
            && let Some(stamp) = answer.as_ref().ok().and_then(Stamp::at_head_of)
        {
            link.observe(stamp, self.begun, self.pool.clock.now());
            let noticed = match self.trust {
                Trust::Quorum(_) => link.suspected_since(self.sent),
                _ => None,
            };
            if let Some(remaining) = link.wiped_since(self.sent).or(noticed) {
                return Err(Fault::Quarantined { remaining });
            }
        }
        match self.quarantined.as_ref().map(|quarantined| quarantined[node]) {
            Some(remaining) if !remaining.is_zero() => answer.and(Err(Fault::Quarantined { remaining })),
            _ => answer,
        }
    }

    fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<Option<NodeAnswer>> {
        if self.outstanding == 0 {
            return Poll::Ready(None);
        }
        // Answers first: one that is here counts, even at the deadline.
        if let Poll::Ready(answer) = self.inbox.poll_take(cx) {
            return Poll::Ready(Some(answer));
        }
        if !self.alarm.as_mut().is_some_and(|alarm| alarm.wake(cx)) {
            self.alarm = self.pool.deadlines.set(self.deadline, cx);
        }
        if self.alarm.is_none() {
            self.give_up(Some("awaited outside of a tokio runtime"));
            return self.poll_arrived(cx);
        }
        if Instant::now() < self.deadline {
            return Poll::Pending;
        }
        let stands_still = self.pool.deadlines.stand_still(self.alarm.as_ref());
        self.give_up(stands_still.then_some(STANDS_STILL));
        self.poll_arrived(cx)
    }

    /// Waits no longer for those that have not answered: at the deadline, or because of something else.
    fn give_up(&mut self, cause: Option<&str>) {
        let within = self.pool.config.node_timeout;
        let owed = |claim| (claim, self.pool.slots.clone());
        let late = Arc::new(Overdue {
            links: self.links.clone(),
            request: Arc::clone(&self.request),
            op: self.trace.op(),
            sent: self.sent,
            release: self.release.clone().map(owed),
            untold: self.untold().cloned(),
        });
        let link = |node: usize| self.links[node].as_ref().ok();
        let at_deadline = cause.is_none();
        let silence = |node: usize| match cause {
            None => Fault::Late {
                within,
                took: link(node).and_then(|link| link.last_took()),
            },
            Some(cause) => Fault::Unheard(cause.into()),
        };
        for link in self.inbox.give_up(late, silence).into_iter().filter_map(link) {
            if at_deadline {
                link.kept_silent(self.sent);
            }
            if self.release.is_some() {
                link.owes_an_answer();
            }
        }
    }

    fn send(&self, node: usize, by: By) {
        let reply = self.inbox.expect(node);
        match &self.links[node] {
            Ok(link) if self.release.is_some() && by == By::Sha && link.is_backed_up() => {
                if let Some(claim) = &self.release {
                    let release = PendingRelease::new(claim.clone()).answered_to(reply);
                    self.pool.slots[node].defer(release);
                }
            }
            Ok(link) => link.call(&self.request, by, reply),
            Err(fault) => reply.give(Err(fault.clone())),
        }
    }
}
