//! Explores every scope, refutes every weaker form, and prints the results.
//!
//! An argument chooses the scopes and weaker forms with it in their names.
//! `MODEL_TRACE=<part of a name>` prints the shortest way in which those weaker forms break instead.

use std::process::ExitCode;
use std::thread;

use multilock_model::{
    Verdict, explore, explore_fences, explore_queue, explore_reader_tokens, explore_record, explore_shared,
    refute, refute_fences, refute_queue, refute_reader_tokens, refute_record, refute_shared, scopes, trace,
    weaker_forms,
};

fn main() -> ExitCode {
    if let Ok(name) = std::env::var("MODEL_TRACE") {
        return print_traces(&name);
    }
    let part = std::env::args().nth(1).unwrap_or_default();
    let mut forms = weaker_forms();
    forms.retain(|weaker| weaker.scope.name.contains(&part));
    // Two at a time: each is explored by one thread, breadth first.
    let refuting = thread::spawn(move || forms.iter().map(refute).collect::<Vec<_>>());
    let chosen_of = |verdicts: Vec<Verdict>| {
        verdicts
            .into_iter()
            .filter(|verdict| verdict.name.contains(&part))
    };
    let chosen = scopes().into_iter().filter(|scope| scope.name.contains(&part));
    let explored: Vec<Verdict> = chosen
        .map(explore)
        .chain(chosen_of(explore_record()))
        .chain(chosen_of(explore_fences()))
        .chain(chosen_of(explore_queue()))
        .chain(chosen_of(explore_shared()))
        .chain(chosen_of(explore_reader_tokens()))
        .collect();
    let Ok(mut refuted) = refuting.join() else {
        return ExitCode::FAILURE;
    };
    refuted.extend(chosen_of(refute_record()));
    refuted.extend(chosen_of(refute_fences()));
    refuted.extend(chosen_of(refute_queue()));
    refuted.extend(chosen_of(refute_shared()));
    refuted.extend(chosen_of(refute_reader_tokens()));
    println!(
        "{:<42} {:>9} {:>5} {:>6}  verdict",
        "scope", "states", "depth", "s"
    );
    for verdict in &explored {
        print(verdict, verdict.depth, "holds");
    }
    println!(
        "\n{:<42} {:>9} {:>5} {:>6}  verdict",
        "weaker form", "states", "steps", "s"
    );
    for verdict in &refuted {
        let (promise, steps) = verdict.broken.first().copied().unwrap_or(("", verdict.depth));
        print(verdict, steps, &format!("breaks: {promise}"));
    }
    let sound = refuted
        .iter()
        .filter(|verdict| verdict.failures.is_empty())
        .count();
    let violations: usize = explored.iter().map(|verdict| verdict.failures.len()).sum();
    println!(
        "\nmodel: scopes={} states={} weaker_forms_refuted={sound} of={} violations={violations}",
        explored.len(),
        explored.iter().map(|verdict| verdict.states).sum::<usize>(),
        refuted.len(),
    );
    if violations == 0 && sound == refuted.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn print(verdict: &Verdict, steps: usize, sound: &str) {
    let Verdict {
        name,
        states,
        took,
        failures,
        ..
    } = verdict;
    let result = if failures.is_empty() {
        sound.to_owned()
    } else {
        failures.join("; ")
    };
    println!(
        "{name:<42} {states:>9} {steps:>5} {:>6.1}  {result}",
        took.as_secs_f64()
    );
}

fn print_traces(name: &str) -> ExitCode {
    let mut found = ExitCode::FAILURE;
    for weaker in weaker_forms()
        .into_iter()
        .filter(|weaker| weaker.scope.name.contains(name))
    {
        println!("{}: breaks \"{}\"", weaker.scope.name, weaker.breaks);
        for (number, action) in trace(&weaker).iter().enumerate() {
            println!("{:>3}. {action}", number + 1);
        }
        found = ExitCode::SUCCESS;
    }
    found
}
