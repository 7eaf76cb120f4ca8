//! The locks under thousands of random schedules, on masters in memory and in time that costs nothing.
//!
//! `SIM_SEED=<n>` repeats one schedule and shows it, `SIM_RUNS=<n>` says how many are tried.

mod actor;
mod campaign;
mod client;
mod faults;
mod history;
mod plan;
mod properties;
mod run;
mod world;

/// Random schedules of each class: whatever strikes, what is promised holds.
#[test]
fn random_schedules() {
    let summary = campaign::campaign(10_000, false);
    print!("{}", summary.report);
    println!("{}", summary.line());
    assert_eq!(summary.violations, 0, "see above");
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
