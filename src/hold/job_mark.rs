//! Rounds that store on the masters that a job is done, or that forget it.
//!
//! The usual case is one round, whose script stores the mark and releases the hold ([`store_and_release`]). If the
//! mark or the release is left undone, two more follow: the mark while the hold is renewed, then the release.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::events::VoteKind;
use crate::node::PendingRelease;
use crate::protocol::calls;
use crate::protocol::claim::Claim;
use crate::protocol::command::Request;
use crate::protocol::job_mark::JobMark;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::{self, Marked, Released};
use crate::round::clocks::Clocks;
use crate::round::pool::Pool;
use crate::round::{NoScriptFallback, Round, Trust};
use crate::time::backoff::Backoff;
use crate::values::names::Names;
use crate::values::votes::Vote;

/// Makes the mark of a job that this client has just done. Its time is the median of the masters' clocks, or later, so
/// that the job is not begun again too early. Unknown clocks count as ahead. A node timeout is added, because a clock
/// is known from an answer that was under way.
pub(crate) fn made_now(pool: &Pool, keep: Duration) -> JobMark {
    let since_1970 = || {
        let now = std::time::SystemTime::now();
        now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    };
    let clock = Clocks::of(pool).late_median_us();
    let at = clock.map_or_else(since_1970, Duration::from_micros) + pool.config.node_timeout;
    JobMark {
        at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        keep,
        label: Arc::clone(&pool.label),
    }
}

/// Stores a mark on all masters and releases the hold there, in one round. Returns once `needed` masters have done
/// both; [`Storing::go_on`] is for the others. If too few masters have done both, returns these masters.
///
/// Until then each master either refuses others by the hold, or reports by the mark that the job is done. So no hold
/// has to be renewed once it is released in part.
///
/// # Cancel safety
///
/// Sent messages go on. Nothing is sent again.
pub(crate) async fn store_and_release(
    pool: &Arc<Pool>,
    claim: &Claim,
    mark: &JobMark,
    needed: usize,
) -> Result<(Storing, Round), NodeSet> {
    let (yielding, random) = (&pool.topics.yielding, &pool.random);
    yielding.released(&claim.names, random);
    let mut storing = Storing::new(&claim.names, mark, Some(&claim.field.text()), NodeSet::default());
    let mut round = send(pool, &calls::finish(claim, mark), NodeSet::default());
    let sent = round.sent;
    while let Some((node, marked)) = storing.next(&mut round).await {
        let listen = marked == Some(Marked::Counts(Released::Whole { others_listen: true }));
        yielding.note_listeners(&claim.names, node, listen, sent, random);
        if storing.stored.len() >= needed {
            return Ok((storing, round));
        }
    }
    Err(storing.stored)
}

/// Stores the mark of a hold with this owner field on the masters that are not in `stored`. Returns `true` once `needed`
/// masters have it and let nobody in before. Returns `false` if the mark has ended before, or has ended by the clocks of
/// too many masters. The others get the mark in the background. A master that fails is asked again until it has the mark,
/// the mark has ended, or the client is closed.
///
/// # Cancel safety
///
/// Sent messages go on. Nothing is sent again.
pub(crate) async fn store(
    pool: &Arc<Pool>,
    names: &Names,
    mark: &JobMark,
    owner: &str,
    needed: usize,
    stored: NodeSet,
) -> bool {
    let mut storing = Storing::new(names, mark, Some(owner), stored);
    let mut delays = Backoff::slow(&pool.random);
    let most_over = pool.slots.len() - needed;
    while Instant::now() < storing.until && storing.missing.len() <= most_over {
        let mut round = send(pool, &storing.request, storing.stored);
        if storing.take(&mut round, needed).await {
            storing.go_on(pool, round, None);
            return true;
        }
        sleep(delays.next()).await;
    }
    false
}

/// Confirms a mark that another client has made: looks whether `needed` masters have it, and if too few have, stores
/// it on those without it. Returns whether `needed` masters have it.
///
/// The job may be forgotten meanwhile. So the look adds no mark, and nothing is stored if no master has it any more.
pub(crate) async fn confirm(pool: &Arc<Pool>, names: &Names, mark: &JobMark, needed: usize) -> bool {
    let mut storing = Storing::new(names, mark, None, NodeSet::default());
    let mut left_out = NodeSet::default();
    for request in [calls::confirm(names, mark), Arc::clone(&storing.request)] {
        let mut round = send(pool, &request, left_out);
        let is_confirmed = storing.take(&mut round, needed).await;
        round.detach(NoScriptFallback::Resend, |_, answer| {
            VoteKind::of(&reply::marked(answer).1)
        });
        if is_confirmed || storing.marked.is_empty() {
            return is_confirmed;
        }
        left_out = pool.all().without(storing.missing);
    }
    false
}

