//! Several locks at once, each on masters of its own: all of them or none, and none is held while another is waited for.
//!
//! There is no order in which all processes could take them one after the other, so each round asks for all. What is
//! won in a round that is lost elsewhere is given back at once. All parts wait with one ticket, the set's: the oldest
//! set is the first in every queue that it stands in, and so gets in.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, maybe_done, select, select_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep, timeout_at};

use crate::acquire::enter::{acquire, acquire_as};
use crate::acquire::patience::Patience;
use crate::acquire::pauses::SPLIT;
use crate::acquire::refusal::Refusal;
use crate::acquire::request::AcquireRequest;
use crate::acquire::wait::{after, yield_to_foreign};
use crate::acquire::waiting::{Asked, Waiting};
use crate::error::LockError;
use crate::lock::owned_entry::OwnedEntry;
use crate::protocol::tally::LossReason;
use crate::protocol::waiter::Precedence;
use crate::round::clocks::Clocks;

/// Two sets that begin at once have the same ticket once in as many microseconds.
const SPREAD: Duration = Duration::from_millis(1);

/// Which of the locks it is about, and why that was not to be had.
pub(crate) type MemberRefusal<E> = (usize, E);

/// Asks once for all of them, each in a round of its own; the first that is lost ends the others.
pub(crate) async fn try_all(all: &[AcquireRequest]) -> Result<Vec<OwnedEntry>, MemberRefusal<Refusal>> {
    let attempt = |(index, request)| async move { (index, acquire(request).await) };
    let mut attempts: FuturesUnordered<_> = all.iter().enumerate().map(attempt).collect();
    let mut won = Vec::with_capacity(all.len());
    while let Some((index, attempted)) = attempts.next().await {
        won.push((index, attempted.map_err(|refusal| (index, refusal))?));
    }
    for (index, guard) in &won {
        still_good(&all[*index], guard).map_err(|refusal| (*index, refusal))?;
    }
    won.sort_by_key(|(index, _)| *index);
    Ok(won.into_iter().map(|(_, guard)| guard).collect())
}

/// Waits until all of them are granted in one round. What stood in the way last is left in `last`, for the caller whose
/// patience ends.
///
/// Dropped at any point, it leaves all queues, and rolls back.
pub(crate) async fn contend_for_all(
    all: &[AcquireRequest],
    last: &mut Option<MemberRefusal<LockError>>,
) -> Result<Vec<OwnedEntry>, MemberRefusal<LockError>> {
    let mut members: Vec<Member<'_>> = all.iter().map(Member::begin).collect();
    let mut patience = Patience::of_a_wait_since(Instant::now());
    let mut blocked: Option<Blocked> = None;
    let agreed = agree(&mut members);
    loop {
        for (index, member) in members.iter_mut().enumerate() {
            let left = yield_to_foreign(member.request, &mut member.waiting).await;
            left.map_err(|error| (index, error))?;
        }
        let asked: Vec<Asked> = members
            .iter_mut()
            .map(|member| member.waiting.prepare())
            .collect();
        // One that the masters' clocks do not bear out any more is drawn anew.
        let has_one_ticket =
            agreed.is_some_and(|agreed| members.iter().all(|member| member.ticket() == agreed));
        // The lock that was in the way keeps its place where it is had at last and another one is refused. Else the set
        // would wait for each of the two in turn.
        let is_reserved = |index: usize| {
            let has_time = |blocked: Blocked| (index == blocked.by) || Instant::now() < blocked.until;
            has_one_ticket && blocked.is_none_or(has_time)
        };
        let refused = match ask_all(&mut members, is_reserved).await? {
            SetRound::Won(guards) => return Ok(guards),
            SetRound::Lost(refused) => refused,
        };
        *last = longest(&refused);
        if let Some((index, error)) = last {
            patience.mind(members[*index].request, Some(error));
        }
        let is_split = refused.iter().any(Option::is_none);
        // The same one, unless it was had this time.
        let still = blocked.filter(|blocked| refused[blocked.by].is_some());
        let in_the_way = still.unwrap_or_else(|| Blocked::by(&members, &refused));
        blocked = Some(in_the_way);
        rest_together(&mut members, &refused, &asked, in_the_way, has_one_ticket).await?;
        if is_split && !has_one_ticket {
            // Others do the same by other tickets, and at other moments only by chance.
            sleep(members[0].waiting.pauses.next(SPLIT)).await;
        }
    }
}

