//! The checker of the chaos campaign, fed with histories written by hand: it sees what is wrong, and says
//! nothing where nothing is.

// A part of the campaign, of which the checker's tests use a part.
#[allow(dead_code, unreachable_pub)]
#[path = "../chaos/checker.rs"]
mod checker;
#[allow(dead_code, unreachable_pub)]
#[path = "../chaos/event.rs"]
mod event;
#[allow(dead_code, unreachable_pub)]
#[path = "../chaos/growth.rs"]
mod growth;
#[allow(dead_code, unreachable_pub)]
#[path = "../chaos/hold.rs"]
mod hold;

use std::time::Duration;

use checker::{Findings, check};
use event::{Done, Event, Micros, Policy, Refusal, Said, Task};
use growth::{Limits, Sample, grown};
use hold::holds;

const LONG: Duration = Duration::from_millis(1);
const SOON: Duration = Duration::from_secs(2);

fn task(worker: usize) -> Task {
    Task { worker, task: 0 }
}

fn said(at: Micros, worker: usize, said: Said) -> Event {
    Event::said(at, task(worker), said)
}

fn enter(worker: usize, name: &str, token: u64, (from, until): (Micros, Micros)) -> Event {
    let enter = Said::Enter {
        names: name.split('+').map(str::to_owned).collect(),
        token,
        policy: Policy::Red,
        began: from.saturating_sub(5),
        from,
        until,
    };
    said(from, worker, enter)
}

fn write(at: Micros, worker: usize, until: Micros, accepted: bool) -> Event {
    let looked = at - 1;
    said(
        at,
        worker,
        Said::Write {
            looked,
            until,
            accepted,
        },
    )
}

fn leave(at: Micros, worker: usize) -> [Event; 2] {
    let kind = "released";
    [
        said(at, worker, Said::Leave { at }),
        said(at + 1, worker, Said::Unlocked { kind }),
    ]
}

fn refused(worker: usize, (began, ended): (Micros, Micros), refusal: Refusal) -> Event {
    let refused = Said::Refused {
        policy: Policy::Red,
        began,
        ended,
        refusal,
        detail: "why".to_owned(),
    };
    said(ended, worker, refused)
}

fn found(history: impl IntoIterator<Item = Event>) -> Findings {
    check(&history.into_iter().collect::<Vec<_>>(), LONG, SOON)
}

#[test]
fn one_after_the_other_is_right() {
    let mut history = vec![enter(1, "a", 1, (100, 1000)), write(110, 1, 1000, true)];
    history.extend(leave(200, 1));
    history.push(enter(2, "a", 2, (201, 1201)));
    history.push(write(210, 2, 1201, true));
    history.extend(leave(300, 2));
    // The second of these was never heard of again: its validity ends by itself.
    history.push(enter(3, "a", 3, (301, 400)));
    history.push(enter(1, "a", 4, (400, 1400)));
    let found = found(history);
    assert_eq!((found.holds, found.writes), (4, 2));
    assert!(found.overlaps.is_empty() && found.token_falls.is_empty());
    assert!(found.stale.is_empty() && found.late.is_empty());
}

#[test]
fn two_at_once_are_seen() {
    let found = found([enter(1, "a", 1, (100, 1000)), enter(2, "a", 2, (999, 1900))]);
    assert_eq!(found.overlaps.len(), 1);
    assert_eq!(found.overlaps[0].name, "a");
    assert_eq!(
        (found.overlaps[0].first.token, found.overlaps[0].second.token),
        (1, 2)
    );
    assert!(found.token_falls.is_empty(), "the token still orders them");
}

#[test]
fn a_renewed_hold_excludes_for_as_long_as_it_was_seen_valid() {
    let seen_longer = [
        enter(1, "a", 1, (100, 1000)),
        write(900, 1, 1900, true),
        enter(2, "a", 2, (1500, 2500)),
    ];
    assert_eq!(found(seen_longer).overlaps.len(), 1);
    let without = [enter(1, "a", 1, (100, 1000)), enter(2, "a", 2, (1500, 2500))];
    assert!(found(without).overlaps.is_empty());
}

#[test]
fn a_long_hold_is_compared_with_all_that_come_during_it() {
    let mut history = vec![enter(1, "a", 1, (100, 9000)), enter(2, "a", 2, (200, 300))];
    history.extend(leave(300, 2));
    history.push(enter(3, "a", 3, (400, 500)));
    assert_eq!(found(history).overlaps.len(), 2);
}

