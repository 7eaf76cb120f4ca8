//! One round: a request to all masters at once, their answers, and one deadline for all.

pub(crate) mod clocks;
pub(crate) mod pool;
pub(crate) mod preference;
pub(crate) mod stragglers;
mod timed_out;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, timeout};

use crate::events::{EventObserver, METERED, Op, RoundTrace, VoteKind};
use crate::node::{self, By, Inbox, Link, Links, PendingRelease};
use crate::protocol::claim::Claim;
use crate::protocol::command::Request;
use crate::protocol::fault::Fault;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::{self, Stamp};
use crate::round::pool::Pool;
use crate::round::stragglers::LateAnswers;
use crate::round::timed_out::{Hook, TimedOutRequest};
use crate::time::alarms::Alarm;
use crate::time::clock::Moment;
use crate::values::policy::{Policy, forgetful_allowed};
use crate::values::votes::Vote;

/// A master's index in the pool, and its reply or the reason why there is none.
pub(crate) type NodeAnswer = (usize, Result<Value, Fault>);

/// Reason why there is no answer if no task could receive one.
const STALLED: &str = "the runtime that drives the connections, in which they were made, does not run";

/// A round in progress. Dropping it does not undo the requests that were sent.
pub(crate) struct Round {
    pool: Arc<Pool>,
    request: Arc<Request>,
    /// Time by the clock of leases, before any request was sent.
    pub(crate) begun: Moment,
    /// Number of clock steps that had been noticed before the round began.
    pub(crate) steps: u64,
    /// Time at which all requests were sent.
    pub(crate) sent: Instant,
    trust: Trust,
    /// Claim that the round releases. The release is carried out even if no caller waits for the answers.
    release: Option<Claim>,
    /// Connection to each master, or the reason why there is none.
    links: Links,
    inbox: Inbox,
    /// Number of calls with an answer that has not been handed out.
    outstanding: usize,
    /// Whether any answer has been handed out.
    has_answer: bool,
    /// Time for which each master has no vote, if that matters.
    quarantined: Option<Box<[Duration]>>,
    /// Masters that are not asked at first. Boxed, because few rounds have some, and a round is moved often.
    others: Option<Box<Others>>,
    /// Time at which the round gives up masters that have not answered.
    pub(crate) deadline: Instant,
    alarm: Option<Alarm>,
    trace: RoundTrace,
    /// Masters to which the request was sent.
    pub(crate) sent_to: NodeSet,
    /// Boxed, because few rounds have hooks, and a round is moved often.
    hooks: Option<Box<Hooks>>,
}

/// Masters that are not asked at first.
struct Others {
    nodes: NodeSet,
    /// Time at which the masters are asked; `None` once they were.
    hedge: Option<Instant>,
    /// Time before the masters were asked.
    sent: Instant,
    begun: Moment,
}

/// Functions that are called with the index of a master.
#[derive(Default)]
struct Hooks {
    sent_again: Option<Hook>,
    unconfirmed: Option<Hook>,
}

/// Reaction to a master that does not have the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoScriptFallback {
    /// Sends the request with the script's text, over the same connection and so in order.
    Resend,
    /// Sends the script alone, for the next request. Otherwise a master that always answers late would never
    /// have it. For a request that must not be sent later than it was begun.
    LoadOnly,
}

/// Masters with answers that count. Masters in quarantine all count if they are too few to hurt the policy (`policy.rs`).
/// Otherwise none of them does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// All masters.
    All,
    /// In a vote for this many grants: the masters that remember.
    Quorum(usize),
    /// In a round about holds that this many masters granted: the masters whose memory counts. Those with a step of their clock
    /// count here, too: an extension judges their answers hold by hold.
    Memory(usize),
}

impl Trust {
    /// Number of masters that have to assent.
    fn needed(self) -> usize {
        match self {
            Self::All => 0,
            Self::Quorum(needed) | Self::Memory(needed) => needed,
        }
    }

    /// Time for which each master has no vote, if that matters to this round.
    fn quarantined(self, links: &Links, now: Instant) -> Option<Box<[Duration]>> {
        let (needed, of_link): (_, fn(&Link, Instant) -> Duration) = match self {
            Self::All => return None,
            Self::Quorum(needed) => (needed, Link::quarantine),
            Self::Memory(needed) => (needed, Link::memory_quarantine),
        };
        let left =
            |link: &Result<Arc<Link>, Fault>| link.as_ref().map_or(Duration::ZERO, |link| of_link(link, now));
        let count = links.iter().filter(|link| !left(link).is_zero()).count();
        (count > forgetful_allowed(needed, links.len())).then(|| links.iter().map(left).collect())
    }
}

