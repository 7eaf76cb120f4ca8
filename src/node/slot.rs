//! The place of one master in the pool: its connection is made, kept, replaced and set up again here,
//! in the background, so that a caller never waits for any of it.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::connection::Recollection;
use super::deferred::{Deferrals, Deferred};
use super::trust::clock_check::Witness;
use super::{Answer, By, Connection, Inbox, Link, Listener, Node, Peer, Roster};
use crate::error::{NodeError, Unfit};
use crate::node::channels::Topics;
use crate::node::trust::membership::{Belonging, Membership};
use crate::protocol::calls;
use crate::protocol::command::Request;
use crate::protocol::fault::{Class, Fault};
use crate::protocol::reckoning::Reckoning;
use crate::protocol::reply::parse_agreed;
use crate::time::clock::{Clock, Moment};
use crate::time::random::Chance;
use crate::time::rounded::Rounded;
use crate::time::steps::Steps;

/// Between two attempts to connect, or to send what was refused. Jitter adds up to as much again; the
/// sum stays far enough below a second for a restarted server to be in use again within one.
const FIRST_DELAY: Duration = Duration::from_millis(10);
const LONGEST_DELAY: Duration = Duration::from_millis(250);

/// How often is looked whether a connection still waits for answers, by who closes it.
const LOOK: Duration = Duration::from_millis(5);

/// Whether a master can be used, as [`Slot::watch`] shows it.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    /// The first attempt is under way.
    Connecting,
    Up,
    Down(NodeError),
}

#[derive(Debug)]
pub(crate) struct Slot {
    place: usize,
    label: Arc<str>,
    link: Mutex<Result<Arc<Link>, Fault>>,
    status: watch::Sender<Status>,
    deferrals: Arc<Deferrals>,
}

/// What a slot's keeper needs beside the slot.
#[derive(Debug)]
pub(crate) struct Keeping {
    pub(crate) node: Box<dyn Node>,
    pub(crate) roster: Arc<Roster>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) chance: Arc<Chance>,
    pub(crate) connect_timeout: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) reckoning: Arc<Reckoning>,
    pub(crate) membership: Arc<Membership>,
    pub(crate) clock: Clock,
    pub(crate) steps: Arc<Steps>,
}

impl Slot {
    /// For a master that remembers fencing tokens for so long. `relieved` rings when it is no longer owed
    /// too much.
    pub(crate) fn new(place: usize, label: Arc<str>, retention: Duration, relieved: &Arc<Notify>) -> Self {
        Self {
            place,
            label,
            link: Mutex::new(Err(Fault::NotSent("connecting".into()))),
            status: watch::Sender::new(Status::Connecting),
            deferrals: Arc::new(Deferrals::new(retention, Arc::clone(relieved))),
        }
    }

    pub(crate) fn label(&self) -> &Arc<str> {
        &self.label
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// The connection in use, or why there is none.
    pub(crate) fn link(&self) -> Result<Arc<Link>, Fault> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From here on nothing is sent; for when its keeper has been stopped.
    pub(crate) fn close(&self) {
        self.down(NodeError::Unavailable("closed".into()));
        self.deferrals.close();
    }

    /// Leaves a release with the keeper, to be sent with others when the master can be reached.
    pub(crate) fn defer(&self, release: Deferred) {
        self.deferrals.add(release);
    }

    /// Whether so much is owed to the master that it is asked for no new hold.
    pub(crate) fn is_full(&self) -> bool {
        self.deferrals.full().load(Ordering::Relaxed)
    }

    /// Whether releases had better be left with the keeper: what is sent now would wait for long.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.link().is_ok_and(|link| link.is_backed_up())
    }

    /// Waits until all that is on its way has an answer and nothing is owed any more; or until the master
    /// has given no sign of life for so long, or for what it needs to be silent. What is still owed then.
    pub(crate) async fn drain(&self, quiet: Duration) -> usize {
        let mut before = None;
        loop {
            let (owed, settled) = self.deferrals.owed();
            let link = self.link().ok();
            if owed == 0 && link.as_ref().is_none_or(|link| !link.is_waiting()) {
                return 0;
            }
            let progress = Some((settled, link.as_ref().map(|link| link.heard())));
            if progress == before {
                return owed;
            }
            before = progress;
            let quiet = link.map_or(quiet, |link| link.patience().max(quiet));
            let end = Instant::now() + quiet;
            // What waits and is not deferred rings nobody: look now and then.
            while Instant::now() < end && self.deferrals.owed() == (owed, settled) {
                let _ = timeout(LOOK.min(quiet), self.deferrals.settled()).await;
                if self.is_drained() {
                    return 0;
                }
            }
        }
    }

