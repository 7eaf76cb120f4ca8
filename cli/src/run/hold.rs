//! `multilock hold`: the lock is held until stdin closes.

use std::io::{self, Read};
use std::thread;

use multilock::{Mode, MultiLockGuard};
use rustix::process::Signal;
use tokio::sync::oneshot;

use super::follow::Ended;
use super::outcome;
use super::signals::Signals;
use crate::args::TakeArgs;
use crate::exit::{End, Failure};
use crate::inspect::print;
use crate::report::hold_id;

/// Says on stdout that the lock is held, and waits for the end of stdin, a signal or the loss of the hold.
pub(super) async fn until_input_ends<M: Mode>(
    args: &TakeArgs,
    guard: &MultiLockGuard<M>,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let (hold, token) = (hold_id(&guard.holder()), guard.fencing_token());
    print(&format!("{}: held as {hold} under token {token}\n", args.names))?;
    let input = end_of_input()?;
    tokio::pin!(input);
    loop {
        let end = tokio::select! {
            biased;
            loss = guard.lost() => {
                return Ok(Ended { end: End::Code(0), made_to: Some(outcome::lost(&loss)) });
            }
            signal = signals.next() => match signal {
                Signal::TSTP => {
                    signals.stop(Signal::TSTP, false).await;
                    continue;
                }
                signal => End::Signal(signal),
            },
            _ = &mut input => End::Code(0),
        };
        return Ok(Ended { end, made_to: None });
    }
}

/// Resolves when stdin has ended. The thread that reads it may outlive the wait, and ends with the process.
fn end_of_input() -> io::Result<oneshot::Receiver<()>> {
    let (ended, end) = oneshot::channel();
    let read = move || {
        let (mut input, mut some) = (io::stdin().lock(), [0; 4096]);
        loop {
            match input.read(&mut some) {
                Ok(0) => break,
                Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
                _ => {}
            }
        }
        let _ = ended.send(());
    };
    thread::Builder::new().name("stdin".to_owned()).spawn(read)?;
    Ok(end)
}
