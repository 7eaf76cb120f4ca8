//! The figures of the feature `metrics`, row by row of the table in `docs/operations.md`.

use std::collections::BTreeSet;
use std::fs;

use multilock::sim::{Cluster, Keep};
use multilock::{Closing, LockError, Masters, Owner, Quarantine, Rounds, Unlocked};
use tokio::time::{sleep, timeout};

use crate::recorder::Figures;
use crate::support::{connect, connect_by_default, ms, pair, settle};

#[allow(clippy::float_cmp, reason = "whole numbers")]
fn is(value: f64, expected: u32) -> bool {
    value == f64::from(expected)
}

#[tokio::test(start_paused = true)]
async fn a_pair_is_counted_and_a_thousand_names_make_no_series() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    pair(&masters.red_lock("name 0").metric_label("job")).await;
    settle().await;
    let series = figures.series();
    for name in 1..1000 {
        pair(&masters.red_lock(format!("name {name}")).metric_label("job")).await;
    }
    settle().await;
    assert_eq!(figures.series(), series);
    let job = ("label", "job");
    let acquired = [("policy", "redlock"), ("outcome", "granted"), job];
    assert_eq!(
        figures.durations("acquire_duration_seconds", &acquired).len(),
        1000
    );
    for op in ["acquire", "release"] {
        let won = [("op", op), ("outcome", "won")];
        assert_eq!(
            figures.durations("round_duration_seconds", &won).len(),
            1000,
            "{op}"
        );
        let of_op = [("op", op)];
        assert_eq!(
            figures.durations("node_call_duration_seconds", &of_op).len(),
            3000,
            "{op}"
        );
        let granted = [("op", op), ("vote", "granted")];
        assert!(is(figures.value("votes_total", &granted), 3000), "{op}");
    }
    assert!(is(figures.value("acquire_rounds_total", &[job]), 1000));
    assert!(is(
        figures.value("unlocks_total", &[("outcome", "released")]),
        1000
    ));
    let released = [("end", "released"), job];
    assert_eq!(figures.durations("hold_duration_seconds", &released).len(), 1000);
    assert!(is(figures.value("holds", &[job]), 0));
    assert!(is(figures.value("node_up", &[]), 3));
    let told = figures.series();
    let labels = told.iter().flat_map(|series| &series.labels);
    for (key, value) in labels {
        assert!(!value.contains("name 7"), "a lock's name in {key}");
        assert!(
            !value.contains('-') || key == "node",
            "an owner field in {key}: {value}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn every_series_has_a_unit_and_a_help_and_stands_in_the_docs() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let _masters = connect(&cluster).await;
    let docs =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md")).expect("the page");
    let mut names = BTreeSet::new();
    for series in figures.series() {
        let (kind, unit, help) = figures.described(&series.name);
        assert!(unit.is_some() && !help.is_empty(), "{series:?}");
        let begins = format!("| `{}` |", series.name);
        let row = docs.lines().find(|line| line.starts_with(&begins));
        let row = row.unwrap_or_else(|| panic!("{series:?} has no row"));
        assert!(row.contains(kind), "a {kind}: {row}");
        for (label, _) in &series.labels {
            assert!(row.contains(&format!("`{label}`")), "by {label}: {row}");
        }
        names.insert(series.name);
    }
    let rows = docs.lines().filter(|line| line.starts_with("| `multilock_"));
    assert_eq!(
        rows.count(),
        names.len(),
        "a row for what there is not: {names:#?}"
    );
    assert_eq!(names.len(), 27);
}

#[cfg(feature = "metrics")]
#[tokio::test(start_paused = true)]
async fn every_histogram_has_bounds() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let _masters = connect(&cluster).await;
    let names = figures.series().into_iter().map(|series| series.name);
    let histograms: BTreeSet<_> = names
        .filter(|name| figures.described(name).0 == "histogram")
        .collect();
    let bounded = multilock::metrics_buckets().map(|(metric, _)| metric.to_owned());
    assert_eq!(histograms, bounded.collect());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_connected_before_is_not_counted() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let figures = Figures::install();
    pair(&masters.red_lock("a")).await;
    settle().await;
    assert_eq!(figures.series(), BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_counted_and_why_it_goes_on() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let (masters, others) = (connect(&cluster).await, connect(&cluster).await);
    let job = ("label", "job");
    let held = others.red_lock("a").lock().await.expect("free");
    let lock = masters.red_lock("a").metric_label("job");
    let waits = {
        let lock = lock.clone();
        tokio::spawn(async move { lock.lock().await })
    };
    settle().await;
    assert!(is(figures.value("waiters", &[job]), 1));
    assert!(is(figures.value("holds", &[("label", "default")]), 1));
    sleep(ms(20)).await;
    held.unlock().await.expect("held");
    let guard = waits.await.expect("no panic").expect("released");
    assert!(is(figures.value("waiters", &[job]), 0));
    assert!(is(figures.value("wakeups_total", &[("by", "notice")]), 1));
    let granted = [("outcome", "granted"), job];
    let waited = figures.durations("acquire_duration_seconds", &granted);
    assert!(
        waited.iter().all(|seconds| (0.025..0.1).contains(seconds)),
        "{waited:?}"
    );
    assert!(is(
        figures.value("votes_total", &[("op", "acquire"), ("vote", "refused")]),
        3
    ));
    let lost = [("op", "acquire"), ("outcome", "lost")];
    assert_eq!(figures.durations("round_duration_seconds", &lost).len(), 1);

    // No waiter is called while the masters are gone.
    for master in cluster.iter() {
        master.freeze();
    }
    let other = others.red_lock("b").wait(ms(3000)).metric_label("job");
    assert!(matches!(other.lock().await, Err(LockError::TimedOut { .. })));
    assert!(figures.value("wakeups_total", &[("by", "timer")]) >= 1.0);
    let timed_out = [("outcome", "timed_out"), ("label", "job")];
    assert_eq!(figures.durations("acquire_duration_seconds", &timed_out).len(), 1);
    assert!(figures.value("votes_total", &[("op", "acquire"), ("vote", "late")]) >= 3.0);
    for master in cluster.iter() {
        master.thaw();
    }
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn each_end_of_a_call_has_its_outcome() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let (masters, others) = (connect(&cluster).await, connect(&cluster).await);
    let held = others.red_lock("a").lock().await.expect("free");
    let lock = masters.multi_lock("a").metric_label("job");
    assert!(matches!(lock.try_lock().await, Err(LockError::Contended { .. })));
    assert!(timeout(ms(100), lock.lock()).await.is_err(), "dropped");
    held.unlock().await.expect("held");
    let owner = Owner::new();
    let outer = lock.clone().owner(&owner).lock().await.expect("free");
    let inner = lock.clone().owner(&owner).lock().await.expect("inside");
    assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    outer.unlock().await.expect("held");
    cluster.master(0).crash();
    settle().await;
    assert!(matches!(
        lock.try_lock().await,
        Err(LockError::Unreachable { .. })
    ));
    settle().await;
    for (outcome, count) in [
        ("contended", 1),
        ("cancelled", 1),
        ("granted", 1),
        ("reentered", 1),
        ("unreachable", 1),
    ] {
        let labels = [("policy", "multilock"), ("outcome", outcome), ("label", "job")];
        assert_eq!(
            figures.durations("acquire_duration_seconds", &labels).len(),
            count,
            "{outcome}"
        );
    }
    assert!(is(
        figures.value("unlocks_total", &[("outcome", "still_held")]),
        1
    ));
    assert!(is(
        figures.value("votes_total", &[("op", "acquire"), ("vote", "not_sent")]),
        1
    ));
    assert!(is(figures.value("waiters", &[("label", "job")]), 0));
}

#[tokio::test(start_paused = true)]
async fn what_passes_from_task_to_task_is_a_hold_of_each() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let first = masters
        .red_lock("a")
        .metric_label("one")
        .lock()
        .await
        .expect("free");
    let next = masters.red_lock("a").metric_label("two");
    let waits = tokio::spawn(async move { next.lock().await });
    settle().await;
    assert_eq!(first.unlock().await, Ok(Unlocked::HandedOn));
    let second = waits.await.expect("no panic").expect("handed on");
    let of = |label: &str| figures.value("holds", &[("label", label)]);
    assert!(is(of("one"), 0) && is(of("two"), 1));
    assert!(is(figures.value("wakeups_total", &[("by", "hand_on")]), 1));
    assert!(is(figures.value("unlocks_total", &[("outcome", "handed_on")]), 1));
    let ended = [("end", "handed_on"), ("label", "one")];
    assert_eq!(figures.durations("hold_duration_seconds", &ended).len(), 1);
    let got = [("outcome", "handed_on"), ("label", "two")];
    assert_eq!(figures.durations("acquire_duration_seconds", &got).len(), 1);
    assert_eq!(second.unlock().await, Ok(Unlocked::Released));
    let ended = [("end", "released"), ("label", "two")];
    assert_eq!(figures.durations("hold_duration_seconds", &ended).len(), 1);
    assert!(is(of("two"), 0));
    assert!(
        is(figures.value("acquire_rounds_total", &[]), 1),
        "it asked nobody"
    );
}