    fn is_drained(&self) -> bool {
        self.deferrals.owed().0 == 0 && self.link().ok().is_none_or(|link| !link.is_waiting())
    }

    /// Keeps the connection up for ever. One task per master.
    pub(crate) async fn keep(self: Arc<Self>, keeping: Keeping) {
        let mut predecessor: Option<Peer> = None;
        loop {
            let (connection, witness, begun, set_up) = self.connect(&keeping, predecessor.as_ref()).await;
            let peer = connection.peer.clone();
            witness.hear(peer.clock_us, begun, keeping.clock.now());
            predecessor = Some(peer);
            self.serve(&keeping, connection, set_up, &witness).await;
            keeping.roster.leave(self.place);
        }
    }

    fn witness(&self, keeping: &Keeping) -> Arc<Witness> {
        let (label, steps) = (Arc::clone(&self.label), Arc::clone(&keeping.steps));
        let reckoning = Arc::clone(&keeping.reckoning);
        Arc::new(Witness::new(label, reckoning, steps))
    }

    /// Tries until there is a connection that has been set up and owes nothing; with what is known of the
    /// server's clock, the moment at which its set-up began, and how long that took.
    async fn connect(
        &self,
        keeping: &Keeping,
        predecessor: Option<&Peer>,
    ) -> (Connection, Arc<Witness>, Moment, Duration) {
        let mut delays = delays(&keeping.chance);
        let mut was_replica = false;
        loop {
            let (begun, started) = (keeping.clock.now(), Instant::now());
            let connecting = keeping.node.connect(predecessor, self.listener(keeping));
            let attempt = timeout(keeping.connect_timeout, connecting).await;
            let error = match attempt {
                Ok(Ok(mut connection)) => {
                    let (identity, witness) = (&connection.peer.identity, || self.witness(keeping));
                    match keeping.roster.claim(self.place, &self.label, identity, witness) {
                        Ok(tenure) => {
                            let memory = connection.peer.memory.filter(|_| !was_replica);
                            connection.peer.memory = Some(tenure.memory(memory));
                            return (connection, tenure.witness, begun, started.elapsed());
                        }
                        Err(unfit) => unfit.into(),
                    }
                }
                Ok(Err(error)) => error,
                Err(_) => {
                    NodeError::Unavailable(format!("no answer within {}", Rounded(keeping.connect_timeout)))
                }
            };
            was_replica |= error == NodeError::Unfit(Unfit::Replica);
            self.down(error);
            sleep(delays.next().unwrap_or(LONGEST_DELAY)).await;
        }
    }

    fn listener(&self, keeping: &Keeping) -> Listener {
        let (place, topics) = (self.place, Arc::clone(&keeping.topics));
        Arc::new(move |channel| topics.announce(place, channel))
    }

    /// Listens again to what its predecessor listened to.
    async fn resume(&self, link: &Link, keeping: &Keeping) {
        // Sent before anybody else can leave a channel.
        let Some(subscribing) = keeping.topics.resume(|channels| link.subscribe(channels)) else {
            return;
        };
        let resumed = timeout(keeping.node_timeout, subscribing.answer()).await;
        tracing::debug!(node = %self.label, ?resumed, "subscribed again");
        keeping.topics.announce_gap();
    }

