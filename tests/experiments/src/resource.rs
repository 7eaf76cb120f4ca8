//! The set, in a process of its own. It applies each write when it arrives.
//!
//! A line of a client is `read TOKEN` or `write TOKEN NUMBERS`, with the numbers separated by commas. The answer is the set,
//! or `written`, or `stale`. A token of 0 is compared with nothing. Any other is stale if a larger one was seen, with a write
//! or with a read: a set that was read under a larger token would be written back over this one.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin};
use tokio::net::{TcpListener, TcpStream};

/// First argument of the process.
pub(crate) const ROLE: &str = "resource";

/// Answer to a write that was applied.
pub(crate) const WRITTEN: &str = "written";

#[derive(Debug, Default)]
struct Guarded {
    /// As it was written last.
    numbers: String,
    largest: u64,
}

impl Guarded {
    /// Answers one line; `None` for a line that is none.
    fn answer(&mut self, line: &str) -> Option<String> {
        let mut words = line.splitn(3, ' ');
        let (verb, token) = (words.next()?, words.next()?.parse::<u64>().ok()?);
        if token > 0 && token < self.largest {
            return Some("stale".to_owned());
        }
        self.largest = self.largest.max(token);
        match (verb, words.next()) {
            ("read", None) => Some(self.numbers.clone()),
            ("write", Some(numbers)) => {
                numbers.clone_into(&mut self.numbers);
                Some(WRITTEN.to_owned())
            }
            _ => None,
        }
    }
}

/// Prints its port, and serves until stdin is closed.
pub(crate) async fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let guarded = Arc::new(Mutex::new(Guarded::default()));
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        tokio::select! {
            line = lines.next_line() => if line?.is_none() {
                return Ok(());
            },
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                tokio::spawn(serve_one(stream, Arc::clone(&guarded)));
            }
        }
    }
}

async fn serve_one(mut stream: TcpStream, guarded: Arc<Mutex<Guarded>>) -> Result<()> {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = guarded.lock().expect("no panic").answer(&line);
        let answer = answer.with_context(|| format!("no request: {line}"))?;
        write.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_behind_a_later_read_is_stale() {
        let mut guarded = Guarded::default();
        let mut answer = |line: &str| guarded.answer(line);
        assert_eq!(answer("write 1 7"), Some(WRITTEN.into()));
        assert_eq!(answer("read 2"), Some("7".into()));
        assert_eq!(answer("write 1 8"), Some("stale".into()));
        assert_eq!(answer("write 2 7,9"), Some(WRITTEN.into()));
        assert_eq!(answer("read 0"), Some("7,9".into()), "nothing is compared");
        assert_eq!(answer("write 0 1"), Some(WRITTEN.into()));
        for unknown in ["", "read", "read one", "read 3 4", "write 3"] {
            assert_eq!(answer(unknown), None, "{unknown}");
        }
    }
}