#[test]
fn names_taken_together_are_each_taken() {
    let found = found([enter(1, "a+b", 1, (100, 1000)), enter(2, "b", 2, (500, 1500))]);
    assert_eq!(found.overlaps.len(), 1);
    assert_eq!(found.overlaps[0].name, "b");
}

#[test]
fn other_names_are_no_concern() {
    let found = found([enter(1, "a", 2, (100, 1000)), enter(2, "b", 1, (500, 1500))]);
    assert!(found.overlaps.is_empty() && found.token_falls.is_empty());
}

#[test]
fn a_guard_that_was_never_valid_is_no_hold() {
    let events = [enter(1, "a", 1, (100, 1000)), enter(2, "a", 1, (500, 500))];
    assert_eq!(holds(&events).len(), 1);
    assert!(found(events).overlaps.is_empty());
}

#[test]
fn a_loss_that_was_told_ends_a_hold() {
    let history = [
        enter(1, "a", 1, (100, 1000)),
        said(300, 1, Said::Lost { at: 300, due: 300 }),
        enter(2, "a", 2, (400, 1400)),
    ];
    assert!(found(history).overlaps.is_empty());
}

#[test]
fn tokens_must_rise() {
    for second in [1, 2] {
        let mut history = vec![enter(1, "a", 2, (100, 1000))];
        history.extend(leave(200, 1));
        history.push(enter(2, "a", second, (300, 1300)));
        history.extend(leave(400, 2));
        history.push(enter(3, "a", 3, (500, 1500)));
        let found = found(history);
        assert_eq!(found.token_falls.len(), 1, "{second} is not above 2, but 3 is");
        assert_eq!(found.token_falls[0].second.token, second);
    }
}

#[test]
fn a_write_after_a_later_holders_is_stale() {
    let begin = [
        enter(1, "a", 1, (100, 200)),
        enter(2, "a", 2, (300, 1300)),
        write(310, 1, 200, true),
        write(320, 2, 1300, true),
    ];
    let early = found(begin.clone());
    assert!(early.stale.is_empty(), "nothing newer had written before");
    let rejected = found(begin.clone().into_iter().chain([write(330, 1, 200, false)]));
    assert_eq!((rejected.stale.len(), rejected.stale_accepted.len()), (1, 0));
    let accepted = found(begin.into_iter().chain([write(330, 1, 200, true)]));
    assert_eq!((accepted.stale.len(), accepted.stale_accepted.len()), (1, 1));
}

#[test]
fn a_late_word_of_a_loss_is_seen() {
    let told = |at| {
        let lost = Said::Lost { at, due: 1_000_000 };
        found([enter(1, "a", 1, (100, 1_000_000)), said(at, 1, lost)])
    };
    assert!(told(1_010_000).late.is_empty());
    assert_eq!(told(1_400_000).late.len(), 1);
}

fn strike(from: Micros, to: Micros) -> [Event; 2] {
    [
        Event::done(from, Done::Break("down".to_owned())),
        Event::done(to, Done::Healed),
    ]
}

#[test]
fn without_a_majority_nothing_is_granted_and_nothing_is_held() {
    let second = 1_000_000;
    let during = |event: Event| {
        let [begun, healed] = strike(second, 4 * second);
        found([begun, event, healed]).wrong_without_majority.len()
    };
    let (began, ended) = (2 * second, 3 * second);
    assert_eq!(during(refused(1, (began, ended), Refusal::Held)), 1);
    assert_eq!(during(refused(1, (began, ended), Refusal::Unreachable)), 0);
    assert_eq!(
        during(refused(1, (second / 2, ended), Refusal::Held)),
        0,
        "asked before"
    );
    assert_eq!(during(enter(1, "a", 1, (began, ended))), 1);
}

#[test]
fn a_strike_without_a_grant_is_idle() {
    let [begun, healed] = strike(1000, 9000);
    assert_eq!(found([begun.clone(), healed.clone()]).idle_strikes, [1000]);
    let granted = found([begun, enter(1, "a", 1, (5000, 6000)), healed]);
    assert!(granted.idle_strikes.is_empty());
}

