//! Events of a run, in the order in which they happened. Properties are judged by this record alone.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::faults::MOST_SLIPPED;
use crate::guard::LockKind;
use crate::opening::OPENED;

/// More than this is a loop that never ends.
pub(crate) const MOST_EVENTS: usize = 50_000;

/// A hold, counted from 0 in the order in which holds were first seen.
pub(crate) type HoldId = usize;

/// Facts of a hold that are known from its grant on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HoldFacts {
    pub(crate) client: usize,
    /// The owner, shortened as the crate shows it.
    pub(crate) owner: String,
    pub(crate) names: Vec<String>,
    /// Kind for which it was granted.
    pub(crate) kind: LockKind,
    pub(crate) needed: usize,
    pub(crate) token: u64,
    /// Place in the history at which its acquisition began. For a hold that was handed on, that is the acquisition that
    /// the masters granted.
    pub(crate) began: usize,
}

/// One guard's view of its hold at a moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sight {
    pub(crate) hold: HoldId,
    /// Kind that it has now.
    pub(crate) kind: LockKind,
    pub(crate) validity: Duration,
    pub(crate) signalled: bool,
    /// Hold count of the guard, and number of guards that were given out and not taken back.
    pub(crate) count: u64,
    pub(crate) expected: u64,
    /// Masters that answered last that they do not keep the hold.
    pub(crate) against: usize,
    /// Whether any of its guards has it renewed for as long as it is out.
    pub(crate) renewed: bool,
    /// On the fewest masters that keep it for as long as it is valid, over all of its names.
    pub(crate) on: usize,
}

/// Data that a master keeps under one name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    pub(crate) name: String,
    /// Its holders; more than one only where they read.
    pub(crate) owners: Vec<String>,
    /// Of a read/write lock.
    pub(crate) mode: Option<String>,
    /// Its readers, the end of the key that lists them, and the end of the last reader as the name itself gives it.
    pub(crate) readers: Vec<Reader>,
    pub(crate) readers_end: Option<Duration>,
    pub(crate) told: Option<Duration>,
    /// When the key ends, since the run began; `None` for never.
    pub(crate) ends: Option<Duration>,
    pub(crate) fence: Option<u64>,
}

/// A reader, and the end of its lease, counted from the beginning of the run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reader {
    pub(crate) owner: String,
    pub(crate) ends: Duration,
}

/// Waiter for which an acquire asked, and the state of the queues of its names right before.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    /// Nothing for a try.
    pub(crate) waiter: Option<String>,
    pub(crate) ticket: u64,
    /// A waiter with a smaller ticket that counts.
    pub(crate) ahead: Option<String>,
    pub(crate) granted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Phase(&'static str),
    /// Begin or end of a fault, with the masters that lose lock keys and fence keys by it.
    Fault {
        what: String,
        forgets: Vec<usize>,
        forgets_fences: Vec<usize>,
    },
    /// A master's clock was set forward: by less than anybody may notice, or by a step.
    Slipped {
        master: usize,
        by: Duration,
    },
    /// A master's clock was set back: its keys end so much later.
    SetBack {
        master: usize,
        by: Duration,
    },
    /// Somebody deleted a lock's keys on all masters, under which these owners stood.
    Deleted {
        name: String,
        owners: Vec<String>,
    },
    Begun {
        op: usize,
        what: String,
    },
    /// A hold was given, or entered again.
    Granted {
        op: usize,
        hold: HoldId,
        again: bool,
        /// Kind that was requested.
        kind: LockKind,
        /// The acquisition's own terms.
        min_validity: Duration,
        validity: Duration,
        needed: usize,
        fenced: bool,
        /// For so long its names are kept from everybody.
        at_least: Duration,
        token: u64,
    },
    Refused {
        op: usize,
        why: String,
    },
    Cancelled {
        op: usize,
    },
    /// The last guard of a hold that writes is about to let readers in.
    Downgraded {
        hold: HoldId,
    },
    /// A guard is about to be given up, of a hold that is valid for so much longer. `last` for the only one of its hold.
    GivenUp {
        hold: HoldId,
        how: &'static str,
        last: bool,
        left: Duration,
    },
    /// The body to which a guard was lent has ended. `left` is zero if the body was dropped.
    Returned {
        hold: HoldId,
        left: Duration,
    },
    Outcome {
        hold: HoldId,
        what: String,
    },
    /// The body of a job begins that is to be done once.
    JobBegun {
        name: String,
        keep: Duration,
    },
    /// A job was done, and a quorum has the mark: it is not to be begun again for the time `keep` after its body ended.
    JobDone {
        name: String,
        ended: Duration,
        keep: Duration,
    },
    /// `lost()` or the cancellation token spoke.
    Signalled {
        hold: HoldId,
        validity: Duration,
    },
    Seen(Vec<Sight>),
    /// A write to the resource that a name guards.
    Wrote {
        hold: HoldId,
        name: String,
        accepted: bool,
    },
    /// An operator takes a name away.
    Forced {
        op: usize,
        name: String,
        former: Vec<HoldId>,
        confirmed: bool,
    },
    Executed {
        master: usize,
        /// Over which connection to it.
        connection: i64,
        script: &'static str,
        /// The owners that it was about, as far as that is needed, parted by spaces.
        owner: String,
        reply: String,
        /// The answer was an error.
        failed: bool,
        /// Time of the master's clock, in microseconds.
        clock_us: u64,
        /// Of an acquire that minds the queues.
        asked: Option<Asked>,
        /// For how long a force keeps owners out: the longest lease that its client knew of.
        keeps_out: Duration,
        after: Vec<Stored>,
    },
    /// Result for a client that had to get a lock within a time after all faults had ended.
    Progress {
        name: String,
        error: Option<String>,
    },
    /// Things that were found where nothing should be.
    Left {
        when: &'static str,
        what: Vec<String>,
    },
}

