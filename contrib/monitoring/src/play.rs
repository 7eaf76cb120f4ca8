//! The play: acts on the masters, and their times.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use futures::future::try_join_all;
use multilock::Node;
use multilock_test_support::native::Native;
use tokio::time::{Instant, sleep_until};

const MASTERS: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Act {
    Kill(usize),
    Freeze(usize),
    Thaw(usize),
    /// Without its data.
    Restart(usize),
    End,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(number) => write!(f, "{number} killed"),
            Self::Freeze(number) => write!(f, "{number} frozen"),
            Self::Thaw(number) => write!(f, "{number} goes on"),
            Self::Restart(number) => write!(f, "{number} restarted"),
            Self::End => f.write_str("end"),
        }
    }
}

/// Second and act. One master is killed, and another one frozen. Then a third one fails, and holds are lost.
const PLAY: [(u64, Act); 7] = [
    (12, Act::Kill(2)),
    (24, Act::Freeze(4)),
    (36, Act::Freeze(5)),
    (54, Act::Thaw(5)),
    (58, Act::Thaw(4)),
    (64, Act::Restart(2)),
    (80, Act::End),
];

/// An act that was performed, and its time in seconds since 1970.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) at: f64,
    pub(crate) what: String,
}

#[derive(Debug)]
pub(crate) struct Play(Vec<Native>);

impl Play {
    pub(crate) async fn start() -> Result<Self> {
        let starting = (0..MASTERS).map(|_| Native::start(&[], &[]));
        Ok(Self(try_join_all(starting).await?))
    }

    /// By the numbers that the events tell.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        let labelled = self.0.iter().zip(1..);
        let node =
            |(master, number): (&Native, u8)| Node::url(master.address.url()).label(format!("{number}"));
        labelled.map(node).collect()
    }

    pub(crate) async fn perform(&self) -> Result<Vec<Event>> {
        let begun = Instant::now();
        let mut events = Vec::new();
        for (second, act) in PLAY {
            sleep_until(begun + Duration::from_secs(second)).await;
            match act {
                Act::Kill(number) => self.0[number - 1].kill()?,
                Act::Freeze(number) => self.0[number - 1].freeze()?,
                Act::Thaw(number) => self.0[number - 1].thaw()?,
                Act::Restart(number) => self.0[number - 1].restart(false).await?,
                Act::End => break,
            }
            let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
            events.push(Event {
                at,
                what: act.to_string(),
            });
        }
        Ok(events)
    }
}
