//! Extension: a round that raises what is left of a hold, and never brings one back.

use std::sync::Arc;
use std::time::Duration;

use crate::error::ExtendError;
use crate::hold::Hold;
use crate::masters::Pool;
use crate::node::Fault;
use crate::round::Round;
use crate::script::{self, Reply};
use crate::tally::{Ballot, Outcome, Tally};
use crate::validity::Validity;
use crate::vote::{Vote, Votes};

/// Asks every master to let the hold live for `lease` from now. The hold gains validity only if a
/// quorum has confirmed while the old validity lasted.
///
/// Dropped half-way, the hold keeps the validity it had; some masters may keep it longer.
pub(crate) async fn extend(pool: &Arc<Pool>, hold: &Arc<Hold>, lease: Duration) -> Result<(), ExtendError> {
    if hold.remaining().is_zero() {
        return Err(ExtendError::Lost {
            votes: Votes::default(),
        });
    }
    let mut tally = Tally::new(pool.slots.len(), hold.needed);
    let mut votes = vec![Vote::Pending; pool.slots.len()];
    let mut taken_away = 0;
    let validity = Validity::of_lease(pool.clock.now(), lease, pool.config.drift_factor);
    let request = script::extend(&hold.names, &hold.field, hold.count(), lease);
    let mut round = Round::begin(pool, &request, pool.config.node_timeout, |_| true);
    while let Some((place, answer)) = round.next().await {
        let vote = read(answer);
        hold.note_vote(place, vote.clone());
        taken_away += usize::from(matches!(vote, Vote::Refused { .. } | Vote::Revoked));
        tally.count(if vote == Vote::Granted {
            Ballot::Granted
        } else {
            Ballot::None
        });
        votes[place] = vote;
        if tally.outcome() == Outcome::Won && hold.prolong(validity, lease) {
            let hold = Arc::clone(hold);
            round.note_stragglers(move |place, answer| hold.note_vote(place, read(answer)));
            return Ok(());
        }
        if taken_away >= tally.blocking() {
            // So many masters serve somebody else that no quorum is left for this hold.
            hold.lose();
        }
        if hold.remaining().is_zero() {
            break;
        }
    }
    let votes = pool.evidence(&votes);
    let validity = hold.remaining();
    if validity.is_zero() {
        return Err(ExtendError::Lost { votes });
    }
    Err(ExtendError::NotExtended { validity, votes })
}

fn read(answer: Result<redis::Value, Fault>) -> Vote {
    match answer.map(|value| script::parse_reply(&value)) {
        Ok(Some(Reply::Granted)) => Vote::Granted,
        Ok(Some(Reply::Absent)) => Vote::NotHeld,
        Ok(Some(Reply::Refused { remaining, .. })) => Vote::Refused { remaining },
        Ok(Some(Reply::Revoked)) => Vote::Revoked,
        Ok(None) => Vote::Unknown {
            reason: "unexpected answer to extend".into(),
        },
        Err(fault) => fault.vote(),
    }
}