#[test]
fn who_does_not_come_back_is_seen() {
    let second = 1_000_000;
    let [begun, healed] = strike(second, 2 * second);
    let history = |last: Vec<Event>| {
        let hello = [said(0, 1, Said::Hello), said(0, 2, Said::Hello)];
        let events = [
            begun.clone(),
            healed.clone(),
            enter(1, "a", 1, (2 * second + 1, 3 * second)),
        ];
        found(hello.into_iter().chain(events).chain(last))
    };
    assert_eq!(history(vec![]).starved, [(2 * second, task(2))]);
    let late = enter(2, "b", 1, (5 * second, 6 * second));
    assert_eq!(history(vec![late]).starved, [(2 * second, task(2))]);
    let soon = history(vec![enter(2, "b", 1, (3 * second, 4 * second))]);
    assert!(soon.starved.is_empty());
    assert_eq!(soon.slowest_return, Duration::from_secs(1));
    assert!(
        history(vec![said(3 * second, 2, Said::Gone)]).starved.is_empty(),
        "it was killed"
    );
}

#[test]
fn refusals_that_no_fault_explains_are_told() {
    let found = found([
        refused(1, (1, 2), Refusal::Held),
        refused(1, (3, 4), Refusal::Wrong),
    ]);
    assert_eq!(found.wrong_refusals, [(4, "why".to_owned())]);
    assert_eq!(found.refused[&"held"], 1);
}

#[test]
fn what_is_said_survives_the_way_to_the_witness() {
    let all = [
        Said::Hello,
        Said::Enter {
            names: vec!["a".to_owned(), "b".to_owned()],
            token: 7,
            policy: Policy::Multi,
            began: 1,
            from: 2,
            until: 3,
        },
        Said::Write {
            looked: 1,
            until: 2,
            accepted: false,
        },
        Said::Lost { at: 1, due: 2 },
        Said::Leave { at: 1 },
        Said::Unlocked { kind: "dropped" },
        Said::Refused {
            policy: Policy::Red,
            began: 1,
            ended: 2,
            refusal: Refusal::TooLate,
            detail: "a b".to_owned(),
        },
    ];
    for said in all {
        assert_eq!(Said::parse(&said.to_line()).expect("a line"), said);
    }
    assert!(Said::parse("nonsense 1 2").is_err());
}

/// What is too much of samples that are alike but for what `differs` does to the one of each minute.
fn too_much(minutes: u64, differs: fn(u64, &mut Sample)) -> Vec<&'static str> {
    let sample = |minute| {
        let mut sample = Sample {
            resident: 9000,
            tasks: 20,
            descriptors: 15,
            wakes: 5,
            connections: 9,
            keys: 100,
            ..Sample::default()
        };
        differs(minute, &mut sample);
        sample
    };
    let samples: Vec<Sample> = (0..minutes).map(sample).collect();
    let limits = Limits {
        connections: 9,
        keys: 100,
    };
    let grown = grown(&samples, limits);
    let too_much = grown.iter().filter(|grown| grown.is_too_much());
    too_much.map(|grown| grown.name).collect()
}

#[test]
fn what_grows_is_seen_and_what_varies_is_not() {
    assert_eq!(too_much(0, |_, _| {}), [""; 0]);
    assert_eq!(too_much(1, |_, _| {}), [""; 0]);
    assert_eq!(too_much(30, |_, _| {}), [""; 0]);
    let leaks = |minute, sample: &mut Sample| sample.resident += 300 * minute;
    assert_eq!(too_much(30, leaks), ["resident_kib"]);
    let begins = |minute, sample: &mut Sample| sample.resident -= if minute == 0 { 6000 } else { 0 };
    assert_eq!(too_much(30, begins), [""; 0], "the first minute");
    let once = |minute, sample: &mut Sample| sample.tasks += if minute == 29 { 40 } else { 0 };
    assert_eq!(too_much(30, once), [""; 0], "one minute of many");
    assert_eq!(
        too_much(2, |minute, sample| sample.tasks += 4 * minute),
        ["tasks"]
    );
    assert_eq!(
        too_much(3, |minute, sample| sample.descriptors += 4 * minute),
        ["descriptors"]
    );
    assert_eq!(
        too_much(9, |minute, sample| sample.wakes += 20 * minute),
        ["wakes"]
    );
    let spike = |minute, sample: &mut Sample| {
        let more = u64::from(minute == 4);
        sample.connections += more;
        sample.keys += more;
        sample.scripts += more;
    };
    assert_eq!(too_much(9, spike), ["connections", "keys", "scripts"]);
}
