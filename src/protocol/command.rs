//! One script call, as the bytes that go to each master of a round.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::events::Op;
use crate::protocol::keys::Key;
use crate::values::names::Names;

/// One Lua script.
pub(crate) struct Script {
    pub(crate) op: Op,
    /// Name of its own Lua file. Its source begins with the files that it shares with other scripts.
    file: &'static str,
    pub(crate) source: &'static str,
    sha: LazyLock<String>,
}

impl Script {
    pub(crate) const fn new(op: Op, file: &'static str, source: &'static str, sha: fn() -> String) -> Self {
        Self {
            op,
            file,
            source,
            sha: LazyLock::new(sha),
        }
    }

    /// Whether a call of the script may leave a field on a master that has to be released.
    pub(crate) fn leaves_something(&self) -> bool {
        self.op == Op::Acquire
    }

    /// `SCRIPT LOAD source`
    pub(crate) fn load(&self) -> redis::Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(self.source);
        command
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file)
    }
}

/// One script call, packed once for all masters.
pub(crate) struct Request {
    pub(crate) script: &'static Script,
    bytes: Vec<u8>,
    /// Index at which `EVALSHA sha numkeys key… arg…` begins, and its number of words.
    start: usize,
    words: usize,
    /// Index behind the digest.
    tail: usize,
}

impl Request {
    /// Bytes to send.
    pub(crate) fn packed(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Words of the call, parsed from its bytes.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        words(self.packed())
    }

    /// The same call with the script's text, for a server that does not have the script.
    pub(crate) fn with_source(&self) -> Vec<u8> {
        let tail = &self.bytes[self.tail..];
        let mut packed = Vec::with_capacity(2 * HEADER + self.script.source.len() + tail.len());
        header(&mut packed, b'*', self.words);
        word(&mut packed, &["EVAL"]);
        word(&mut packed, &[self.script.source]);
        packed.extend_from_slice(tail);
        packed
    }
}

/// Room for a length in front of its data.
const HEADER: usize = 24;
/// Room for the words that do not depend on the names: the script's digest, or an owner and numbers.
const WORDS: usize = 128;

/// Packs a call, its keys before its arguments.
pub(crate) struct Encoder {
    script: &'static Script,
    bytes: Vec<u8>,
    words: usize,
    tail: usize,
}

impl Encoder {
    /// Starts a call with `keys` keys, with room for holds on these names.
    pub(crate) fn new<'a>(
        script: &'static Script,
        keys: usize,
        names: impl Iterator<Item = &'a Names>,
    ) -> Self {
        let room: usize = names
            // The name and the keys made of it: at most four keys, or three and a channel.
            .map(|names| {
                WORDS
                    + names
                        .iter()
                        .map(|name| 5 * (name.len() + Key::LONGEST_PREFIX))
                        .sum::<usize>()
            })
            .sum();
        let mut bytes = Vec::with_capacity(HEADER + WORDS + room);
        // The number of words is known at the end.
        bytes.resize(HEADER, 0);
        let mut encoder = Self {
            script,
            bytes,
            words: 0,
            tail: 0,
        };
        encoder.word("EVALSHA");
        encoder.word(&script.sha);
        encoder.tail = encoder.bytes.len();
        encoder.number(keys as u64);
        encoder
    }

    pub(crate) fn word(&mut self, text: &str) {
        self.words += 1;
        word(&mut self.bytes, &[text]);
    }

    pub(crate) fn words<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        for text in texts {
            self.word(text);
        }
    }

    pub(crate) fn keys<'a>(&mut self, keys: impl IntoIterator<Item = Key<'a>>) {
        for key in keys {
            self.words += 1;
            word(&mut self.bytes, &key.parts());
        }
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.word(itoa::Buffer::new().format(number));
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.word(if flag { "1" } else { "0" });
    }

    pub(crate) fn ms(&mut self, duration: Duration) {
        // A duration that a server cannot count was refused long before.
        self.number(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
    }

    pub(crate) fn done(mut self) -> Arc<Request> {
        let mut count = Vec::with_capacity(HEADER);
        header(&mut count, b'*', self.words);
        let start = HEADER - count.len();
        self.bytes[start..HEADER].copy_from_slice(&count);
        Arc::new(Request {
            script: self.script,
            bytes: self.bytes,
            start,
            words: self.words,
            tail: self.tail,
        })
    }
}

/// Appends one bulk string, made of these parts.
fn word(bytes: &mut Vec<u8>, parts: &[&str]) {
    let length = parts.iter().map(|part| part.len()).sum();
    bytes.reserve(HEADER + length);
    header(bytes, b'$', length);
    for part in parts {
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
}

fn header(bytes: &mut Vec<u8>, kind: u8, length: usize) {
    // Nearly every length has one digit or two.
    match u8::try_from(length) {
        Ok(length @ ..10) => bytes.extend_from_slice(&[kind, b'0' + length, b'\r', b'\n']),
        Ok(length @ ..100) => {
            let (tens, ones) = (b'0' + length / 10, b'0' + length % 10);
            bytes.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']);
        }
        _ => {
            bytes.push(kind);
            bytes.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(any(test, feature = "test-util"))]
fn words(packed: &[u8]) -> Vec<Vec<u8>> {
    let word = |word| match word {
        redis::Value::BulkString(bytes) => bytes,
        _ => Vec::new(),
    };
    match redis::parse_redis_value(packed) {
        Ok(redis::Value::Array(words)) => words.into_iter().map(word).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SCRIPT: Script = Script::new(Op::Inspect, "inspect", "return 1", || "digest".into());

    fn texts(packed: &[u8]) -> Vec<String> {
        let texts = words(packed).into_iter().map(String::from_utf8);
        texts.collect::<Result<_, _>>().expect("text")
    }

    #[test]
    fn a_forgotten_script_is_sent_whole_with_the_same_words() {
        let names = Names::from("a");
        let mut call = Encoder::new(&SCRIPT, 2, std::iter::once(&names));
        call.word("a");
        call.keys([crate::protocol::keys::channel("a")]);
        call.ms(Duration::from_secs(30));
        call.flag(true);
        let request = call.done();
        let tail = ["2", "a", "redisson_lock__channel:{a}", "30000", "1"];
        assert_eq!(
            texts(request.packed()),
            [&["EVALSHA", "digest"], &tail[..]].concat()
        );
        assert_eq!(
            texts(&request.with_source()),
            [&["EVAL", "return 1"], &tail[..]].concat()
        );
    }

    #[test]
    fn any_number_of_words_fits_its_header() {
        for count in [0, 1, 10, 1000] {
            let mut call = Encoder::new(&SCRIPT, 0, std::iter::empty());
            for number in 0..count {
                call.number(number);
            }
            assert_eq!(call.done().words().len() as u64, count + 3);
        }
    }
}
