//! The locks under thousands of random schedules, on masters in memory and in time that costs nothing.
//!
//! `SIM_SEED=<n>` repeats one schedule and shows it, `SIM_RUNS=<n>` says how many are tried. With
//! `SIM_JUDGE=linearizable` the linearizability checker is the only judge.

mod actor;
mod ask;
mod calls;
mod campaign;
mod client;
mod client_plan;
mod crowd;
mod directed;
mod faults;
mod guard;
mod history;
mod mutants;
mod opening;
mod operator;
mod out;
mod partitions;
mod plan;
mod properties;
mod run;
mod scene;
mod stored;
mod sweeps;
mod tap;
mod world;

/// Random schedules of each class: its promises hold under all of its faults. With the sweeps, these are several
/// thousand schedules. `make sim` runs as many as are requested.
#[test]
fn random_schedules() {
    let summary = campaign::campaign(500);
    print!("{}", summary.report);
    println!("{}", summary.line());
    println!("linearizable: {}", summary.linearizable);
    assert_eq!(summary.violations, 0, "see above");
    let hardly = summary.hardly_passing();
    assert!(hardly.is_empty(), "holds are hardly passed on: {hardly:?}");
}

/// Each call in turn, and each pair in a small scenario, is late, lost or cut off.
#[test]
fn sweep_of_single_calls() {
    sweeps::every_call();
}

#[test]
fn sweep_of_pairs() {
    sweeps::every_pair();
}

/// Every mutant's text is still there, once.
#[test]
fn mutants_apply() {
    mutants::all_apply();
}

/// The files that the simulation needs are a package on their own. Mutants are built from a copy of them.
#[test]
fn mutants_have_a_package() {
    mutants::tree_is_a_package();
}

/// Builds every mutant and has it caught; takes long, so only where it is asked for (`make mutants`).
#[test]
#[ignore = "builds the crate once for each mutant: make mutants"]
fn mutants_are_caught() {
    mutants::catch_all();
}

/// One seed is one history, to the last microsecond.
#[test]
fn a_seed_repeats_itself() {
    for seed in 0..50 {
        let (one, other) = (run::run(seed), run::run(seed));
        if one != other {
            let (one, other) = (one.render(&[]), other.render(&[]));
            let differs = one
                .lines()
                .zip(other.lines())
                .position(|(one, other)| one != other);
            let at = differs.unwrap_or(0);
            let show = |text: &str| {
                text.lines()
                    .skip(at.saturating_sub(5))
                    .take(8)
                    .collect::<Vec<_>>()
                    .join("\n")
            };
            panic!("seed {seed} differs:\n{}\n\n{}", show(&one), show(&other));
        }
    }
}
