//! Finds the end of a reply. The client library parses its content.

use redis::Value;

/// Limit of bytes above any reply to this crate.
const LONGEST: usize = 16 << 20;
const LONGEST_LINE: usize = 64 << 10;
/// Limit of values above any reply to this crate. The parser takes half a microsecond for each, in one go.
const MOST_VALUES: usize = 1 << 20;
/// Number of bytes of a line that an error quotes.
const QUOTED: usize = 100;

/// Search for the end of an incomplete reply. The bytes that it has passed are not looked at again.
#[derive(Debug)]
pub(crate) struct Search {
    end: usize,
    /// Values of the reply that begin at `end` or later.
    values: usize,
    /// Values of the reply so far.
    known: usize,
}

impl Search {
    pub(crate) fn new() -> Self {
        Self {
            end: 0,
            values: 1,
            known: 1,
        }
    }
}

/// First reply in `bytes` and its length; `None` while the reply is incomplete, and then `search` goes on when more bytes are
/// there. An error gives the reason why these bytes are no reply.
pub(crate) fn first(bytes: &[u8], search: &mut Search) -> Result<Option<(Value, usize)>, String> {
    search.go_on(bytes)?;
    let length = search.end;
    if search.values > 0 || length > bytes.len() {
        return Ok(None);
    }
    *search = Search::new();
    let reply = &bytes[..length];
    // Nearly every answer is an integer, and needs no parser.
    if let Some(digits) = reply.strip_prefix(b":")
        && let Some(number) = number(&digits[..digits.len() - 2])
    {
        return Ok(Some((Value::Int(number), length)));
    }
    // The parser's own words fill several lines.
    let value = redis::parse_redis_value(reply).map_err(|_| refused("no reply", reply))?;
    Ok(Some((value, length)))
}

impl Search {
    /// Goes on to the end of the reply, or of the bytes.
    fn go_on(&mut self, bytes: &[u8]) -> Result<(), String> {
        while self.values > 0 {
            if self.end > LONGEST || self.known > MOST_VALUES {
                return Err("a reply that is too long".into());
            }
            let rest = bytes.get(self.end..).unwrap_or_default();
            let Some(line) = line(rest)? else {
                return Ok(());
            };
            self.end += line.len() + CRLF.len();
            self.values -= 1;
            let inner = match line.first() {
                Some(b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(') => 0,
                Some(b'$' | b'=' | b'!') => {
                    if let Some(size) = size(line)? {
                        self.end += size + CRLF.len();
                    }
                    0
                }
                Some(b'*' | b'~' | b'>') => size(line)?.unwrap_or(0),
                Some(b'%') => 2 * size(line)?.unwrap_or(0),
                // Attributes come before the value that they belong to.
                Some(b'|') => 1 + 2 * size(line)?.unwrap_or(0),
                _ => return Err(refused("no reply", line)),
            };
            self.values += inner;
            self.known += inner;
        }
        Ok(())
    }
}

const CRLF: &[u8] = b"\r\n";

/// First line, without its end; `None` while the line is incomplete.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, String> {
    let end = bytes.windows(CRLF.len()).position(|pair| pair == CRLF);
    if end.is_none() && bytes.len() > LONGEST_LINE {
        return Err(refused("no reply", &bytes[..LONGEST_LINE]));
    }
    Ok(end.map(|end| &bytes[..end]))
}

/// Size in a line; `None` for a null.
fn size(line: &[u8]) -> Result<Option<usize>, String> {
    let number = number(&line[1..]);
    if number == Some(-1) {
        return Ok(None);
    }
    let size = number.and_then(|number| usize::try_from(number).ok());
    match size.filter(|size| *size <= LONGEST) {
        None => Err(refused("no length", line)),
        size => Ok(size),
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn refused(why: &str, line: &[u8]) -> String {
    let line = &line[..line.len().min(QUOTED)];
    format!("{why}: {:?}", String::from_utf8_lossy(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(bytes: &[u8]) -> Result<Option<(Value, usize)>, String> {
        super::first(bytes, &mut Search::new())
    }

    /// Replies of every kind, one after the other.
    const REPLIES: &[&str] = &[
        ":-12\r\n",
        "+OK\r\n",
        "-ERR no such thing\r\n",
        "$5\r\nab\r\nc\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "*3\r\n:1\r\n*1\r\n$1\r\na\r\n*0\r\n",
        "*-1\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n",
        "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
        "~2\r\n:1\r\n:2\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(123456789012345678901234567890\r\n",
        "=8\r\ntxt:some\r\n",
        "!5\r\nERR x\r\n",
        "|1\r\n+ttl\r\n:3\r\n:7\r\n",
    ];

    #[test]
    fn a_reply_ends_where_the_next_begins() {
        for reply in REPLIES {
            for cut in 0..reply.len() {
                assert_eq!(
                    first(&reply.as_bytes()[..cut]),
                    Ok(None),
                    "{reply:?} cut at {cut}"
                );
            }
            let (_, length) = first(format!("{reply}:1\r\n").as_bytes())
                .expect("well formed")
                .expect("whole");
            assert_eq!(length, reply.len(), "{reply:?}");
        }
        assert_eq!(first(b":-12\r\n"), Ok(Some((Value::Int(-12), 6))));
        let nested = first(REPLIES[6].as_bytes())
            .expect("well formed")
            .expect("whole")
            .0;
        let text = Value::BulkString(b"a".to_vec());
        let inner = Value::Array(vec![text]);
        assert_eq!(
            nested,
            Value::Array(vec![Value::Int(1), inner, Value::Array(vec![])])
        );
    }

    #[test]
    fn a_search_goes_on_where_it_stopped() {
        for reply in REPLIES {
            let mut search = Search::new();
            for cut in 0..reply.len() {
                let found = super::first(&reply.as_bytes()[..cut], &mut search);
                assert_eq!(found, Ok(None), "{reply:?} cut at {cut}");
            }
            let whole = super::first(reply.as_bytes(), &mut search);
            assert_eq!(whole, first(reply.as_bytes()), "{reply:?}");
            let next = super::first(b":7\r\n", &mut search);
            assert_eq!(next, Ok(Some((Value::Int(7), 4))), "after {reply:?}");
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let refused = [
            "HTTP/1.1 400 Bad Request\r\n",
            "\r\n",
            "$x\r\n",
            "*-2\r\n",
            ":\r\n",
            "$99999999999\r\n",
        ];
        for bytes in refused {
            assert!(first(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
        let nested = "*999999\r\n".repeat(2);
        assert!(first(nested.as_bytes()).is_err(), "more values than memory");
        let flat = format!("*{}\r\n", MOST_VALUES + 1);
        assert!(first(flat.as_bytes()).is_err(), "more values than any answer has");
        let garbage = first(b":garbage\r\n").expect_err("no number");
        assert_eq!(garbage, r#"no reply: ":garbage\r\n""#);
        let endless = "+".repeat(LONGEST_LINE + 1);
        assert!(first(endless.as_bytes()).is_err(), "a line without an end");
    }
}