impl Kind {
    /// Master whose clock was set forward by so much that keys end early.
    pub(crate) fn stepped(&self) -> Option<usize> {
        match self {
            Self::Slipped { master, by } if *by > MOST_SLIPPED => Some(*master),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) at: Duration,
    pub(crate) client: Option<usize>,
    pub(crate) kind: Kind,
}

/// Everything a property may look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) nodes: usize,
    pub(crate) longest_lease: Duration,
    pub(crate) longest_deadline: Duration,
    pub(crate) events: Vec<Event>,
    pub(crate) holds: Vec<HoldFacts>,
}

/// The record while it is being written.
#[derive(Clone)]
pub(crate) struct History {
    begun: Instant,
    record: Arc<Mutex<Record>>,
}

impl History {
    pub(crate) fn begin(nodes: usize, longest_lease: Duration, longest_deadline: Duration) -> Self {
        let record = Record {
            nodes,
            longest_lease,
            longest_deadline,
            ..Record::default()
        };
        Self {
            begun: Instant::now(),
            record: Arc::new(Mutex::new(record)),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Writes down an event that happens now. Returns its place.
    pub(crate) fn note(&self, client: Option<usize>, kind: Kind) -> usize {
        let at = self.now();
        self.with(|record| {
            // Beyond that the run is judged by its length alone.
            if record.events.len() < MOST_EVENTS {
                record.events.push(Event { at, client, kind });
            }
            record.events.len() - 1
        })
    }

    /// The hold that an owner field stands for now, and whether it was known. An unknown hold is recorded. If the known
    /// hold is not out any more, the field has been handed on to another hold.
    pub(crate) fn hold(
        &self,
        owner: &str,
        is_out: impl Fn(HoldId) -> bool,
        facts: impl FnOnce() -> HoldFacts,
    ) -> (HoldId, bool) {
        self.with(|record| {
            let known = record.holds.iter().rposition(|hold| hold.owner == owner);
            if let Some(known) = known.filter(|known| is_out(*known)) {
                return (known, true);
            }
            let mut facts = facts();
            if let Some(known) = known {
                facts.began = record.holds[known].began;
            }
            record.holds.push(facts);
            (record.holds.len() - 1, false)
        })
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Record) -> T) -> T {
        act(&mut self.record.lock().expect("not poisoned"))
    }
}

/// An owner field in the form in which the crate shows it.
pub(crate) fn shortened(field: &str) -> String {
    let start: String = field.chars().take(8).collect();
    match field.rsplit_once(':') {
        Some((_, number)) => format!("{start}…:{number}"),
        None => format!("{start}…"),
    }
}

impl Record {
    /// Number of holds that were handed on inside a process: their owner field has stood for another hold before. The
    /// opening does not count, because hand-offs are the rule there.
    pub(crate) fn passes(&self) -> usize {
        let is_over = |event: &Event| event.kind == Kind::Phase(OPENED);
        let opened = self.events.iter().position(is_over).unwrap_or(0);
        let holds = || self.holds.iter().filter(|hold| hold.began >= opened);
        let owners: BTreeSet<&str> = holds().map(|hold| hold.owner.as_str()).collect();
        holds().count() - owners.len()
    }

    /// Owners of the keys that were deleted.
    pub(crate) fn deleted(&self) -> BTreeSet<String> {
        let owners = self.events.iter().filter_map(|event| match &event.kind {
            Kind::Deleted { owners, .. } => Some(owners.iter().cloned()),
            _ => None,
        });
        owners.flatten().collect()
    }