#[tokio::test(start_paused = true)]
async fn holds_end_in_several_ways() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let kept = masters
        .red_lock("kept")
        .at_least(ms(1000))
        .lock()
        .await
        .expect("free");
    assert!(matches!(kept.unlock().await, Ok(Unlocked::KeptFor(_))));
    masters.red_lock("leaked").lock().await.expect("free").leak();
    let owner = Owner::new();
    let shared = masters.red_lock("shared").owner(&owner);
    let writing = shared.clone().write().lock().await.expect("free");
    let reading = shared.read().lock().await.expect("inside");
    assert_eq!(writing.unlock().await, Ok(Unlocked::Downgraded));
    assert_eq!(reading.unlock().await, Ok(Unlocked::Released));
    assert!(is(figures.value("holds", &[]), 0));
    for (end, count) in [("kept", 1), ("leaked", 1), ("released", 1)] {
        assert_eq!(
            figures.durations("hold_duration_seconds", &[("end", end)]).len(),
            count,
            "{end}"
        );
    }
    for outcome in ["kept_for", "downgraded", "released"] {
        assert!(
            is(figures.value("unlocks_total", &[("outcome", outcome)]), 1),
            "{outcome}"
        );
    }
    for op in ["retain", "downgrade"] {
        assert!(
            figures.value("votes_total", &[("op", op), ("vote", "granted")]) >= 2.0,
            "{op}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_and_their_margin_are_counted_and_a_loss_with_its_cause() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let guard = masters
        .red_lock("a")
        .metric_label("job")
        .lock()
        .await
        .expect("free");
    sleep(ms(11_000)).await;
    assert!(is(
        figures.value("renewals_total", &[("outcome", "confirmed")]),
        1
    ));
    let margins = figures.durations("renew_margin_seconds", &[]);
    assert!(
        matches!(margins.as_slice(), [margin] if (15.0..21.0).contains(margin)),
        "{margins:?}"
    );
    for node in 0..2 {
        cluster.master(node).freeze();
    }
    guard.lost().await;
    settle().await;
    assert!(figures.value("renewals_total", &[("outcome", "unconfirmed")]) >= 3.0);
    let lost = [("cause", "expired"), ("label", "job")];
    assert!(is(figures.value("lost_total", &lost), 1));
    let ended = [("end", "lost"), ("label", "job")];
    assert_eq!(figures.durations("hold_duration_seconds", &ended).len(), 1);
    assert!(is(figures.value("holds", &[]), 0));
    assert!(guard.unlock().await.is_err());
    assert!(is(figures.value("unlocks_total", &[("outcome", "was_lost")]), 1));
    assert!(is(figures.value("lost_total", &[]), 1), "lost once");
}

/// A hold without an end shows nowhere else.
#[tokio::test(start_paused = true)]
async fn the_oldest_hold_is_told_while_it_is_held() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let oldest = || figures.value("oldest_hold_seconds", &[]);
    settle().await;
    assert!(is(oldest(), 0));
    let forgotten = masters.red_lock("a").lock().await.expect("free");
    sleep(ms(60_000)).await;
    let younger = masters.red_lock("b").lock().await.expect("free");
    sleep(ms(60_000)).await;
    assert!((118.5..=120.5).contains(&oldest()), "{}", oldest());
    drop(forgotten);
    sleep(ms(2000)).await;
    assert!((60.5..=62.5).contains(&oldest()), "{}", oldest());
    drop(younger);
    sleep(ms(2000)).await;
    assert!(is(oldest(), 0));
}

