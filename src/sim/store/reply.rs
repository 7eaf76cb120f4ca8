//! How Redis writes replies and errors, and reads numbers.

use redis::Value;

/// A binary-safe string: a key, a field, a value or an argument.
pub(crate) type Bytes = Vec<u8>;

/// What a command answers: a reply, or a whole error line (`WRONGTYPE Operation against ...`).
pub(crate) type Reply = Result<Value, String>;

pub(super) const SYNTAX: &str = "ERR syntax error";
pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const HASH_NOT_AN_INTEGER: &str = "ERR hash value is not an integer";
pub(super) const NOT_A_FLOAT: &str = "ERR value is not a valid float";
pub(super) const NOT_A_RANGE: &str = "ERR min or max is not a float";
pub(super) const OVERFLOW: &str = "ERR increment or decrement would overflow";

/// Redis reads only the canonical form of an integer: no `+1`, no ` 1`, no `01`.
pub(super) fn integer(text: &[u8], otherwise: &str) -> Result<i64, String> {
    let parsed = str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<i64>().ok());
    parsed
        .filter(|number| number.to_string().as_bytes() == text)
        .ok_or_else(|| otherwise.into())
}

pub(super) fn score(text: &[u8], otherwise: &str) -> Result<f64, String> {
    let parsed = str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<f64>().ok());
    parsed
        .filter(|score| !score.is_nan())
        .ok_or_else(|| otherwise.into())
}

#[expect(clippy::unnecessary_wraps, reason = "it ends the branches of a command")]
pub(super) fn int(count: usize) -> Reply {
    Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

pub(super) fn bulk(bytes: Option<&Bytes>) -> Value {
    bytes.map_or(Value::Nil, |bytes| Value::BulkString(bytes.clone()))
}

#[expect(clippy::unnecessary_wraps, reason = "it ends the branches of a command")]
pub(super) fn bulks<B: AsRef<[u8]>>(items: impl Iterator<Item = B>) -> Reply {
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
    // No more of it is repeated.
    let verb = String::from_utf8_lossy(&verb[..verb.len().min(128)]).replace(['\r', '\n'], " ");
    format!(
        "ERR unknown subcommand '{verb}'. Try {} HELP.",
        name.to_uppercase()
    )
}
