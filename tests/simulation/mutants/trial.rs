//! One mutant on trial: schedules until one fails.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::list::Mutant;

/// Schedules at random that are tried before the sweeps are.
const RUNS: &str = "120";
/// Once it is built, a mutant that lives longer counts as missed. Long enough for a machine with other work: one that is
/// caught in seconds loses nothing by it.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// Of one that nothing was said against.
pub(super) const SURVIVED: &str = "survived every schedule";

/// One variant, built.
pub(super) struct Trial<'a> {
    pub(super) binary: String,
    pub(super) mutant: &'a Mutant,
    pub(super) end: Instant,
}

impl Trial<'_> {
    /// What is aimed at it comes first, then what is quick, then what takes long.
    pub(super) fn find(&self) -> Result<String, String> {
        let aim = self.mutant.aim.as_ref().map(|aim| format!("directed::{aim}"));
        let aimed = aim.iter().map(|aim| vec![aim.as_str(), "--exact"]);
        let all = [
            vec!["directed", "--test-threads", "1"],
            vec!["random_schedules", "--nocapture"],
            vec!["sweep"],
        ];
        let last = if self.mutant.edits.is_empty() { 2 } else { 3 };
        for args in aimed.chain(all.into_iter().take(last)) {
            if let Some(by) = self.run(&args)? {
                return Ok(by);
            }
        }
        Err(SURVIVED.to_owned())
    }

    /// Which schedule failed, and by which property, if one did.
    fn run(&self, args: &[&str]) -> Result<Option<String>, String> {
        let mut command = Command::new(&self.binary);
        command
            .args(args)
            .env("SIM_STOP", "1")
            .env("SIM_RUNS", RUNS)
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some(class) = &self.mutant.class {
            command.env("SIM_CLASS", class);
        }
        let mut child = command.spawn().expect("the test runs");
        let mut stdout = child.stdout.take().expect("piped");
        let reading = thread::spawn(move || {
            let mut out = Vec::new();
            stdout.read_to_end(&mut out).map(|_| out)
        });
        let status = loop {
            if let Some(status) = child.try_wait().expect("it was started") {
                break status;
            }
            if Instant::now() > self.end {
                child.kill().and_then(|()| child.wait()).expect("it is ended");
                return Err(format!("lives after {} s of {}", PATIENCE.as_secs(), args[0]));
            }
            thread::sleep(Duration::from_millis(10));
        };
        let out = reading.join().expect("no panic").expect("read");
        let out = String::from_utf8_lossy(&out);
        Ok((!status.success()).then(|| culprit(&out)))
    }
}

/// The first schedule that failed, and the property that does not hold.
fn culprit(out: &str) -> String {
    if let Some(seed) = out.lines().find_map(|line| line.strip_prefix("first: ")) {
        return seed.to_owned();
    }
    let name = out.lines().find_map(|line| {
        let named = line.strip_prefix("test ")?;
        named.strip_suffix(" ... FAILED")
    });
    // A test that runs alone is named where its output is shown.
    let shown = || {
        let heading = |line: &str| {
            let named = line.strip_prefix("---- ")?;
            Some(named.strip_suffix(" stdout ----")?.to_owned())
        };
        out.lines().find_map(heading)
    };
    let name = name.map(str::to_owned).or_else(shown);
    let property = out.split("violated: ").nth(1);
    let property = property.and_then(|text| text.split(':').next());
    let panicked = "what the schedule needs";
    format!(
        "{}: {}",
        name.as_deref().unwrap_or("a test died"),
        property.unwrap_or(panicked)
    )
}
