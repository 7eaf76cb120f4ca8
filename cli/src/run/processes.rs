//! Processes of this machine, if `/proc` shows them.

use std::fs;

use rustix::process::{Pid, getpid};

/// Variable with the id of the hold under which a program runs. The program's children inherit it.
pub(super) const HOLD: &str = "MULTILOCK_HOLD";

/// A line of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// The process has ended, and its parent has not read its status.
    is_zombie: bool,
}

impl Process {
    fn parse(line: &str) -> Option<Self> {
        // The name is in parentheses, and may contain some.
        let (before, after) = line.rsplit_once(')')?;
        let pid = before.split_once(' ')?.0.parse().ok()?;
        let mut words = after.split_ascii_whitespace();
        let is_zombie = matches!(words.next()?, "Z" | "X");
        let mut number = || words.next()?.parse().ok();
        Some(Self {
            pid,
            parent: number()?,
            group: number()?,
            session: number()?,
            is_zombie,
        })
    }
}

/// All processes; none without `/proc`.
fn all() -> Vec<Process> {
    let dirs = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = dirs.filter(|dir| dir.file_name().as_encoded_bytes()[0].is_ascii_digit());
    let stats = numbered.filter_map(|dir| fs::read_to_string(dir.path().join("stat")).ok());
    stats.filter_map(|stat| Process::parse(&stat)).collect()
}

/// Processes that run under a hold outside of its program's group, in the session of this process: the jobs of a
/// shell. Some have no parent left that would lead to them, so they are also known by their environment.
pub(super) fn jobs(group: Pid, hold: &str) -> Vec<Pid> {
    let found = jobs_of(&all(), group, hold);
    found.into_iter().filter_map(Pid::from_raw).collect()
}

/// The program that was started under a hold: the process without a parent under it. `None` if it has ended, or does not run
/// yet, or without `/proc`.
pub(super) fn started_under(hold: &str) -> Option<Pid> {
    let expected = format!("{HOLD}={hold}");
    let under: Vec<Process> = all()
        .into_iter()
        .filter(|process| has_in_environment(process.pid, &expected))
        .collect();
    let has_parent = |process: &&Process| under.iter().any(|other| other.pid == process.parent);
    let first = under.iter().find(|process| !has_parent(process))?;
    Pid::from_raw(first.pid)
}

/// Whether any process of the group or any such job runs; `None` without `/proc`. A zombie does not run.
pub(super) fn is_running(group: Pid, hold: &str) -> Option<bool> {
    let all = all();
    let leader = group.as_raw_nonzero().get();
    let has_member = || {
        all.iter()
            .any(|process| process.group == leader && !process.is_zombie)
    };
    (!all.is_empty()).then(|| has_member() || !jobs_of(&all, group, hold).is_empty())
}

fn jobs_of(all: &[Process], group: Pid, hold: &str) -> Vec<i32> {
    let own = getpid().as_raw_nonzero().get();
    let Some(own) = all.iter().find(|process| process.pid == own) else {
        return Vec::new();
    };
    let expected = format!("{HOLD}={hold}");
    let is_under_hold = |process: &Process| has_in_environment(process.pid, &expected);
    jobs_among(all, group.as_raw_nonzero().get(), own.session, is_under_hold)
}

/// Whether a process was started with that variable.
fn has_in_environment(pid: i32, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|other| other == variable.as_bytes())
}

fn jobs_among(
    all: &[Process],
    group: i32,
    session: i32,
    is_under_hold: impl Fn(&Process) -> bool,
) -> Vec<i32> {
    let is_member = |process: &&Process| process.group == group;
    let members: Vec<i32> = all.iter().filter(is_member).map(|process| process.pid).collect();
    let is_outside =
        |process: &&Process| process.session == session && process.group != group && !process.is_zombie;
    let (jobs, mut others): (Vec<&Process>, Vec<&Process>) = all
        .iter()
        .filter(is_outside)
        .partition(|process| is_under_hold(process));
    let mut jobs: Vec<i32> = jobs.into_iter().map(|process| process.pid).collect();
    loop {
        let is_known = |pid| members.contains(&pid) || jobs.contains(&pid);
        let (children, rest): (Vec<&Process>, Vec<&Process>) =
            others.into_iter().partition(|process| is_known(process.parent));
        if children.is_empty() {
            return jobs;
        }
        jobs.extend(children.into_iter().map(|process| process.pid));
        others = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_anything_in_it() {
        let process = Process::parse("17 (a) Z) (b) S 4 17 3 34816 17 4194304");
        assert_eq!(
            process,
            Some(Process {
                pid: 17,
                parent: 4,
                group: 17,
                session: 3,
                is_zombie: false
            })
        );
        assert!(Process::parse("18 (x) Z 4 17 3").is_some_and(|process| process.is_zombie));
        assert_eq!(Process::parse("18 (x"), None);
    }

    #[test]
    fn jobs_are_found_at_any_depth_and_without_parents() {
        let process = |pid, parent, group, session| Process {
            pid,
            parent,
            group,
            session,
            is_zombie: false,
        };
        let all = [
            process(10, 1, 10, 3),
            // A job of the first process, a member of the job's group, and a job of that member.
            process(11, 10, 11, 3),
            process(12, 11, 11, 3),
            process(13, 12, 13, 3),
            // A daemon, and its child.
            process(14, 10, 14, 14),
            process(15, 14, 15, 14),
            // A process of another program.
            process(16, 1, 16, 3),
            // A job whose parent has ended, its child, and one that has ended, too.
            process(17, 1, 17, 3),
            process(18, 17, 17, 3),
            Process {
                is_zombie: true,
                ..process(19, 10, 19, 3)
            },
        ];
        let marked = |process: &Process| [10, 14, 17].contains(&process.pid);
        let sorted = |mut jobs: Vec<i32>| {
            jobs.sort_unstable();
            jobs
        };
        assert_eq!(sorted(jobs_among(&all, 10, 3, marked)), [11, 12, 13, 17, 18]);
        // The group's processes have all ended.
        assert_eq!(
            sorted(jobs_among(&all, 99, 3, |process| process.pid == 17)),
            [17, 18]
        );
        assert_eq!(jobs_among(&all, 99, 3, |_| false), [0; 0]);
    }
}
