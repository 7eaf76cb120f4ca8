//! A TCP proxy in front of one server: a network that misbehaves on demand.

mod line;
mod link;
mod pump;
mod timer;

use std::mem::take;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub use line::Direction;
use line::Line;
use link::{Abandoned, Link};

/// Ends with all its connections when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    door: Mutex<Door>,
    abandoned: Mutex<Vec<Abandoned>>,
}

#[derive(Debug)]
struct Shared {
    target: AtomicU16,
    to_server: watch::Sender<Line>,
    to_client: watch::Sender<Line>,
    links: Mutex<Vec<Link>>,
    accepted: AtomicUsize,
}

/// One of the two is there.
#[derive(Debug, Default)]
struct Door {
    accepting: Option<JoinHandle<()>>,
    /// Bound but not listening: the system refuses connections, and gives the port to nobody else.
    reserved: Option<TcpSocket>,
}

impl Proxy {
    /// Listens on a free port and passes every connection on to `target` of this machine.
    pub async fn start(target: u16) -> Self {
        let shared = Arc::new(Shared {
            target: AtomicU16::new(target),
            to_server: watch::Sender::default(),
            to_client: watch::Sender::default(),
            links: Mutex::default(),
            accepted: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let port = listener
            .local_addr()
            .expect("a bound listener has an address")
            .port();
        let proxy = Self {
            port,
            shared,
            door: Mutex::default(),
            abandoned: Mutex::default(),
        };
        proxy.open(listener);
        proxy
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Passes connections that come from now on to another server; see [`reset_connections`](Self::reset_connections).
    pub fn point_to(&self, target: u16) {
        self.shared.target.store(target, Ordering::SeqCst);
    }

    /// How many connections were accepted since the start.
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Sets a latency, without a limit of bandwidth. All bytes that arrive from now on are delivered that much later,
    /// in order. It is exact to about a tenth of a millisecond on a machine that is not busy.
    pub fn set_delay(&self, direction: Direction, delay: Duration) {
        self.line(direction).send_modify(|line| line.delay = delay);
    }

    /// Holds back all undelivered bytes, the end of a connection included.
    pub fn pause(&self, direction: Direction) {
        self.line(direction).send_modify(|line| line.paused = true);
    }

    pub fn resume(&self, direction: Direction) {
        self.line(direction).send_modify(|line| line.paused = false);
    }

    /// Closes the current connections on both sides and refuses new ones until [`heal`](Self::heal).
    pub async fn cut(&self) {
        let accepting = lock(&self.door).accepting.take();
        if let Some(accepting) = accepting {
            accepting.abort();
            let _ = accepting.await;
            let reserved = reserve(self.port).await;
            lock(&self.door).reserved = Some(reserved);
        }
        self.reset_connections().await;
    }

    /// Takes connections again after a [`cut`](Self::cut).
    pub fn heal(&self) {
        let reserved = lock(&self.door).reserved.take();
        if let Some(socket) = reserved {
            self.open(socket.listen(1024).expect("a reserved port can be listened on"));
        }
    }

    /// Closes the current connections on both sides; new ones are welcome.
    pub async fn reset_connections(&self) {
        for link in self.take_links() {
            link.close().await;
        }
    }

    /// Closes the client's side of the current connections while the server's side stays open. Bytes that clients
    /// have sent and the server has not received are held for [`deliver_abandoned`](Self::deliver_abandoned).
    ///
    /// None of these bytes arrives by itself, with any delay. To be sure that something is held, pause the direction
    /// first.
    pub async fn abandon(&self) {
        for link in self.take_links() {
            let abandoned = link.abandon().await;
            lock(&self.abandoned).extend(abandoned);
        }
    }

    /// Delivers the bytes of abandoned connections, in the order of their opening. When it returns, the server has
    /// run all of them and closed the connections. Returns the number of bytes.
    pub async fn deliver_abandoned(&self) -> usize {
        let abandoned = take(&mut *lock(&self.abandoned));
        let mut delivered = 0;
        for abandoned in abandoned {
            delivered += abandoned
                .deliver()
                .await
                .unwrap_or_else(|error| panic!("{error:#}"));
        }
        delivered
    }

    fn line(&self, direction: Direction) -> &watch::Sender<Line> {
        match direction {
            Direction::ToServer => &self.shared.to_server,
            Direction::ToClient => &self.shared.to_client,
        }
    }

    fn open(&self, listener: TcpListener) {
        let accepting = tokio::spawn(accept(listener, Arc::clone(&self.shared)));
        lock(&self.door).accepting = Some(accepting);
    }

    fn take_links(&self) -> Vec<Link> {
        take(&mut *lock(&self.shared.links))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(accepting) = &lock(&self.door).accepting {
            accepting.abort();
        }
        lock(&self.shared.links).iter().for_each(Link::abort);
    }
}

/// A panic elsewhere is no reason to leave sockets open.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let ways = (shared.to_server.subscribe(), shared.to_client.subscribe());
        let mut links = lock(&shared.links);
        links.retain(|link| !link.is_over());
        links.push(Link::start(client, shared.target.load(Ordering::SeqCst), ways));
        shared.accepted.fetch_add(1, Ordering::SeqCst);
    }
}

/// Takes the port of a listener that has just been closed.
async fn reserve(port: u16) -> TcpSocket {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    for _ in 0..100 {
        let socket = TcpSocket::new_v4().expect("a socket");
        // The closed connections of the port are still in TIME_WAIT.
        socket.set_reuseaddr(true).expect("an option of every TCP socket");
        if socket.bind(address).is_ok() {
            return socket;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("port {port} was taken while the proxy was being cut");
}
