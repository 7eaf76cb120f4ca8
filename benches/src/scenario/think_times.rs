//! S6t: processes of one task each that come again for one name after a while. A waiter that asks only after the message
//! of a release is a round trip late. So without a queue, processes that come by chance win, and the others never do.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::contention::{Contenders, N, Told, contest};
use crate::client::Who;
use crate::summary::Better;
use crate::worker::Between;

const PROCESSES: usize = 8;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let ms = Duration::from_millis;
    let up_to = |most| Between {
        least: Duration::ZERO,
        most,
    };
    let kinds = [
        ("random", up_to(ms(20)), up_to(ms(40))),
        ("fixed", Between::always(ms(10)), Between::always(ms(20))),
    ];
    // The peer that did best where tasks do not pause.
    let who = bench.form(
        vec![(Who::Ours, None)],
        vec![(Who::Ours, None), (Who::Rslock, None)],
    );
    let time = bench.form(ms(3_000), ms(12_000));
    let told: [Told; 6] = [
        ("grants_s", Better::More, |outcome| outcome.grants_s),
        ("longest_wait_ms", Better::Less, |outcome| outcome.longest_wait_ms),
        ("jain_processes", Better::More, |outcome| outcome.jain_processes),
        ("grants_min", Better::More, |outcome| outcome.grants.0),
        ("grants_max", Better::Less, |outcome| outcome.grants.1),
        ("commands_per_grant_and_node", Better::Less, |outcome| {
            outcome.commands
        }),
    ];
    for (kind, section, pause) in kinds {
        let contenders = Contenders {
            urls: bench.cluster.urls(N),
            processes: PROCESSES,
            tasks: 1,
            time,
            section,
            pause,
            told: Vec::new(),
        };
        contest(bench, &format!("S6t.{kind}"), &contenders, &who, 1, &told).await?;
    }
    Ok(())
}
