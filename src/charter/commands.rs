//! What is said to one master about the charter, apart from what clients say.

use redis::Cmd;

use crate::protocol::keys::{CHARTER, CLIENT, MASTERS};
use crate::stored_charter::NodeCharter;

/// How the names of connections begin that belong to an operator's question and to no client.
pub(super) const TALK: &str = "multilock-charter:";

const RAISE: &str = include_str!("../../lua/charter.lua");
const TAKE_AWAY: &str = include_str!("../../lua/uncharter.lua");

/// So many places of its table a master looks at in one step, during which it serves nobody else.
const STEP: usize = 1_000;

/// `lua/uncharter.lua`: takes the charter away where this text stands, until the master's clock shows so much.
pub(super) fn take_away(text: &str, latest_us: u64) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg(TAKE_AWAY).arg(1).arg(CHARTER).arg(text).arg(latest_us);
    eval
}

/// `lua/charter.lua`: puts back at least what stood there.
pub(super) fn put_back(charter: &NodeCharter, listed: usize) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    let ms = |lease: std::time::Duration| u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    eval.arg(RAISE).arg(2).arg(CHARTER).arg(MASTERS);
    eval.arg(ms(charter.longest)).arg(ms(charter.in_force));
    eval.arg(listed).arg("0").arg(charter.raised_by.as_deref());
    eval
}

/// One step through the hashes, which locks are.
pub(super) fn next_hashes(cursor: &[u8]) -> Cmd {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("COUNT").arg(STEP).arg("TYPE").arg("hash");
    scan
}

/// One step through the labels of clients.
pub(super) fn next_labels(cursor: &[u8]) -> Cmd {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("COUNT").arg(STEP);
    scan.arg("MATCH").arg(format!("{CLIENT}*"));
    scan
}

pub(super) fn pttl(key: &[u8]) -> Cmd {
    let mut pttl = redis::cmd("PTTL");
    pttl.arg(key);
    pttl
}

/// A few fields of a hash, with their values.
pub(super) fn some_fields(key: &[u8]) -> Cmd {
    let mut scan = redis::cmd("HSCAN");
    scan.arg(key).arg(0).arg("COUNT").arg(64);
    scan
}
