//! Lines on stderr during the wait for the lock: the holder, and the rest of its lease.
//!
//! One line at the beginning of a wait and one a minute stay, also in a log. In the foreground of a terminal
//! another line is redrawn.

use std::time::Duration;

use multilock::{Inspection, Masters, Mode, MultiLock, NodeStatus, Policy};
use tokio::time::{Instant, sleep};

use crate::report::{State, describe, hold_id, holders};
use crate::say::{LiveLine, Rough, Voice};

/// A shorter wait is not mentioned.
const AT_FIRST: Duration = Duration::from_millis(300);
/// Time between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// Time between two looks that have to agree, and number of such looks.
const AGAIN: Duration = Duration::from_millis(50);
const LOOKS: usize = 5;
/// Time between two lines that stay.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// Shows the holder. Never ends. When it is dropped, it clears the redrawn line.
pub(super) async fn show_who_holds<M: Mode>(
    masters: &Masters,
    lock: &MultiLock<M>,
    policy: Policy,
    begun: Instant,
    voice: Voice,
    mut say: impl FnMut(&str),
) {
    if voice == Voice::Quiet {
        return std::future::pending().await;
    }
    if voice < Voice::Verbose {
        sleep(AT_FIRST).await;
    }
    let mut redrawn = LiveLine::begin(voice);
    let (mut due, mut shown) = (Instant::now(), Default::default());
    loop {
        let is_due = Instant::now() >= due;
        if (is_due || voice == Voice::Verbose || voice.may_redraw())
            && let Some(names) = look(lock).await
        {
            let waited = Rough(begun.elapsed());
            let states: Vec<String> = names.iter().map(|name| describe(name, policy)).collect();
            let refusing = refusing(masters);
            let line = format!("waiting for {waited}: {}{refusing}", states.join("; "));
            let seen: Vec<_> = names.iter().map(|name| what_counts(name, policy)).collect();
            let seen = (seen, refusing);
            if is_due || (voice == Voice::Verbose && seen != shown) {
                redrawn.erase();
                say(&line);
                due = Instant::now() + LINE_EVERY;
                shown = seen;
            }
            redrawn.draw(line);
        }
        sleep(EVERY).await;
    }
}

/// State of the names, or `None` if it is not known now.
///
/// Masters in quarantine grant, though their grants do not count. So an attempt of this same command may be
/// stored on all of them for some milliseconds, until it is rolled back. A hold on such masters is shown if
/// two looks find the same one.
async fn look<M: Mode>(lock: &MultiLock<M>) -> Option<Vec<Inspection>> {
    let mut names = lock.inspect().await.ok()?;
    let held = |names: &[Inspection]| -> Vec<Option<String>> {
        let in_quarantine = names.iter().filter(|name| !name.quarantined.is_empty());
        in_quarantine
            .map(|name| name.agreed.as_ref().map(hold_id))
            .collect()
    };
    for _ in 0..LOOKS {
        let before = held(&names);
        if before.iter().all(Option::is_none) {
            return Some(names);
        }
        sleep(AGAIN).await;
        names = lock.inspect().await.ok()?;
        if held(&names) == before {
            return Some(names);
        }
    }
    None
}

/// Masters that answer requests for the lock with errors, whatever the state of its names.
fn refusing(masters: &Masters) -> String {
    let nodes = masters.status().nodes;
    let answers_errors = |node: &&NodeStatus| node.connection.as_ref().is_ok_and(|to| to.is_refusing);
    match nodes.iter().filter(answers_errors).count() {
        0 => String::new(),
        count => format!(
            "; {count} of {} masters answer with errors (see multilock doctor)",
            nodes.len()
        ),
    }
}

/// Part of an inspection; its change is worth a line of a verbose wait.
fn what_counts(name: &Inspection, policy: Policy) -> (State, String) {
    (State::of(name, policy), holders(name))
}

/// Shows the wait while too few masters are connected, which the first line reports. Never ends.
pub(super) async fn show_missing(begun: Instant, mut say: impl FnMut(&str)) {
    loop {
        sleep(LINE_EVERY).await;
        let waited = Rough(begun.elapsed());
        say(&format!("waiting for {waited}: too few masters are connected"));
    }
}

