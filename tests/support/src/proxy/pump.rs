//! One direction of one connection.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use super::line::Line;
use super::timer::sleep_until;

const CHUNK: usize = 16 * 1024;

/// Bytes as they arrived together, and when they may go on. No bytes: the end of the stream.
#[derive(Debug)]
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

/// Carries bytes from one socket to another along a [`Line`].
///
/// Reading and writing are one loop over a queue, and no step of it loses anything when it is dropped:
/// an abandoned connection takes the queue over as it is.
#[derive(Debug)]
pub struct Pump {
    pub from: OwnedReadHalf,
    pub to: OwnedWriteHalf,
    line: watch::Receiver<Line>,
    queue: VecDeque<Chunk>,
    /// The source may still send.
    open: bool,
    /// The destination takes nothing any more. Later bytes are dropped, so that the source sees no difference.
    broken: bool,
}

impl Pump {
    pub fn new(from: OwnedReadHalf, to: OwnedWriteHalf, line: watch::Receiver<Line>) -> Self {
        Self {
            from,
            to,
            line,
            queue: VecDeque::new(),
            open: true,
            broken: false,
        }
    }

    /// Runs until the end of the stream has been carried too.
    pub async fn run(&mut self) {
        let mut buffer = vec![0; CHUNK];
        while self.open || !self.queue.is_empty() {
            tokio::select! {
                read = self.from.read(&mut buffer), if self.open => self.arrived(read.map(|n| &buffer[..n])),
                () = may_deliver(self.queue.front(), &mut self.line, &self.to) => self.deliver().await,
            }
        }
    }

    fn arrived(&mut self, read: io::Result<&[u8]>) {
        // A connection that breaks ends like a closed connection: there is nothing more to carry.
        let bytes = read.unwrap_or_default().to_vec();
        self.open = !bytes.is_empty();
        let due = Instant::now() + self.line.borrow().delay;
        // A delay that was shortened meanwhile must not let later bytes overtake.
        let due = self.queue.back().map_or(due, |last| due.max(last.due));
        self.queue.push_back(Chunk { due, bytes });
    }

    async fn deliver(&mut self) {
        // Between the wait and now the line may have been paused; its word holds from the moment it is given.
        if self.line.borrow().paused {
            return;
        }
        let Some(chunk) = self.queue.front_mut() else {
            return;
        };
        if chunk.bytes.is_empty() {
            let _ = self.to.shutdown().await;
            self.queue.pop_front();
        } else if self.broken {
            self.queue.pop_front();
        } else {
            match self.to.try_write(&chunk.bytes) {
                Ok(n) if n == chunk.bytes.len() => drop(self.queue.pop_front()),
                Ok(n) => drop(chunk.bytes.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.broken = true,
            }
        }
    }

    /// Ends the pump. Returns the undelivered bytes, and both sockets.
    pub fn undelivered(self) -> (Vec<u8>, OwnedReadHalf, OwnedWriteHalf) {
        let bytes = self.queue.into_iter().flat_map(|chunk| chunk.bytes).collect();
        (bytes, self.from, self.to)
    }
}

/// Waits until the chunk is due, the line is not paused, and the destination takes bytes.
async fn may_deliver(chunk: Option<&Chunk>, line: &mut watch::Receiver<Line>, to: &OwnedWriteHalf) {
    let Some(chunk) = chunk else {
        return pending().await;
    };
    sleep_until(chunk.due).await;
    if line.wait_for(|line| !line.paused).await.is_err() {
        // The proxy is gone and will end this task.
        pending::<()>().await;
    }
    // An error is found again by the write.
    let _ = to.writable().await;
}