impl Round {
    /// Sends the request to the masters `to`. Everything is sent before this call returns, so a later round comes later
    /// on every master. A master without a connection answers *not sent*. Works outside a runtime, too.
    pub(crate) fn begin(pool: &Arc<Pool>, request: &Arc<Request>, trust: Trust, to: NodeSet) -> Self {
        Self::send(pool, request, trust, None, to)
    }

    /// Begins a round with a release, which stays pending at each master until it is confirmed.
    pub(crate) fn release(pool: &Arc<Pool>, request: &Arc<Request>, claim: Claim, to: NodeSet) -> Self {
        Self::send(pool, request, Trust::All, Some(claim), to)
    }

    fn send(
        pool: &Arc<Pool>,
        request: &Arc<Request>,
        trust: Trust,
        release: Option<Claim>,
        to: NodeSet,
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
            has_answer: false,
            others: None,
            deadline: sent + pool.config.node_timeout,
            alarm: None,
            trace: RoundTrace::begin(&pool.events, request.script.op, trust.needed()),
            sent_to: NodeSet::default(),
            hooks: None,
        };
        if round.release.is_some() {
            round.trace.needs(Policy::RedLock.needed(round.links.len()));
        }
        for node in to.iter() {
            round.ask(node);
        }
        round
    }

    fn ask(&mut self, node: usize) {
        self.send_to(node, By::Sha);
        self.outstanding += 1;
        if self.links[node].is_ok() {
            self.sent_to.insert(node);
        }
    }

    /// Holds some masters back that were not asked: they are asked after a while, or by [`ask_others`](Self::ask_others).
    pub(crate) fn hold_back(mut self, nodes: NodeSet, hedge: Duration) -> Self {
        if nodes.is_empty() {
            return self;
        }
        self.others = Some(Box::new(Others {
            nodes,
            hedge: Some(self.sent + hedge),
            sent: self.sent,
            begun: self.begun,
        }));
        self
    }

    /// Time at which the masters that are held back are asked.
    fn hedge(&self) -> Option<Instant> {
        self.others.as_ref()?.hedge
    }

    /// Masters that are held back, and have not been asked yet.
    pub(crate) fn held_back(&self) -> NodeSet {
        let others = self.others.as_ref().filter(|others| others.hedge.is_some());
        others.map_or(NodeSet::default(), |others| others.nodes)
    }

    /// Asks the masters that are held back. From then on the round has a whole node timeout again, so that they have the
    /// time that any master has. The validity counts from the first sending all the same.
    pub(crate) fn ask_others(&mut self) {
        let nodes = self.held_back();
        let Some(others) = &mut self.others else { return };
        if others.hedge.take().is_none() {
            return;
        }
        (others.begun, others.sent) = (self.pool.clock.now(), Instant::now());
        self.deadline = others.sent + self.pool.config.node_timeout;
        // The alarm is for an earlier time than the deadline.
        self.alarm = None;
        for node in nodes.iter() {
            self.ask(node);
        }
    }

    /// Time for which a master has no vote, if its clock stepped while it can have run the request.
    pub(crate) fn clock_quarantine(&self, node: usize) -> Option<Duration> {
        let link = self.links[node].as_ref().ok()?;
        let current = || Some(link.clock_quarantine(self.sent)).filter(|left| !left.is_zero());
        link.suspected_since(self.sent).or_else(current)
    }

    /// Calls `hook` once the request was sent again, with its text, to a master without the script. Calls
    /// that `hook` sends come behind the request.
    pub(crate) fn when_sent_again(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.get_or_insert_default().sent_again = Some(Arc::new(hook));
        self
    }

    fn unconfirmed(&self) -> Option<&Hook> {
        self.hooks.as_ref()?.unconfirmed.as_ref()
    }

    /// Calls `hook` for a master that did not execute the request, or may not have.
    pub(crate) fn when_unconfirmed(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.get_or_insert_default().unconfirmed = Some(Arc::new(hook));
        self
    }

    /// Clocks of the round's masters, as far as they are known.
    pub(crate) fn clocks_us(&self, at: Moment) -> impl Iterator<Item = u64> {
        self.links.iter().flatten().map(move |link| link.clock_us(at))
    }

    /// Time since all requests were sent.
    pub(crate) fn elapsed(&self) -> Duration {
        self.sent.elapsed()
    }

    /// Time at which the round ends at the latest: masters that are held back may be asked as late as at the deadline.
    pub(crate) fn ends_by(&self) -> Instant {
        if self.held_back().is_empty() {
            self.deadline
        } else {
            self.deadline + self.pool.config.node_timeout
        }
    }

    /// Sets the number of assents that wakes the caller. Any other answer wakes it at once. In a round with
    /// masters in quarantine every answer wakes it, because their assents do not count.
    pub(crate) fn wake_after(mut self, assents: usize) -> Self {
        self.trace.needs(assents);
        if self.quarantined.is_none() {
            self.inbox.wake_after(assents);
        }
        self
    }

    /// Sets another deadline: that of the round before, if both are parts of one attempt.
    pub(crate) fn until(mut self, deadline: Instant) -> Self {
        self.deadline = deadline;
        self
    }

    /// Waits for the next answer; `None` once every master that was asked has answered. At the deadline the
    /// other masters are taken as *late*.
    pub(crate) async fn next(&mut self) -> Option<NodeAnswer> {
        poll_fn(|cx| self.poll_next(cx, NoScriptFallback::Resend)).await
    }

    /// As [`next`](Self::next), but the request is not sent again.
    pub(crate) async fn next_as_sent(&mut self) -> Option<NodeAnswer> {
        poll_fn(|cx| self.poll_next(cx, NoScriptFallback::LoadOnly)).await
    }

    /// Sets the number of assents that the trace of the round reports as needed, if it is not a quorum of all.
    pub(crate) fn trace_quorum(mut self, assents: usize) -> Self {
        self.trace.needs(assents);
        self
    }

    /// Counts the round as one of another operation than its script's.
    pub(crate) fn counted_as(mut self, op: Op) -> Self {
        self.trace.counted_as(op);
        self
    }

    /// Notes an answer about several holds, each with its own vote. The answer assents if every vote does.
    pub(crate) fn voted_in_batch<'a>(&mut self, mut votes: impl Iterator<Item = &'a Vote>) {
        let against = votes.find(|vote| **vote != Vote::Granted);
        self.trace.voted(VoteKind::of(against.unwrap_or(&Vote::Granted)));
    }

    /// Notes the vote of an answer.
    #[inline]
    pub(crate) fn voted(&mut self, node: usize, vote: &Vote) {
        if METERED || self.trace.is_open() {
            self.counted(node, VoteKind::of(vote));
        }
    }

    #[inline]
    fn counted(&mut self, node: usize, vote: Option<VoteKind>) {
        if METERED {
            self.pool.slots[node].events.meters.voted(self.trace.op, vote);
        }
        self.trace.voted(vote);
    }

    /// Detaches the round, which goes on in the background to receive the other answers. `note` returns the vote of
    /// an answer, if the answer is one.
    pub(crate) fn detach(
        mut self,
        fallback: NoScriptFallback,
        mut note: impl FnMut(usize, Result<Value, Fault>) -> Option<VoteKind> + Send + 'static,
    ) {
        if self.outstanding == 0 {
            return;
        }
        let pool = Arc::clone(&self.pool);
        if !self.has_answer {
            // There is no decision yet, so no answer is late.
            pool.in_background(async move {
                while let Some((node, answer)) = poll_fn(|cx| self.poll_next(cx, fallback)).await {
                    let vote = note(node, answer);
                    self.counted(node, vote);
                }
            });
            return;
        }
        self.trace.end();
        let late_answers = LateAnswers::new(pool.tracker.token(), move |cx| {
            while let Some((node, answer)) = ready!(self.poll_next(cx, fallback)) {
                let vote = note(node, answer);
                self.counted(node, vote);
            }
            Poll::Ready(())
        });
        pool.stragglers.add(late_answers);
    }

    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        fallback: NoScriptFallback,
    ) -> Poll<Option<NodeAnswer>> {
        loop {
            let Some((node, answer)) = ready!(self.poll_arrived(cx)) else {
                return Poll::Ready(None);
            };
            if Fault::is_no_script(&answer)
                && let Ok(link) = &self.links[node]
            {
                match fallback {
                    NoScriptFallback::Resend => {
                        self.send_to(node, By::Source);
                        let hooks = self.hooks.as_ref();
                        if let Some(hook) = hooks.and_then(|hooks| hooks.sent_again.as_ref()) {
                            hook(node);
                        }
                        continue;
                    }
                    NoScriptFallback::LoadOnly => {
                        let within = self.pool.config.node_timeout;
                        let loaded = link.load(self.request.script).answer();
                        self.pool.in_background(async move {
                            let _ = timeout(within, loaded).await;
                        });
                    }
                }
            }
            self.outstanding -= 1;
            self.has_answer = true;
            // A request without an answer may still get one.
            if let Some(hook) = self.unconfirmed()
                && node::needs_retry(&answer)
                && !answer.as_ref().is_err_and(Fault::is_late)
            {
                hook(node);
            }
            return Poll::Ready(Some((node, self.weigh(node, answer))));
        }
    }

    /// Voids the answer of a master in quarantine. Also voids an answer if it, or another one since the round began,
    /// shows that the master may have forgotten grants.
    ///
    /// A step that is noticed during a round may have come before the master ran the request, whichever answer shows
    /// the step. Then the master may have granted names that another client still holds. So the master's grant is
    /// void, for any lease.
    fn weigh(&self, node: usize, answer: Result<Value, Fault>) -> Result<Value, Fault> {
        let Ok(link) = &self.links[node] else {
            return answer;
        };
        let (sent, begun) = self.asked_at(node);
        if METERED && matches!(answer, Ok(_) | Err(Fault::Server(..))) {
            self.pool.slots[node].events.meters.answered(self.trace.op, sent);
        }
        let answer = answer.map_err(|fault| fault.inside(self.request.script));
        link.react_to(&answer, matches!(self.trust, Trust::Quorum(_)));
        if self.trust != Trust::All
            && let Some(stamp) = answer.as_ref().ok().and_then(Stamp::at_head_of)
        {
            let now = self.pool.clock.now();
            // By the connection's clock, if round trips choose the masters: an answer may be looked at late.
            if self.pool.is_thrifty() {
                link.took_until_received(sent);
            } else {
                link.took_ns(now.ns_since(begun));
            }
            link.observe(stamp, begun, now);
            if link.is_closed() {
                return Err(Fault::Unknown("connection closed".into()));
            }
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
        // Answers first: an answer that is here counts, even at the deadline.
        if let Poll::Ready(answer) = self.inbox.poll_take(cx) {
            return Poll::Ready(Some(answer));
        }
        if !self.alarm.as_mut().is_some_and(|alarm| alarm.wake(cx)) {
            let at = self.hedge().unwrap_or(self.deadline);
            self.alarm = self.pool.deadlines.set(at, cx);
        }
        if self.alarm.is_none() {
            self.stop_waiting(Some("awaited outside of a tokio runtime"));
            return self.poll_arrived(cx);
        }
        let now = Instant::now();
        if now < self.hedge().unwrap_or(self.deadline) {
            return Poll::Pending;
        }
        if self.hedge().is_some() {
            self.ask_others();
            return self.poll_arrived(cx);
        }
        let is_stalled = self.pool.deadlines.is_stalled(self.alarm.as_ref());
        self.stop_waiting(is_stalled.then_some(STALLED));
        self.poll_arrived(cx)
    }

    /// Time before a master was asked, by two clocks.
    fn asked_at(&self, node: usize) -> (Instant, Moment) {
        match &self.others {
            Some(others) if others.nodes.contains(node) => (others.sent, others.begun),
            _ => (self.sent, self.begun),
        }
    }

    /// Stops waiting for masters that have not answered: at the deadline, or for another cause.
    fn stop_waiting(&mut self, cause: Option<&str>) {
        let within = self.pool.config.node_timeout;
        let handed = |claim| (claim, self.pool.slots.clone());
        let late = Arc::new(TimedOutRequest {
            links: self.links.clone(),
            request: Arc::clone(&self.request),
            op: self.trace.op,
            sent: (self.sent, self.begun),
            sent_later: self
                .others
                .as_ref()
                .map(|others| (others.nodes, (others.sent, others.begun))),
            stamped_by: (self.trust != Trust::All).then_some(self.pool.clock),
            release: self.release.clone().map(handed),
            unconfirmed: self.unconfirmed().cloned(),
        });
        let link = |node: usize| self.links[node].as_ref().ok();
        let at_deadline = cause.is_none();
        let silence = |node: usize| match cause {
            None => Fault::Late {
                within,
                took: link(node).and_then(|link| link.last_took()),
            },
            Some(cause) => Fault::NotAwaited(cause.into()),
        };
        for node in self.inbox.stop_waiting(late, silence) {
            let Some(link) = link(node) else { continue };
            if at_deadline {
                link.note_missed_deadline(self.asked_at(node).0);
            }
            if self.release.is_some() {
                link.note_unanswered_release();
            }
        }
    }

    fn send_to(&self, node: usize, by: By) {
        let reply = self.inbox.expect(node);
        let link = match &self.links[node] {
            Ok(link) => link,
            Err(fault) => return reply.give(Err(fault.clone())),
        };
        match &self.release {
            Some(claim) if by == By::Sha && link.is_backed_up() => {
                let release = PendingRelease::new(claim.clone()).answered_to(reply);
                self.pool.slots[node].defer(release);
            }
            _ => link.call(&self.request, by, reply),
        }
    }
}
