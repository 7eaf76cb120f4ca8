//! The locks of a master that live for longer than a client without a charter reckons with.

use std::time::Duration;

use futures::future::join_all;
use redis::Value;

use super::commands;
use super::master::Master;
use super::scan::step;
use crate::error::{NodeError, Objection};
use crate::node::questions::{text, unexpected};

/// So many of them are named; there may be more.
const NAMED: usize = 20;

/// Every lock that lives longer, by name. What is read lives under its name for as long as the last of its readers,
/// and names that are kept (`at_least`) for as long as they are kept: so what the hash says is enough.
///
/// A lock that is there from the beginning of the look to its end is seen, whatever else comes and goes: `SCAN`
/// promises that.
pub(super) async fn longer_than(free: Duration, master: &Master) -> Result<Vec<Objection>, NodeError> {
    let mut found = Vec::new();
    let mut cursor = b"0".to_vec();
    loop {
        let (next, keys) = step(master, &commands::next_hashes(&cursor)).await?;
        let lives = join_all(keys.iter().map(|key| life(master, key))).await;
        for (key, life) in keys.iter().zip(lives) {
            let left = match life? {
                Life::Ended => continue,
                Life::For(left) if left <= free => continue,
                Life::For(left) => Some(left),
                Life::Endless => None,
            };
            if is_lock(master, key).await? {
                let name = String::from_utf8_lossy(key).into_owned();
                found.push(Objection::Lease { name, left });
            }
        }
        if next == b"0" || found.len() >= NAMED {
            return Ok(found);
        }
        cursor = next;
    }
}

enum Life {
    Ended,
    For(Duration),
    Endless,
}

async fn life(master: &Master, key: &[u8]) -> Result<Life, NodeError> {
    match master.answer(&commands::pttl(key)).await? {
        Value::Int(-1) => Ok(Life::Endless),
        Value::Int(left) => {
            Ok(u64::try_from(left).map_or(Life::Ended, |left| Life::For(Duration::from_millis(left))))
        }
        other => Err(unexpected("PTTL", &other)),
    }
}

/// Whether a hash has owners as this crate and Redisson lay them out. Where the first fields tell nothing, it counts as
/// one.
async fn is_lock(master: &Master, key: &[u8]) -> Result<bool, NodeError> {
    let answer = master.answer(&commands::some_fields(key)).await?;
    let Value::Array(parts) = &answer else {
        return Err(unexpected("HSCAN", &answer));
    };
    let [_, Value::Array(entries)] = parts.as_slice() else {
        return Err(unexpected("HSCAN", &answer));
    };
    let fields: Vec<String> = entries.iter().step_by(2).filter_map(text).collect();
    Ok(fields.is_empty() || fields.iter().any(|field| is_owner(field)))
}

/// `<UUID>:<number>`.
fn is_owner(field: &str) -> bool {
    let Some((client, number)) = field.split_once(':') else {
        return false;
    };
    uuid::Uuid::try_parse(client).is_ok() && number.parse::<u64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_told_from_other_fields() {
        assert!(is_owner("0195b0a2-8c3f-8d1e-9a77-001122334455:17"));
        assert!(is_owner("8743c9c0-0795-4907-87fd-6c719a6b4586:1"), "Redisson's");
        for other in ["", "page:7", "mode", "0195b0a2-8c3f-8d1e-9a77-001122334455", ":1"] {
            assert!(!is_owner(other), "{other}");
        }
    }
}
