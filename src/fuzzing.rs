//! What the fuzz targets reach of the crate's inside. In no build but theirs.

use redis::Value;

use crate::builder::MastersBuilder;
use crate::node;
use crate::protocol::reply;

/// The first reply in `bytes` and its length, as a connection finds it.
pub fn first_reply(bytes: &[u8]) -> Result<Option<(Value, usize)>, String> {
    node::first_reply(bytes)
}

/// Reads a reply in all the ways in which one is read. None may panic, or tell of more than there is.
pub fn understand(value: &Value) {
    let parts = match value {
        Value::Array(parts) => parts.len(),
        _ => 0,
    };
    let stamp = reply::Stamp::of(value);
    let acquired = reply::parse_acquired(value);
    assert!(
        parts > 0 || acquired.is_none() || stamp.is_some(),
        "a grant without a stamp"
    );
    let extended = reply::parse_extended(value);
    assert!(extended.is_none_or(|replies| replies.len() + 1 == parts));
    let report = reply::parse_report(value);
    assert!(report.is_none_or(|report| report.entries.len() + 1 == parts && stamp.is_some()));
    let forced = reply::parse_forced(value);
    assert!(forced.is_none() || (parts == 0 && stamp.is_none()));
    let released = reply::parse_released(value);
    assert!(released.is_none_or(|released| released.all == (parts == 0)));
}

/// All that may be said of a pool's variables: what is shown of the builder, and how the masters are called or
/// what cannot be used.
pub fn words_on(variable: impl Fn(&str) -> Option<String>) -> String {
    let builder = match MastersBuilder::from_variables(variable) {
        Ok(builder) => builder,
        Err(error) => return format!("{error} {error:?}"),
    };
    match builder.addresses() {
        Ok(addresses) => format!("{builder:?} {addresses:?}"),
        Err(error) => format!("{builder:?} {error} {error:?}"),
    }
}
