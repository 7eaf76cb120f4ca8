//! Replies, errors and numbers in the form of Redis.

use redis::Value;

/// A binary-safe string: a key, a field, a value or an argument.
pub(crate) type Bytes = Vec<u8>;

/// Answer to a command: a reply, or a whole error line (`WRONGTYPE Operation against ...`).
pub(crate) type CommandReply = Result<Value, String>;

pub(super) const SYNTAX: &str = "ERR syntax error";
pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const HASH_NOT_AN_INTEGER: &str = "ERR hash value is not an integer";
pub(super) const NOT_A_FLOAT: &str = "ERR value is not a valid float";
pub(super) const NOT_A_RANGE: &str = "ERR min or max is not a float";
pub(super) const LIMIT_OF_RANKS: &str =
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
pub(super) const OVERFLOW: &str = "ERR increment or decrement would overflow";

/// Parses an integer. Redis accepts only its canonical form: no `+1`, no ` 1`, no `01`.
pub(super) fn integer(text: &[u8], otherwise: &str) -> Result<i64, String> {
    let parsed = str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<i64>().ok());
    parsed
        .filter(|number| number.to_string().as_bytes() == text)
        .ok_or_else(|| otherwise.into())
}

/// Parses a number as C's `strtod` does, without hexadecimal digits, which no client sends.
fn float(text: &[u8]) -> Option<f64> {
    let parsed = str::from_utf8(text).ok()?.parse::<f64>().ok();
    parsed.filter(|number| !number.is_nan())
}

/// Parses a score. A number that is too large or too small for its type is not a score.
pub(super) fn score(text: &[u8]) -> Result<f64, String> {
    let mut mantissa = text.iter().take_while(|byte| !b"eE".contains(byte));
    let is_zero = !mantissa.any(|byte| (b'1'..=b'9').contains(byte));
    let fits = |number: &f64| {
        if number.is_infinite() {
            is_zero
        } else {
            *number != 0.0 || is_zero
        }
    };
    float(text).filter(fits).ok_or_else(|| NOT_A_FLOAT.into())
}

/// Parses a bound of a range of scores. Returns also whether the bound itself is excluded. Parsing is laxer
/// than for a score: an empty text is 0, leading spaces are skipped, and a NUL ends the text.
pub(super) fn bound(text: &[u8]) -> Result<(f64, bool), String> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let (text, exclusive) = match text {
        [b'(', rest @ ..] => (rest, true),
        whole => (whole, false),
    };
    if text.is_empty() {
        return Ok((0.0, exclusive));
    }
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = text.iter().take_while(|byte| is_space(byte)).count();
    let number = float(&text[start..]).ok_or(NOT_A_RANGE)?;
    Ok((number, exclusive))
}

/// Writes a score in a reply as `%.17g` does: with 17 digits at most, and with an exponent for numbers that
/// need more digits or have too many zeros after the point.
pub(super) fn decimal(score: f64) -> String {
    if score.is_infinite() {
        return score.to_string();
    }
    let scientific = format!("{score:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trimmed = |digits: &str| {
        if digits.contains('.') {
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            digits.to_owned()
        }
    };
    match usize::try_from(16 - exponent) {
        Ok(places) if exponent >= -4 => trimmed(&format!("{score:.places$}")),
        _ => format!("{}e{exponent:+03}", trimmed(mantissa)),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it ends the branches of a command")]
pub(super) fn int(count: usize) -> CommandReply {
    Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

pub(super) fn bulk(bytes: Option<&Bytes>) -> Value {
    bytes.map_or(Value::Nil, |bytes| Value::BulkString(bytes.clone()))
}

#[expect(clippy::unnecessary_wraps, reason = "it ends the branches of a command")]
pub(super) fn bulks<B: AsRef<[u8]>>(items: impl Iterator<Item = B>) -> CommandReply {
    Ok(Value::Array(
        items
            .map(|item| Value::BulkString(item.as_ref().to_vec()))
            .collect(),
    ))
}

pub(super) fn wrong_arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

pub(super) fn invalid_expire(name: &str) -> String {
    format!("ERR invalid expire time in '{name}' command")
}

pub(super) fn unknown_command(name: &[u8], args: &[Bytes]) -> String {
    let name = String::from_utf8_lossy(name);
    let quoted = args.iter().map(|arg| [b"'", arg.as_slice(), b"' "].concat());
    let args = quoted.collect::<Vec<_>>().concat();
    let args = String::from_utf8_lossy(&args).replace(['\r', '\n'], " ");
    format!("ERR unknown command '{name}', with args beginning with: {args}")
}

pub(super) fn unknown_subcommand(name: &str, verb: &[u8]) -> String {
    // The error repeats no more of it.
    let verb = String::from_utf8_lossy(&verb[..verb.len().min(128)]).replace(['\r', '\n'], " ");
    format!(
        "ERR unknown subcommand '{verb}'. Try {} HELP.",
        name.to_uppercase()
    )
}