/// Forgets the marks from before on all masters. Returns the answer of each.
pub(crate) async fn forget(pool: &Arc<Pool>, names: &Names) -> Vec<Vote> {
    // By the clocks that marks are made from. A mark of less than a node timeout ago is later: it is deleted, and not kept out.
    let at_ms = Clocks::of(pool).median_us.unwrap_or(0) / 1000;
    let mut round = send(pool, &calls::forget(names, at_ms), NodeSet::default());
    let mut votes = vec![Vote::Pending; pool.slots.len()];
    while let Some((node, answer)) = round.next().await {
        votes[node] = reply::marked(answer).1;
        round.voted(node, &votes[node]);
    }
    votes
}

/// A mark that is being stored.
#[must_use]
pub(crate) struct Storing {
    /// Call that stores the mark.
    request: Arc<Request>,
    /// End of the mark.
    until: Instant,
    /// Masters that have the mark, and had let nobody in before it.
    stored: NodeSet,
    /// Masters that have the mark.
    marked: NodeSet,
    /// Masters without it: it has ended by their clocks, or they were not to store it.
    missing: NodeSet,
}

impl Storing {
    fn new(names: &Names, mark: &JobMark, owner: Option<&str>, stored: NodeSet) -> Self {
        Self {
            request: calls::mark(names, mark, owner),
            until: Instant::now() + mark.keep,
            stored,
            marked: stored,
            missing: NodeSet::default(),
        }
    }

    /// Takes in the answers of a round until `needed` masters have stored the mark. Returns whether they have.
    async fn take(&mut self, round: &mut Round, needed: usize) -> bool {
        while self.next(round).await.is_some() {
            if self.stored.len() >= needed {
                return true;
            }
        }
        false
    }

    /// Takes in the next answer of a round; `None` at its end.
    async fn next(&mut self, round: &mut Round) -> Option<(usize, Option<Marked>)> {
        let (node, answer) = round.next().await?;
        let (marked, vote) = reply::marked(answer);
        round.voted(node, &vote);
        match marked {
            Some(Marked::Counts(_)) => self.stored.insert(node),
            Some(Marked::Nowhere) => self.missing.insert(node),
            Some(Marked::BesideAnother) | None => {}
        }
        if matches!(marked, Some(Marked::Counts(_) | Marked::BesideAnother)) {
            self.marked.insert(node);
        }
        Some((node, marked))
    }

    /// Goes on in the background with the masters that do not have the mark yet. `unreleased` is the hold, with the masters
    /// that may have it, unless another call has released it. After the round its release becomes pending at those of them
    /// without the mark: it may come before the mark there, as a quorum has the mark. Closing waits for the round.
    pub(crate) fn go_on(mut self, pool: &Arc<Pool>, mut round: Round, unreleased: Option<(Claim, NodeSet)>) {
        let this = Arc::clone(pool);
        pool.in_background(async move {
            self.take(&mut round, usize::MAX).await;
            drop(round);
            let nodes = this.slots.len();
            if let Some((claim, having)) = unreleased {
                let missing = having.iter().filter(|node| !self.stored.contains(*node));
                missing.for_each(|node| this.slots[node].defer(PendingRelease::new(claim.clone())));
            }
            if self.marked.len() < nodes {
                self.ask_again(&this);
            }
        });
    }

    /// Asks the masters that do not have the mark again and again, until the client is closed. While many jobs are asked for, a
    /// further one is left to the quorum that has its mark.
    fn ask_again(mut self, pool: &Arc<Pool>) {
        let Ok(counted) = Arc::clone(&pool.missing_marks).try_acquire_owned() else {
            return;
        };
        let weak = Arc::downgrade(pool);
        let (closing, mut delays, nodes) = (
            pool.closing.clone(),
            Backoff::slow(&pool.random),
            pool.slots.len(),
        );
        let work = async move {
            let _counted = counted;
            while self.marked.len() < nodes && Instant::now() < self.until {
                sleep(delays.next()).await;
                let Some(pool) = weak.upgrade() else { return };
                let mut round = send(&pool, &self.request, self.marked);
                drop(pool);
                self.take(&mut round, usize::MAX).await;
            }
        };
        pool.runtime.spawn(async move {
            tokio::select! {
                () = closing.cancelled() => {}
                () = work => {}
            }
        });
    }
}

fn send(pool: &Arc<Pool>, request: &Arc<Request>, except: NodeSet) -> Round {
    Round::begin(pool, request, Trust::All, pool.all().without(except))
}
