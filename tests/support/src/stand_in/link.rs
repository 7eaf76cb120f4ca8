//! One connection to a stand-in.

use std::io::{Error, ErrorKind, Result};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::TcpStream;

use super::script::Answer;

#[derive(Debug, Default)]
pub struct Link {
    subscriber: AtomicBool,
}

impl Link {
    pub fn is_subscriber(&self) -> bool {
        self.subscriber.load(Ordering::SeqCst)
    }

    /// Answers commands one after the other. From its first subscription on, the connection is the client's and the
    /// real server's alone, since from then on more comes than answers.
    pub async fn serve(
        &self,
        client: TcpStream,
        behind: Option<u16>,
        answers: impl Fn(&[String]) -> Answer,
    ) -> Result<()> {
        client.set_nodelay(true)?;
        let mut client = BufReader::new(client);
        let mut server = match behind {
            None => None,
            Some(port) => {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
                server.set_nodelay(true)?;
                Some(BufReader::new(server))
            }
        };
        loop {
            let (bytes, words) = command(&mut client).await?;
            let answer = answers(&words);
            let (edit, server) = match (answer, &mut server) {
                (Answer::Says(answer), _) => {
                    client.get_mut().write_all(answer.as_bytes()).await?;
                    continue;
                }
                (Answer::Passed | Answer::Edited(_), None) => {
                    let answer = format!("-ERR unknown command '{}'\r\n", words[0]);
                    client.get_mut().write_all(answer.as_bytes()).await?;
                    continue;
                }
                (Answer::Edited(edit), Some(server)) => (Some(edit), server),
                (Answer::Passed, Some(server)) => (None, server),
            };
            server.get_mut().write_all(&bytes).await?;
            if words[0].eq_ignore_ascii_case("SUBSCRIBE") {
                self.subscriber.store(true, Ordering::SeqCst);
                return copy_bidirectional(&mut client, server).await.map(drop);
            }
            let reply = reply(server).await?;
            let reply = edit.map_or(reply.clone(), |edit| edit.apply(&reply).into_bytes());
            client.get_mut().write_all(&reply).await?;
        }
    }
}

/// A command as it came, and its words.
async fn command(client: &mut BufReader<TcpStream>) -> Result<(Vec<u8>, Vec<String>)> {
    let bytes = reply(client).await?;
    let value = redis::parse_redis_value(&bytes).ok();
    let words = value.and_then(|value| redis::from_redis_value::<Vec<String>>(value).ok());
    match words {
        Some(words) if !words.is_empty() => Ok((bytes, words)),
        _ => Err(Error::new(ErrorKind::InvalidData, "no command")),
    }
}

/// One value of the protocol, as it came.
async fn reply(from: &mut BufReader<TcpStream>) -> Result<Vec<u8>> {
    let (mut bytes, mut values) = (Vec::new(), 1_i64);
    while values > 0 {
        let start = bytes.len();
        if from.read_until(b'\n', &mut bytes).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&bytes[start..]).into_owned();
        let size = || line.trim_end()[1..].parse::<i64>().unwrap_or(0);
        values -= 1;
        match line.as_bytes()[0] {
            b'$' | b'=' | b'!' if size() >= 0 => {
                let length = bytes.len() + usize::try_from(size()).unwrap_or(0) + 2;
                let read = bytes.len();
                bytes.resize(length, 0);
                from.read_exact(&mut bytes[read..]).await?;
            }
            b'*' | b'~' | b'>' => values += size().max(0),
            b'%' => values += 2 * size(),
            _ => {}
        }
    }
    Ok(bytes)
}
