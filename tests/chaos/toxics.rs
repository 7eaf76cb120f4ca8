//! Troubles of a master behind Toxiproxy: every toxic in both directions, a proxy that is off, a kill, a freeze.

use std::fmt;

use anyhow::Result;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::settings::WORKERS;
use crate::stage::Stage;
use crate::support::Keep;

const TOXICS: [&str; 7] = [
    "latency",
    "bandwidth",
    "slow_close",
    "timeout",
    "reset_peer",
    "slicer",
    "limit_data",
];
const STREAMS: [&str; 2] = ["upstream", "downstream"];

/// One kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    Toxic {
        kind: &'static str,
        stream: &'static str,
    },
    Off,
    Killed,
    Frozen,
}

/// Trouble of one master, on the links of these workers where it is one of links.
#[derive(Debug)]
pub struct Struck {
    pub trouble: Trouble,
    pub master: usize,
    workers: std::ops::Range<usize>,
}

/// Every kind in an order at random, over and over.
#[derive(Debug, Default)]
pub struct Deck {
    left: Vec<Trouble>,
}

impl Trouble {
    pub fn all() -> Vec<Self> {
        let toxics = TOXICS
            .into_iter()
            .flat_map(|kind| STREAMS.map(|stream| Self::Toxic { kind, stream }));
        toxics.chain([Self::Off, Self::Killed, Self::Frozen]).collect()
    }

    /// Whether a master has lost its votes for some time afterwards.
    pub fn ends_in_quarantine(self) -> bool {
        self == Self::Killed
    }
}

impl Deck {
    pub fn draw(&mut self, rng: &mut StdRng) -> Trouble {
        if self.left.is_empty() {
            self.left = Trouble::all();
            self.left.shuffle(rng);
        }
        self.left.pop().expect("just filled")
    }
}

/// A toxic's attributes, as JSON without its braces.
fn attributes(kind: &str, rng: &mut StdRng) -> String {
    match kind {
        "latency" => {
            let (latency, jitter) = (rng.random_range(1..400), rng.random_range(0..200));
            format!(r#""latency":{latency},"jitter":{jitter}"#)
        }
        // In KB a second.
        "bandwidth" => format!(r#""rate":{}"#, rng.random_range(1..30)),
        "slow_close" => format!(r#""delay":{}"#, rng.random_range(10..1500)),
        // Nothing arrives; with 0 the connection stays open.
        "timeout" => format!(
            r#""timeout":{}"#,
            rng.random_range(0..2) * rng.random_range(1..800)
        ),
        "reset_peer" => format!(r#""timeout":{}"#, rng.random_range(0..300)),
        "slicer" => {
            let (size, delay) = (rng.random_range(1..64), rng.random_range(0..5000));
            format!(
                r#""average_size":{size},"size_variation":{},"delay":{delay}"#,
                size / 2
            )
        }
        "limit_data" => format!(r#""bytes":{}"#, rng.random_range(0..4000)),
        other => unreachable!("{other} is no toxic"),
    }
}

impl Struck {
    /// Begins the trouble: mostly for all workers, at times for one of them.
    pub async fn begin(stage: &mut Stage, trouble: Trouble, master: usize) -> Result<Self> {
        let one = stage.rng.random_range(0..WORKERS);
        let workers = if stage.rng.random_bool(0.7) {
            0..WORKERS
        } else {
            one..one + 1
        };
        let struck = Self {
            trouble,
            master,
            workers,
        };
        match trouble {
            Trouble::Toxic { kind, stream } => {
                for worker in struck.workers.clone() {
                    let attributes = attributes(kind, &mut stage.rng);
                    let link = (worker, master);
                    stage.toxiproxy()?.add(link, kind, stream, &attributes).await?;
                }
            }
            Trouble::Off => {
                for worker in struck.workers.clone() {
                    stage.toxiproxy()?.enable((worker, master), false).await?;
                }
            }
            Trouble::Killed => stage.server(master).kill().await,
            Trouble::Frozen => stage.server(master).freeze().await,
        }
        Ok(struck)
    }

    pub async fn end(&self, stage: &Stage) -> Result<()> {
        match self.trouble {
            Trouble::Toxic { .. } => {
                for worker in self.workers.clone() {
                    stage.toxiproxy()?.remove((worker, self.master)).await?;
                }
            }
            Trouble::Off => {
                for worker in self.workers.clone() {
                    stage.toxiproxy()?.enable((worker, self.master), true).await?;
                }
            }
            Trouble::Killed => stage.server(self.master).restart(Keep::Data).await,
            Trouble::Frozen => stage.server(self.master).thaw().await,
        }
        Ok(())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Toxic { kind, stream } => write!(f, "{kind} {stream}"),
            Self::Off => f.write_str("off"),
            Self::Killed => f.write_str("killed"),
            Self::Frozen => f.write_str("frozen"),
        }
    }
}
