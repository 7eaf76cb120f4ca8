//! Downgrade of a hold on the masters: it only reads from now on.
//!
//! The hold itself is downgraded before anything is sent, so a lost message does no harm. A master that the
//! message did not reach keeps readers out until the hold is renewed there.

use std::sync::Arc;

use redis::Value;

use crate::events::VoteKind;
use crate::hold::grant::Grant;
use crate::protocol::calls;
use crate::protocol::fault::Fault;
use crate::protocol::reply::{self, Released};
use crate::round::pool::Pool;
use crate::round::{NoScriptFallback, Round, Trust};
use crate::values::votes::Vote;

/// A downgrade under way. When it is dropped, it goes on in the background.
pub(crate) struct Downgrade {
    round: Option<Round>,
    needed: usize,
}

impl Downgrade {
    /// Sends the downgrade to every master that may have the hold.
    pub(crate) fn begin(pool: &Arc<Pool>, grant: &Grant) -> Self {
        let request = calls::downgrade(&grant.claim(), grant.lease());
        let round = Round::begin(pool, &request, Trust::All, grant.touched());
        Self {
            round: Some(round.wake_after(grant.needed)),
            needed: grant.needed,
        }
    }

    /// Waits until a quorum admits other readers, or no answer is left to come.
    pub(crate) async fn confirmed(mut self) {
        let mut confirmed = 0;
        while confirmed < self.needed
            && let Some(round) = &mut self.round
            && let Some((node, answer)) = round.next().await
        {
            let vote = vote(answer);
            confirmed += usize::from(vote == Vote::Granted);
            round.voted(node, &vote);
        }
    }
}

impl Drop for Downgrade {
    fn drop(&mut self) {
        if let Some(round) = self.round.take() {
            round.detach(NoScriptFallback::Resend, |_, answer| VoteKind::of(&vote(answer)));
        }
    }
}

/// Vote of a master: granted if it admits other readers.
fn vote(answer: Result<Value, Fault>) -> Vote {
    match reply::released(answer) {
        Ok(Released::Whole { .. }) => Vote::Granted,
        Ok(Released::Partly) => Vote::NotHeld,
        Err(fault) => fault.vote(),
    }
}