#[cfg(test)]
mod tests {
    use multilock::sim::Keep;
    use multilock::{Masters, MultiLockGuard, Quarantine};
    use tokio::time::timeout;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Lines of a wait, while each of two clients holds the lock for half of the time.
    async fn said(voice: Voice, within: Duration) -> Vec<String> {
        let (_, cluster) = Masters::in_memory(3).await.expect("masters");
        let mut guards = Vec::new();
        for label in ["one@host:1", "two@host:2"] {
            let builder = Masters::builder().client_label(label);
            let masters = cluster.connect(builder).await.expect("connected");
            sleep(Duration::from_secs(1)).await;
            guards.push(masters.red_lock("a"));
        }
        let mut lines = Vec::new();
        let masters = cluster.connect(Masters::builder()).await.expect("connected");
        let lock = masters.red_lock("a");
        let holding = async {
            for lock in &guards {
                let guard: MultiLockGuard = lock.lock().await.expect("free");
                sleep(within / 2).await;
                guard.unlock().await.expect("held");
            }
        };
        let begun = Instant::now();
        let showing = show_who_holds(&masters, &lock, Policy::RedLock, begun, voice, |line| {
            lines.push(line.to_owned());
        });
        let _ = timeout(within, async { tokio::join!(holding, showing) }).await;
        lines
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_reported_at_its_beginning_and_once_a_minute() {
        let lines = said(Voice::Normal, 3 * MINUTE + Duration::from_secs(30)).await;
        let starts = [
            "waiting for 0.3s: a held by one@host:1 for ",
            "waiting for 1m: a held by one@host:1 for ",
        ];
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
        assert!(
            lines.iter().all(|line| line.ends_with(", 0 waiting")),
            "{lines:?}"
        );
        let others = ["waiting for 2m", "waiting for 3m"];
        for (line, start) in lines.iter().skip(2).zip(others) {
            assert!(
                line.starts_with(start) && line.contains(": a held by two@host:2 for "),
                "{line}"
            );
        }
        assert_eq!(lines.len(), 4, "{lines:?}");
    }

    /// Attempts of the waiter are stored on masters in quarantine until they are rolled back, here for half
    /// of the time.
    #[tokio::test(start_paused = true)]
    async fn a_wait_for_masters_in_quarantine_does_not_tell_of_itself() {
        let (_, cluster) = Masters::in_memory(3).await.expect("masters");
        for place in 0..3 {
            cluster.master(place).crash();
            cluster.master(place).restart(Keep::Nothing);
            cluster
                .master(place)
                .set_delay(Duration::from_millis(15), Duration::from_millis(15));
        }
        let masters = cluster
            .connect(Masters::builder().quarantine(Quarantine::Auto))
            .await
            .expect("connected");
        let (lock, mut lines) = (masters.red_lock("a"), Vec::new());
        let begun = Instant::now();
        let showing = show_who_holds(&masters, &lock, Policy::RedLock, begun, Voice::Verbose, |line| {
            lines.push(line.to_owned());
        });
        let _ = timeout(Duration::from_secs(20), async {
            tokio::join!(lock.lock(), showing)
        })
        .await;
        assert!(
            lines.iter().any(|line| line.contains("3 in quarantine")),
            "{lines:?}"
        );
        assert!(!lines.iter().any(|line| line.contains("held by")), "{lines:?}");
    }

    /// Nobody holds the name, and masters that are out of memory grant nothing.
    #[tokio::test(start_paused = true)]
    async fn a_wait_for_masters_that_answer_with_errors_tells_of_these() {
        let (masters, cluster) = Masters::in_memory(3).await.expect("masters");
        for place in 0..2 {
            cluster.master(place).out_of_memory(true);
        }
        let (lock, mut lines) = (masters.red_lock("a"), Vec::new());
        let begun = Instant::now();
        let showing = show_who_holds(&masters, &lock, Policy::RedLock, begun, Voice::Normal, |line| {
            lines.push(line.to_owned());
        });
        let _ = timeout(Duration::from_secs(20), async {
            tokio::join!(lock.lock(), showing)
        })
        .await;
        assert!(
            lines
                .iter()
                .all(|line| line.contains("; 2 of 3 masters answer with errors")),
            "{lines:?}"
        );
        assert!(!lines.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn masters_that_are_missing_are_reported_once_a_minute() {
        let mut lines = Vec::new();
        let showing = show_missing(Instant::now(), |line| lines.push(line.to_owned()));
        let _ = timeout(2 * MINUTE + MINUTE / 2, showing).await;
        let line = |waited| format!("waiting for {waited}: too few masters are connected");
        assert_eq!(lines, [line("1m"), line("2m")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_wait_and_a_quiet_one_are_not_reported() {
        assert!(said(Voice::Normal, Duration::from_millis(290)).await.is_empty());
        assert!(said(Voice::Quiet, 3 * MINUTE).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_verbose_wait_tells_every_change() {
        let lines = said(Voice::Verbose, Duration::from_secs(20)).await;
        let states = lines.iter().map(|line| line.split(' ').skip(4).take(3).collect());
        let states: Vec<Vec<&str>> = states.collect();
        // Between the two holds it may be seen free, and before the first one.
        let held: Vec<_> = states.iter().filter(|state| state[0] == "held").collect();
        assert_eq!(
            held,
            [&["held", "by", "one@host:1"], &["held", "by", "two@host:2"]],
            "{lines:?}"
        );
        assert!(lines.len() <= 4, "{lines:?}");
    }
}
