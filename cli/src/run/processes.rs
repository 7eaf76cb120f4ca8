//! Processes of this machine, if `/proc` shows them.

use std::fs;

use rustix::process::Pid;

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

/// Whether only zombies are left of a group, which no longer run.
pub(super) fn only_zombies(group: Pid) -> bool {
    let group = group.as_raw_nonzero().get();
    let mut members = all()
        .into_iter()
        .filter(|process| process.group == group)
        .peekable();
    members.peek().is_some() && members.all(|process| process.is_zombie)
}

/// Processes that have left a group for one of their own and stayed in its session: the jobs of a shell.
pub(super) fn jobs(group: Pid) -> Vec<Pid> {
    let found = jobs_among(&all(), group.as_raw_nonzero().get());
    found.into_iter().filter_map(Pid::from_raw).collect()
}

fn jobs_among(all: &[Process], group: i32) -> Vec<i32> {
    let is_member = |process: &&Process| process.group == group;
    let Some(session) = all.iter().find(is_member).map(|process| process.session) else {
        return Vec::new();
    };
    let mut tree: Vec<i32> = all.iter().filter(is_member).map(|process| process.pid).collect();
    let mut jobs = Vec::new();
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        next += 1;
        let left = |process: &&Process| {
            process.parent == parent && process.group != group && process.session == session
        };
        let found = all.iter().filter(left).map(|process| process.pid);
        jobs.extend(found.clone());
        tree.extend(found);
    }
    jobs
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
    fn jobs_are_found_at_any_depth() {
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
        ];
        assert_eq!(jobs_among(&all, 10), [11, 12, 13]);
        assert_eq!(jobs_among(&all, 99), [0; 0]);
    }
}
