//! The linearizability checker, fed with histories written by hand: for each model it finds the order where there is one, and
//! finds none where there is none.

use multilock_test_support::linearizability::{
    Action, Call, Log, MOST_CONFIGURATIONS, Model, Search, search,
};
use proptest::prelude::*;

const RELEASE: Action = Action::Release;
const EXPIRE: Action = Action::Expire;
const ACQUIRE: Action = Action::Acquire { token: None };

fn token(token: u64) -> Action {
    Action::Acquire { token: Some(token) }
}

/// A call that returned.
fn call(owner: usize, action: Action, invoked: u64, returned: u64) -> Call {
    Call {
        owner,
        action,
        invoked,
        returned: Some(returned),
    }
}

/// A call of unknown outcome.
fn open(owner: usize, action: Action, invoked: u64) -> Call {
    Call {
        owner,
        action,
        invoked,
        returned: None,
    }
}

#[track_caller]
fn allowed(model: Model, calls: &[Call]) {
    let found = search(model, calls, MOST_CONFIGURATIONS);
    assert!(matches!(found, Search::Linearizable(_)), "{found:?}");
}

#[track_caller]
fn forbidden(model: Model, calls: &[Call]) {
    let found = search(model, calls, MOST_CONFIGURATIONS);
    assert!(matches!(found, Search::NonLinearizable { .. }), "{found:?}");
}

#[test]
fn owner_aware() {
    let model = Model::OwnerAware;
    let first = [call(1, ACQUIRE, 0, 1), call(1, RELEASE, 10, 12)];
    allowed(model, &[&first[..], &[call(2, ACQUIRE, 13, 14)]].concat());
    // It may have been released before the answer came.
    allowed(model, &[&first[..], &[call(2, ACQUIRE, 11, 12)]].concat());
    allowed(model, &[&first[..], &[call(2, ACQUIRE, 3, 10)]].concat());
    forbidden(model, &[&first[..], &[call(2, ACQUIRE, 3, 9)]].concat());
    forbidden(model, &[call(1, ACQUIRE, 0, 1), call(1, ACQUIRE, 2, 3)]);
    // No owner releases the hold of another.
    forbidden(model, &[call(1, ACQUIRE, 0, 1), call(2, RELEASE, 2, 3)]);
    forbidden(model, &[call(1, RELEASE, 2, 3)]);
}

#[test]
fn an_order_is_sought_and_not_assumed() {
    // The second invoked was the first to have it, and the last to return is between.
    let calls = [
        call(1, ACQUIRE, 0, 30),
        call(2, ACQUIRE, 1, 9),
        call(2, RELEASE, 10, 40),
        call(3, ACQUIRE, 2, 32),
        call(3, RELEASE, 33, 34),
    ];
    forbidden(Model::OwnerAware, &calls);
    let left = [&calls[..], &[call(1, RELEASE, 31, 33)]].concat();
    allowed(Model::OwnerAware, &left);
}

#[test]
fn reentrant() {
    let model = Model::Reentrant;
    let twice = [
        call(1, ACQUIRE, 0, 1),
        call(1, ACQUIRE, 2, 3),
        call(1, RELEASE, 4, 5),
    ];
    allowed(model, &twice);
    forbidden(Model::OwnerAware, &twice);
    // One of two entries is left.
    let other = call(2, ACQUIRE, 6, 7);
    forbidden(model, &[&twice[..], &[other]].concat());
    allowed(model, &[&twice[..], &[call(1, RELEASE, 5, 6), other]].concat());
    let thrice = [call(1, RELEASE, 6, 7), call(1, RELEASE, 8, 9)];
    forbidden(model, &[&twice[..], &thrice].concat());
    // The end of a lease ends all entries.
    allowed(model, &[&twice[..], &[open(1, EXPIRE, 3), other]].concat());
    forbidden(model, &[&twice[..], &[open(1, EXPIRE, 8), other]].concat());
}

