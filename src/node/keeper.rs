//! Keeps the connection of one slot: connects, sets up, uses the connection until it ends, and connects
//! again, in the background.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::connection::{Memory, Recollection};
use super::pace::Pace;
use super::redis::questions::in_time;
use super::trust::clock_check::ClockCheck;
use super::trust::master_clock::MasterClock;
use super::withdrawals::Withdrawals;
use super::{ChannelForm, Connection, Endpoint, Inbox, KnownServers, Link, Listener, Peer, Slot};
use crate::error::{NodeError, Unfit};
use crate::node::channels::Topics;
use crate::node::trust::membership::Membership;
use crate::protocol::lease_timing::LeaseTiming;
use crate::time::backoff::{Backoff, LONGEST_DELAY};
use crate::time::clock::{Clock, Moment};
use crate::time::random::Random;
use crate::time::steps::Steps;
use crate::time::until::sleep_until_if;

/// Interval at which a server is asked again for the channel that it denies.
const LISTEN_AGAIN: Duration = Duration::from_secs(10);

/// Task that maintains the connection to one master.
pub(crate) struct Keeper {
    pub(crate) slot: Arc<Slot>,
    pub(crate) node: Box<dyn Endpoint>,
    /// The client's half of every owner field.
    pub(crate) client: Uuid,
    /// Label of the client.
    pub(crate) label: Arc<str>,
    pub(crate) servers: Arc<KnownServers>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) random: Arc<Random>,
    pub(crate) connect_timeout: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) lease_timing: LeaseTiming,
    /// Whether each vote is checked against the master's record.
    pub(crate) strict: bool,
    pub(crate) membership: Arc<Membership>,
    pub(crate) clock: Clock,
    pub(crate) steps: Arc<Steps>,
}

/// Delays before attempts to connect to a master.
struct ConnectDelays {
    short: Backoff,
    long: Backoff,
}

impl ConnectDelays {
    fn new(random: &Random) -> Self {
        Self {
            short: Backoff::new(random),
            long: Backoff::slow(random),
        }
    }

    /// Delay after this error. An error that may pass by itself can do so at any moment, as that of a second address does
    /// where servers exchange theirs. Any other one lasts until a configuration is corrected, and many clients have it.
    fn after(&mut self, error: &NodeError) -> Duration {
        if error.is_transient() {
            self.short.next()
        } else {
            self.long.next()
        }
    }
}

impl Keeper {
    /// Keeps the connection up for ever. One task per master.
    pub(crate) async fn keep(self) {
        let random = &self.random;
        let mut delays = ConnectDelays::new(random);
        let mut predecessor: Option<Peer> = None;
        loop {
            let connecting = self.connect(predecessor.as_ref(), &mut delays);
            let (connection, clock_check, begun, started) = connecting.await;
            let peer = connection.peer.clone();
            clock_check.observe(peer.clock_us, begun, self.clock.now());
            self.warn_of_missing(&peer, predecessor.as_ref());
            predecessor = Some(peer);
            let (end, lasted, asked) = self.serve(connection, (begun, started), &clock_check).await;
            self.servers.disconnected(self.slot.node, asked);
            if lasted < LONGEST_DELAY {
                // The next connection may end as early.
                sleep(delays.after(&end)).await;
            } else {
                delays = ConnectDelays::new(random);
            }
        }
    }

    /// Warns of capabilities that a server lacks or denies, unless the warning is the same as for the server
    /// before.
    fn warn_of_missing(&self, peer: &Peer, predecessor: Option<&Peer>) {
        let missing = peer.capabilities.missing().join(", ");
        if !missing.is_empty() && predecessor.is_none_or(|old| old.capabilities != peer.capabilities) {
            self.slot.events.lacks(&missing);
        }
        if peer.calls_denied && predecessor.is_none_or(|old| !old.calls_denied) {
            self.slot.events.denies_subscription();
        }
    }

    fn clock_check(&self) -> Arc<ClockCheck> {
        let (events, steps) = (Arc::clone(&self.slot.events), Arc::clone(&self.steps));
        Arc::new(ClockCheck::new(events, self.lease_timing, steps))
    }

    /// Tries until there is a connection that has been set up. Returns it with the check of the server's
    /// clock, and the moment at which its set-up began, by both clocks.
    async fn connect(
        &self,
        predecessor: Option<&Peer>,
        delays: &mut ConnectDelays,
    ) -> (Connection, Arc<ClockCheck>, Moment, Instant) {
        let mut was_replica = false;
        loop {
            let (begun, started) = (self.clock.now(), Instant::now());
            let connecting = self.node.connect(predecessor, &self.topics.own, self.listener());
            let connected = in_time(self.connect_timeout, connecting).await;
            let admitted = connected.and_then(|connection| Ok(self.admit(connection, was_replica)?));
            let error = match admitted {
                Ok((connection, clock_check)) => return (connection, clock_check, begun, started),
                Err(error) => error,
            };
            was_replica |= error == NodeError::Unfit(Unfit::Replica);
            self.membership.failed(self.slot.node);
            self.slot.down(&error);
            sleep(delays.after(&error)).await;
        }
    }

    /// Admits a connection. A server may be at one address only. A replica that became the master may have
    /// missed grants, so its memory counts from now on.
    fn admit(
        &self,
        connection: Connection,
        was_replica: bool,
    ) -> Result<(Connection, Arc<ClockCheck>), Unfit> {
        let (identity, slot) = (&connection.peer.identity, &self.slot);
        let servers = &self.servers;
        let clock_check = servers.claim(slot.node, slot.label(), identity, || self.clock_check())?;
        if was_replica {
            servers.forgot(slot.node);
        }
        Ok((connection, clock_check))
    }