/// A hold that only as many masters have as are needed, until it is taken on the others.
#[tokio::test(start_paused = true)]
async fn holds_without_slack_are_counted() {
    let figures = Figures::install();
    let cluster = Cluster::new(5);
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .rounds(Rounds::Thrifty);
    let masters = cluster.connect(builder).await.expect("connects");
    let without = || figures.value("holds_without_slack", &[]);
    let guard = masters.red_lock("a").lock().await.expect("free");
    // A lock of all masters never has any, and has lost none.
    let _all = masters.multi_lock("b").lock().await.expect("free");
    // The figures are gathered again at once.
    cluster.master(0).reset_connections();
    sleep(ms(2)).await;
    assert!(is(without(), 1));
    sleep(ms(2000)).await;
    assert!(is(without(), 0));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn permits_are_counted_among_the_holds() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = masters.red_lock("a").lock().await.expect("free");
    let permit = masters.permits("gpu", 2).lock().await.expect("a seat");
    // The figures are gathered again at once.
    cluster.master(0).reset_connections();
    sleep(ms(2)).await;
    assert!(is(figures.value("permits", &[]), 1) && is(figures.value("holds", &[]), 2));
    drop((lock, permit));
    sleep(ms(2000)).await;
    assert!(is(figures.value("permits", &[]), 0));
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_ends_an_expired_hold_first_counts_the_loss() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let guard = masters.red_lock("a").lease(ms(1000)).lock().await.expect("free");
    // Nothing else runs meanwhile.
    tokio::time::advance(ms(1500)).await;
    drop(guard);
    settle().await;
    assert!(is(figures.value("lost_total", &[("cause", "expired")]), 1));
    assert!(is(figures.value("holds", &[]), 0));
}

