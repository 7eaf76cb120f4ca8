//! The locks at work: worker processes contend for a few invoices and one ledger while masters die,
//! freeze and come back, and a witness that knows nothing of locks looks for two at once.
//!
//! ```text
//! make demo                             # five masters of its own, about 20 s
//! make demo BREAK=1                     # one invoice without its lock: the witness must object
//! make demo NODES=url,url,url           # your own masters; nothing is broken, nothing is left there
//! ```
//!
//! * `director.rs` is the play: it starts all processes, kills, freezes and revives masters, and prints the lines.
//! * `cluster.rs` keeps the masters, which end with the demo.
//! * `crew.rs` keeps the worker processes: this program again, as `worker.rs`.
//! * `console.rs` serves the web page of the command, on which the locks can be watched.
//! * `witness.rs` counts the workers inside each resource, by their reports over a socket (`report.rs`).
//! * `summary.rs` prints the figures at the end.
//!
//! It ends with an error if two workers were ever inside the same thing at once, or if one kind of
//! job was never done. For unix systems.

mod args;
mod cluster;
mod console;
mod crew;
mod director;
mod report;
mod summary;
mod witness;
mod worker;

use std::process::ExitCode;

use args::Role;

fn main() -> ExitCode {
    let outcome = match args::role() {
        Ok(Role::Director(options)) => director::direct(&options),
        Ok(Role::Worker(duty)) => worker::work(&duty),
        Ok(Role::Help) => {
            println!("{}", args::USAGE);
            Ok(())
        }
        Err(error) => {
            eprintln!("demo: {error:#}\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}
