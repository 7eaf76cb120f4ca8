//! The set, in a process of its own. It applies each write when it arrives.
//!
//! | a line of a client | answer |
//! |---|---|
//! | `read NUMBER TOKEN` | the set, its numbers separated by commas |
//! | `write NUMBER TOKEN NUMBERS` | `written` |
//! | `result` | the numbers of `Guarded::refused` and `Guarded::overtaken`, and the set |
//!
//! The first number is that of the addition. A token of 0 is compared with nothing. Any other is refused with `stale` if
//! a larger one was seen, with a write or with a read: a set that was read under a larger token would be written back
//! over this one.
//!
//! The process prints its port, and then each read and each write when it arrives.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin};
use tokio::net::{TcpListener, TcpStream};

/// First argument of the process.
pub(crate) const ROLE: &str = "resource";

/// Answer to a write that was applied.
pub(crate) const WRITTEN: &str = "written";
/// Answer to a token below the largest one.
pub(crate) const STALE: &str = "stale";

#[derive(Debug, Default)]
struct Guarded {
    /// As it was written last.
    numbers: String,
    largest: u64,
    /// Addition that has read last.
    inside: Option<u64>,
    /// Additions with a token below the largest one.
    refused: u64,
    /// Writes that arrived after another addition had read.
    overtaken: u64,
}

impl Guarded {
    /// Answers one line; `None` for a line that is none.
    fn answer(&mut self, line: &str) -> Option<String> {
        if line == "result" {
            return Some(format!("{} {} {}", self.refused, self.overtaken, self.numbers));
        }
        let mut words = line.splitn(4, ' ');
        let (verb, number) = (words.next()?, words.next()?.parse().ok()?);
        let token = words.next()?.parse().ok()?;
        match (verb, words.next()) {
            ("read", None) => Some(self.read(number, token)),
            ("write", Some(numbers)) => Some(self.write(number, token, numbers)),
            _ => None,
        }
    }

    fn read(&mut self, number: u64, token: u64) -> String {
        println!("read {number}");
        if self.is_stale(token) {
            return STALE.to_owned();
        }
        self.inside = Some(number);
        self.numbers.clone()
    }

    fn write(&mut self, number: u64, token: u64, numbers: &str) -> String {
        println!("write {number}");
        self.overtaken += u64::from(self.inside != Some(number));
        if self.is_stale(token) {
            return STALE.to_owned();
        }
        numbers.clone_into(&mut self.numbers);
        WRITTEN.to_owned()
    }

    fn is_stale(&mut self, token: u64) -> bool {
        let is_stale = token > 0 && token < self.largest;
        self.refused += u64::from(is_stale);
        self.largest = self.largest.max(token);
        is_stale
    }
}

/// Serves until stdin is closed.
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
        assert_eq!(answer("write 7 1 7"), Some(WRITTEN.into()));
        assert_eq!(answer("read 9 2"), Some("7".into()));
        assert_eq!(answer("write 8 1 8"), Some(STALE.into()));
        assert_eq!(answer("read 8 1"), Some(STALE.into()));
        assert_eq!(answer("write 9 2 7,9"), Some(WRITTEN.into()));
        assert_eq!(answer("read 1 0"), Some("7,9".into()), "nothing is compared");
        assert_eq!(answer("write 1 0 1"), Some(WRITTEN.into()));
        for unknown in ["", "read", "read 1", "read one 1", "read 3 4 5", "write 3 4"] {
            assert_eq!(answer(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_write_after_a_read_of_another_is_overtaken() {
        let mut guarded = Guarded::default();
        let mut answer = |line: &str| guarded.answer(line);
        answer("read 1 0");
        answer("write 1 0 1");
        answer("read 2 0");
        answer("read 3 0");
        assert_eq!(answer("result"), Some("0 0 1".into()));
        answer("write 2 0 1,2");
        answer("write 3 0 1,3");
        assert_eq!(answer("result"), Some("0 1 1,3".into()));
        answer("read 5 20");
        answer("read 4 10");
        answer("write 5 20 5");
        assert_eq!(
            answer("result"),
            Some("1 1 5".into()),
            "a refused read overtakes nobody"
        );
    }
}
