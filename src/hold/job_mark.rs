//! Rounds that store on the masters that a job is done, or that forget it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::events::VoteKind;
use crate::protocol::calls;
use crate::protocol::fault::Fault;
use crate::protocol::job_mark::JobMark;
use crate::protocol::node_set::NodeSet;
use crate::round::clocks::Clocks;
use crate::round::pool::Pool;
use crate::round::{NoScriptFallback, Round, Trust};
use crate::time::backoff::{LONGEST_SLOW_DELAY, slow_delays};
use crate::values::names::Names;
use crate::values::votes::Vote;

/// Makes the mark of a job that this client has just done. Its time is the median of the masters' clocks.
pub(crate) fn made_now(pool: &Pool, keep: Duration) -> JobMark {
    let since_1970 = || {
        let now = std::time::SystemTime::now();
        now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    };
    let clock = Clocks::of(pool).median_us();
    let at = clock.map_or_else(since_1970, Duration::from_micros);
    JobMark {
        at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        keep,
        label: Arc::clone(&pool.label),
    }
}

/// Stores a mark, and returns once `needed` masters have it. The others get it in the background: those that fail are asked
/// again until they have it, until it has ended, or until the client is closed.
///
/// # Cancel safety
///
/// What was sent goes on. Nothing is sent again.
pub(crate) async fn store(pool: &Arc<Pool>, names: &Names, mark: &JobMark, needed: usize) {
    let until = Instant::now() + mark.keep;
    let mut stored = NodeSet::default();
    let mut delays = slow_delays(&pool.random);
    loop {
        let mut round = send(pool, names, Some(mark), stored);
        while let Some((node, answer)) = round.next().await {
            if vote_of(&mut round, node, answer) == Vote::Granted {
                stored.insert(node);
            }
            if stored.len() >= needed {
                owe(pool, names, mark, round, stored, until);
                return;
            }
        }
        sleep(delays.next().unwrap_or(LONGEST_SLOW_DELAY)).await;
    }
}

/// Stores a mark that another client has made, in one round. Returns whether `needed` masters have it.
pub(crate) async fn confirm(pool: &Arc<Pool>, names: &Names, mark: &JobMark, needed: usize) -> bool {
    let mut round = send(pool, names, Some(mark), NodeSet::default());
    let mut stored = 0;
    while stored < needed
        && let Some((node, answer)) = round.next().await
    {
        stored += usize::from(vote_of(&mut round, node, answer) == Vote::Granted);
    }
    round.detach(NoScriptFallback::Resend, |_, answer| VoteKind::of(&vote(answer)));
    stored >= needed
}

/// Forgets the mark on all masters. Returns the answer of each.
pub(crate) async fn forget(pool: &Arc<Pool>, names: &Names) -> Vec<Vote> {
    let mut round = send(pool, names, None, NodeSet::default());
    let mut votes = vec![Vote::Pending; pool.slots.len()];
    while let Some((node, answer)) = round.next().await {
        votes[node] = vote_of(&mut round, node, answer);
    }
    votes
}

/// Stores the mark on the masters that do not have it yet.
fn owe(
    pool: &Arc<Pool>,
    names: &Names,
    mark: &JobMark,
    mut round: Round,
    mut stored: NodeSet,
    until: Instant,
) {
    let (weak, names, mark) = (Arc::downgrade(pool), names.clone(), mark.clone());
    let (closing, mut delays, nodes) = (pool.closing.clone(), slow_delays(&pool.random), pool.slots.len());
    let work = async move {
        loop {
            while let Some((node, answer)) = round.next().await {
                if vote_of(&mut round, node, answer) == Vote::Granted {
                    stored.insert(node);
                }
            }
            drop(round);
            if stored.len() == nodes || Instant::now() >= until {
                return;
            }
            sleep(delays.next().unwrap_or(LONGEST_SLOW_DELAY)).await;
            let Some(pool) = weak.upgrade() else { return };
            round = send(&pool, &names, Some(&mark), stored);
        }
    };
    pool.runtime.spawn(async move {
        tokio::select! {
            () = closing.cancelled() => {}
            () = work => {}
        }
    });
}

fn send(pool: &Arc<Pool>, names: &Names, mark: Option<&JobMark>, except: NodeSet) -> Round {
    let request = calls::mark(names, mark);
    Round::begin(pool, &request, Trust::All, |node| !except.contains(node))
}

fn vote_of(round: &mut Round, node: usize, answer: Result<redis::Value, Fault>) -> Vote {
    let vote = vote(answer);
    round.voted(node, &vote);
    vote
}

fn vote(answer: Result<redis::Value, Fault>) -> Vote {
    match answer {
        Ok(redis::Value::Int(1)) => Vote::Granted,
        Ok(_) => Vote::Failed {
            error: "its clock is ahead, and the time of the mark is over there".into(),
        },
        Err(fault) => fault.vote(),
    }
}
