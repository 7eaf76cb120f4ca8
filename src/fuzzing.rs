//! What the fuzz targets reach of the crate's inside. In no build but theirs.

use redis::Value;

use crate::masters::builder::MastersBuilder;
use crate::node;
use crate::protocol::reply::{self, Released, Reply};
use crate::values::votes::Vote;

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
    let stamp = reply::Stamp::at_head_of(value);
    let acquired = Reply::acquired(Ok(value.clone()));
    assert!(
        parts > 0 || acquired.vote != Vote::Granted || stamp.is_some(),
        "a grant without a stamp"
    );
    let extended = Reply::extended(Ok(value.clone()), parts);
    let of_holds = extended
        .iter()
        .filter(|reply| !matches!(reply.vote, Vote::Unknown { .. }));
    assert!([0, parts.saturating_sub(1)].contains(&of_holds.count()));
    if let Some(names) = parts.checked_sub(1) {
        let report = reply::inspected(Ok(value.clone()), names);
        assert!(report.is_err() || stamp.is_some());
    }
    let forced = reply::forced(Ok(value.clone()));
    assert!(matches!(forced, Vote::Unknown { .. }) || (parts == 0 && stamp.is_none()));
    let released = reply::parse_released(value);
    assert!(released.is_none_or(|released| (released == Released::Partly) == (parts > 0)));
}

/// All that may be said of a pool's variables: what is shown of the builder, and how the masters are called or
/// what cannot be used. `list` is what every file holds that lists nodes.
pub fn words_on(variable: impl Fn(&str) -> Option<String>, list: &str) -> String {
    let builder = match MastersBuilder::from_variables_and_files(variable, |_| Ok(list.to_owned())) {
        Ok(builder) => builder,
        Err(error) => return format!("{error} {error:?}"),
    };
    match builder.addresses() {
        Ok(addresses) => format!("{builder:?} {addresses:?}"),
        Err(error) => format!("{builder:?} {error} {error:?}"),
    }
}
