//! Record of a history: the holds with their ends, the writes, and the faults.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// Microseconds since the machine started: one clock for all processes, which no step of the wall clock moves.
pub type Micros = u64;

pub fn now() -> Micros {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let micros = time.tv_sec * 1_000_000 + time.tv_nsec / 1000;
    Micros::try_from(micros).expect("time since the start is not negative")
}

/// Of each worker, the tasks that lock plain names; those with larger numbers lock names that are read or written.
pub const PLAIN_TASKS: usize = 4;

/// Time for which a job that is done is not to be done again.
pub const JOB_KEPT: std::time::Duration = std::time::Duration::from_secs(2);

/// One task of one worker process. A process that is started again has a new number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task {
    pub worker: usize,
    pub task: usize,
}

impl Task {
    pub fn layout(self) -> Layout {
        if self.task < PLAIN_TASKS {
            Layout::Plain
        } else {
            Layout::ReadWrite
        }
    }
}

/// How the names of a task are locked. No name is locked in both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    Plain,
    ReadWrite,
}

/// Whether a hold lets others in beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Exclusive,
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    Red,
    Multi,
}

/// Why a lock was not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Held,
    Unreachable,
    TooLate,
    Unfenced,
    /// The time to wait passed before anything else was said.
    Waited,
    /// Nothing that any fault explains.
    Wrong,
}

/// Message of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// It works from now on.
    Hello,
    /// The round that won began at `began`, and at `from` there was a guard with validity until `until`.
    Enter {
        names: Vec<String>,
        token: u64,
        policy: Policy,
        mode: Mode,
        began: Micros,
        from: Micros,
        until: Micros,
    },
    /// At `looked` the guard was valid until `until`; then it wrote without another look.
    Write {
        looked: Micros,
        until: Micros,
        accepted: bool,
    },
    /// The same of a task that only reads.
    Read {
        looked: Micros,
        until: Micros,
        accepted: bool,
    },
    /// From `at` on it only reads, after it has written.
    Downgrade { at: Micros },
    /// The loss of the hold was signalled at `at`; at `due` the task ran and saw that no validity was left.
    Lost { at: Micros, due: Micros },
    /// It gave the hold up from `at` on.
    Leave { at: Micros },
    /// Outcome of giving it up.
    Unlocked { kind: &'static str },
    Refused {
        policy: Policy,
        began: Micros,
        ended: Micros,
        refusal: Refusal,
        detail: String,
    },
    /// It did a job that is not to be done again for [`JOB_KEPT`]: it asked at `began`, and had its outcome at `ended`.
    Ran {
        job: String,
        began: Micros,
        ended: Micros,
    },
    /// Its connection has ended.
    Gone,
}

/// Action on the servers and the processes.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    Break(String),
    Healed,
    /// All were asked to stop.
    Over,
    Stopped {
        worker: usize,
    },
    Continued {
        worker: usize,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    Said(Task, Said),
    Done(Done),
}

/// In the order in which the witness heard of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub at: Micros,
    pub what: What,
}

impl Event {
    pub fn said(at: Micros, task: Task, said: Said) -> Self {
        Self {
            at,
            what: What::Said(task, said),
        }
    }

    pub fn done(at: Micros, done: Done) -> Self {
        Self {
            at,
            what: What::Done(done),
        }
    }
}

const UNLOCKED: [&str; 5] = ["released", "was-lost", "unconfirmed", "dropped", "still-held"];

pub fn unlocked(kind: &str) -> Option<&'static str> {
    UNLOCKED.into_iter().find(|known| *known == kind)
}

impl Said {
    /// As it goes from a worker to the witness, one line.
    pub fn to_line(&self) -> String {
        match self {
            Self::Hello => "hello\n".to_owned(),
            Self::Enter {
                names,
                token,
                policy,
                mode,
                began,
                from,
                until,
            } => format!(
                "enter {} {token} {policy} {mode} {began} {from} {until}\n",
                names.join("+")
            ),
            Self::Write { looked, until, .. } => format!("write {looked} {until}\n"),
            Self::Read { looked, until, .. } => format!("read {looked} {until}\n"),
            Self::Downgrade { at } => format!("downgrade {at}\n"),
            Self::Lost { at, due } => format!("lost {at} {due}\n"),
            Self::Leave { at } => format!("leave {at}\n"),
            Self::Unlocked { kind } => format!("unlocked {kind}\n"),
            Self::Refused {
                policy,
                began,
                ended,
                refusal,
                detail,
            } => format!("refused {policy} {began} {ended} {refusal:?} {detail}\n"),
            Self::Ran { job, began, ended } => format!("ran {job} {began} {ended}\n"),
            Self::Gone => "gone\n".to_owned(),
        }
    }

    pub fn parse(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind, rest @ ..] = words.as_slice() else {
            bail!("an empty line");
        };
        let micros = |place: usize| -> Result<Micros> {
            rest.get(place)
                .context("a number is missing")?
                .parse()
                .context("a number")
        };
        let word = |place: usize| rest.get(place).copied().context("a word is missing");
        Ok(match *kind {
            "hello" => Self::Hello,
            "enter" => Self::Enter {
                names: word(0)?.split('+').map(str::to_owned).collect(),
                token: micros(1)?,
                policy: word(2)?.parse()?,
                mode: word(3)?.parse()?,
                began: micros(4)?,
                from: micros(5)?,
                until: micros(6)?,
            },
            "write" => Self::Write {
                looked: micros(0)?,
                until: micros(1)?,
                accepted: false,
            },
            "read" => Self::Read {
                looked: micros(0)?,
                until: micros(1)?,
                accepted: false,
            },
            "downgrade" => Self::Downgrade { at: micros(0)? },
            "lost" => Self::Lost {
                at: micros(0)?,
                due: micros(1)?,
            },
            "leave" => Self::Leave { at: micros(0)? },
            "unlocked" => Self::Unlocked {
                kind: unlocked(word(0)?).context("an unknown end")?,
            },
            "ran" => Self::Ran {
                job: word(0)?.to_owned(),
                began: micros(1)?,
                ended: micros(2)?,
            },
            "refused" => Self::Refused {
                policy: word(0)?.parse()?,
                began: micros(1)?,
                ended: micros(2)?,
                refusal: word(3)?.parse()?,
                detail: rest.get(4..).unwrap_or_default().join(" "),
            },
            other => bail!("'{other}' means nothing"),
        })
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}.{}", self.worker, self.task)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Red => "red",
            Self::Multi => "multi",
        })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::ReadWrite => "read/write",
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        })
    }
}

impl FromStr for Mode {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "exclusive" => Ok(Self::Exclusive),
            "shared" => Ok(Self::Shared),
            other => bail!("'{other}' is no mode"),
        }
    }
}

impl FromStr for Policy {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "red" => Ok(Self::Red),
            "multi" => Ok(Self::Multi),
            other => bail!("'{other}' is no policy"),
        }
    }
}

impl FromStr for Refusal {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [
            Self::Held,
            Self::Unreachable,
            Self::TooLate,
            Self::Unfenced,
            Self::Waited,
            Self::Wrong,
        ];
        all.into_iter()
            .find(|refusal| format!("{refusal:?}") == text)
            .with_context(|| format!("'{text}' is no refusal"))
    }
}
