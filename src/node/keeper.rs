//! Keeps the connection of one slot: makes it, sets it up, uses it until it ends, and makes it again, in the
//! background.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::connection::Recollection;
use super::leaving::Leaving;
use super::pace::Pace;
use super::trust::clock_check::ClockCheck;
use super::trust::master_clock::MasterClock;
use super::{Connection, Endpoint, KnownServers, Link, Listener, Peer, Slot};
use crate::error::{NodeError, Unfit};
use crate::node::channels::Topics;
use crate::node::trust::membership::Membership;
use crate::protocol::reckoning::Reckoning;
use crate::time::backoff::{LONGEST_DELAY, delays};
use crate::time::clock::{Clock, Moment};
use crate::time::random::Chance;
use crate::time::rounded::Rounded;
use crate::time::steps::Steps;

/// The task that looks after one master.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(super) slot: Arc<Slot>,
    pub(super) context: KeeperContext,
}

/// What a slot's keeper needs beside the slot.
#[derive(Debug)]
pub(crate) struct KeeperContext {
    pub(crate) node: Box<dyn Endpoint>,
    /// The client's half of every owner field.
    pub(crate) client: Uuid,
    /// What the client calls itself, and for how long a master is to keep that.
    pub(crate) label: Arc<str>,
    pub(crate) label_kept: Duration,
    pub(crate) servers: Arc<KnownServers>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) chance: Arc<Chance>,
    pub(crate) connect_timeout: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) reckoning: Arc<Reckoning>,
    pub(crate) membership: Arc<Membership>,
    pub(crate) clock: Clock,
    pub(crate) steps: Arc<Steps>,
}

impl Keeper {
    pub(crate) fn new(slot: &Arc<Slot>, context: KeeperContext) -> Self {
        Self {
            slot: Arc::clone(slot),
            context,
        }
    }

    /// Keeps the connection up for ever. One task per master.
    pub(crate) async fn keep(self) {
        let chance = &self.context.chance;
        let mut delays = delays(chance);
        let mut predecessor: Option<Peer> = None;
        loop {
            let connecting = self.connect(predecessor.as_ref(), &mut delays);
            let (connection, clock_check, begun, set_up) = connecting.await;
            let peer = connection.peer.clone();
            clock_check.hear(peer.clock_us, begun, self.context.clock.now());
            self.warn_of_missing(&peer, predecessor.as_ref());
            predecessor = Some(peer);
            let stood = self.serve(connection, set_up, &clock_check).await;
            self.context.servers.leave(self.slot.node());
            if stood < LONGEST_DELAY {
                // The next connection may end as soon.
                sleep(delays.next().unwrap_or(LONGEST_DELAY)).await;
            } else {
                delays = self::delays(chance);
            }
        }
    }

    /// Says what a server lacks, unless that was said of the one before it.
    fn warn_of_missing(&self, peer: &Peer, predecessor: Option<&Peer>) {
        let missing = peer.capabilities.missing().join(", ");
        if !missing.is_empty() && predecessor.is_none_or(|old| old.capabilities != peer.capabilities) {
            self.slot.events().lacks(&missing);
        }
    }

    fn clock_check(&self) -> Arc<ClockCheck> {
        let (events, steps) = (Arc::clone(self.slot.events()), Arc::clone(&self.context.steps));
        let reckoning = Arc::clone(&self.context.reckoning);
        Arc::new(ClockCheck::new(events, reckoning, steps))
    }

    /// Tries until there is a connection that has been set up and owes nothing; with what is known of the
    /// server's clock, the moment at which its set-up began, and how long that took.
    async fn connect(
        &self,
        predecessor: Option<&Peer>,
        delays: &mut impl Iterator<Item = Duration>,
    ) -> (Connection, Arc<ClockCheck>, Moment, Duration) {
        let context = &self.context;
        let mut was_replica = false;
        loop {
            let (begun, started) = (context.clock.now(), Instant::now());
            let connecting = context.node.connect(predecessor, self.listener());
            let attempt = timeout(context.connect_timeout, connecting).await;
            let connected = attempt.unwrap_or_else(|_| {
                let within = Rounded(context.connect_timeout);
                Err(NodeError::Unavailable(format!("no answer within {within}")))
            });
            let admitted = connected.and_then(|connection| Ok(self.admit(connection, was_replica)?));
            let error = match admitted {
                Ok((connection, clock_check)) => return (connection, clock_check, begun, started.elapsed()),
                Err(error) => error,
            };
            was_replica |= error == NodeError::Unfit(Unfit::Replica);
            self.slot.down(&error);
            sleep(delays.next().unwrap_or(LONGEST_DELAY)).await;
        }
    }

