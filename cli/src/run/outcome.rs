//! The end of a hold in words, for users that do not know the library.

use multilock::{Loss, LossCause, Unlocked, Vote, Votes};

use crate::say::Rough;

/// Reason why a hold was lost while the program ran.
pub(super) fn lost(loss: &Loss) -> &'static str {
    match loss.cause {
        LossCause::Expired => "the lock was lost: its lease ended before it was renewed",
        LossCause::TakenAway if is_forced(&loss.votes) => {
            "the lock was taken away by force (multilock force-release)"
        }
        LossCause::TakenAway => "the lock was lost: too many masters have it for another holder",
        LossCause::Forgotten => {
            "the lock was lost: too many masters have forgotten it, as after a restart without their data"
        }
        _ => "the lock was lost",
    }
}

fn is_forced(votes: &Votes) -> bool {
    votes.iter().any(|node| node.vote == Vote::Revoked)
}

/// Message of a loss that is found when the lock is given back. Its cause is not known then.
pub(super) const FOUND_LOST: &str = "the lock was lost before it was given back: its lease had ended, it was taken away by \
                                     force, or the masters have forgotten it; another program may have run meanwhile";

/// End of a lock that was given back.
pub(super) fn given_back(unlocked: &Unlocked) -> String {
    match unlocked {
        Unlocked::KeptFor(rest) => format!("given back: the names stay locked for {}", Rough(*rest)),
        _ => String::from("given back: the names are free"),
    }
}
