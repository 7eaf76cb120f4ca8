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

    /// Answers commands one after the other, and passes on the messages that the server pushes. Over RESP2, a
    /// connection belongs to the client and the real server alone from its first subscription on.
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
            if let Some(server) = &mut server {
                pass_pushed(&mut client, server).await?;
            }
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
            let subscribes = words[0].to_uppercase().ends_with("SUBSCRIBE");
            let mut confirmations = if subscribes { words.len() - 1 } else { 0 };
            let reply = loop {
                let reply = reply(server).await?;
                if subscribes && reply.starts_with(b"*") {
                    self.subscriber.store(true, Ordering::SeqCst);
                    client.get_mut().write_all(&reply).await?;
                    return copy_bidirectional(&mut client, server).await.map(drop);
                }
                confirmations = confirmations.saturating_sub(usize::from(is_confirmation(&reply)));
                let is_last = !reply.starts_with(b">") || (subscribes && confirmations == 0);
                if is_last {
                    break reply;
                }
                client.get_mut().write_all(&reply).await?;
            };
            let reply = edit.map_or(reply.clone(), |edit| edit.apply(&reply).into_bytes());
            client.get_mut().write_all(&reply).await?;
        }
    }
}

/// Passes on the messages that the server pushes, until the client asks for something.
async fn pass_pushed(client: &mut BufReader<TcpStream>, server: &mut BufReader<TcpStream>) -> Result<()> {
    loop {
        tokio::select! {
            biased;
            asked = client.fill_buf() => return asked.map(drop),
            pushed = server.fill_buf() => {
                if pushed?.is_empty() {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
        }
        let pushed = reply(server).await?;
        client.get_mut().write_all(&pushed).await?;
    }
}

/// Whether the server confirms a subscription or its end, as RESP3 has it.
fn is_confirmation(reply: &[u8]) -> bool {
    let kind = reply.split(|byte| *byte == b'\n').nth(2).unwrap_or_default();
    reply.starts_with(b">") && kind.trim_ascii_end().ends_with(b"subscribe")
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