#[tokio::test(start_paused = true)]
async fn a_force_is_counted_and_whom_it_takes_the_names_from() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let (masters, closing) = (connect(&cluster).await, connect(&cluster).await);
    // Nobody holds it, so nothing is taken away.
    masters.red_lock("b").force_release().await.expect("all answer");
    let guard = masters.red_lock("a").lock().await.expect("free");
    masters.red_lock("a").force_release().await.expect("all answer");
    guard.lost().await;
    settle().await;
    assert!(is(figures.value("forced_total", &[]), 1));
    assert!(is(
        figures.value("votes_total", &[("op", "force"), ("vote", "granted")]),
        6
    ));
    assert!(is(figures.value("lost_total", &[("cause", "taken_away")]), 1));
    let other = closing.red_lock("b").lock().await.expect("free");
    closing.close(Closing::Release).await;
    assert!(is(figures.value("lost_total", &[("cause", "closed")]), 1));
    drop((guard, other));
    settle().await;
    assert!(is(figures.value("lost_total", &[]), 2));
    assert!(is(figures.value("holds", &[]), 0));
}

#[tokio::test(start_paused = true)]
async fn a_larger_token_costs_a_second_round() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let guard = masters.red_lock("b").lock().await.expect("free");
    let ahead = (u64::from(guard.fencing_token()) + 60_000_000).to_string();
    for master in cluster.iter() {
        master
            .command(&["SET", "multilock_fence:{a}", &ahead])
            .expect("stored");
    }
    pair(&masters.red_lock("a").metric_label("job")).await;
    assert!(is(figures.value("fence_raises_total", &[("label", "job")]), 1));
    let raised = figures.value("votes_total", &[("op", "extend"), ("vote", "granted")]);
    assert!(raised >= 2.0, "{raised}");
}

