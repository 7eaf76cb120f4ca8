//! The play: its processes and masters, its acts and their times, and the lines that are printed.

use std::fmt;
use std::io::{Write, stdout};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use multilock::{Masters, NodeState};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, interval_at, sleep, sleep_until, timeout};
use uuid::Uuid;

use crate::args::{Duty, Options};
use crate::cluster::Cluster;
use crate::console::Console;
use crate::crew::Crew;
use crate::report::{Resource, UNLOCKED};
use crate::summary::Summary;
use crate::witness::{Count, Witness};

const WORKERS: usize = 4;
const MASTERS: usize = 5;
/// Short, so that the locks of a dead process are soon free.
const LEASE: Duration = Duration::from_secs(3);
/// Time after which the demo ends in any case.
const AT_MOST: Duration = Duration::from_secs(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Kill(usize),
    Freeze(usize),
    Restart(usize),
    Thaw(usize),
    End,
}

/// Master 2 dies, then master 4 freezes: for three seconds there is a bare majority.
const PLAY: [(Duration, Act); 5] = [
    (Duration::from_secs(4), Act::Kill(2)),
    (Duration::from_secs(7), Act::Freeze(4)),
    (Duration::from_secs(10), Act::Restart(2)),
    (Duration::from_secs(14), Act::Thaw(4)),
    (Duration::from_secs(19), Act::End),
];

/// Nobody's own masters are broken.
const QUIET_PLAY: [(Duration, Act); 1] = [(Duration::from_secs(10), Act::End)];

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(number) => write!(f, "master {number} is KILLED (SIGKILL)"),
            Self::Freeze(number) => write!(f, "master {number} is FROZEN (SIGSTOP)"),
            Self::Restart(number) => write!(f, "master {number} is back, with its data"),
            Self::Thaw(number) => write!(f, "master {number} goes on (SIGCONT)"),
            Self::End => f.write_str("the workers are told to stop"),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn direct(options: &Options) -> Result<()> {
    timeout(AT_MOST, play(options))
        .await
        .unwrap_or_else(|_| Err(anyhow!("took longer than {AT_MOST:?} and was ended")))
}

async fn play(options: &Options) -> Result<()> {
    let begun = Instant::now();
    let mut interrupts = Interrupts::new()?;
    let mut cluster = None;
    if options.nodes.is_empty() {
        cluster = Some(tokio::select! {
            started = Cluster::start(MASTERS) => started?,
            error = interrupts.next() => return Err(error),
        });
    }
    let urls = cluster
        .as_ref()
        .map_or_else(|| options.nodes.clone(), Cluster::urls);
    let masters = Masters::builder()
        .nodes(&urls)
        .lease(LEASE)
        .quarantine(multilock::Quarantine::Off)
        .connect()
        .await;
    let masters = masters.context("connecting to the masters")?;

    let prefix = format!("multilock-demo:{:08x}", Uuid::new_v4().as_fields().0);
    let (teller, events) = unbounded_channel();
    let witness = Witness::start(teller)?;
    let duties = (1..=WORKERS).map(|number| Duty {
        number,
        witness: witness.address(),
        prefix: prefix.clone(),
        break_lock: options.break_lock,
    });
    let console = Console::start(&urls).await;
    let crew = Crew::start(duties, &urls, LEASE)?;
    let mut stage = Stage {
        begun,
        told: witness.count(),
        masters,
        cluster,
        prefix,
        witness,
        events,
        crew,
        broken: options.break_lock,
    };
    if let Some(console) = &console {
        stage.say(format_args!("{}", console.line))?;
    }
    let played = stage.perform_all(&mut interrupts).await;
    // Cleaned up in any case; at once when a second signal comes.
    tokio::select! {
        cleaned = stage.clean_up() => played.and(cleaned)?,
        error = interrupts.next() => return Err(error),
    }
    stage.add_up().await
}

struct Stage {
    begun: Instant,
    masters: Masters,
    /// `None` when the masters are the user's own.
    cluster: Option<Cluster>,
    prefix: String,
    witness: Witness,
    events: UnboundedReceiver<String>,
    crew: Crew,
    /// Counts at the last status line.
    told: Count,
    /// One lock is left out.
    broken: bool,
}

impl Stage {
    async fn perform_all(&mut self, interrupts: &mut Interrupts) -> Result<()> {
        self.say(format_args!(
            "{WORKERS} workers on {} masters, names {}:*",
            self.masters.len(),
            self.prefix
        ))?;
        if self.broken {
            self.say(format_args!(
                "{UNLOCKED} is worked on WITHOUT its lock, on purpose"
            ))?;
        }
        let second = Duration::from_secs(1);
        let curtain = Instant::now();
        let mut clock = interval_at(curtain + second, second);
        let play: &[_] = if self.cluster.is_some() {
            &PLAY
        } else {
            &QUIET_PLAY
        };
        for (at, act) in play {
            loop {
                tokio::select! {
                    biased;
                    error = interrupts.next() => return Err(error),
                    () = sleep_until(curtain + *at) => break,
                    Some(event) = self.events.recv() => self.say(format_args!("{event}"))?,
                    _ = clock.tick() => {
                        self.crew.check()?;
                        self.tell_status().await?;
                    }
                }
            }
            self.perform(*act).await.with_context(|| act.to_string())?;
            self.say(format_args!("{act}"))?;
        }
        Ok(())
    }