#[test]
fn fenced() {
    let model = Model::Fenced;
    let first = [call(1, token(5), 0, 1), call(1, RELEASE, 2, 3)];
    allowed(model, &[&first[..], &[call(2, token(6), 4, 5)]].concat());
    for same_or_smaller in [5, 4] {
        let second = call(2, token(same_or_smaller), 4, 5);
        forbidden(model, &[&first[..], &[second]].concat());
        allowed(Model::OwnerAware, &[&first[..], &[second]].concat());
    }
    // The smaller token was the first to be granted if it was asked for in time.
    let ended = [call(2, token(4), 0, 5), open(2, EXPIRE, 0)];
    allowed(model, &[&first[..], &ended].concat());
    // A token that nobody knows says nothing.
    allowed(model, &[&first[..], &[call(2, ACQUIRE, 4, 5)]].concat());
    forbidden(model, &[call(1, token(5), 0, 1), call(2, token(6), 2, 3)]);
    forbidden(model, &[call(1, token(5), 0, 1), call(1, token(5), 2, 3)]);
}

#[test]
fn reentrant_fenced() {
    let model = Model::ReentrantFenced;
    let outer = call(1, token(5), 0, 1);
    let rest = [call(1, RELEASE, 4, 5), call(1, RELEASE, 6, 7)];
    allowed(model, &[&[outer, call(1, token(5), 2, 3)], &rest[..]].concat());
    for other in [4, 6] {
        let inner = call(1, token(other), 2, 3);
        forbidden(model, &[&[outer, inner], &rest[..]].concat());
        allowed(Model::Reentrant, &[&[outer, inner], &rest[..]].concat());
    }
    let whole = [&[outer, call(1, token(5), 2, 3)], &rest[..]].concat();
    allowed(model, &[&whole[..], &[call(2, token(6), 8, 9)]].concat());
    forbidden(model, &[&whole[..], &[call(2, token(5), 8, 9)]].concat());
    forbidden(model, &[&whole[..], &[call(2, token(6), 4, 5)]].concat());
}

#[test]
fn permits() {
    let model = Model::Permits(2);
    let two = [call(1, ACQUIRE, 0, 1), call(2, ACQUIRE, 0, 1)];
    allowed(model, &two);
    forbidden(Model::OwnerAware, &two);
    let third = call(3, ACQUIRE, 4, 6);
    forbidden(model, &[&two[..], &[third]].concat());
    allowed(Model::Permits(3), &[&two[..], &[third]].concat());
    for leaves in [1, 2] {
        allowed(model, &[&two[..], &[call(leaves, RELEASE, 5, 9), third]].concat());
        forbidden(model, &[&two[..], &[call(leaves, RELEASE, 7, 9), third]].concat());
    }
    forbidden(model, &[&two[..], &[call(3, RELEASE, 5, 9)]].concat());
}

#[test]
fn a_lease_ends_after_it_was_seen_and_not_before() {
    for model in [Model::OwnerAware, Model::Fenced, Model::Permits(1)] {
        let (first, second) = (call(1, token(1), 0, 1), call(2, token(2), 6, 7));
        allowed(model, &[first, open(1, EXPIRE, 5), second]);
        allowed(model, &[first, open(1, EXPIRE, 7), second]);
        forbidden(model, &[first, open(1, EXPIRE, 8), second]);
        forbidden(model, &[first, second]);
    }
}

#[test]
fn calls_of_unknown_outcome_stay_open() {
    let model = Model::OwnerAware;
    // A release that nobody answered took effect, late or never.
    let unknown = [call(1, ACQUIRE, 0, 1), open(1, RELEASE, 2)];
    allowed(model, &unknown);
    allowed(model, &[&unknown[..], &[call(2, ACQUIRE, 1_000, 1_001)]].concat());
    forbidden(model, &[&unknown[..], &[call(2, ACQUIRE, 1, 1)]].concat());
    // The same goes for an acquire. An owner that released the lock later must have had it.
    let acquired = [open(1, ACQUIRE, 0), call(2, ACQUIRE, 3, 4)];
    allowed(model, &acquired);
    let released = call(1, RELEASE, 5, 6);
    forbidden(model, &[&acquired[..], &[released]].concat());
    allowed(model, &[open(1, ACQUIRE, 0), released, call(2, ACQUIRE, 6, 7)]);
}

