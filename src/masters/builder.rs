//! Builds a pool of masters: options, checks, the first connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::error::{ConnectError, InvalidInput};
use crate::events::{METERED, log};
use crate::hold::client::ClientCore;
use crate::hold::{recall, watchdog};
use crate::masters::Masters;
use crate::masters::config::{Config, Quarantine, Rounds};
use crate::masters::connecting::until_connected;
use crate::masters::namespace::Namespace;
use crate::masters::node_options::Node;
use crate::node::{Address, Endpoint, Lookup, POOL, Server, Tls, TlsFiles};
use crate::round::pool::Pool;
use crate::time::clock::Clock;
use crate::time::random::Random;
use crate::values::policy::Policy;

/// Collects the masters and their options, and [`connect`](Self::connect)s.
///
/// `connect` checks every option before it connects to any master.
///
/// ```no_run
/// # async fn job() -> Result<(), Box<dyn std::error::Error>> {
/// use multilock::{Masters, Node};
/// use std::time::Duration;
///
/// let masters = Masters::builder()
///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2"])
///     .node(Node::url("redis://10.0.0.3").label("eu-3"))
///     .namespace("prod")
///     .client_label("billing@web-1")
///     .lease(Duration::from_secs(20))
///     .node_timeout(Duration::from_millis(100))
///     .connect_timeout(Duration::from_secs(2))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until connect() is awaited"]
pub struct MastersBuilder {
    pub(crate) nodes: Vec<Node>,
    pub(crate) tls_files: TlsFiles,
    pub(crate) config: Config,
}

impl Masters {
    /// Starts with no masters and the defaults.
    pub fn builder() -> MastersBuilder {
        MastersBuilder::default()
    }
}

impl MastersBuilder {
    /// Adds one master: a URL or a [`Node`] with options of its own. A URL is
    /// `redis://[user:password@]host[:port][/db]`, `rediss://…` (feature `rustls`) or
    /// `unix:///path[?db=n&user=u&pass=p]`. A query is refused with `redis://` and `rediss://`.
    pub fn node(mut self, node: impl Into<Node>) -> Self {
        self.nodes.push(node.into());
        self
    }

    /// Adds several masters.
    pub fn nodes<N: Into<Node>>(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.nodes.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// Sets the lease of locks without one of their own. The default is the longest one,
    /// [`LONGEST_LEASE`](crate::LONGEST_LEASE): 30 s. The lease bounds the time for which a lock stays taken
    /// after a crash. A hold is renewed, so it needs no long lease to last.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.lease = Some(lease);
        self
    }

