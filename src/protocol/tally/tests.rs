use super::*;
use proptest::prelude::*;

fn granted() -> Reply {
    Vote::Granted.into()
}

fn refused() -> Reply {
    Vote::Refused { remaining: None }.into()
}

fn silent() -> Reply {
    Vote::Pending.into()
}

fn after(nodes: usize, needed: usize, replies: &[Reply]) -> Tally {
    let mut tally = Tally::new(nodes, needed);
    for reply in replies {
        tally.count(reply);
    }
    tally
}

#[test]
fn an_even_split_is_lost_not_pending() {
    let tally = after(4, 3, &[granted(), granted(), refused(), refused()]);
    assert_eq!(tally.outcome(), Outcome::Lost);
    assert_eq!(tally.loss_reason(), Some(LossReason::Held));
}

#[test]
fn the_reason_waits_for_answers_that_could_change_it() {
    // One master is down: the loss is certain at the second refusal, and its reason at the third.
    let mut tally = after(5, 3, &[silent(), refused(), refused()]);
    assert_eq!((tally.outcome(), tally.loss_reason()), (Outcome::Lost, None));
    tally.count(&refused());
    assert_eq!(tally.loss_reason(), Some(LossReason::Held));
}

#[test]
fn a_single_refusal_holds_up_a_multi_lock() {
    let tally = after(5, 5, &[granted(), refused()]);
    assert_eq!(tally.loss_reason(), Some(LossReason::Held));
    let tally = after(3, 3, &[granted(), silent(), granted()]);
    assert_eq!(tally.loss_reason(), Some(LossReason::Unreachable));
}

#[test]
fn contenders_that_have_a_part_each_hold_it_together() {
    let tally = after(5, 3, &[granted(), refused(), refused(), silent()]);
    assert_eq!((tally.granted, tally.outcome()), (1, Outcome::Lost));
    assert_eq!(tally.loss_reason(), Some(LossReason::Held));
    let tally = after(5, 3, &[granted(), granted(), silent()]);
    assert_eq!((tally.granted, tally.outcome()), (2, Outcome::Pending));
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        3 => Just(granted()),
        2 => Just(refused()),
        1 => Just(silent()),
    ]
}

proptest! {
    /// For any order of the votes: a decision stays, all votes together decide, and the early outcome and
    /// reason are those of the full count.
    #[test]
    fn decisions_are_final(replies in prop::collection::vec(reply(), 1..10), extra in 0_usize..5) {
        let nodes = replies.len();
        let needed = (nodes / 2 + 1 + extra).min(nodes);
        let full = after(nodes, needed, &replies);
        prop_assert_ne!(full.outcome(), Outcome::Pending);
        prop_assert_eq!(full.loss_reason().is_some(), full.outcome() == Outcome::Lost);
        for seen in 0..=nodes {
            let early = after(nodes, needed, &replies[..seen]);
            if early.outcome() != Outcome::Pending {
                prop_assert_eq!(early.outcome(), full.outcome());
            }
            if early.outcome() == Outcome::Lost
                && let Some(reason) = early.loss_reason()
            {
                prop_assert_eq!(Some(reason), full.loss_reason());
            }
        }
    }

    /// An undecided round can still be won and lost.
    #[test]
    fn pending_only_while_open(replies in prop::collection::vec(reply(), 1..10), nodes in 1_usize..10) {
        let needed = nodes / 2 + 1;
        let replies = &replies[..replies.len().min(nodes)];
        if after(nodes, needed, replies).outcome() == Outcome::Pending {
            let fill = |with: Reply| {
                let mut all = replies.to_vec();
                all.resize(nodes, with);
                after(nodes, needed, &all).outcome()
            };
            prop_assert_eq!(fill(granted()), Outcome::Won);
            prop_assert_eq!(fill(silent()), Outcome::Lost);
        }
    }
}
