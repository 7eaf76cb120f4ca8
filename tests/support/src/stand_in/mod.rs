//! A server that answers as another one does: by a script of answers, with a real server behind it for the rest.

mod link;
mod script;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinHandle};

use super::server::Server;
use link::Link;
pub use script::Script;

/// Ends with all its connections when dropped.
#[derive(Debug)]
pub struct StandIn {
    port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    /// The port of the server behind, if there is one.
    behind: Option<u16>,
    script: Mutex<Script>,
    links: Mutex<Vec<(AbortHandle, Arc<Link>)>>,
    accepted: AtomicUsize,
    received: Mutex<Vec<String>>,
}

impl StandIn {
    /// Starts before a real server, and passes on the commands that the script does not answer.
    pub async fn before(server: &Server, script: Script) -> Self {
        Self::start(Some(server.port()), script).await
    }

    /// Starts alone, and knows only the answers of the script.
    pub async fn alone(script: Script) -> Self {
        Self::start(None, script).await
    }

    async fn start(behind: Option<u16>, script: Script) -> Self {
        let shared = Arc::new(Shared {
            behind,
            script: Mutex::new(script),
            links: Mutex::default(),
            accepted: AtomicUsize::new(0),
            received: Mutex::default(),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let port = listener
            .local_addr()
            .expect("a bound listener has an address")
            .port();
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            port,
            shared,
            accepting,
        }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.label())
    }

    /// The name of the master in votes and errors.
    pub fn label(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Answers by another script from now on.
    pub fn follow(&self, script: Script) {
        *lock(&self.shared.script) = script;
    }

    /// How many connections were accepted since the start.
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// The commands that it was asked, without the ones behind a subscription over RESP2.
    pub fn received(&self) -> Vec<String> {
        lock(&self.shared.received).clone()
    }

    /// Forgets the received commands.
    pub fn forget(&self) {
        lock(&self.shared.received).clear();
    }

    /// Ends all connections.
    pub fn reset(&self) {
        self.end(|_| true);
    }

    /// Ends the connections that are for messages alone, as they are over RESP2.
    pub fn reset_subscribers(&self) {
        self.end(Link::is_subscriber);
    }

    fn end(&self, which: impl Fn(&Link) -> bool) {
        let mut links = lock(&self.shared.links);
        links.retain(|(task, _)| !task.is_finished());
        let ended = links.iter().filter(|(_, link)| which(link));
        ended.for_each(|(task, _)| task.abort());
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.accepting.abort();
        self.reset();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let link = Arc::new(Link::default());
        let serving = tokio::spawn({
            let (shared, link) = (Arc::clone(&shared), Arc::clone(&link));
            async move {
                let answers = |words: &[String]| {
                    lock(&shared.received).push(words.join(" "));
                    lock(&shared.script).answer(words)
                };
                // A connection that breaks ends like a closed connection.
                let _ = link.serve(client, shared.behind, answers).await;
            }
        });
        lock(&shared.links).push((serving.abort_handle(), link));
        shared.accepted.fetch_add(1, Ordering::SeqCst);
    }
}

/// A panic elsewhere is no reason to leave sockets open.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