    /// Sets the longest time for which holds are renewed, for locks without one of their own
    /// ([`MultiLock::max_hold`](crate::MultiLock::max_hold)). After it, a hold lasts until its lease ends.
    /// Not shorter than the lease.
    ///
    /// Without it, a hold is renewed for as long as its guard lives, also if the guard is forgotten or its
    /// task hangs for ever. The log warns of such a hold after ten leases.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Masters;
    /// use std::time::Duration;
    ///
    /// let masters = cluster.connect(Masters::builder().max_hold(Duration::from_secs(600))).await?;
    /// let guard = masters.red_lock("report").lock().await?;
    /// std::mem::forget(guard);
    /// // Another process gets it ten minutes and a lease later, at the latest.
    /// let guard = masters.red_lock("report").lease(Duration::from_secs(10)).lock().await?;
    /// # Ok(()) }
    /// ```
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.config.max_hold = Some(max);
        self
    }

    /// Sets the most names that stay with this client while nobody holds them, for
    /// [`sticky`](crate::MultiLock::sticky) locks. The default is 64. If there are more, the names that were used least
    /// recently are released. A lock of more names than this does not stay. With 0, no lock is sticky.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Masters;
    ///
    /// let masters = cluster.connect(Masters::builder().max_idle(1)).await?;
    /// for name in ["partition:1", "partition:2"] {
    ///     masters.red_lock(name).sticky().lock().await?.unlock().await?;
    /// }
    /// assert_eq!(masters.status().idle, 1);
    /// # Ok(()) }
    /// ```
    pub fn max_idle(mut self, names: usize) -> Self {
        self.config.max_idle = names;
        self
    }

    /// Sets another longest lease than 30 s, for masters that are thrown away: in tests, demonstrations, at
    /// home.
    ///
    /// A master that may have lost locks has no vote until the longest lease of *any client* has passed. With
    /// a longest lease of two seconds that takes two seconds, also at the first start. **Every client of
    /// these masters must set the same value.** The masters record it. A client with another value, or none,
    /// is refused ([`Unfit::OtherSet`](crate::Unfit::OtherSet)), so no such client ever joins a set that is
    /// in real use.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use multilock::Masters;
    /// use multilock::sim::{Cluster, Keep};
    /// use std::time::Duration;
    ///
    /// let cluster = Cluster::new(3);
    /// let for_tests = || Masters::builder().for_tests(Duration::from_secs(1));
    /// let masters = cluster.connect(for_tests()).await?;
    /// cluster.iter().for_each(|master| master.restart(Keep::Nothing));
    /// // About a second later the masters have their votes back, and not half a minute.
    /// let guard = masters.red_lock("a").wait(Duration::from_secs(5)).lock().await?;
    /// assert!(cluster.connect(Masters::builder()).await.is_err());
    /// # Ok(()) }
    /// ```
    pub fn for_tests(mut self, longest_lease: Duration) -> Self {
        self.config.for_tests = Some(longest_lease);
        self
    }

    /// Puts `prod:` in front of every name, with the namespace `prod`. Every key and channel that belongs to
    /// the name is in the namespace, too. Locks in two namespaces do not exclude each other. A lock `a` in
    /// the namespace `prod` is the lock `prod:a` of a client without a namespace. At most 128 bytes, without
    /// braces, spaces and control characters. The namespace counts in the length of a name.
    ///
    /// The record of the set (`multilock_set`) is in no namespace: all clients of the masters share it.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.config.namespace = Namespace::new(namespace);
        self
    }

    /// Sets the label of this client, by which people recognise the holder of a lock. `program@host:pid` by
    /// default; 1 to 128 bytes without control characters. It is shown by
    /// - [`inspect`](crate::MultiLock::inspect),
    /// - [`LockError::Contended`](crate::LockError::Contended),
    /// - the result of [`force_release`](crate::MultiLock::force_release).
    ///
    /// Each master stores the label under `multilock_client:` and the client's id, in no namespace, for three
    /// minutes longer than the client's longest lease. The client sends it in the background, when it
    /// connects and then every minute. A user without the permission to write there has no label; nothing
    /// else depends on it.
    pub fn client_label(mut self, label: impl Into<String>) -> Self {
        self.config.client_label = Some(label.into());
        self
    }

    /// Sets the time that a round waits for a master. 50 ms by default.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.config.node_timeout = timeout;
        self
    }

    /// Sets the time that one attempt to connect to a master may take. 1 s by default. It covers the lookup
    /// of the host's name, the connection, TLS, credentials and set-up. All addresses of the host are tried
    /// at once.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect_timeout = timeout;
        self
    }

    /// Sets the part of every lease that is not trusted, because the clocks of client and masters may run at
    /// different rates. 0.01 (1 %) by default and at least; 2 ms are added. NTP daemons slew by up to 0.05 %
    /// (ntpd) or, if so configured, 8 % (chronyd).
    ///
    /// A larger factor shortens the validity of this client's own holds. From 0.17 on they are renewed more often than after
    /// each third of their lease. It lengthens the time after which this client
    /// counts a master that has just started: 33 s with 0.1, 45 s with 0.5. It also raises the shortest lease and the
    /// shortest [`Quarantine::For`], and lowers the longest [`node_timeout`](Self::node_timeout).
    ///
    /// Steps of clocks harm the leases of other clients, so steps are detected with a factor of 1 % in any case. If a
    /// master's clock gains more than 0.5 % on this client's, it therefore counts as a clock that steps, and
    /// the master has no vote for a while.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Masters;
    /// use std::time::Duration;
    ///
    /// let masters = cluster.connect(Masters::builder().drift_factor(0.1)).await?;
    /// let guard = masters.red_lock("report").lease(Duration::from_secs(10)).lock().await?;
    /// assert!(guard.validity() < Duration::from_secs(9));
    /// # Ok(()) }
    /// ```
    pub fn drift_factor(mut self, factor: f64) -> Self {
        self.config.drift_factor = factor;
        self
    }

    /// Accepts masters that evict keys when their memory is full. Such a master may forget a lock at any
    /// moment. Off by default.
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.config.accepted.eviction = allow;
        self
    }

    /// Accepts masters that do not report whether they evict keys, as some services do not (Redis Enterprise
    /// and Redis Cloud). Off by default. You vouch that none of them evicts. Unlike
    /// [`allow_eviction`](Self::allow_eviction), which covers this too, it still refuses a master that
    /// reports eviction. So a changed setting is noticed at the next connection, if the master shows it.
    ///
    /// ```
    /// use multilock::Masters;
    ///
    /// // In each database's settings, eviction is off.
    /// let builder = Masters::builder()
    ///     .nodes(["redis://lock-1.example.com:14001", "redis://lock-2.example.com:14002", "redis://lock-3.example.com:14003"])
    ///     .allow_unknown_eviction(true);
    /// ```
    pub fn allow_unknown_eviction(mut self, allow: bool) -> Self {
        self.config.accepted.unknown_eviction = allow;
        self
    }

    /// Accepts masters that do not report whether they are masters, neither by `INFO` nor by `ROLE`, as some
    /// services do not (Upstash). Off by default. A master that reports to be a replica is still refused. You
    /// vouch for two things:
    /// - None of them is a replica.
    /// - A replica that takes the place of one has all writes that it acknowledged.
    ///
    /// ```
    /// use multilock::Masters;
    ///
    /// // Three databases of the provider, each in one region, without replicas that may take its place.
    /// let builder = Masters::builder()
    ///     .nodes(["redis://db-1.example.com", "redis://db-2.example.com", "redis://db-3.example.com"])
    ///     .allow_unknown_eviction(true)
    ///     .allow_unknown_role(true);
    /// ```
    pub fn allow_unknown_role(mut self, allow: bool) -> Self {
        self.config.accepted.unknown_role = allow;
        self
    }

    /// Sets the time after its start for which a master has no vote. [`Quarantine::Auto`] by default.
    pub fn quarantine(mut self, quarantine: Quarantine) -> Self {
        self.config.quarantine = quarantine;
        self
    }

    /// Sets the masters that a first attempt at a lock asks. [`Rounds::Adaptive`] by default.
    ///
    /// ```
    /// use multilock::{Masters, Rounds};
    ///
    /// let masters = ["redis://db-1.example.com", "redis://db-2.example.com", "redis://db-3.example.com"];
    /// // Each hold has its slack from the start, also while the service is busy.
    /// let builder = Masters::builder().nodes(masters).rounds(Rounds::All);
    /// ```
    pub fn rounds(mut self, rounds: Rounds) -> Self {
        self.config.rounds = rounds;
        self
    }

    /// Checks the record of each master with every vote. The record shows since when the master's memory
    /// counts. Costs each master one `GET` a vote. Off by default.
    ///
    /// With it, two kinds of masters have no vote for as long as after a start. One is a master that was wiped while
    /// it went on running (`FLUSHALL`, `FLUSHDB`), the other a master that was replaced behind its address. Without
    /// the option, clients that are connected do not notice.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Masters;
    ///
    /// let masters = cluster.connect(Masters::builder().strict(true)).await?;
    /// let guard = masters.red_lock("report").lock().await?;
    /// cluster.iter().for_each(|master| master.flush_all());
    /// // Nobody else gets it while the guard may be valid.
    /// assert!(masters.red_lock("report").try_lock().await.is_err());
    /// # Ok(()) }
    /// ```
    pub fn strict(mut self, strict: bool) -> Self {
        self.config.strict = strict;
        self
    }

    /// Makes waiters of this client and of Redisson's wake each other, for names that both lock. Off by default. Costs each
    /// master two commands more for each name that is released, three where somebody listens, and one or two for each
    /// waiting `RFairLock`.
    ///
    /// Locks of both exclude each other anyway; only the time that a waiter loses depends on the option. With it:
    /// - A release and a [force](crate::MultiLock::force_release) are announced on Redisson's channels, also to the first waiter
    ///   for a fair lock (`RFairLock`).
    /// - The first waiter behind a lock of Redisson's listens to these channels.
    /// - A waiter for all masters ([`Policy::MultiLock`]) that has met a lock of Redisson's asks the first master alone, keeps it,
    ///   and then asks the others for at most 50 ms. List the masters in the order of Redisson's list.
    /// - If clients of Redisson's listen, the next waiter of this crate asks 1 to 2 ms later, so that they have a turn.
    ///
    /// Without it, a waiter behind a lock that was released early finds that out by its timer:
    ///
    /// | waits | behind | wakes after |
    /// |---|---|---|
    /// | ours | a lock of Redisson's | at most 5 s, or 2 ms after the end of the lease if that is earlier |
    /// | Redisson's | a lock of ours | the end of the lease: at most 30 s |
    ///
    /// Turn it on in every client that locks the same names as Redisson. Announcing and listening need more permissions
    /// (see *Permissions* in [`guide::servers`](crate::guide::servers)).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (_, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Masters;
    ///
    /// // Services in Java lock the same names.
    /// let masters = cluster.connect(Masters::builder().beside_redisson(true)).await?;
    /// masters.red_lock("invoice:42").lock().await?.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub fn beside_redisson(mut self, beside: bool) -> Self {
        self.config.beside_redisson = beside;
        self
    }

    /// Makes [`connect`](Self::connect) refuse a list with any unfit master, and wait the whole connect
    /// timeout for each master. Off by default: a majority of fit masters is enough.
    ///
    /// Even so, a master that is out of reach is no error while a majority is connected.
    /// [`connect_lazy`](Self::connect_lazy) waits for no master, so the option changes nothing there.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::{ConnectError, Masters, Unfit};
    ///
    /// cluster.master(2).set_unfit(Some(Unfit::Replica));
    /// // Two of three will do.
    /// cluster.connect(Masters::builder()).await?;
    /// // A deployment check wants to know of the third.
    /// let refused = cluster.connect(Masters::builder().require_all(true)).await;
    /// assert!(matches!(refused, Err(ConnectError::Unfit { reason: Unfit::Replica, .. })));
    /// # Ok(()) }
    /// ```
    pub fn require_all(mut self, require: bool) -> Self {
        self.config.require_all = require;
        self
    }

    /// Connects to all masters at once, and keeps the connections up in the background.
    ///
    /// Succeeds with a majority of fit masters. Once these are connected, the other masters have one
    /// [`node_timeout`](Self::node_timeout) more. A master that is still missing then, or is unfit, causes
    /// one warning in the log and has no vote; [`Masters::status`] shows the reason. The client goes on
    /// trying until the master can be used.
    ///
    /// Masters have no vote for 31 s after the first client of a new set, and after a restart
    /// ([`Quarantine`]). So the first lock may wait for that long. One line in the log (`INFO`) reports it,
    /// and [`Masters::ready`] waits for its end. [`for_tests`](Self::for_tests) shortens it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use multilock::{ConnectError, Masters};
    ///
    /// let refused = Masters::builder().connect().await;
    /// assert!(matches!(refused, Err(ConnectError::Invalid(invalid)) if invalid.field == "nodes"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ConnectError::Invalid`] for an option, before the client connects to a master.
    /// - [`ConnectError::Unfit`] as soon as too many masters are unfit for a majority, or one is in another
    ///   set.
    /// - [`ConnectError::TooFew`] without a majority a node timeout after the end of the connect timeout, or once
    ///   every master has answered.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its end, every connection is closed again. A
    /// [`client_label`](Self::client_label) that a master has stored by then stays there for its time.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn connect(self) -> Result<Masters, ConnectError> {
        let config = self.config.clone();
        let connection_name = connection_name(self.nodes.len());
        let nodes = endpoints(self.servers(connection_name).await?);
        connect(nodes, config, Clock::Host, Random::from_host()).await
    }

    /// Checks the options, and returns before a connection is made: the client connects in the background.
    ///
    /// For a service that is to start while its masters are down. Until enough masters are connected, `lock`
    /// waits and `try_lock` answers [`LockError::Unreachable`](crate::LockError::Unreachable);
    /// [`Masters::ready`] waits for them. A master that [`connect`](Self::connect) would refuse has no vote,
    /// and [`Masters::status`] shows the reason. Too many unfit masters make a lock answer
    /// [`LockError::Misconfigured`](crate::LockError::Misconfigured).
    ///
    /// Reads certificate files, which blocks for milliseconds.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use multilock::{Masters, NodeError};
    ///
    /// let masters = Masters::builder()
    ///     .nodes(["redis://127.0.0.1:7401", "redis://127.0.0.1:7402", "redis://127.0.0.1:7403"])
    ///     .connect_lazy()?;
    /// assert_eq!(masters.status().nodes[0].connection, Err(NodeError::Connecting));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] names the option that cannot be used, or `runtime` outside a tokio runtime.
    pub fn connect_lazy(self) -> Result<Masters, InvalidInput> {
        let config = self.config.clone();
        let connection_name = connection_name(self.nodes.len());
        let nodes = endpoints(self.servers_now(&connection_name)?);
        start_lazily(nodes, config, Clock::Host, Random::from_host())
    }

    /// Settings for connections to each master, in their order.
    pub(crate) async fn servers(self, connection_name: Arc<str>) -> Result<Vec<Server>, ConnectError> {
        let addresses = self.addresses()?;
        // Read before the client connects, so that the reading does not use the time of a connection.
        let shared = if self.shares_tls(&addresses) {
            Some(Tls::load(self.tls_files.clone()).await?)
        } else {
            None
        };
        Ok(self.servers_at(addresses, shared.as_ref(), &connection_name))
    }

    /// Settings as by [`Self::servers`], without awaiting: certificates are read on this thread.
    fn servers_now(self, connection_name: &Arc<str>) -> Result<Vec<Server>, InvalidInput> {
        let addresses = self.addresses()?;
        let shares_tls = self.shares_tls(&addresses);
        let shared = shares_tls.then(|| Tls::read(&self.tls_files)).transpose()?;
        Ok(self.servers_at(addresses, shared.as_ref(), connection_name))
    }

    fn servers_at(
        self,
        addresses: Vec<Address>,
        shared: Option<&Tls>,
        connection_name: &Arc<str>,
    ) -> Vec<Server> {
        let server = |(node, address): (Node, Address)| {
            let shared = shared.filter(|_| address.is_tls()).cloned();
            Server {
                address,
                lookup: Lookup::default(),
                credentials: node.credentials,
                tls: node.tls.or_else(|| shared.map(Tls::with_sessions_of_its_own)),
                connect_timeout: self.config.connect_timeout,
                accepted: self.config.accepted,
                connection_name: Arc::clone(connection_name),
            }
        };
        self.nodes.into_iter().zip(addresses).map(server).collect()
    }

    /// Addresses of all masters, or the option that cannot be used.
    pub(crate) fn addresses(&self) -> Result<Vec<Address>, InvalidInput> {
        self.config.check(self.nodes.len())?;
        let numbered = self.nodes.iter().zip(1..);
        let addresses = numbered.map(|(node, number)| node.address(number));
        let addresses: Vec<Address> = addresses.collect::<Result<_, _>>()?;
        self.check_labels(&addresses)?;
        self.tls_files.check()?;
        match self.tls_files.named() {
            Some((name, file)) if !self.shares_tls(&addresses) => {
                let allowed = "a file if a URL begins with rediss://";
                Err(InvalidInput::new(name, file.display(), allowed))
            }
            _ => Ok(addresses),
        }
    }

    /// Refuses a label that is not unique among labels and addresses. Two masters at one address are found by
    /// their servers' ids.
    fn check_labels(&self, addresses: &[Address]) -> Result<(), InvalidInput> {
        for (at, (node, address)) in self.nodes.iter().zip(addresses).enumerate() {
            let is_same = |other: usize| other != at && addresses[other].label == address.label;
            if node.has_label() && (0..addresses.len()).any(is_same) {
                let allowed = "a label that no other master has, nor as its address";
                return Err(InvalidInput::new(
                    "label",
                    format!("{:?}", address.label),
                    allowed,
                ));
            }
        }
        Ok(())
    }

    /// Whether some master has TLS without a configuration of its own.
    fn shares_tls(&self, addresses: &[Address]) -> bool {
        let mut masters = self.nodes.iter().zip(addresses);
        masters.any(|(node, address)| address.is_tls() && node.tls.is_none())
    }
}

