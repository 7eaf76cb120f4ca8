//! Keeps a live connection logged in when its user's password changes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::address::Address;
use super::pipeline::Pipe;
use super::setup::{Login, authenticate};
use crate::events::{CredentialsThrottle, log};
use crate::masters::credentials::{Credentials, Provider};
use crate::protocol::fault::Fault;

/// Pause after an attempt to get other credentials, and after the first refused login.
const RETRY: Duration = Duration::from_secs(1);
/// Longest pause after a refused login. A server records each one.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Asks the provider at each refresh, and logs in if the credentials have changed. Ends once no refresh is
/// wanted, or when the connection ends. Each question may take `within`.
pub(super) async fn keep_logged_in(
    pipe: Arc<Pipe>,
    address: Address,
    provider: Provider,
    mut current: Credentials,
    within: Duration,
) {
    let warnings = CredentialsThrottle::default();
    while let Some(after) = current.refreshed_after() {
        sleep(after).await;
        let retry = RETRY.min(after);
        let mut refused_pause = retry;
        current = loop {
            let given = provider.ask(Instant::now() + within).await;
            match log_in_again(&pipe, &address, &current, given).await {
                Refreshed::To(next) => break next,
                Refreshed::Not(reason) => {
                    warnings.not_refreshed(&address.label, &reason);
                    sleep(retry).await;
                }
                Refreshed::Refused(reason) => {
                    warnings.not_refreshed(&address.label, &reason);
                    sleep(refused_pause).await;
                    refused_pause = (2 * refused_pause).min(LONGEST_PAUSE);
                }
                Refreshed::TooLate => return,
            }
        };
    }
}

/// Result of a refresh.
enum Refreshed {
    To(Credentials),
    /// The connection stays as it was, and the server was not asked.
    Not(String),
    /// The connection stays as it was, because the server refused the login.
    Refused(String),
    /// The connection has ended.
    TooLate,
}

async fn log_in_again(
    pipe: &Pipe,
    address: &Address,
    current: &Credentials,
    given: Result<Credentials, String>,
) -> Refreshed {
    let next = match given {
        Ok(next) if next.log_in_the_same(current) => return Refreshed::To(next),
        Ok(next) => next,
        Err(reason) => return Refreshed::Not(reason),
    };
    let login = Login::new(address.info.redis_settings(), Some(&next));
    match authenticate(pipe, &login).await {
        Ok(()) => {
            log::logged_in_again(&address.label);
            Refreshed::To(next)
        }
        Err(Fault::Server(_, error)) => Refreshed::Refused(error.to_string()),
        // Too much waits for its answers, which passes.
        Err(Fault::NotSent(reason)) if !pipe.is_closed() => Refreshed::Not(reason.to_string()),
        Err(_) => Refreshed::TooLate,
    }
}

#[cfg(test)]
#[path = "refresh/tests.rs"]
mod tests;