    async fn perform(&mut self, act: Act) -> Result<()> {
        match (act, &self.cluster) {
            (Act::Kill(number), Some(cluster)) => cluster.kill(number),
            (Act::Freeze(number), Some(cluster)) => cluster.freeze(number),
            (Act::Restart(number), Some(cluster)) => cluster.restart(number).await,
            (Act::Thaw(number), Some(cluster)) => cluster.thaw(number),
            (Act::End, _) | (_, None) => Ok(()),
        }
    }

    async fn tell_status(&mut self) -> Result<()> {
        let masters = self.masters_seen().await?;
        let numbers = |wanted: bool| {
            let numbers = masters.iter().enumerate();
            let numbers = numbers.filter(|(_, (_, silence))| silence.is_none() == wanted);
            let numbers: Vec<_> = numbers.map(|(index, _)| (index + 1).to_string()).collect();
            numbers.join(" ")
        };
        let (up, out) = (numbers(true), numbers(false));
        let out = if out.is_empty() {
            out
        } else {
            format!(", OUT {out}")
        };
        let (now, inside) = (self.witness.count(), self.witness.inside());
        let inside = if inside.is_empty() {
            "nobody inside"
        } else {
            &inside
        };
        self.say(format_args!(
            "invoices {:>3}/s, ledger {:>2}/s, refused {:>3}/s, violations {} | masters {up}{out} | {inside}",
            now.invoices - self.told.invoices,
            now.ledgers - self.told.ledgers,
            now.refused() - self.told.refused(),
            now.violations,
        ))?;
        self.told = now;
        Ok(())
    }

    /// Sends the workers home and sees to it that nothing of theirs stays on the masters.
    async fn clean_up(&mut self) -> Result<()> {
        self.witness.stop();
        let dismissed = self.crew.dismiss().await;
        let end = Instant::now() + LEASE + Duration::from_secs(1);
        while let Some(left) = self.left_behind().await? {
            if Instant::now() > end {
                bail!("still there: {left}");
            }
            sleep(Duration::from_millis(100)).await;
        }
        while let Ok(event) = self.events.try_recv() {
            self.say(format_args!("{event}"))?;
        }
        dismissed
    }

    async fn add_up(mut self) -> Result<()> {
        let masters = self.masters_seen().await?;
        let describe = |(index, (node, silence)): (usize, &(Arc<str>, Option<String>))| {
            let state = silence.as_deref().unwrap_or("answers");
            format!("master {} ({node}): {state}", index + 1)
        };
        let summary = Summary {
            count: self.witness.count(),
            masters: masters.iter().enumerate().map(describe).collect(),
            took: self.begun.elapsed(),
        };
        // The masters end before the last words.
        self.cluster = None;
        summary.print(&mut stdout().lock())?;
        summary.verdict()
    }

    /// Every master as the library sees it; with a silent one, why it is.
    async fn masters_seen(&self) -> Result<Vec<(Arc<str>, Option<String>)>> {
        let ledger = format!("{}:{}", self.prefix, Resource::Ledger);
        let inspections = self.masters.red_lock(ledger).inspect().await?;
        let inspection = inspections.into_iter().next().context("nothing was inspected")?;
        let silence = |state| match state {
            NodeState::Silent(vote) => Some(vote.to_string()),
            _ => None,
        };
        let nodes = inspection.nodes.into_iter();
        Ok(nodes.map(|(node, state)| (node, silence(state))).collect())
    }

    /// A name that some master still keeps.
    async fn left_behind(&self) -> Result<Option<String>> {
        let names: Vec<_> = Resource::all()
            .map(|resource| format!("{}:{resource}", self.prefix))
            .collect();
        let inspections = self.masters.red_lock(names).inspect().await?;
        let held = inspections.iter().find_map(|inspection| {
            let mut nodes = inspection.nodes.iter();
            let (node, _) = nodes.find(|(_, state)| matches!(state, NodeState::Held { .. }))?;
            Some(format!("{} on {node}", inspection.name))
        });
        Ok(held)
    }

    fn say(&self, line: fmt::Arguments<'_>) -> Result<()> {
        let at = self.begun.elapsed().as_secs_f64();
        writeln!(stdout(), "[{at:4.1} s] {line}").context("writing to stdout")
    }
}

/// The signals that ask a program to end.
struct Interrupts {
    int: Signal,
    term: Signal,
    hup: Signal,
}

impl Interrupts {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Self {
            int: listen(SignalKind::interrupt())?,
            term: listen(SignalKind::terminate())?,
            hup: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> anyhow::Error {
        let name = tokio::select! {
            _ = self.int.recv() => "SIGINT",
            _ = self.term.recv() => "SIGTERM",
            _ = self.hup.recv() => "SIGHUP",
        };
        anyhow!("ended by {name}")
    }
}
