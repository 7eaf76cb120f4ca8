//! A server without a task of its own: it answers each call as soon as it is written.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A call is one byte, and its answer is that byte's number. The connection ends after the answer to the last call that
/// is served.
pub(crate) struct Server {
    serves: usize,
    served: usize,
    ended: bool,
    waiting: Vec<u8>,
    /// Received calls, in order.
    got: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    pub(crate) fn new(serves: usize) -> (Self, Arc<Mutex<Vec<u8>>>) {
        let got: Arc<Mutex<Vec<u8>>> = Arc::default();
        let this = Self {
            serves,
            served: 0,
            ended: false,
            waiting: Vec::new(),
            got: Arc::clone(&got),
        };
        (this, got)
    }
}

impl AsyncWrite for Server {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        for &call in bytes {
            this.got.lock().expect("one thread").push(call);
            if this.served < this.serves {
                this.waiting.extend(format!(":{call}\r\n").into_bytes());
                this.served += 1;
            }
            this.ended |= this.served == this.serves;
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Server {
    /// Bytes to read never wake the driver: only a call does, and its answer is there at once.
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.waiting.is_empty() {
            return if this.ended {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            };
        }
        into.put_slice(&this.waiting);
        this.waiting.clear();
        Poll::Ready(Ok(()))
    }
}
