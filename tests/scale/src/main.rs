//! Growth of grants, waits, scripts and memory with the number of clients, the number of names and distance, and the effect
//! of faults on them. Each row takes an hour of virtual time, on masters in memory. Prints a table, and draws its growth:
//! `docs/growth.svg`.
//!
//! Each row is a run in a process of its own, so that its memory is its own. A run fails if two valid holds of one name meet,
//! or if anything is left on the masters or pending at the end.

mod fault;
mod load;
mod picture;
mod region;
mod row;
mod run;
mod setting;
mod witness;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use row::Row;
use setting::Setting;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(setting) = Setting::parse(&words) {
        println!("{}", run::run(&setting).to_line());
        return ExitCode::SUCCESS;
    }
    assert!(
        words.len() <= 1,
        "no arguments, the minutes of each row (60), or a setting: {words:?}"
    );
    let minutes = words
        .first()
        .map_or(60, |word| word.parse().expect("a number of minutes"));
    let settings = setting::all(minutes);
    let rows = run_all(&settings);
    println!("{}", row::HEADER);
    let rows: Vec<(&Setting, &Row)> = settings.iter().zip(&rows).collect();
    for (setting, row) in &rows {
        println!("{}", row.to_table(setting));
    }
    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/growth.svg");
    picture::draw(&picture, &rows).expect("a picture");
    let broken = rows
        .iter()
        .filter(|(setting, row)| row.is_broken(setting))
        .count();
    let virtual_minutes = rows.len() as u64 * minutes;
    println!(
        "scale: rows={} virtual_minutes={virtual_minutes} broken={broken}",
        rows.len()
    );
    if broken == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs each setting in a process of its own, as many at a time as there are processors.
fn run_all(settings: &[Setting]) -> Vec<Row> {
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(vec![None; settings.len()]));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(setting) = settings.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = run_apart(setting);
                    let place = settings.iter().position(|other| other == setting);
                    rows.lock().expect("no panic")[place.expect("one of them")] = Some(row);
                }
            });
        }
    });
    let rows = rows.into_inner().expect("no panic");
    rows.into_iter().map(|row| row.expect("each was run")).collect()
}

fn run_apart(setting: &Setting) -> Row {
    let program = std::env::current_exe().expect("it runs");
    let output = Command::new(program)
        .args(setting.words())
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let row = output
        .status
        .success()
        .then(|| Row::of_line(text.trim()))
        .flatten();
    row.unwrap_or_else(|| panic!("{setting:?}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}