    /// A timeline for people, with the events of a violation marked.
    pub(crate) fn render(&self, marked: &[usize]) -> String {
        let mut text = String::new();
        for (place, event) in self.events.iter().enumerate() {
            let is_marked = marked.contains(&place);
            if matches!(event.kind, Kind::Seen(_)) && !is_marked {
                continue;
            }
            let mark = if is_marked { ">>" } else { "  " };
            let who = event
                .client
                .map_or_else(|| "-".to_owned(), |client| format!("c{client}"));
            let at = event.at;
            let (seconds, micros) = (at.as_secs(), at.subsec_micros());
            let what = self.describe(&event.kind);
            let _ = writeln!(text, "{mark} {seconds:>4}.{micros:06} {who:>3}  {what}");
        }
        text
    }

    fn describe(&self, kind: &Kind) -> String {
        let name = |hold: &HoldId| {
            let facts = &self.holds[*hold];
            format!("{} on {}", facts.owner, facts.names.join("+"))
        };
        match kind {
            Kind::Phase(phase) => format!("===== {phase}"),
            Kind::Fault { what, .. } => format!("FAULT {what}"),
            Kind::Slipped { master, by } => format!("FAULT m{master}: clock slips by {by:?}"),
            Kind::SetBack { master, by } => format!("FAULT m{master}: clock is set back by {by:?}"),
            Kind::Deleted { name, owners } => {
                format!("FAULT {name} of {} is deleted on all masters", owners.join(" "))
            }
            Kind::Begun { op, what } => format!("#{op} begins: {what}"),
            Kind::Granted {
                op,
                hold,
                again,
                kind,
                validity,
                token,
                ..
            } => {
                let verb = if *again { "entered again" } else { "granted" };
                let hold = name(hold);
                format!("#{op} {verb} ({kind:?}): {hold}, {validity:?} left, token {token}")
            }
            Kind::Refused { op, why } => format!("#{op} refused: {why}"),
            Kind::Cancelled { op } => format!("#{op} dropped by its caller"),
            Kind::Downgraded { hold } => format!("downgraded: {}", name(hold)),
            Kind::GivenUp { hold, how, last, .. } => {
                let which = if *last { "last" } else { "inner" };
                format!("{how} of the {which} guard: {}", name(hold))
            }
            Kind::Returned { hold, left } => format!("the body is over, {left:?} left: {}", name(hold)),
            Kind::Outcome { hold, what } => format!("{what}: {}", name(hold)),
            Kind::JobBegun { name, keep } => {
                format!("the job {name} begins, unless it was done {keep:?} ago")
            }
            Kind::JobDone { name, ended, keep } => {
                format!("the job {name} is done for {keep:?} since {ended:?}")
            }
            Kind::Signalled { hold, validity } => format!("told lost, {validity:?} left: {}", name(hold)),
            Kind::Seen(sights) => sights.iter().fold("seen:".to_owned(), |mut text, sight| {
                let _ = write!(
                    text,
                    " [{} ({:?}): {:?} left, count {} of {}, on {} masters, {} against, told lost: {}]",
                    name(&sight.hold),
                    sight.kind,
                    sight.validity,
                    sight.count,
                    sight.expected,
                    sight.on,
                    sight.against,
                    sight.signalled
                );
                text
            }),
            Kind::Wrote { hold, accepted, .. } => {
                let verb = if *accepted { "accepted" } else { "rejected" };
                format!("write {verb}, token {}: {}", self.holds[*hold].token, name(hold))
            }
            Kind::Forced {
                op, name, confirmed, ..
            } => format!("#{op} took {name} away by force, confirmed: {confirmed}"),
            Kind::Executed {
                master,
                connection,
                script,
                owner,
                reply,
                after,
                ..
            } => after.iter().fold(
                format!("m{master} #{connection} {script} {owner} = {reply};"),
                |mut text, key| {
                    let _ = write!(
                        text,
                        " {}: {}{} until {:?} fence {:?}",
                        key.name,
                        key.mode
                            .as_ref()
                            .map(|mode| format!("{mode} "))
                            .unwrap_or_default(),
                        key.owners.join(" "),
                        key.ends,
                        key.fence
                    );
                    text
                },
            ),
            Kind::Progress { name, error } => match error {
                None => format!("had {name} after the faults"),
                Some(error) => format!("never had {name} after the faults: {error}"),
            },
            Kind::Left { when, what } => format!("left {when}: {}", what.join(", ")),
        }
    }
}