    /// A server may be at one address only. How far back it remembers is what this client knows of it; a
    /// replica that became the master remembers nothing from before.
    fn admit(
        &self,
        mut connection: Connection,
        was_replica: bool,
    ) -> Result<(Connection, Arc<ClockCheck>), Unfit> {
        let (identity, slot) = (&connection.peer.identity, &self.slot);
        let servers = &self.context.servers;
        let history = servers.claim(slot.node(), slot.label(), identity, || self.clock_check())?;
        let memory = &mut connection.peer.memory;
        memory.vouched &= !was_replica;
        memory.told = history.memory(*memory);
        Ok((connection, history.clock_check))
    }

    fn listener(&self) -> Listener {
        let (slot, topics) = (Arc::clone(&self.slot), Arc::clone(&self.context.topics));
        Arc::new(move |channel, message| {
            if let Some(stray) = topics.announce(slot.node(), channel, message) {
                slot.stray(stray);
            }
        })
    }

    /// Puts a connection to use. It listens to what its predecessor listened to before anything else is sent, so
    /// nobody stands in a queue there who could not be called.
    async fn resume(&self, link: &Arc<Link>) {
        let subscribing = self.context.topics.resume(|channels| {
            let subscribing = (!channels.is_empty()).then(|| link.subscribe(channels));
            self.slot.up(Arc::clone(link));
            subscribing
        });
        let Some(subscribing) = subscribing else { return };
        let resumed = timeout(self.context.node_timeout, subscribing.answer()).await;
        self.slot.events().subscribed_again(matches!(resumed, Ok(Ok(_))));
        self.context.topics.announce_interruption();
    }

    /// Uses one connection until it ends or is to be replaced. Returns how long it was in use.
    async fn serve(
        &self,
        connection: Connection,
        set_up: Duration,
        clock_check: &Arc<ClockCheck>,
    ) -> Duration {
        let Connection {
            wire,
            mut driver,
            peer,
        } = connection;
        let server = (Arc::clone(&peer.version), peer.capabilities);
        let recollection = self.recollection(peer, clock_check);
        let (events, full) = (self.slot.events(), self.slot.deferrals().full());
        let link = Arc::new(Link::new(wire, recollection, server, set_up, events, full));
        // What is owed goes first: nothing of ours may be found there that we have given up.
        self.slot.deferrals().send(&link);
        let joined = self.join(&link).await;
        let since = Instant::now();
        let is_fit = joined.is_ok();
        let end = match joined {
            Ok(()) => {
                self.resume(&link).await;
                NodeError::Unavailable(self.attend(&link, &mut driver).await)
            }
            Err(error) => error,
        };
        let stood = if is_fit { since.elapsed() } else { Duration::ZERO };
        self.slot.down(&end);
        link.close();
        self.context.reckoning.out_of_sight(self.slot.node());
        if !driver.is_finished() {
            // Awaited, so that the socket is closed before its successor is opened.
            driver.abort();
            let _ = driver.await;
        }
        stood
    }

    fn recollection(&self, peer: Peer, clock_check: &Arc<ClockCheck>) -> Recollection {
        let reckoning = &self.context.reckoning;
        let memory = peer.memory.told;
        let quarantine = reckoning.quarantine().saturating_sub(memory);
        if !quarantine.is_zero() {
            let newly_marked = peer.memory.newly_marked;
            self.slot.events().in_quarantine(quarantine, newly_marked);
        }
        Recollection {
            memory,
            newly_marked: peer.memory.newly_marked,
            clock_us: peer.clock_us,
            clock: MasterClock::new(peer.clock_us, self.context.clock.now()),
            marker: peer.marker,
            reckoning: Arc::clone(reckoning),
            clock_check: Arc::clone(clock_check),
        }
    }

    /// Sends what is owed, agrees with the master, and looks whether it is there, until the connection ends;
    /// why it did.
    async fn attend(&self, link: &Arc<Link>, driver: &mut AbortOnDropHandle<()>) -> String {
        let deferrals = self.slot.deferrals();
        let mut agreeing = pin!(join(self.keep_agreed(link), self.keep_labelled(link)));
        let (client, node_timeout, chance) = (
            self.context.client,
            self.context.node_timeout,
            &self.context.chance,
        );
        let mut pace = Pace::new(chance, node_timeout);
        let mut leaving = Leaving::new(&self.slot, link, client, node_timeout, chance);
        loop {
            let next = pace.send(deferrals, link);
            let silent_until = pace.overdue.map(|since| since + node_timeout);
            tokio::select! {
                biased;
                _ = &mut *driver => return "connection closed by the server".into(),
                reason = link.replacement_wanted() => return format!("{reason}; connection is being replaced"),
                _ = &mut agreeing => {}
                () = deferrals.news() => {}
                () = self.slot.strayed() => leaving.strayed(),
                () = sleep_until(leaving.again_at.unwrap_or_else(Instant::now)), if leaving.again_at.is_some() => {
                    leaving.tell();
                }
                () = link.overdue(), if pace.overdue.is_none() => pace.overdue = Some(Instant::now()),
                () = sleep_until(silent_until.unwrap_or_else(Instant::now)), if silent_until.is_some() => {
                    pace.listen(link);
                }
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }
}
