//! One connection through the proxy, from its start to its end.

use std::io::Read;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::line::Line;
use super::pump::Pump;

/// Time for a server to take the bytes of an abandoned connection, and to close it.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

type Lines = (watch::Receiver<Line>, watch::Receiver<Line>);

/// A connection that carries bytes.
#[derive(Debug)]
pub struct Link {
    abandon: oneshot::Sender<oneshot::Sender<Abandoned>>,
    task: JoinHandle<()>,
}

/// A connection that its client has left, unknown to the server.
#[derive(Debug)]
pub struct Abandoned {
    bytes: Vec<u8>,
    from_server: OwnedReadHalf,
    to_server: OwnedWriteHalf,
}

impl Link {
    /// `lines` are the one to the server and the one to the client.
    pub fn start(client: TcpStream, target: u16, lines: Lines) -> Self {
        let (abandon, abandoned) = oneshot::channel();
        let task = tokio::spawn(async move {
            // A server that cannot be reached closes the client's connection, as far as a proxy can tell it.
            let _ = carry(client, target, lines, abandoned).await;
        });
        Self { abandon, task }
    }

    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Closes both sides; done when it returns.
    pub async fn close(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Closes the client's side. `None` if the connection was over already.
    pub async fn abandon(self) -> Option<Abandoned> {
        let (reply, abandoned) = oneshot::channel();
        self.abandon.send(reply).ok()?;
        abandoned.await.ok()
    }

    /// Closes both sides soon, for a Drop that cannot wait.
    pub fn abort(&self) {
        self.task.abort();
    }
}

async fn carry(
    client: TcpStream,
    target: u16,
    (to_server, to_client): Lines,
    abandoned: oneshot::Receiver<oneshot::Sender<Abandoned>>,
) -> Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await?;
    for socket in [&client, &server] {
        socket.set_nodelay(true)?;
    }
    let (from_client, client) = client.into_split();
    let (from_server, server) = server.into_split();
    let mut up = Pump::new(from_client, server, to_server);
    let mut down = Pump::new(from_server, client, to_client);
    let reply = tokio::select! {
        // Nothing more may be delivered once the order is there.
        biased;
        reply = abandoned => reply,
        _ = async { tokio::join!(up.run(), down.run()) } => return Ok(()),
    };
    if let Ok(reply) = reply {
        let _ = reply.send(take_over(up, down)?);
    }
    Ok(())
}

/// Closes the client's side and keeps the bytes that it had sent.
fn take_over(up: Pump, down: Pump) -> Result<Abandoned> {
    let (mut bytes, from_client, to_server) = up.undelivered();
    let (_, from_server, to_client) = down.undelivered();
    // The client has sent all bytes that its system has accepted, though the proxy may not have read them yet.
    let mut client = from_client.reunite(to_client)?.into_std()?;
    // Ends by an error in any case but one: there is nothing more for now, or the client has broken off.
    let _ = client.read_to_end(&mut bytes);
    Ok(Abandoned {
        bytes,
        from_server,
        to_server,
    })
}

impl Abandoned {
    /// Sends the held bytes and then the end of the stream. Waits until the server closes its side in turn: by then
    /// it has run everything. Returns the number of bytes.
    pub async fn deliver(mut self) -> Result<usize> {
        let taken = async {
            let mut answers = Vec::new();
            let send = async {
                self.to_server.write_all(&self.bytes).await?;
                self.to_server.shutdown().await
            };
            // Both at once: a server that cannot send its answers stops reading.
            let (outcome, _) = tokio::join!(send, self.from_server.read_to_end(&mut answers));
            outcome
        };
        timeout(TAKEN_WITHIN, taken)
            .await
            .with_context(|| format!("the server did not take the bytes within {TAKEN_WITHIN:?}"))??;
        Ok(self.bytes.len())
    }
}
