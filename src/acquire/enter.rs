//! One try: enters the hold that the owner has, or attempts a new one.

use crate::acquire::attempt::{Asker, attempt};
use crate::acquire::refusal::Refusal;
use crate::acquire::terms::Terms;
use crate::error::{ExtendError, InvalidInput, LockError};
use crate::hold::Term;
use crate::hold::extend::extend;
use crate::hold::tenure::Hold;
use crate::names::Names;
use crate::owned_entry::OwnedEntry;
use crate::owner::Standing;
use crate::protocol::kind::Kind;
use crate::protocol::tally::Obstacle;
use crate::round::clocks::Clocks;
use crate::token::FencingToken;

/// Tries once.
pub(crate) async fn acquire(terms: &Terms) -> Result<OwnedEntry, Refusal> {
    acquire_as(terms, Asker::Try, None).await
}

/// Asks once; by the masters' clocks where they have just been looked at.
pub(crate) async fn acquire_as(
    terms: &Terms,
    asker: Asker<'_>,
    clocks: Option<Clocks>,
) -> Result<OwnedEntry, Refusal> {
    if terms.client.pool.is_closed() {
        return Err(LockError::Closed.into());
    }
    match terms.standing() {
        Standing::Inside(hold, term) if !term.kind.includes(terms.kind) => {
            return Err(of_another_kind(terms, &hold, term.kind));
        }
        Standing::Inside(hold, term) => {
            if let Some(guard) = reenter(terms, hold, term).await? {
                return Ok(guard);
            }
        }
        Standing::Overlapping(held) => return Err(overlapping(terms, &held).into()),
        Standing::Outside => {}
    }
    terms.client.pool.relief(terms.needed).await;
    attempt(terms, asker, clocks).await
}

/// Enters a hold once more, which is extended first where too little is left or more is wanted; `None` when it has lapsed or was leaked meanwhile.
///
/// Counted only once nothing can fail any more, so a failed or cancelled re-entry leaves the hold as
/// it was.
async fn reenter(
    terms: &Terms,
    hold: Hold,
    Term {
        at: mut now,
        left,
        lease,
        ..
    }: Term,
) -> Result<Option<OwnedEntry>, Refusal> {
    suits(terms, &hold)?;
    let is_kept = !terms.at_least.is_zero();
    let is_longer = !terms.renew && terms.lease > lease;
    let is_short = left < lease / 3 || left <= terms.min_validity;
    if is_longer || is_short || is_kept && left < terms.at_least {
        let is_longer = is_longer || terms.at_least > lease;
        let longer = is_longer.then_some(terms.lease);
        match extend(&terms.client, &hold, longer.unwrap_or(lease)).await {
            Err(ExtendError::NotExtended { votes, .. }) if longer.is_some() || left < terms.at_least => {
                let error = LockError::Unreachable { votes };
                return Err(Refusal {
                    error,
                    obstacle: Obstacle::Unreachable,
                    votes: hold.tenure.votes(),
                    obstruction: Box::default(),
                    deferred: None,
                });
            }
            // Where what is left will do: no longer lease is asked for, and a crash would leave the names kept for as long
            // as they have to be. A lost hold shows below.
            _ => {}
        }
        now = terms.client.pool.clock.now();
    }
    match terms.enter(hold, now) {
        Ok(guard) if is_kept => {
            terms.keep(&guard, now);
            Ok(Some(guard))
        }
        Ok(guard) => Ok(Some(guard)),
        // The owner's own hold would refuse a new attempt.
        Err(hold) if !hold.term(now).left.is_zero() => {
            let its = hold.tenure.kind();
            if !its.includes(terms.kind) {
                return Err(of_another_kind(terms, &hold, its));
            }
            Err(Refusal::too_late(terms, hold.remaining(), hold.tenure.votes()))
        }
        Err(_) => Ok(None),
    }
}

/// Whether the hold is what is asked for, apart from its time.
fn suits(terms: &Terms, hold: &Hold) -> Result<(), InvalidInput> {
    // The hold was granted, and is renewed, by so many masters only.
    if terms.needed > hold.tenure.needed {
        let allowed = format!(
            "a policy of at most {} grants, with which the owner holds {}",
            hold.tenure.needed, hold.tenure.names
        );
        return Err(InvalidInput::new("policy", terms.policy, allowed));
    }
    if terms.fenced && hold.token() == FencingToken::NONE {
        let allowed = format!("false, as the owner holds {} without a token", hold.tenure.names);
        return Err(InvalidInput::new("fenced", terms.fenced, allowed));
    }
    Ok(())
}

/// The owner holds for something else. Two that read and want to write would wait for each other for ever.
fn of_another_kind(terms: &Terms, hold: &Hold, its: Kind) -> Refusal {
    let names = &hold.tenure.names;
    if (its, terms.kind) == (Kind::Read, Kind::Write) {
        return LockError::Upgrade {
            held: names.to_string(),
        }
        .into();
    }
    let allowed = format!("{its}, as the owner holds {names}");
    InvalidInput::new("kind", terms.kind, allowed).into()
}

fn overlapping(terms: &Terms, held: &Names) -> InvalidInput {
    let allowed = format!("names within {held}, which the owner holds, or apart from them");
    InvalidInput::new("names", &terms.names, allowed)
}
