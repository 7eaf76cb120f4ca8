//! Tasks of ours and of another library's want one name.

use anyhow::Result;

use crate::Stage;
use crate::contender::{Figures, Order};

const SECTION_MS: u64 = 1;
/// On each side.
const TASKS: [usize; 2] = [4, 8];

/// A lock of another library, and the policy of ours that belongs to it.
struct Lock {
    id: &'static str,
    language: &'static str,
    theirs: &'static str,
    ours: &'static str,
    masters: &'static [usize],
}

const LOCKS: [Lock; 6] = [
    Lock::of("RLock", "java", "lock", "red_lock", &[1]),
    Lock::of("RFairLock", "java", "fair_lock", "red_lock", &[1]),
    Lock::of("RedissonRedLock", "java", "red_lock", "red_lock", &[3, 5]),
    Lock::of("RedissonMultiLock", "java", "multi_lock", "multi_lock", &[3, 5]),
    Lock::of("redsync", "go", "lock", "red_lock", &[1, 3, 5]),
    Lock::of("node-redlock", "js", "lock", "red_lock", &[1, 3, 5]),
];

impl Lock {
    const fn of(
        id: &'static str,
        language: &'static str,
        theirs: &'static str,
        ours: &'static str,
        masters: &'static [usize],
    ) -> Self {
        Self {
            id,
            language,
            theirs,
            ours,
            masters,
        }
    }
}

/// Returns whether all went well, or `None` if nothing was selected.
pub(crate) async fn run(stage: &Stage) -> Result<Option<bool>> {
    let selected = |lock: &&Lock| stage.has(lock.language) && stage.selects(lock.id);
    let mut well = None;
    for lock in LOCKS.iter().filter(selected) {
        if well.is_none() {
            head(stage);
        }
        for &n in lock.masters {
            for tasks in TASKS {
                let is_well = mix(stage, lock, n, tasks).await;
                well = Some(well.unwrap_or(true) && is_well);
            }
        }
    }
    Ok(well)
}

fn head(stage: &Stage) {
    println!(
        "Sections of {SECTION_MS} ms for {} s. Waits are in milliseconds: median, 99th percentile, longest. A share of 1 is an \
         equal one. Errors are calls that failed, of ours and of theirs.\n",
        stage.seconds
    );
    println!(
        "| beside | masters | tasks | ours, grants/s | waits of ours | theirs, grants/s | waits of theirs | share of ours \
         | errors | two inside |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
}

async fn mix(stage: &Stage, lock: &Lock, n: usize, tasks: usize) -> bool {
    let name = format!("{}-{n}-{tasks}", lock.id);
    let order = |language, kind| Order {
        language,
        kind,
        n,
        name: &name,
        tasks,
        section_ms: SECTION_MS,
        seconds: stage.seconds,
        is_contest: true,
        is_beside_redisson: lock.language == "java",
    };
    let orders = [order(None, lock.ours), order(Some(lock.language), lock.theirs)];
    let start = format!("| {} | {n} | {tasks} + {tasks} |", lock.id);
    let title = format!("{}, N = {n}, {tasks} + {tasks} tasks", lock.id);
    let [ours, theirs] = match stage.contest(&orders).await.map(<[Figures; 2]>::try_from) {
        Ok(Ok(both)) => both,
        Ok(Err(_)) => unreachable!("two orders give two figures"),
        Err(error) => {
            println!("{start} failed | | | | | | |");
            eprintln!("beside: {title}: {error:#}");
            return false;
        }
    };
    let two_inside = ours.two_inside + theirs.two_inside;
    println!(
        "{start} {:.0} | {} | {:.0} | {} | {:.2} | {}, {} | {two_inside} |",
        ours.rate,
        waits(&ours),
        theirs.rate,
        waits(&theirs),
        2.0 * ours.grants / (ours.grants + theirs.grants),
        ours.errors,
        theirs.errors,
    );
    if two_inside > 0.0 {
        eprintln!("beside: {title}: two were inside at the same time");
    }
    two_inside == 0.0
}

fn waits(figures: &Figures) -> String {
    format!("{:.1}, {:.0}, {:.0}", figures.p50, figures.p99, figures.max)
}