    /// Uses one connection until it ends or is to be replaced.
    async fn serve(
        &self,
        keeping: &Keeping,
        connection: Connection,
        set_up: Duration,
        witness: &Arc<Witness>,
    ) {
        let Connection {
            wire,
            mut driver,
            peer,
        } = connection;
        let memory = peer.memory.unwrap_or_default();
        let recollection = Recollection {
            memory,
            clock_us: peer.clock_us,
            marker: peer.marker,
            reckoning: Arc::clone(&keeping.reckoning),
            witness: Arc::clone(witness),
        };
        let quarantine = keeping.reckoning.quarantine().saturating_sub(memory);
        if !quarantine.is_zero() {
            let remaining = Rounded(quarantine);
            tracing::warn!(node = %self.label, %remaining, "master was started not long ago and has no vote yet (Quarantine::Off gives one at once, to masters that are thrown away)");
        }
        let link = Arc::new(Link::new(wire, recollection, set_up, self.deferrals.full()));
        // What is owed goes first: nothing of ours may be found there that we have given up.
        self.deferrals.send(&link);
        let joined = self.join(&link, keeping).await;
        match &joined {
            Ok(()) => {
                self.up(Arc::clone(&link));
                self.resume(&link, keeping).await;
            }
            Err(error) => {
                self.down(error.clone());
                sleep(LONGEST_DELAY).await;
            }
        }
        let mut agreeing = pin!(self.keep_agreed(&link, keeping));
        let mut pace = Pace::new(keeping);
        while joined.is_ok() {
            let next = pace.send(&self.deferrals, &link);
            let silent_until = pace.overdue.map(|since| since + keeping.node_timeout);
            tokio::select! {
                biased;
                _ = &mut driver => {
                    self.down(NodeError::Unavailable("connection closed by the server".into()));
                    break;
                }
                () = link.replacement_wanted() => {
                    self.down(NodeError::Unavailable("no answer; connection is being replaced".into()));
                    break;
                }
                () = &mut agreeing => {}
                () = self.deferrals.news() => {}
                () = link.overdue(), if pace.overdue.is_none() => pace.overdue = Some(Instant::now()),
                () = sleep_until(silent_until.unwrap_or_else(Instant::now)), if silent_until.is_some() => {
                    pace.listen(&link);
                }
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
        link.close();
        keeping.reckoning.out_of_sight(self.place);
        if !driver.is_finished() {
            // Awaited, so that the socket is closed before its successor is opened.
            driver.abort();
            let _ = driver.await;
        }
    }

    /// Tells the master what clients have agreed upon, before the first question there, and looks whether
    /// it belongs to the set. Where the answer is late, the questions come behind on the same connection
    /// all the same.
    async fn join(&self, link: &Arc<Link>, keeping: &Keeping) -> Result<(), NodeError> {
        let end = Instant::now() + keeping.connect_timeout;
        let _ = timeout_at(end, self.agree(link, keeping, false)).await;
        loop {
            let mut news = pin!(keeping.membership.news());
            news.as_mut().enable();
            let (masters, told) = match keeping.membership.of(self.place) {
                Belonging::Here => return Ok(()),
                Belonging::Elsewhere(masters) => {
                    let listed = keeping.membership.listed();
                    return Err(Unfit::OtherSet { masters, listed }.into());
                }
                Belonging::Odd(masters) => {
                    tracing::warn!(node = %self.label, "master comes from a set of another size; it belongs to this one now");
                    keeping.reckoning.out_of_sight(self.place);
                    let _ = timeout_at(end, self.agree(link, keeping, true)).await;
                    (masters, keeping.membership.of(self.place) == Belonging::Here)
                }
                Belonging::Unclear(masters) => (masters, timeout_at(end, news).await.is_ok()),
            };
            if !told {
                let reason = format!("it tells of a set of {masters} masters, and others have not told yet");
                return Err(NodeError::Unavailable(reason));
            }
        }
    }

    /// Tells the master what clients have agreed upon, and takes in what it has stored; with `moved` it
    /// belongs to this set from now on.
    async fn agree(&self, link: &Arc<Link>, keeping: &Keeping, moved: bool) {
        let Some(agreed) = keeping.reckoning.missing(self.place) else {
            return;
        };
        let request = calls::charter(agreed, keeping.membership.listed(), moved);
        match ask(link, &request).await {
            Ok(answer) => {
                if let Some((stored, masters)) = parse_agreed(&answer) {
                    keeping.reckoning.stored(self.place, stored);
                    keeping.membership.told(self.place, masters);
                }
            }
            Err(fault) => {
                let reason = fault.vote();
                tracing::debug!(node = %self.label, %reason, "could not tell how long leases may be");
            }
        }
    }

    /// Tells the master whatever clients agree upon from now on. Never resolves.
    async fn keep_agreed(&self, link: &Arc<Link>, keeping: &Keeping) {
        let mut delays = delays(&keeping.chance);
        loop {
            let mut news = pin!(keeping.reckoning.news());
            news.as_mut().enable();
            if keeping.reckoning.missing(self.place).is_none() {
                delays = self::delays(&keeping.chance);
                news.await;
            } else {
                self.agree(link, keeping, false).await;
                if keeping.reckoning.missing(self.place).is_some() {
                    sleep(delays.next().unwrap_or(LONGEST_DELAY)).await;
                }
            }
        }
    }

    fn up(&self, link: Arc<Link>) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Ok(link);
        tracing::info!(node = %self.label, "master connected");
        self.status.send_replace(Status::Up);
    }

    fn down(&self, error: NodeError) {
        let reason: Arc<str> = error.to_string().into();
        let fault = if error.passes() {
            Fault::NotSent(Arc::clone(&reason))
        } else {
            Fault::Unfit(Arc::clone(&reason))
        };
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Err(fault);
        let news = match &*self.status.borrow() {
            Status::Down(before) => *before != error,
            _ => true,
        };
        if news {
            tracing::warn!(node = %self.label, %reason, "master out of reach");
        }
        self.status.send_replace(Status::Down(error));
    }
}

/// When the keeper of a connection sends what is owed, and looks whether the master is there.
struct Pace<'a> {
    keeping: &'a Keeping,
    /// When the last batch was sent, for as long as the next one waits for its answer.
    sent: Option<Instant>,
    /// After an error that will pass: until when nothing is sent.
    paused_until: Option<Instant>,
    delays: Box<dyn Iterator<Item = Duration> + Send>,
    /// Since when the answer to a release has been overdue without a look at whether the master is there.
    overdue: Option<Instant>,
}

