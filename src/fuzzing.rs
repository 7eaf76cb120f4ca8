//! Internals of the crate that fuzz targets need. Only in their build.

use redis::Value;

use crate::masters::builder::MastersBuilder;
use crate::node;
use crate::protocol::reply::{self, Released, Reply};
use crate::values::votes::Vote;

/// Returns the first reply in `bytes` and its length, as a connection finds it.
pub fn first_reply(bytes: &[u8]) -> Result<Option<(Value, usize)>, String> {
    node::first_reply(bytes, &mut node::ReplySearch::new())
}

/// Reads a reply in all the ways in which the crate reads one. None may panic, or report more than the reply
/// contains.
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

/// Makes all texts about a pool's variables: the builder, and the addresses of the masters or the error.
/// `list` is the content of every file that lists nodes.
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
