//! Lines for the log alone, of locks, holds and connections. They have names and votes, and never owner fields or
//! credentials.

use std::fmt::Display;
use std::time::Duration;

use super::TARGET;
#[cfg(feature = "rustls")]
use crate::error::InvalidInput;
use crate::error::{Loss, LossCause};
use crate::time::rounded::Rounded;
use crate::values::names::Names;
use crate::values::token::FencingToken;
use crate::values::votes::Votes;

pub(crate) fn first_lock_waits(remaining: Duration) {
    let remaining = Rounded(remaining);
    tracing::info!(target: TARGET, %remaining, "no lock is granted yet: too many masters are new to their set or were started not long ago, and may have lost locks; Masters::ready waits for their votes");
}

pub(crate) fn round_lost(names: &Names, error: &dyn Display) {
    tracing::debug!(target: TARGET, %names, %error, "round lost");
}

pub(crate) fn token_raised(names: &Names, token: FencingToken, accepted: usize) {
    tracing::debug!(target: TARGET, %names, %token, accepted, "asked for a larger fencing token");
}

pub(crate) fn acquired(names: &Names, granted: usize, validity: impl FnOnce() -> Duration) {
    tracing::debug!(target: TARGET, %names, granted, validity = %Rounded(validity()), "lock acquired");
}

pub(crate) fn taken_over(names: &Names) {
    tracing::debug!(target: TARGET, %names, "hold taken over");
}

pub(crate) fn waits_long(names: &Names, waited: Duration, error: &dyn Display) {
    let waited = Rounded(waited);
    tracing::warn!(target: TARGET, %names, %waited, %error, "waiting long for a lock");
}

/// Logs a candidate that waits, as is usual while another one leads.
pub(crate) fn waits_to_lead(names: &Names, waited: Duration, error: &dyn Display) {
    let waited = Rounded(waited);
    tracing::info!(target: TARGET, %names, %waited, %error, "standing by to lead");
}

/// Logs a wait for this process, perhaps for the same task, which would wait for ever.
pub(crate) fn waits_for_this_process(names: &Names, waited: Duration, error: &dyn Display) {
    let waited = Rounded(waited);
    tracing::warn!(target: TARGET, %names, %waited, %error, "waiting long for a lock that this process holds itself");
}

pub(crate) fn leads_no_longer(names: &Names, loss: &Loss) {
    if loss.cause == LossCause::Closed {
        tracing::info!(target: TARGET, %names, "no longer leading: the masters were closed");
    } else {
        tracing::warn!(target: TARGET, %names, %loss, "no longer leading");
    }
}

/// Logs a term that was to end before its body came to its end.
pub(crate) fn stepped_down(names: &Names) {
    tracing::info!(target: TARGET, %names, "stepped down; the leader's work was dropped");
}

/// Logs the numbers of holds by their ends, and of masters that did not get every message.
pub(crate) fn closed(released: u64, unconfirmed: u64, kept: u64, left: usize) {
    tracing::info!(target: TARGET, released, unconfirmed, kept, left, "masters closed");
}

pub(crate) fn forced(names: &Names, former: usize, granted: usize) {
    tracing::warn!(target: TARGET, %names, former, granted, "lock taken away by force");
}

pub(crate) fn held_long(names: &Names, held_for: Duration) {
    let held_for = Rounded(held_for);
    tracing::warn!(target: TARGET, %names, %held_for, "hold lasts long; its guard may be forgotten, or its task stuck");
}

pub(crate) fn hold_lost(names: &Names, cause: LossCause, votes: &Votes) {
    tracing::warn!(target: TARGET, %names, %cause, %votes, "hold lost");
}

pub(crate) fn retaken(names: &Names, node: &str) {
    tracing::debug!(target: TARGET, %names, node, "taking a hold again where it was forgotten");
}

pub(crate) fn not_renewed(names: &Names, retry: Duration) {
    let retry = Rounded(retry);
    tracing::debug!(target: TARGET, %names, %retry, "renewal not confirmed");
}

/// Logs that a live connection has logged in with other credentials.
pub(crate) fn logged_in_again(node: &str) {
    tracing::debug!(target: TARGET, node, "logged in again");
}

/// Logs a handshake; `kind` shows whether a session was resumed.
#[cfg(feature = "rustls")]
pub(crate) fn tls_established(host: &str, kind: &dyn std::fmt::Debug) {
    tracing::debug!(target: TARGET, host, ?kind, "TLS handshake");
}

/// Logs changed TLS files that cannot be used.
#[cfg(feature = "rustls")]
pub(crate) fn tls_files_refused(error: &InvalidInput) {
    tracing::warn!(target: TARGET, %error, "TLS files have changed and cannot be used; connections go on with those of before");
}