impl<'a> Pace<'a> {
    fn new(keeping: &'a Keeping) -> Self {
        Self {
            keeping,
            sent: Some(Instant::now()),
            paused_until: None,
            delays: Box::new(delays(&keeping.chance)),
            overdue: None,
        }
    }

    /// Sends the next batch, if it is time; when to look again, if it is not. The one before it is waited
    /// for until the node deadline: after that it is the connection's, like every release that was sent.
    fn send(&mut self, deferrals: &Arc<Deferrals>, link: &Arc<Link>) -> Option<Instant> {
        let now = Instant::now();
        let deadline = self.sent.map(|sent| sent + self.keeping.node_timeout);
        if deferrals.is_under_way() && deadline.is_some_and(|deadline| now < deadline) {
            return deadline;
        }
        if deferrals.is_under_way()
            && let Some(sent) = self.sent.take()
        {
            link.kept_silent(sent);
            self.overdue.get_or_insert(now);
        }
        self.sent = None;
        if deferrals.was_refused() {
            self.paused_until = Some(now + self.delays.next().unwrap_or(LONGEST_DELAY));
        }
        if !deferrals.is_waiting() {
            self.delays = Box::new(delays(&self.keeping.chance));
            self.paused_until = None;
            return None;
        }
        if let Some(until) = self.paused_until.filter(|until| now < *until) {
            return Some(until);
        }
        if link.is_backed_up() {
            return Some(now + FIRST_DELAY);
        }
        self.paused_until = None;
        self.sent = Some(now);
        deferrals.send(link);
        Some(now + self.keeping.node_timeout)
    }

    /// Whether the master was silent for another node deadline while a release had no answer.
    fn listen(&mut self, link: &Link) {
        let Some(since) = self.overdue.take() else { return };
        if link.is_waiting() && link.heard() < since {
            link.kept_silent(since);
            self.overdue = Some(Instant::now());
        }
    }
}

/// One call, made again with its text where the master has forgotten the script.
async fn ask(link: &Link, request: &Request) -> Answer {
    let ask = |by| {
        let (inbox, reply) = Inbox::single();
        link.call(request, by, reply);
        inbox.answer()
    };
    let answer = ask(By::Sha).await;
    if answer.as_ref().err().and_then(Fault::class) == Some(Class::NoScript) {
        return ask(By::Source).await;
    }
    answer
}

fn delays(chance: &Chance) -> impl Iterator<Item = Duration> + use<> {
    ExponentialBuilder::default()
        .with_min_delay(FIRST_DELAY)
        .with_max_delay(LONGEST_DELAY)
        .without_max_times()
        .with_jitter()
        .with_jitter_seed(chance.seed())
        .build()
}
