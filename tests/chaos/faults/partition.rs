//! Partitions in which everybody sees something else, turned several times in a strike.

use anyhow::Result;

use super::client::stopped;
use super::clock::{CLOCKS, forward};
use super::{PROMISED, REMEMBERED, Row};
use crate::settings::WORKERS;
use crate::stage::Stage;
use crate::support::Direction;

/// Whether a worker sees a master, in a set of `masters`, after `turn` turns.
type Sees = fn(place: usize, master: usize, masters: usize, turn: usize) -> bool;

/// In a strike.
const TURNS: usize = 4;

/// Other event in each turn.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    /// A worker is stopped beyond its lease.
    Stop,
    /// Clocks of a minority step forward.
    ClockStep,
}

pub fn rows() -> Vec<Row> {
    vec![
        Row {
            name: "every worker sees another majority, turned",
            promise: "exclusion, progress during and after",
            strike: |stage| Box::pin(turns(stage, "ring", ring, Beside::Nothing)),
            available: true,
            containers: false,
            ..REMEMBERED
        },
        Row {
            name: "every worker sees another majority, and one is stopped beyond its lease",
            promise: "exclusion, progress during and after",
            strike: |stage| Box::pin(turns(stage, "ring", ring, Beside::Stop)),
            available: true,
            containers: false,
            ..REMEMBERED
        },
        Row {
            name: "every worker sees another majority, and clocks of a minority step forward",
            promise: "exclusion (all have heard the clocks before), progress after",
            set_up: CLOCKS,
            strike: |stage| Box::pin(turns(stage, "ring", ring, Beside::ClockStep)),
            containers: false,
            ..PROMISED
        },
        Row {
            name: "one worker sees all masters, the others a half each, turned",
            promise: "exclusion, progress after",
            strike: |stage| Box::pin(turns(stage, "bridge", bridge, Beside::Nothing)),
            containers: false,
            ..REMEMBERED
        },
    ]
}

fn ring(place: usize, master: usize, masters: usize, turn: usize) -> bool {
    (place + master + turn) % masters <= masters / 2
}

fn bridge(place: usize, master: usize, masters: usize, turn: usize) -> bool {
    let is_near = (master + turn) % masters <= masters / 2;
    match (place + turn) % WORKERS {
        0 => true,
        1 => is_near,
        _ => !is_near,
    }
}

async fn turns(stage: &mut Stage, shape: &str, sees: Sees, beside: Beside) -> Result<()> {
    for turn in 0..TURNS {
        stage.breaks(format!("{shape} of the masters, turned by {turn}"));
        draw_lines(stage, |place, master| sees(place, master, stage.masters(), turn));
        match beside {
            Beside::Nothing => stage.pause(1000, 2000).await,
            Beside::Stop => stopped(stage).await?,
            Beside::ClockStep => {
                forward(stage, false).await?;
                stage.pause(700, 1000).await;
            }
        }
    }
    draw_lines(stage, |_, _| true);
    Ok(())
}

fn draw_lines(stage: &Stage, sees: impl Fn(usize, usize) -> bool) {
    for place in 0..WORKERS {
        for master in 0..stage.masters() {
            let way = stage.way(place, master);
            for direction in [Direction::ToServer, Direction::ToClient] {
                if sees(place, master) {
                    way.resume(direction);
                } else {
                    way.pause(direction);
                }
            }
        }
    }
}
