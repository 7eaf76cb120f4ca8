//! Finds the end of a reply. The client library parses its content.

use redis::Value;

/// Limit of bytes, and of values, above any reply to this crate.
const LONGEST: usize = 16 << 20;
const LONGEST_LINE: usize = 64 << 10;

/// First reply in `bytes` and its length; `None` while the reply is incomplete. An error gives the reason why
/// these bytes are no reply.
pub(crate) fn first(bytes: &[u8]) -> Result<Option<(Value, usize)>, String> {
    let Some(length) = length(bytes)? else {
        return Ok(None);
    };
    let reply = &bytes[..length];
    // Nearly every answer is an integer, and needs no parser.
    if let Some(digits) = reply.strip_prefix(b":")
        && let Some(number) = number(&digits[..digits.len() - 2])
    {
        return Ok(Some((Value::Int(number), length)));
    }
    let value = redis::parse_redis_value(reply).map_err(|error| error.to_string())?;
    Ok(Some((value, length)))
}

fn length(bytes: &[u8]) -> Result<Option<usize>, String> {
    let (mut end, mut values) = (0, 1_usize);
    while values > 0 {
        if end > LONGEST || values > LONGEST {
            return Err("a reply that is too long".into());
        }
        let rest = bytes.get(end..).unwrap_or_default();
        let Some(line) = line(rest)? else {
            return Ok(None);
        };
        end += line.len() + CRLF.len();
        values -= 1;
        match line.first() {
            Some(b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(') => {}
            Some(b'$' | b'=' | b'!') => {
                if let Some(size) = size(line)? {
                    end += size + CRLF.len();
                }
            }
            Some(b'*' | b'~' | b'>') => values += size(line)?.unwrap_or(0),
            Some(b'%') => values += 2 * size(line)?.unwrap_or(0),
            // Attributes come before the value that they belong to.
            Some(b'|') => values += 1 + 2 * size(line)?.unwrap_or(0),
            _ => return Err(refused("no reply", line)),
        }
    }
    Ok((end <= bytes.len()).then_some(end))
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
    format!("{why}: {:?}", String::from_utf8_lossy(line))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let nested = "*9999999\r\n".repeat(9);
        assert!(first(nested.as_bytes()).is_err(), "more values than memory");
        let endless = "+".repeat(LONGEST_LINE + 1);
        assert!(first(endless.as_bytes()).is_err(), "a line without an end");
    }
}