/// What became of a round: all of the guards, or who was refused.
enum SetRound {
    Won(Vec<OwnedEntry>),
    Lost(Vec<Option<Refusal>>),
}

/// Asks for all of them. Once one is refused, what the others win is given back as it comes; with `is_reserved` they keep
/// their places.
async fn ask_all(
    members: &mut [Member<'_>],
    is_reserved: impl Fn(usize) -> bool,
) -> Result<SetRound, MemberRefusal<LockError>> {
    let clocks: Vec<_> = members
        .iter_mut()
        .map(|member| member.waiting.clocks.take())
        .collect();
    let mut won: Vec<Option<OwnedEntry>> = members.iter().map(|_| None).collect();
    let mut refused: Vec<Option<Refusal>> = members.iter().map(|_| None).collect();
    let attempts = members.iter().zip(clocks).enumerate();
    let mut attempts: FuturesUnordered<_> = attempts
        .map(|(index, (member, clocks))| ask(index, member, clocks))
        .collect();
    let mut is_lost = false;
    while let Some((index, attempted)) = attempts.next().await {
        match attempted {
            Ok(guard) => won[index] = Some(guard),
            Err(refusal) if refusal.reason == LossReason::Final => return Err((index, refusal.error)),
            Err(refusal) => {
                refused[index] = Some(refusal);
                is_lost = true;
            }
        }
        if is_lost {
            for (index, (member, won)) in members.iter().zip(&mut won).enumerate() {
                if let Some(guard) = won.take() {
                    guard.give_back(
                        member
                            .waiting
                            .queued_entry()
                            .filter(|_| is_reserved(index))
                            .cloned(),
                    );
                }
            }
        }
    }
    drop(attempts);
    if !is_lost {
        return Ok(SetRound::Won(won.into_iter().flatten().collect()));
    }
    for (member, refused) in members.iter_mut().zip(&refused) {
        if refused.is_none() {
            member.waiting.has_won();
        }
    }
    Ok(SetRound::Lost(refused))
}

async fn ask(
    index: usize,
    member: &Member<'_>,
    clocks: Option<Clocks>,
) -> MemberRefusal<Result<OwnedEntry, Refusal>> {
    let attempted = acquire_as(
        member.request,
        Precedence::of(member.waiting.queued_entry()),
        clocks,
    )
    .await;
    let attempted = attempted.and_then(|guard| still_good(member.request, &guard).map(|()| guard));
    (index, attempted)
}

/// The lock that is in the way.
#[derive(Clone, Copy)]
struct Blocked {
    by: usize,
    /// Until when others are kept out of the rest of the set for its sake: for as long as one that is called may take to
    /// come.
    until: Instant,
}

impl Blocked {
    /// The one that will be so for longest.
    fn by(members: &[Member<'_>], refused: &[Option<Refusal>]) -> Self {
        let by = longest(refused).map_or(0, |(index, _)| index);
        Self {
            by,
            until: Instant::now() + members[by].waiting.entry.waiter.comes_within,
        }
    }
}

/// Sleeps until another round is worthwhile for each that was refused. After a while only the one in the way keeps its
/// place, and is waited for: those behind the set at the others have waited long enough.
async fn rest_together(
    members: &mut [Member<'_>],
    refused: &[Option<Refusal>],
    asked: &[Asked],
    blocked: Blocked,
    has_one_ticket: bool,
) -> Result<(), MemberRefusal<LockError>> {
    let closing: Vec<_> = members
        .iter()
        .map(|member| member.request.client.pool.closing.clone())
        .collect();
    let closed = select_all(closing.iter().map(|closing| Box::pin(closing.cancelled())));
    let resting = async {
        let (mut awaited, mut others) = (None, Vec::new());
        for (index, member) in members.iter_mut().enumerate() {
            if index == blocked.by {
                awaited = Some(member);
            } else {
                others.push((index, member));
            }
        }
        let Some(awaited) = awaited else { return Ok(()) };
        let mut first = pin!(maybe_done(rest_of(blocked.by, awaited, refused, asked)));
        let has_time = has_one_ticket && Instant::now() < blocked.until;
        if has_time {
            let others = others
                .iter_mut()
                .map(|(index, member)| rest_of(*index, member, refused, asked));
            // The next round is worthwhile once the one in the way is open: it shows at once what else is in the way, and
            // the second begins anew for that. The others are polled first, as each has to take its refusal in.
            let awaited = async {
                match select(pin!(try_join_all(others)), &mut first).await {
                    Either::Left((others, first)) => {
                        others?;
                        first.await;
                    }
                    Either::Right(_) => {}
                }
                Ok(())
            };
            if let Ok(others) = timeout_at(blocked.until, awaited).await {
                return others.and(first.take_output().unwrap_or(Ok(())));
            }
        }
        for (index, member) in others {
            if let Some(refusal) = refused[index].as_ref().filter(|_| !has_time) {
                member.waiting.refused(refusal);
            }
            member.waiting.leave();
        }
        (&mut first).await;
        first.take_output().unwrap_or(Ok(()))
    };
    tokio::select! {
        biased;
        ((), index, _) = closed => Err((index, LockError::Closed)),
        rested = resting => rested,
    }
}

/// The rest of one that was refused; none of one that was not.
async fn rest_of(
    index: usize,
    member: &mut Member<'_>,
    refused: &[Option<Refusal>],
    asked: &[Asked],
) -> Result<(), MemberRefusal<LockError>> {
    let Some(refusal) = &refused[index] else {
        return Ok(());
    };
    let rested = after(member.request, &mut member.waiting, refusal, &asked[index]).await;
    rested.map_err(|error| (index, error))
}

/// One of the locks, and its place in the queues.
struct Member<'a> {
    request: &'a AcquireRequest,
    waiting: Waiting<'a>,
}

impl<'a> Member<'a> {
    fn begin(request: &'a AcquireRequest) -> Self {
        Self {
            request,
            waiting: Waiting::begin(request),
        }
    }

    fn ticket(&self) -> u64 {
        self.waiting.entry.waiter.ticket
    }
}

/// One ticket for all of them: a little later than any has drawn, by chance, so that no two sets have the same one. None
/// where the clocks of their masters are too far apart for that, or not known yet.
fn agree(members: &mut [Member<'_>]) -> Option<u64> {
    let random = &members.first()?.request.client.pool.random;
    let later = u64::try_from(random.within(SPREAD).as_micros()).unwrap_or(0);
    let latest = members.iter().map(Member::ticket).max()? + later;
    let all = members
        .iter_mut()
        .all(|member| member.waiting.take_ticket(latest));
    all.then_some(latest)
}

/// Rounds of others may have taken long.
fn still_good(request: &AcquireRequest, guard: &OwnedEntry) -> Result<(), Refusal> {
    let left = guard.validity();
    if left > request.min_validity {
        return Ok(());
    }
    let votes = guard.votes().iter().map(|node| node.vote.clone()).collect();
    Err(Refusal::too_late(request, left, votes))
}

/// The lock that will be in the way for longest.
fn longest(refused: &[Option<Refusal>]) -> Option<MemberRefusal<LockError>> {
    let errors = refused.iter().enumerate();
    let errors = errors.filter_map(|(index, refused)| Some((index, &refused.as_ref()?.error)));
    let rest = |error: &LockError| match error {
        LockError::Contended { retry_after, .. } => *retry_after,
        _ => Duration::MAX,
    };
    let (index, error) = errors.max_by_key(|(_, error)| rest(error))?;
    Some((index, error.clone()))
}