#[tokio::test(start_paused = true)]
async fn the_state_of_each_master_is_told() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let label = masters.status().nodes[0].node.to_string();
    let node = [("node", &*label)];
    cluster.master(0).crash();
    settle().await;
    assert!(is(figures.value("node_up", &node), 0) && is(figures.value("node_up", &[]), 2));
    let guard = masters.red_lock("a").lock().await.expect("two are there");
    cluster.master(0).restart(Keep::Nothing);
    sleep(ms(3000)).await;
    assert!(is(figures.value("node_up", &node), 1));
    assert!(is(figures.value("node_reconnects_total", &node), 1));
    let quarantine = figures.value("node_quarantine_seconds", &node);
    assert!((25.0..32.0).contains(&quarantine), "{quarantine}");
    pair(&masters.red_lock("b")).await;
    sleep(ms(35_000)).await;
    assert!(is(figures.value("node_quarantine_seconds", &node), 0));
    assert!(is(figures.value("node_quarantine_seconds", &[]), 0));
    assert!(is(figures.value("clock_steps_total", &[]), 0));
    cluster.master(0).set_clock_forward(ms(20_000));
    pair(&masters.red_lock("c")).await;
    sleep(ms(1500)).await;
    assert!(is(figures.value("clock_steps_total", &node), 1));
    let offset = figures.value("node_clock_offset_seconds", &node);
    assert!((19.9..20.1).contains(&offset), "{offset}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn whether_a_lock_could_be_granted_is_told_for_each_policy() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let ready = |red_lock: u32, multi_lock: u32, when: &str| {
        for (policy, expected) in [("redlock", red_lock), ("multilock", multi_lock)] {
            let told = figures.value("ready", &[("policy", policy)]);
            assert!(is(told, expected), "{policy}, {when}: {told}");
        }
    };
    settle().await;
    ready(1, 1, "all are there");
    cluster.master(0).crash();
    settle().await;
    ready(1, 0, "two are there");
    // Connected, and of no use.
    cluster.master(1).freeze();
    assert!(masters.red_lock("a").try_lock().await.is_err());
    settle().await;
    assert!(is(figures.value("node_up", &[]), 2));
    ready(0, 0, "one of the two is silent");
    cluster.master(1).thaw();
    cluster.master(0).restart(Keep::Nothing);
    sleep(ms(3000)).await;
    let _ = masters.red_lock("a").try_lock().await;
    sleep(ms(1000)).await;
    ready(1, 1, "MultiLock bears one of three in quarantine");
    for node in 1..3 {
        cluster.master(node).crash();
        cluster.master(node).restart(Keep::Nothing);
    }
    sleep(ms(3000)).await;
    assert!(is(figures.value("node_up", &[]), 3), "all are connected");
    ready(0, 0, "all are in quarantine");
    sleep(ms(35_000)).await;
    ready(1, 1, "all have a vote again");
    // To close a client is no outage.
    masters.close(Closing::Release).await;
    settle().await;
    ready(1, 1, "closed");
    assert!(is(figures.value("node_up", &[]), 3), "closed");
}

