//! The place of one master in the pool: its connection is made, kept, replaced and set up again here,
//! in the background, so that a caller never waits for any of it.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::future::join_all;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::link::Recollection;
use super::obligation::{Obligation, Obligations};
use super::witness::Witness;
use super::{Answer, By, Class, Connection, Fault, Inbox, Link, Listener, Node, Peer, Roster};
use crate::chance::Chance;
use crate::clock::{Clock, Moment};
use crate::error::{NodeError, Unfit};
use crate::membership::{Belonging, Membership};
use crate::notice::Topics;
use crate::reckoning::Reckoning;
use crate::reply::parse_agreed;
use crate::request::Request;
use crate::rounded::Rounded;
use crate::script;
use crate::steps::Steps;

/// Between two attempts to connect, or to send what is owed. Jitter adds up to as much again; the
/// sum stays far enough below a second for a restarted server to be in use again within one.
const FIRST_DELAY: Duration = Duration::from_millis(10);
const LONGEST_DELAY: Duration = Duration::from_millis(250);

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
    owed: Mutex<Obligations>,
    owing: Notify,
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
    pub(crate) fn new(place: usize, label: Arc<str>) -> Self {
        Self {
            place,
            label,
            link: Mutex::new(Err(Fault::NotSent("connecting".into()))),
            status: watch::Sender::new(Status::Connecting),
            owed: Mutex::new(Obligations::default()),
            owing: Notify::new(),
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
    }

    /// Leaves a release with the keeper, to be sent when the master can be reached.
    pub(crate) fn owe(&self, release: Arc<Request>) {
        self.owed().add(release);
        self.owing.notify_one();
    }

    /// Keeps the connection up for ever. One task per master.
    pub(crate) async fn keep(self: Arc<Self>, keeping: Keeping) {
        let mut predecessor: Option<Peer> = None;
        loop {
            let (connection, witness, begun) = self.connect(&keeping, predecessor.as_ref()).await;
            let peer = connection.peer.clone();
            witness.hear(peer.clock_us, begun, keeping.clock.now());
            predecessor = Some(peer);
            self.serve(&keeping, connection, &witness).await;
            keeping.roster.leave(self.place);
        }
    }

    fn witness(&self, keeping: &Keeping) -> Arc<Witness> {
        let (label, steps) = (Arc::clone(&self.label), Arc::clone(&keeping.steps));
        let reckoning = Arc::clone(&keeping.reckoning);
        Arc::new(Witness::new(label, reckoning, steps))
    }

    /// Tries until there is a connection that has been set up and owes nothing; with what is known of the
    /// server's clock, and the moment at which its set-up began.
    async fn connect(
        &self,
        keeping: &Keeping,
        predecessor: Option<&Peer>,
    ) -> (Connection, Arc<Witness>, Moment) {
        let mut delays = delays(&keeping.chance);
        let mut was_replica = false;
        loop {
            let begun = keeping.clock.now();
            let connecting = keeping.node.connect(predecessor, self.listener(keeping));
            let attempt = timeout(keeping.connect_timeout, connecting).await;
            let error = match attempt {
                Ok(Ok(mut connection)) => {
                    let (identity, witness) = (&connection.peer.identity, || self.witness(keeping));
                    match keeping.roster.claim(self.place, &self.label, identity, witness) {
                        Ok(tenure) => {
                            let memory = connection.peer.memory.filter(|_| !was_replica);
                            connection.peer.memory = Some(tenure.memory(memory));
                            return (connection, tenure.witness, begun);
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
    async fn serve(&self, keeping: &Keeping, connection: Connection, witness: &Arc<Witness>) {
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
        let link = Arc::new(Link::new(wire, recollection));
        // What is owed goes first: nothing of ours may be found there that we have given up.
        self.pay(&link, keeping.node_timeout).await;
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
        let mut delays = delays(&keeping.chance);
        while joined.is_ok() {
            let idle = self.owed().is_empty();
            if idle {
                delays = self::delays(&keeping.chance);
            }
            let pause = delays.next().unwrap_or(LONGEST_DELAY);
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
                () = self.owing.notified(), if idle => {}
                () = sleep(pause), if !idle => {
                    self.pay(&link, keeping.node_timeout).await;
                }
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
        let request = script::charter(agreed, keeping.membership.listed(), moved);
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

    /// Sends every release that is owed; what is not confirmed stays owed.
    async fn pay(&self, link: &Arc<Link>, within: Duration) {
        let owed = self.owed().take();
        if owed.is_empty() {
            return;
        }
        let (sent, due) = (Instant::now(), owed.len());
        let calls = owed.into_iter().map(|obligation| async move {
            match timeout(within, settle(link, &obligation)).await {
                Ok(true) => None,
                Ok(false) => Some(obligation),
                Err(_) => {
                    link.kept_silent(sent);
                    Some(obligation)
                }
            }
        });
        let unpaid: Vec<_> = join_all(calls).await.into_iter().flatten().collect();
        tracing::debug!(node = %self.label, due, unpaid = unpaid.len(), "sent releases that were owed");
        let mut owed = self.owed();
        for obligation in unpaid {
            owed.add(obligation);
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

    fn owed(&self) -> MutexGuard<'_, Obligations> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends one release; whether the master is done with it for good.
async fn settle(link: &Arc<Link>, obligation: &Obligation) -> bool {
    match ask(link, obligation).await {
        Ok(_) => true,
        // Asking again would bring the same answer: left to the lease.
        Err(fault) => fault.is_denied() || matches!(fault.class(), Some(Class::Spoilt | Class::Unforeseen)),
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
