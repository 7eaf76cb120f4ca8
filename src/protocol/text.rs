//! Texts in answers, of scripts and of other commands.

use redis::Value;

/// Text of an answer, or of a part of one; `None` for any other kind of value.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}
