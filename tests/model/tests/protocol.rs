//! The protocol holds in every scope, and every weaker form of it is refuted.

use std::sync::Mutex;
use std::thread;

use multilock_model::{
    Rules, Verdict, explore, explore_fences, explore_queue, explore_reader_tokens, explore_record,
    explore_shared, refute, refute_fences, refute_queue, refute_reader_tokens, refute_record, refute_shared,
    scopes, weaker_forms,
};

/// Does the jobs on two threads, as each explores breadth first on one.
fn judge<T: Send>(jobs: Vec<T>, verdict: impl Fn(T) -> Verdict + Sync) -> Vec<Verdict> {
    let (jobs, verdicts) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(job) = jobs.lock().unwrap().pop() else {
                        return;
                    };
                    let done = verdict(job);
                    verdicts.lock().unwrap().push(done);
                }
            });
        }
    });
    verdicts.into_inner().unwrap()
}

fn failures(verdicts: &[Verdict]) -> Vec<String> {
    let failures = |verdict: &Verdict| format!("{}: {}", verdict.name, verdict.failures.join("; "));
    verdicts
        .iter()
        .filter(|verdict| !verdict.failures.is_empty())
        .map(failures)
        .collect()
}

#[test]
fn every_promise_holds_in_every_state_of_every_scope() {
    let all = scopes();
    assert!(all.len() >= 19);
    let verdicts = judge(all, explore);
    assert_eq!(failures(&verdicts), Vec::<String>::new());
    for verdict in verdicts {
        assert!(
            verdict.states > 1_000,
            "{} is next to nothing: {verdict:?}",
            verdict.name
        );
    }
}

#[test]
fn records_keep_two_clients_apart_and_strand_none() {
    let verdicts = explore_record();
    assert_eq!(failures(&verdicts), Vec::<String>::new());
    assert!(verdicts.iter().all(|verdict| verdict.states > 100_000));
    let weaker = refute_record();
    assert_eq!(weaker.len(), 10);
    assert_eq!(failures(&weaker), Vec::<String>::new());
}

#[test]
fn no_token_falls_because_a_fence_is_forgotten() {
    let verdicts = explore_fences();
    assert_eq!(failures(&verdicts), Vec::<String>::new());
    assert!(
        verdicts.iter().all(|verdict| verdict.states > 50_000),
        "{verdicts:?}"
    );
    let weaker = refute_fences();
    assert_eq!(weaker.len(), 6);
    assert_eq!(failures(&weaker), Vec::<String>::new());
}

#[test]
fn waiters_come_in_in_order_and_calls_alone_bring_them_all_in() {
    let verdicts = explore_queue();
    assert_eq!(verdicts.len(), 15);
    assert_eq!(failures(&verdicts), Vec::<String>::new());
    assert!(
        verdicts.iter().all(|verdict| verdict.states > 5_000),
        "{verdicts:?}"
    );
}

#[test]
fn every_weaker_form_of_the_queue_is_refuted() {
    let weaker = refute_queue();
    assert_eq!(weaker.len(), 13);
    assert_eq!(failures(&weaker), Vec::<String>::new());
}

#[test]
fn readers_share_a_name_that_one_writer_has_alone() {
    let verdicts = explore_shared();
    assert_eq!(verdicts.len(), 11);
    assert_eq!(failures(&verdicts), Vec::<String>::new());
    assert!(
        verdicts.iter().all(|verdict| verdict.states > 50_000),
        "{verdicts:?}"
    );
}

#[test]
fn every_weaker_form_of_read_and_write_locks_is_refuted() {
    let weaker = refute_shared();
    assert_eq!(weaker.len(), 11);
    assert_eq!(failures(&weaker), Vec::<String>::new());
}

#[test]
fn readers_and_writers_tokens_tell_who_came_later() {
    let verdicts = explore_reader_tokens();
    assert_eq!(verdicts.len(), 4);
    assert_eq!(failures(&verdicts), Vec::<String>::new());
    assert!(
        verdicts.iter().all(|verdict| verdict.states > 500_000),
        "{verdicts:?}"
    );
    let weaker = refute_reader_tokens();
    assert_eq!(weaker.len(), 5);
    assert_eq!(failures(&weaker), Vec::<String>::new());
}

#[test]
fn every_weaker_form_is_refuted() {
    let all = weaker_forms();
    for weaker in &all {
        let beyond = weaker.scope.rules == Rules::PROTOCOL;
        assert!(!beyond, "{} leaves nothing out", weaker.scope.name);
    }
    let verdicts = judge(all, |weaker| refute(&weaker));
    assert_eq!(failures(&verdicts), Vec::<String>::new());
}
