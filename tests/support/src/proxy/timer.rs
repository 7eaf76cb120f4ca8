//! Waits that are exact to about a tenth of a millisecond: the runtime's own timers fire on the next whole one,
//! which would make anything up to 2 ms of a delay of 1 ms.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Instant;

use tokio::sync::oneshot;

struct Wait {
    until: Instant,
    over: oneshot::Sender<()>,
}

/// To the one thread that keeps the time for all proxies of the process, and ends with it.
static WAITS: LazyLock<Sender<Wait>> = LazyLock::new(|| {
    let (waits, taken) = channel();
    thread::Builder::new()
        .name("proxy-timer".to_owned())
        .spawn(move || keep_time(&taken))
        .expect("a thread");
    waits
});

pub async fn sleep_until(until: Instant) {
    if until <= Instant::now() {
        return;
    }
    let (over, waiting) = oneshot::channel();
    let sent = WAITS.send(Wait { until, over });
    if sent.is_err() || waiting.await.is_err() {
        // Without its thread nothing is delivered any more, rather than too early.
        pending::<()>().await;
    }
}

fn keep_time(taken: &Receiver<Wait>) {
    // By their time, and those of one time by their number.
    let mut waiting = BTreeMap::<(Instant, u64), oneshot::Sender<()>>::new();
    let mut number = 0;
    loop {
        let next = match waiting.first_key_value() {
            None => taken.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(((until, _), _)) => taken.recv_timeout(until.saturating_duration_since(Instant::now())),
        };
        match next {
            Ok(Wait { until, over }) => {
                number += 1;
                waiting.insert((until, number), over);
            }
            Err(RecvTimeoutError::Timeout) => {
                let later = waiting.split_off(&(Instant::now(), u64::MAX));
                for over in std::mem::replace(&mut waiting, later).into_values() {
                    // The waiter may have left.
                    let _: Result<(), ()> = over.send(());
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