/// Name of one pool's connections in `CLIENT LIST`, the same on each of its masters. The name shows which clients
/// list other masters. Its id is not the client's id, which is part of the client's owners.
fn connection_name(masters: usize) -> Arc<str> {
    format!("{POOL}{}:{masters}", Random::from_host().uuid()).into()
}

fn endpoints(servers: Vec<Server>) -> Vec<Box<dyn Endpoint>> {
    let endpoint = |server| Box::new(server) as Box<dyn Endpoint>;
    servers.into_iter().map(endpoint).collect()
}

/// Starts a client, which connects in the background. Needs a tokio runtime.
fn start(nodes: Vec<Box<dyn Endpoint>>, config: Config, clock: Clock, random: Random) -> Masters {
    let client = Arc::new(ClientCore::new(Pool::start(nodes, config, clock, random)));
    watchdog::start(&client);
    recall::start(&client);
    if METERED {
        client.keep_published();
    }
    Masters { client }
}

/// Starts a client as [`start`] does, but is refused outside a runtime.
pub(crate) fn start_lazily(
    nodes: Vec<Box<dyn Endpoint>>,
    config: Config,
    clock: Clock,
    random: Random,
) -> Result<Masters, InvalidInput> {
    if Handle::try_current().is_err() {
        let allowed = "a call inside of a tokio runtime, which drives the connections";
        return Err(InvalidInput::new("runtime", "none", allowed));
    }
    Ok(start(nodes, config, clock, random))
}

/// Starts a client and waits until it can be used.
pub(crate) async fn connect(
    nodes: Vec<Box<dyn Endpoint>>,
    config: Config,
    clock: Clock,
    random: Random,
) -> Result<Masters, ConnectError> {
    let masters = start(nodes, config, clock, random);
    until_connected(&masters.client.pool).await?;
    let first_lock = masters.status().ready_in(Policy::RedLock);
    if let Some(remaining) = first_lock.filter(|remaining| !remaining.is_zero()) {
        log::first_lock_waits(remaining);
    }
    Ok(masters)
}