    fn listener(&self) -> Listener {
        let (slot, topics) = (Arc::clone(&self.slot), Arc::clone(&self.topics));
        Arc::new(move |form, channel, message| {
            if let Some(stale) = topics.take_in(slot.node, form, channel, message) {
                slot.stale_waiters.add(stale);
            }
        })
    }

    /// Subscribes to every channel that has listeners besides the client's own. `act` runs before any other task can join or
    /// leave a channel. Then every waiter looks again, since calls and announcements may have been missed.
    async fn resume(&self, link: &Link, act: impl FnOnce()) {
        let subscribing = self.topics.resume(|channels| {
            // One by one: a command with a channel that is denied is refused as a whole.
            let subscribing: Vec<Inbox> = channels
                .into_iter()
                .map(|(form, channel)| link.listen(true, *form, channel))
                .collect();
            act();
            subscribing
        });
        if !subscribing.is_empty() {
            let confirmed = try_join_all(subscribing.into_iter().map(Inbox::answer));
            let resumed = timeout(self.node_timeout, confirmed).await;
            self.slot.events.subscribed_again(matches!(resumed, Ok(Ok(_))));
        }
        self.topics.interrupt();
    }

    /// Listens to the client's channel, which the server has denied at the set-up, and then to all others. Servers keep
    /// their connections when a user gets more rights.
    async fn listen_at_last(&self, link: &Link) {
        loop {
            sleep(LISTEN_AGAIN).await;
            let listening = link.listen(true, ChannelForm::Exact, &self.topics.own);
            if listening.answer().await.is_ok() {
                break;
            }
        }
        self.slot.events.allows_subscription();
        self.resume(link, || {}).await;
    }

    /// Uses one connection, with a set-up that began at `begun`, until the connection ends or is to be replaced.
    /// Returns the reason of its end, the time for which it was in use, and the moment before the last question that the
    /// server has answered.
    async fn serve(
        &self,
        connection: Connection,
        begun: (Moment, Instant),
        clock_check: &Arc<ClockCheck>,
    ) -> (NodeError, Duration, Option<Moment>) {
        let (servers, node, set_up) = (&self.servers, self.slot.node, begun.1.elapsed());
        let introducing = self.introduce(&connection, begun, servers.missed_until(node));
        let introduced = introducing.await;
        let Connection {
            wire,
            mut driver,
            peer,
        } = connection;
        let (end, lasted, asked) = match introduced {
            Ok(memory) => {
                servers.introduced(node);
                let server = (peer.version, peer.capabilities);
                let recollection = self.recollection(memory, clock_check);
                let (events, full) = (&self.slot.events, &self.slot.deferrals.full);
                let link = Arc::new(Link::new(wire, recollection, server, set_up, events, full));
                let since = Instant::now();
                // Pending releases go first, so that the client does not meet its own holds that it has given
                // up.
                self.slot.deferrals.send(&link);
                self.resume(&link, || self.slot.up(Arc::clone(&link))).await;
                let end = self.attend(&link, &mut driver, peer.calls_denied).await;
                link.close();
                (end, since.elapsed(), Some(link.last_asked()))
            }
            Err(error) => (error, Duration::ZERO, None),
        };
        self.slot.down(&end);
        if !driver.is_finished() {
            // Waits for the end of the driver, so that the socket is closed before its successor is opened.
            driver.abort();
            let _ = driver.await;
        }
        (end, lasted, asked)
    }

    fn recollection(&self, memory: Memory, clock_check: &Arc<ClockCheck>) -> Recollection {
        let quarantine = self.lease_timing.quarantine.saturating_sub(memory.age);
        if !quarantine.is_zero() {
            self.slot.events.in_quarantine(quarantine);
        }
        Recollection {
            memory: memory.age,
            clock_us: memory.clock_us,
            clock: MasterClock::new(memory.clock_us, self.clock.now()),
            record: self.strict.then_some(memory.record),
            quarantine: self.lease_timing.quarantine,
            clock_check: Arc::clone(clock_check),
        }
    }

    /// Sends pending releases and checks that the master answers, until the connection ends or this client is
    /// refused. Returns the reason of the end.
    async fn attend(
        &self,
        link: &Arc<Link>,
        driver: &mut AbortOnDropHandle<()>,
        mut calls_denied: bool,
    ) -> NodeError {
        let deferrals = &self.slot.deferrals;
        let mut labelling = pin!(self.keep_labelled(link));
        let mut listening = pin!(self.listen_at_last(link));
        let mut refused = pin!(self.refused());
        let (client, node_timeout, random) = (self.client, self.node_timeout, &self.random);
        let mut pace = Pace::new(random, node_timeout);
        let mut withdrawals = Withdrawals::new(&self.slot.stale_waiters, link, client, node_timeout, random);
        loop {
            let next = pace.send(deferrals, link);
            let silent_until = pace.overdue.map(|since| since + node_timeout);
            tokio::select! {
                biased;
                refusal = &mut refused => return refusal.into(),
                _ = &mut *driver => return NodeError::Unavailable("connection closed by the server".into()),
                reason = link.replacement_wanted() => {
                    return NodeError::Unavailable(format!("{reason}; connection is being replaced"));
                }
                () = &mut labelling => {}
                () = &mut listening, if calls_denied => calls_denied = false,
                () = deferrals.news.notified() => {}
                () = self.slot.stale_waiters.news.notified() => withdrawals.went_stale(),
                () = sleep_until_if(withdrawals.again_at) => withdrawals.send(),
                () = link.overdue.notified(), if pace.overdue.is_none() => pace.overdue = Some(Instant::now()),
                () = sleep_until_if(silent_until) => pace.listen(link),
                () = sleep_until_if(next) => {}
            }
        }
    }
}