/// As the alerts on it reckon.
#[tokio::test(start_paused = true)]
async fn answers_that_come_too_late_show_in_outcomes_and_votes() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for node in 1..3 {
        cluster.master(node).set_delay(ms(40), ms(40));
    }
    for name in ["a", "b", "c", "d"] {
        let lock = masters.red_lock(name);
        assert!(matches!(
            lock.try_lock().await,
            Err(LockError::Unreachable { .. })
        ));
        // The same shows as a time-out where a call waits.
        let waiting = lock.wait(ms(300)).lock().await;
        assert!(matches!(waiting, Err(LockError::TimedOut { .. })));
        sleep(ms(1000)).await;
    }
    let outcome = |outcome: &str| {
        let durations = figures.durations("acquire_duration_seconds", &[("outcome", outcome)]);
        durations.len()
    };
    assert_eq!(
        (outcome("unreachable"), outcome("timed_out"), outcome("granted")),
        (4, 4, 0)
    );
    let votes = |vote: &[(&str, &str)]| figures.value("votes_total", &[&[("op", "acquire")], vote].concat());
    let missing: f64 = ["late", "unknown", "not_sent", "failed", "quarantined"]
        .map(|vote| votes(&[("vote", vote)]))
        .iter()
        .sum();
    let share = missing / votes(&[]);
    assert!((0.6..0.7).contains(&share), "{share}: two of three");
}

/// Or a majority that answers every call would look like an outage.
#[tokio::test(start_paused = true)]
async fn what_asks_for_a_hold_again_is_no_answer_to_a_call() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .rounds(Rounds::Thrifty);
    let masters = cluster.connect(builder).await.expect("connects");
    // It is known to be far away.
    cluster.master(2).set_delay(ms(20), ms(20));
    pair(&masters.multi_lock("b")).await;
    cluster.master(2).set_delay(ms(40), ms(40));
    for name in ["a", "c", "d", "e", "f"] {
        let guard = masters.red_lock(name).lock().await.expect("two answer at once");
        sleep(ms(5000)).await;
        guard.unlock().await.expect("held");
    }
    let late = |op| figures.value("votes_total", &[("op", op), ("vote", "late")]);
    assert!(late("retake") > 20.0, "{}", late("retake"));
    // One for each hold that asked it first.
    assert!(late("acquire") <= 5.0, "{}", late("acquire"));
}

#[tokio::test(start_paused = true)]
async fn what_a_master_is_owed_and_that_it_was_wiped_is_told() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = cluster
        .connect(Masters::builder().strict(true))
        .await
        .expect("connects");
    sleep(ms(40_000)).await;
    let label = masters.status().nodes[2].node.to_string();
    let node = [("node", &*label)];
    let guard = masters.red_lock("a").lock().await.expect("free");
    settle().await;
    cluster.master(2).crash();
    settle().await;
    guard.unlock().await.expect("two confirm");
    settle().await;
    assert!(is(figures.value("node_deferred_releases", &node), 1));
    cluster.master(2).restart(Keep::Data);
    sleep(ms(5000)).await;
    assert!(is(figures.value("node_deferred_releases", &node), 0));
    assert!(is(figures.value("memory_wipes_total", &[]), 0));
    cluster.master(1).flush_all();
    let _ = masters.red_lock("a").try_lock().await;
    settle().await;
    assert!(is(figures.value("memory_wipes_total", &[]), 1));
}

#[tokio::test(start_paused = true)]
async fn locks_of_a_set_are_counted_by_their_own_labels() {
    let figures = Figures::install();
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let one = masters.red_lock("a").metric_label("one");
    let set = one.clone().and(masters.multi_lock("b").metric_label("two"));
    let held = set.lock().await.expect("free");
    for label in ["one", "two"] {
        assert!(is(figures.value("holds", &[("label", label)]), 1), "{label}");
        let granted = [("outcome", "granted"), ("label", label)];
        assert_eq!(
            figures.durations("acquire_duration_seconds", &granted).len(),
            1,
            "{label}"
        );
    }
    held.unlock().await.expect("held");
    assert!(is(figures.value("holds", &[]), 0));
    assert!(is(figures.value("unlocks_total", &[("outcome", "released")]), 2));
}
