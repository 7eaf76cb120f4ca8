//! One mutant on trial: schedules until one fails.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::list::Mutant;

/// Schedules at random that are tried before the sweeps are.
const RUNS: &str = "120";
/// A mutant that has computed for longer, once it is built, counts as missed. The time of the processor counts, as other
/// work on the machine takes its share.
const PATIENCE: Duration = Duration::from_secs(300);
/// Limit in elapsed time, for a mutant that does not compute, and for a system that does not report the time of the
/// processor.
const STANDSTILL: Duration = Duration::from_secs(1800);

/// Verdict on a mutant that no schedule caught.
pub(super) const SURVIVED: &str = "survived every schedule";

/// One variant, built.
pub(super) struct Trial<'a> {
    pub(super) binary: String,
    pub(super) mutant: &'a Mutant,
}

impl Trial<'_> {
    /// Runs the schedule that is aimed at the mutant first, then the quick schedules, then the slow ones.
    pub(super) fn find(&self) -> Result<String, String> {
        let aim = self.mutant.aim.as_ref().map(|aim| format!("directed::{aim}"));
        let aimed = aim.iter().map(|aim| vec![aim.as_str(), "--exact"]);
        let all = [
            vec!["directed", "--test-threads", "1"],
            vec!["random_schedules", "--nocapture"],
            vec!["sweep"],
        ];
        let last = if self.mutant.edits.is_empty() { 2 } else { 3 };
        let mut spent = Spent {
            begun: Instant::now(),
            computed: Duration::ZERO,
        };
        for args in aimed.chain(all.into_iter().take(last)) {
            if let Some(by) = self.run(&args, &mut spent)? {
                return Ok(by);
            }
        }
        Err(SURVIVED.to_owned())
    }

    /// Which schedule failed, and by which property, if one did.
    fn run(&self, args: &[&str], spent: &mut Spent) -> Result<Option<String>, String> {
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
        let before = spent.computed;
        let status = loop {
            if let Some(status) = child.try_wait().expect("it was started") {
                break status;
            }
            spent.computed = before + computed(child.id()).unwrap_or_default();
            if spent.computed > PATIENCE || spent.begun.elapsed() > STANDSTILL {
                child.kill().and_then(|()| child.wait()).expect("it is ended");
                let seconds = spent.begun.elapsed().as_secs();
                return Err(format!("lives after {seconds} s, in {}", args[0]));
            }
            thread::sleep(Duration::from_millis(10));
        };
        let out = reading.join().expect("no panic").expect("read");
        let out = String::from_utf8_lossy(&out);
        Ok((!status.success()).then(|| culprit(&out)))
    }
}

/// Time that a trial has taken so far.
struct Spent {
    begun: Instant,
    computed: Duration,
}

/// For how long a process has computed, where the system tells it.
fn computed(id: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Behind the name, which may have anything in it: the time as a user and that in the kernel, in hundredths of a second.
    let (_, behind) = stat.rsplit_once(')')?;
    let times = behind.split_whitespace().skip(11).take(2);
    let hundredths: u64 = times.filter_map(|time| time.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(10 * hundredths))
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
