//! Decision of a waiter that was refused: ask again at once, after a pause, or when it is called.
//!
//! Nothing here waits or looks at a clock.

use std::time::Duration;

use crate::acquire::pauses::{OUTAGE, Pauses, SPLIT};
use crate::acquire::refusal::{Asked, Refusal};
use crate::error::LockError;
use crate::protocol::tally::LossReason;
use crate::values::votes::Vote;

/// Time after which a waiter asks again without a call, which may be lost. `lua/queue.lua` knows it as `REASK`: its ticket counts
/// for three times as long there.
pub(super) const REASK: Duration = Duration::from_secs(5);
/// Time after the end of a lease until every master has seen it end too.
pub(super) const AFTER_LEASE: Duration = Duration::from_millis(2);
/// Pause behind clients of other libraries, which have no queue: short after a round in which some masters
/// granted.
const SOON: Duration = Duration::from_millis(5);
const SPREAD: Duration = Duration::from_millis(15);
/// Pauses behind clients that announce nothing: the window of the first pauses, the time for which it
/// applies, and the divisor of the time waited from then on.
const POLL: Duration = Duration::from_millis(50);
const POLLED: Duration = Duration::from_secs(2);
const RARELY: u32 = 20;

/// Next step of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Listens to the releases of another library, and asks again, because no listener got the messages of
    /// earlier releases.
    Listen,
    /// Sleeps for the whole time, whatever happens.
    Sleep(Duration),
    /// Sleeps until enough masters for a quorum are connected, at most for the given time.
    AwaitMasters { at_most: Duration },
    /// Sleeps until a quorum of masters has called the waiter, at most for the given time.
    AwaitCalls {
        at_most: Duration,
        behind_foreign_field: bool,
    },
}

/// A refusal, and the state of its waiter.
pub(super) struct Refused<'a> {
    pub(super) refusal: &'a Refusal,
    /// Number of refusals that together prevent a quorum.
    pub(super) blocking: usize,
    /// Whether the waiter is in the queues.
    pub(super) could_win: bool,
    /// After a round that too few masters answered: time until enough are out of quarantine, or `None` while too few are connected.
    pub(super) votes_within: Option<Duration>,
    /// Whether the waiter is to listen to the releases of another library, and does not yet.
    pub(super) may_listen: bool,
    /// Time for which the waiter may still block its other names.
    pub(super) may_keep_shut: Option<Duration>,
    pub(super) waited: Duration,
}

impl Refused<'_> {
    pub(super) fn next_step(&self, pauses: &mut Pauses<'_>) -> NextStep {
        let (reason, blockers) = (self.refusal.reason, &self.refusal.blockers);
        // The waiter has no place in the queues of the masters that refused, or no call tells that holders have repaired
        // their seats.
        if self.refusal.asked == Asked::FirstAndOthers || self.refusal.has_no_common_seat {
            return NextStep::Sleep(pauses.next(SPLIT));
        }
        let Some(quarantine) = self.votes_within else {
            return NextStep::AwaitMasters { at_most: REASK };
        };
        // A few masters may still report a waiter ahead that is just withdrawing.
        let is_first = reason == LossReason::Held && usize::from(blockers.behind_others) < self.blocking;
        if is_first && blockers.foreign_field && self.may_listen {
            return NextStep::Listen;
        }
        let at_most = match reason {
            // Others wait for the end of the quarantine, too.
            LossReason::Unreachable if self.is_lost_by_quarantine() && !quarantine.is_zero() => {
                quarantine.min(REASK) + pauses.within(OUTAGE)
            }
            LossReason::Unreachable => pauses.next(OUTAGE),
            // The waiter is in no queue, so no master calls it.
            LossReason::Held if !self.could_win => pauses.next(OUTAGE),
            LossReason::Held if self.is_lost_by_errors() => {
                let pause = pauses.next(OUTAGE);
                self.latest(is_first, pauses).min(pause)
            }
            LossReason::Held => self.latest(is_first, pauses),
            LossReason::Split | LossReason::Final => return NextStep::Sleep(pauses.next(SPLIT)),
        };
        NextStep::AwaitCalls {
            at_most,
            behind_foreign_field: is_first && blockers.foreign_field,
        }
    }

    /// Whether a master has answered whose vote does not count, because it is in quarantine.
    fn is_lost_by_quarantine(&self) -> bool {
        let mut votes = self.refusal.votes.iter();
        votes.any(|vote| matches!(vote, Vote::Quarantined { .. }))
    }

    /// Whether the masters that refused would not prevent a quorum, if others had not answered with errors. An error may pass
    /// at any moment, and no master calls then.
    fn is_lost_by_errors(&self) -> bool {
        let votes = &self.refusal.votes;
        let refused = votes.iter().filter(|vote| matches!(vote, Vote::Refused { .. }));
        refused.count() < self.blocking && votes.iter().any(|vote| matches!(vote, Vote::Failed { .. }))
    }

    /// Longest pause until the next question.
    fn latest(&self, is_first: bool, pauses: &mut Pauses<'_>) -> Duration {
        let left = match self.refusal.error {
            LockError::Contended { retry_after, .. } => retry_after,
            _ => REASK,
        };
        let latest = (left + AFTER_LEASE).min(REASK);
        let latest = self.may_keep_shut.map_or(latest, |rest| latest.min(rest));
        let soon = SOON + pauses.within(SPREAD);
        let blockers = &self.refusal.blockers;
        if is_first && blockers.foreign_key {
            let poll = if self.waited < POLLED {
                soon.max(pauses.next(POLL))
            } else {
                self.waited / RARELY
            };
            return poll.min(latest);
        }
        let some_granted = self.refusal.votes.contains(&Vote::Granted);
        if is_first && blockers.foreign_field && some_granted {
            return soon.min(latest);
        }
        latest
    }
}

