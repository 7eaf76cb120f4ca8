//! `multilock hold`: the lock is held until stdin closes.

use std::borrow::Cow;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::thread;

use multilock::{LossCause, Mode, MultiLockGuard};
use nix::sys::signal::{SigSet, Signal as Kind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::follow::{AT_ITS_END, Ended};
use super::outcome;
use super::signals::Signals;
use crate::args::TakeArgs;
use crate::exit::{End, Failure};
use crate::inspect::print;
use crate::report::hold_id;
use crate::say::Voice;

/// Says on stdout that the lock is held, and waits for the end of stdin, a signal or the loss of the hold.
pub(super) async fn until_input_ends<M: Mode>(
    args: &TakeArgs,
    guard: &MultiLockGuard<M>,
    seat: Option<u32>,
    signals: &mut Signals,
    voice: Voice,
) -> Result<Ended, Failure> {
    let granted = Instant::now();
    let (hold, token) = (hold_id(&guard.holder()), guard.fencing_token());
    let seat = seat.map_or(String::new(), |seat| format!(", in seat {seat}"));
    let line = format!("{}: held as {hold} under token {token}{seat}\n", args.names);
    // A write waits where nobody reads stdout. Signals and a loss end the hold meanwhile.
    let mut printing = spawn_blocking(move || print(&line));
    let mut is_printed = false;
    let mut input = pin!(end_of_input(voice));
    loop {
        let end = tokio::select! {
            biased;
            loss = guard.lost() => {
                let is_planned = args.max_hold.is_some_and(|most| granted.elapsed() >= most);
                let reason = match loss.cause {
                    LossCause::Expired if is_planned => Cow::Borrowed(AT_ITS_END),
                    _ => outcome::lost(&loss),
                };
                return Ok(Ended { end: End::Code(0), made_to: Some(reason), status: None });
            }
            signal = signals.next() => match signal {
                Signal::TSTP => {
                    signals.stop(Signal::TSTP, false).await;
                    continue;
                }
                // This process goes on, and nothing else was stopped.
                Signal::CONT => continue,
                signal => End::Signal(signal),
            },
            printed = &mut printing, if !is_printed => {
                printed.map_err(Failure::own)??;
                is_printed = true;
                continue;
            }
            // Its end may come first, and the line is printed nevertheless.
            () = &mut input, if is_printed => End::Code(0),
        };
        return Ok(Ended {
            end,
            made_to: None,
            status: None,
        });
    }
}

/// Resolves when stdin has ended. If it cannot be read, a signal has to end the hold.
async fn end_of_input(voice: Voice) {
    let error = match input_thread() {
        Ok(read) => match read.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => io::ErrorKind::UnexpectedEof.into(),
        },
        Err(error) => error,
    };
    voice.warn(format_args!(
        "stdin cannot be read ({error}): the lock is held until a signal comes"
    ));
    pending::<()>().await;
}

/// Waits for input, or its end, where a read does not wait.
fn until_readable() {
    // If it fails, the next read shows why.
    let _ = poll(&mut [PollFd::new(&rustix::stdio::stdin(), PollFlags::IN)], None);
}

/// Reads stdin in a thread, which may outlive the wait, and ends with the process.
fn input_thread() -> io::Result<oneshot::Receiver<io::Result<()>>> {
    let (ended, end) = oneshot::channel();
    let read = move || {
        // In the background of a terminal a read is an error then, and does not stop this process: it has to renew.
        let _ = SigSet::from_iter([Kind::SIGTTIN]).thread_block();
        let mut some = [0; 4096];
        let result = loop {
            // Not by the standard library, for which a stdin that is not open for reading has ended.
            match rustix::io::read(rustix::stdio::stdin(), &mut some) {
                Ok(0) => break Ok(()),
                Err(Errno::AGAIN) => until_readable(),
                Err(error) if error != Errno::INTR => break Err(error.into()),
                _ => {}
            }
        };
        let _ = ended.send(result);
    };
    thread::Builder::new().name("stdin".to_owned()).spawn(read)?;
    Ok(end)
}
