//! The checker of the chaos campaign, fed with histories written by hand: it sees every fault, and reports nothing
//! where there is none.

// Modules of the campaign. The tests of the checker use a part of their items.
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

use checker::{ByLayout, Findings, check};
use event::{Done, Event, JOB_KEPT, Micros, Mode, PLAIN_TASKS, Policy, Refusal, Said, Task};
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

fn enter(worker: usize, name: &str, token: u64, during: (Micros, Micros)) -> Event {
    enter_as(Mode::Exclusive, worker, name, token, during)
}

fn enter_to_read(worker: usize, name: &str, token: u64, during: (Micros, Micros)) -> Event {
    enter_as(Mode::Shared, worker, name, token, during)
}

fn enter_as(mode: Mode, worker: usize, name: &str, token: u64, (from, until): (Micros, Micros)) -> Event {
    let enter = Said::Enter {
        names: name.split('+').map(str::to_owned).collect(),
        token,
        policy: Policy::Red,
        mode,
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

fn read(at: Micros, worker: usize, until: Micros, accepted: bool) -> Event {
    let looked = at - 1;
    said(
        at,
        worker,
        Said::Read {
            looked,
            until,
            accepted,
        },
    )
}

fn downgrade(at: Micros, worker: usize) -> Event {
    said(at, worker, Said::Downgrade { at })
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

/// A job counts as done from when its task asked for it.
#[test]
fn a_job_is_done_once_within_its_time() {
    let kept = Micros::try_from(JOB_KEPT.as_micros()).expect("small");
    let ran = |worker, job: &str, began, ended| {
        let job = job.to_owned();
        said(ended, worker, Said::Ran { job, began, ended })
    };
    let again = |ended| {
        let history = [
            ran(0, "job:1", 100, 120),
            ran(1, "job:2", 105, 125),
            ran(2, "job:1", 110, ended),
        ];
        let found = found(history);
        (found.jobs, found.done_again.len())
    };
    assert_eq!(
        (again(130), again(99 + kept), again(100 + kept)),
        ((3, 1), (3, 1), (3, 0))
    );
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

/// Everybody may wait for that name.
#[test]
fn a_strike_in_which_a_name_is_held_all_the_time_is_not_idle() {
    let [begun, healed] = strike(1000, 9000);
    let held_until = |end| {
        let history = [enter(1, "a", 1, (500, end)), begun.clone(), healed.clone()];
        found(history).idle_strikes
    };
    assert_eq!(held_until(9000), [0; 0]);
    assert_eq!(held_until(2000), [1000]);
}

#[test]
fn a_strike_at_who_only_waits_is_not_idle() {
    let [begun, healed] = strike(1000, 9000);
    let stopped = |holder| {
        let stop = Event::done(2000, Done::Stopped { worker: 1 });
        let history = [
            enter(holder, "a", 1, (500, 3000)),
            begun.clone(),
            stop,
            healed.clone(),
        ];
        found(history).idle_strikes
    };
    assert_eq!(stopped(1), [1000]);
    assert_eq!(stopped(2), [0; 0]);
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
            mode: Mode::Shared,
            began: 1,
            from: 2,
            until: 3,
        },
        Said::Write {
            looked: 1,
            until: 2,
            accepted: false,
        },
        Said::Read {
            looked: 3,
            until: 4,
            accepted: false,
        },
        Said::Downgrade { at: 5 },
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

#[test]
fn readers_may_be_in_together() {
    let mut history = vec![
        enter_to_read(1, "a", 1, (100, 1000)),
        enter_to_read(2, "a", 1, (200, 900)),
        enter_to_read(3, "a+b", 2, (300, 500)),
        read(310, 1, 1000, true),
        read(320, 3, 500, true),
    ];
    history.extend(leave(400, 1));
    history.push(enter(4, "a", 3, (900, 1900)));
    let found = found(history);
    assert_eq!(
        (found.holds, found.shared, found.reads, found.writes),
        (4, 3, 2, 0)
    );
    assert!(found.overlaps.is_empty() && found.token_falls.is_empty() && found.stale.is_empty());
}

#[test]
fn a_writer_beside_a_reader_is_seen() {
    let writer_second = [
        enter_to_read(1, "a", 1, (100, 1000)),
        enter(2, "a", 2, (999, 1900)),
    ];
    assert_eq!(found(writer_second).overlaps.len(), 1);
    let reader_second = [
        enter(1, "a", 1, (100, 1000)),
        enter_to_read(2, "a", 1, (999, 1900)),
    ];
    assert_eq!(found(reader_second).overlaps.len(), 1);
    let two_writers = [enter(1, "a", 1, (100, 1000)), enter(2, "a", 2, (999, 1900))];
    assert_eq!(found(two_writers).overlaps.len(), 1);
}

#[test]
fn a_writer_beside_the_longest_reader_is_seen_and_so_is_a_reader_beside_the_longest_writer() {
    let mut readers = vec![
        enter_to_read(1, "a", 1, (100, 9000)),
        enter_to_read(2, "a", 1, (200, 400)),
    ];
    readers.extend(leave(300, 2));
    readers.push(enter(3, "a", 2, (500, 600)));
    let first = &found(readers).overlaps[0].first;
    assert_eq!(first.task, task(1));
    // The reader between them lasts longer, and excludes no other readers.
    let writer = [
        enter(1, "a", 1, (100, 1000)),
        enter_to_read(2, "a", 1, (200, 9000)),
        enter_to_read(3, "a", 1, (900, 1900)),
        enter_to_read(4, "a", 1, (1000, 1900)),
    ];
    let seconds: Vec<Task> = found(writer)
        .overlaps
        .iter()
        .map(|pair| pair.second.task)
        .collect();
    assert_eq!(seconds, [task(2), task(3)]);
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    let history = |downgraded: Option<Micros>, second: Event| {
        let begin = [enter(1, "a", 1, (100, 1000)), write(110, 1, 1000, true)];
        let turn = downgraded.map(|at| downgrade(at, 1));
        found(begin.into_iter().chain(turn).chain([second]))
    };
    let reader = || enter_to_read(2, "a", 1, (300, 1300));
    assert!(history(Some(200), reader()).overlaps.is_empty());
    assert_eq!(history(Some(200), reader()).downgrades, 1);
    assert_eq!(history(None, reader()).overlaps.len(), 1);
    assert_eq!(
        history(Some(400), reader()).overlaps.len(),
        1,
        "before the downgrade"
    );
    assert_eq!(
        history(Some(200), enter(2, "a", 2, (300, 1300))).overlaps.len(),
        1,
        "it reads until 1000"
    );
    assert!(
        history(Some(200), enter(2, "a", 2, (1000, 2000)))
            .overlaps
            .is_empty()
    );
}

#[test]
fn a_reader_that_was_renewed_excludes_for_as_long_as_it_was_seen_valid() {
    let history = [
        enter_to_read(1, "a", 1, (100, 1000)),
        read(900, 1, 1900, true),
        enter(2, "a", 2, (1500, 2500)),
    ];
    assert_eq!(found(history).overlaps.len(), 1);
}

#[test]
fn a_reader_shares_the_token_of_the_writer_before() {
    for (token, falls) in [(4, 1), (5, 0), (6, 0)] {
        let mut history = vec![enter(1, "a", 5, (100, 1000))];
        history.extend(leave(200, 1));
        history.push(enter_to_read(2, "a", token, (300, 1300)));
        assert_eq!(found(history).token_falls.len(), falls, "{token} after 5");
    }
}

#[test]
fn a_writers_token_is_above_the_readers_before() {
    for (token, falls) in [(4, 1), (5, 1), (6, 0)] {
        let mut history = vec![enter_to_read(1, "a", 5, (100, 1000))];
        history.extend(leave(200, 1));
        history.push(enter(2, "a", token, (300, 1300)));
        assert_eq!(found(history).token_falls.len(), falls, "{token} after 5");
    }
}

#[test]
fn readers_tokens_are_compared_with_nobody_who_was_not_done_before() {
    // Each grant begins 5 before it is complete.
    let reader_first = [
        enter_to_read(1, "a", 5, (100, 102)),
        enter(2, "a", 5, (104, 1000)),
    ];
    assert!(found(reader_first).token_falls.is_empty());
    let writer_first = [
        enter(1, "a", 5, (100, 102)),
        enter_to_read(2, "a", 4, (104, 1000)),
    ];
    assert!(found(writer_first).token_falls.is_empty());
    let two_readers = [
        enter_to_read(1, "a", 5, (100, 200)),
        enter_to_read(2, "a", 4, (150, 200)),
    ];
    assert!(found(two_readers).token_falls.is_empty());
}

#[test]
fn the_largest_token_of_those_done_before_is_compared() {
    let mut history = Vec::new();
    for (worker, token, at) in [(1, 7, 100), (2, 5, 200)] {
        history.push(enter_to_read(worker, "a", token, (at, at + 50)));
        history.extend(leave(at + 50, worker));
    }
    history.push(enter(3, "a", 6, (300, 400)));
    let falls = found(history).token_falls;
    assert_eq!((falls.len(), falls[0].first.token), (1, 7));
}

#[test]
fn a_read_after_a_later_writers_write_is_stale() {
    let begin = [
        enter_to_read(1, "a", 1, (100, 200)),
        enter(2, "a", 2, (300, 1300)),
        read(310, 1, 200, true),
        write(320, 2, 1300, true),
    ];
    assert!(
        found(begin.clone()).stale.is_empty(),
        "nothing newer had been written before"
    );
    for (accepted, taken) in [(false, 0), (true, 1)] {
        let late = found(begin.clone().into_iter().chain([read(330, 1, 200, accepted)]));
        assert_eq!((late.stale.len(), late.stale_accepted.len()), (1, taken));
    }
}

#[test]
fn a_write_after_a_later_readers_read_is_not_stale() {
    // The resource remembers no reads.
    let history = [
        enter(1, "a", 1, (100, 200)),
        enter_to_read(2, "a", 1, (300, 1300)),
        read(320, 2, 1300, true),
        write(330, 1, 200, true),
    ];
    assert!(found(history).stale.is_empty());
}

#[test]
fn plain_and_read_write_locks_are_judged_apart() {
    let [begun, healed] = strike(1000, 9000);
    let read_write = |at, said| {
        let task = Task {
            worker: 1,
            task: PLAIN_TASKS,
        };
        Event::said(at, task, said)
    };
    let history = [
        said(0, 1, Said::Hello),
        read_write(0, Said::Hello),
        begun,
        enter(1, "a", 1, (5000, 6000)),
        healed,
        read_write(9500, Said::Gone),
    ];
    let found = ByLayout::check(&history, LONG, SOON);
    assert!(found.plain.idle_strikes.is_empty());
    assert_eq!(found.read_write.idle_strikes, [1000]);
    assert_eq!((found.plain.strikes, found.read_write.strikes), (1, 1));
    assert_eq!(found.plain.starved, [(9000, task(1))]);
    assert!(found.read_write.starved.is_empty());
}

/// Names of the figures that grow too much. The samples are alike, one a minute, but for the changes by `differs`.
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