/// Whether enough masters are open to a waiter for a quorum. A master is open if it granted last time, and
/// may do so again, or has called the waiter since.
pub(super) fn is_quorum_open(votes: &[Vote], needed: usize, has_called: impl Fn(usize) -> bool) -> bool {
    let is_open = |(node, vote): &(usize, &Vote)| match vote {
        Vote::Granted => true,
        // The vote of this master does not count.
        Vote::Quarantined { .. } => false,
        _ => has_called(*node),
    };
    votes.iter().enumerate().filter(is_open).count() >= needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::blockers::Blockers;
    use crate::time::random::Random;
    use crate::values::votes::Votes;

    const LEFT: Duration = Duration::from_secs(3);
    const HELD: Vote = Vote::Refused {
        remaining: Some(LEFT),
    };

    fn refusal(reason: LossReason, votes: Vec<Vote>, blockers: Blockers) -> Refusal {
        let error = LockError::Contended {
            holder: None,
            about: None,
            retry_after: LEFT,
            votes: Votes::default(),
        };
        Refusal {
            error,
            reason,
            votes,
            asked: Asked::AllAtOnce,
            blockers: Box::new(blockers),
            deferred: None,
            has_no_common_seat: false,
        }
    }

    /// Next step of a waiter that is in the queues of three masters and does not listen yet.
    fn next(refusal: &Refusal, change: impl FnOnce(&mut Refused<'_>)) -> NextStep {
        let random = Random::from_host();
        let mut refused = Refused {
            refusal,
            blocking: 2,
            could_win: true,
            votes_within: Some(Duration::ZERO),
            may_listen: true,
            may_keep_shut: None,
            waited: Duration::ZERO,
        };
        change(&mut refused);
        refused.next_step(&mut Pauses::new(&random))
    }

    fn at_most(step: NextStep) -> Duration {
        match step {
            NextStep::AwaitCalls { at_most, .. } => at_most,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn behind_a_holder_it_waits_for_calls_until_the_lease_ends() {
        let held = refusal(LossReason::Held, vec![HELD; 3], Blockers::default());
        assert_eq!(at_most(next(&held, |_| {})), LEFT + AFTER_LEASE);
        let for_long = LockError::Unreachable {
            votes: Votes::default(),
        };
        let held = Refusal {
            error: for_long,
            ..held
        };
        assert_eq!(at_most(next(&held, |_| {})), REASK, "a call may be lost");
        let shut = Some(Duration::from_millis(700));
        let keeps_shut = next(&held, |refused| refused.may_keep_shut = shut);
        assert_eq!(at_most(keeps_shut), Duration::from_millis(700));
    }

    #[test]
    fn without_a_place_in_the_queues_it_asks_after_a_pause() {
        let held = refusal(LossReason::Held, vec![HELD; 3], Blockers::default());
        assert!(at_most(next(&held, |refused| refused.could_win = false)) <= OUTAGE);
        let split = refusal(LossReason::Split, vec![Vote::Granted; 3], Blockers::default());
        assert!(matches!(next(&split, |_| {}), NextStep::Sleep(pause) if pause <= SPLIT));
    }

    #[test]
    fn while_too_few_masters_are_connected_it_waits_for_them() {
        let lost = refusal(LossReason::Unreachable, vec![HELD], Blockers::default());
        assert!(at_most(next(&lost, |_| {})) <= OUTAGE);
        let step = next(&lost, |refused| refused.votes_within = None);
        assert_eq!(step, NextStep::AwaitMasters { at_most: REASK });
    }

    #[test]
    fn it_asks_after_the_quarantine_that_prevents_a_quorum() {
        let quarantined = Vote::Quarantined { remaining: LEFT };
        let lost = |votes| refusal(LossReason::Unreachable, votes, Blockers::default());
        let pause = |refusal: &Refusal, seconds| {
            let within = Some(Duration::from_secs(seconds));
            at_most(next(refusal, |refused| refused.votes_within = within))
        };
        let two_of_three = lost(vec![Vote::Granted, quarantined.clone(), quarantined]);
        let soon = pause(&two_of_three, 3);
        assert!((LEFT..=LEFT + OUTAGE).contains(&soon), "{soon:?}");
        let late = pause(&two_of_three, 30);
        assert!(
            (REASK..=REASK + OUTAGE).contains(&late),
            "it may end earlier: {late:?}"
        );
        assert!(pause(&two_of_three, 0) <= OUTAGE, "a clock has stepped");
        let others = lost(vec![Vote::Granted, HELD, HELD]);
        assert!(pause(&others, 3) <= OUTAGE, "their votes count all the same");
    }

    #[test]
    fn after_an_error_it_asks_after_a_pause_unless_enough_masters_refused() {
        let failed = || Vote::Failed { error: "BUSY".into() };
        let lost_by_error = refusal(
            LossReason::Held,
            vec![Vote::Granted, HELD, failed()],
            Blockers::default(),
        );
        assert!(at_most(next(&lost_by_error, |_| {})) <= OUTAGE);
        let lost_anyway = refusal(LossReason::Held, vec![HELD, HELD, failed()], Blockers::default());
        assert_eq!(at_most(next(&lost_anyway, |_| {})), LEFT + AFTER_LEASE);
    }

    #[test]
    fn behind_another_library_the_first_waiter_listens_once_and_then_awaits_its_notices() {
        let foreign = |behind_others| Blockers {
            foreign_field: true,
            behind_others,
            ..Blockers::default()
        };
        let first = refusal(LossReason::Held, vec![HELD; 3], foreign(0));
        assert_eq!(next(&first, |_| {}), NextStep::Listen);
        let listens = next(&first, |refused| refused.may_listen = false);
        assert_eq!(
            listens,
            NextStep::AwaitCalls {
                at_most: LEFT + AFTER_LEASE,
                behind_foreign_field: true
            }
        );
        let some_granted = refusal(LossReason::Held, vec![Vote::Granted, HELD, HELD], foreign(0));
        assert!(at_most(next(&some_granted, |refused| refused.may_listen = false)) <= SOON + SPREAD);
        let second = refusal(LossReason::Held, vec![HELD; 3], foreign(2));
        assert!(matches!(
            next(&second, |_| {}),
            NextStep::AwaitCalls {
                behind_foreign_field: false,
                ..
            }
        ));
    }

    #[test]
    fn the_scripts_know_the_time_after_which_it_asks_again() {
        let script = include_str!("../../lua/queue.lua");
        let reask = format!("local REASK = {}\n", REASK.as_millis());
        let ticket = format!("local TICKET = '{}'\n", REASK.as_millis() * 3);
        assert!(script.contains(&reask) && script.contains(&ticket));
    }

    #[test]
    fn behind_a_plain_key_it_polls_more_and_more_rarely() {
        let blockers = Blockers {
            foreign_key: true,
            ..Blockers::default()
        };
        let plain = refusal(LossReason::Held, vec![HELD; 3], blockers);
        assert!(at_most(next(&plain, |_| {})) <= POLL.max(SOON + SPREAD));
        let later = next(&plain, |refused| refused.waited = Duration::from_secs(20));
        assert_eq!(at_most(later), Duration::from_secs(1));
    }

    #[test]
    fn a_quorum_is_open_by_grants_and_calls_but_not_by_quarantine() {
        let quarantined = Vote::Quarantined { remaining: LEFT };
        let votes = [Vote::Granted, HELD, quarantined];
        assert!(is_quorum_open(&votes, 2, |node| node == 1));
        assert!(!is_quorum_open(&votes, 2, |node| node == 2));
    }
}