#[test]
fn a_history_beyond_the_bound_is_undecided_and_wrong() {
    // Twenty owners may have had it in any order, and one more cannot have had it.
    let mut calls: Vec<Call> = (0..20)
        .flat_map(|owner| [call(owner, ACQUIRE, 0, 100), open(owner, EXPIRE, 0)])
        .collect();
    allowed(Model::OwnerAware, &calls);
    calls.extend([
        call(20, ACQUIRE, 0, 1),
        call(20, RELEASE, 200, 201),
        call(21, ACQUIRE, 150, 151),
    ]);
    assert_eq!(search(Model::OwnerAware, &calls, 1000), Search::Undecided);
    let mut log = Log::default();
    for call in &calls {
        log.lock("a", *call);
    }
    let judgement = log.judge();
    assert_eq!(judgement.wrong.len(), 1);
    assert!(
        judgement.wrong[0].what.contains("undecided"),
        "{}",
        judgement.wrong[0].what
    );
}

#[test]
fn names_are_judged_one_by_one_and_by_the_model_that_fits() {
    let mut log = Log::default();
    log.lock("plain", call(1, ACQUIRE, 0, 1));
    log.lock("fenced", call(2, token(1), 0, 1));
    log.lock("twice", call(3, ACQUIRE, 0, 1));
    log.lock("twice", call(3, ACQUIRE, 2, 3));
    log.lock("both", call(4, token(1), 0, 1));
    log.lock("both", call(4, token(1), 2, 3));
    log.permit("permits", 1, call(5, ACQUIRE, 0, 1));
    let judgement = log.judge();
    assert!(judgement.wrong.is_empty(), "{:?}", judgement.wrong);
    let models: Vec<&str> = judgement.figures.by_model.keys().copied().collect();
    let all = [
        "fenced",
        "owner-aware",
        "permits",
        "re-entrant",
        "re-entrant fenced",
    ];
    assert_eq!(models, all);
    log.permit("permits", 1, call(6, ACQUIRE, 2, 3));
    let judgement = log.judge();
    assert_eq!((judgement.figures.histories(), judgement.figures.calls()), (5, 8));
    assert_eq!(judgement.wrong.len(), 1);
    assert_eq!(
        (judgement.wrong[0].name.as_str(), &judgement.wrong[0].moments[..]),
        ("permits", &[2, 3][..])
    );
}

/// Whether any order is allowed, by trying all of them.
fn any_order(model: Model, calls: &[Call]) -> bool {
    fn rest(
        model: Model,
        calls: &[Call],
        placed: u32,
        state: &multilock_test_support::linearizability::State,
    ) -> bool {
        let is_left = |place: &usize| placed & (1 << place) == 0;
        let left = || (0..calls.len()).filter(is_left);
        let Some(earliest) = left().filter_map(|place| calls[place].returned).min() else {
            return true;
        };
        left()
            .filter(|place| calls[*place].invoked <= earliest)
            .any(|place| {
                let after = model.apply(state, calls[place].owner, calls[place].action);
                after.is_some_and(|state| rest(model, calls, placed | 1 << place, &state))
            })
    }
    rest(
        model,
        calls,
        0,
        &multilock_test_support::linearizability::State::default(),
    )
}

fn any_call() -> impl Strategy<Value = Call> {
    let action = prop_oneof![
        3 => (1..4_u64).prop_map(token),
        1 => Just(ACQUIRE),
        3 => Just(RELEASE),
        1 => Just(EXPIRE),
    ];
    let length = proptest::option::weighted(0.75, 0..6_u64);
    (0..3_usize, action, 0..12_u64, length).prop_map(|(owner, action, invoked, length)| Call {
        owner,
        action,
        invoked,
        returned: length.map(|length| invoked + length),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    #[test]
    fn the_search_agrees_with_all_orders(calls in proptest::collection::vec(any_call(), 1..7)) {
        let models = [
            Model::OwnerAware,
            Model::Reentrant,
            Model::Fenced,
            Model::ReentrantFenced,
            Model::Permits(2),
        ];
        for model in models {
            let found = search(model, &calls, MOST_CONFIGURATIONS);
            let expected = any_order(model, &calls);
            prop_assert_eq!(matches!(found, Search::Linearizable(_)), expected, "{:?}: {:?}", model, found);
            prop_assert!(found != Search::Undecided);
        }
    }
}
