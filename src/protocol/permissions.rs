//! All commands that the scripts run, in one place, for the authors of an ACL.

use redis::{Cmd, Value};

use crate::protocol::keys::revocation_mark;
use crate::protocol::text::text;

/// Commands that the scripts need, as the probe runs them on its key, `$`. The first command, `del`, deletes
/// all that any of the others writes.
const NEEDED: [&str; 24] = [
    "del $",
    "hdel $ field",
    "time",
    "exists $",
    "type $",
    "pttl $",
    "get $",
    "hexists $ field",
    "hget $ field",
    "hlen $",
    "hkeys $",
    "hgetall $",
    "zscore $ member",
    "zcard $",
    "zrange $ 0 0",
    "zrangebyscore $ 0 1",
    "zrank $ member",
    "zrem $ member",
    "zremrangebyscore $ 0 1",
    "pexpire $ 1",
    "pexpireat $ 1",
    "set $ value xx",
    "hset $ field 1",
    "zadd $ 1 member",
];

const PROBE: &str = include_str!("../../lua/probe.lua");

/// Commands that the scripts can do without, on a channel without listeners. The probe begins with `del`. The
/// scripts run them so that they may fail:
/// - Without `publish` waiters wake by their timers.
/// - Without `pubsub` waiters that have ended are dropped when their tickets run out.
const WANTED: [&str; 3] = [
    "del $",
    "publish multilock:probe x",
    "pubsub numsub multilock:probe",
];

/// Command that the scripts can do without, and run only for a client with the option `beside_redisson`: without `lrange`
/// waiters for Redisson's fair locks wake by their timers.
const BESIDE_REDISSON: &str = "lrange $ 0 0";

/// Asks a master which needed commands are denied to the user. The key is the revocation mark of an empty
/// name.
pub(crate) fn probe() -> Cmd {
    probe_for(&NEEDED)
}

/// Asks a master which of the commands are denied that the scripts can do without, of a client with or without the option
/// `beside_redisson`.
pub(crate) fn probe_wanted(beside_redisson: bool) -> Cmd {
    let mut commands = WANTED.to_vec();
    commands.extend(beside_redisson.then_some(BESIDE_REDISSON));
    probe_for(&commands)
}

fn probe_for(commands: &[&str]) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg(PROBE)
        .arg(1)
        .arg(revocation_mark("").text())
        .arg(commands);
    eval
}

/// Denied commands in the probe's answer. A command that failed for another reason, such as a denied key,
/// does not count.
pub(crate) fn denied(answer: &Value) -> Vec<String> {
    let names = parts(answer).first().map(parts).unwrap_or_default();
    names.iter().filter_map(text).collect()
}

/// Reason why the master takes no writes now, by the probe's answer.
pub(crate) fn refuses_writes(answer: &Value) -> Option<String> {
    let reason = text(parts(answer).get(1)?)?;
    (!reason.is_empty()).then(|| reason.trim().to_owned())
}

fn parts(answer: &Value) -> &[Value] {
    answer.as_sequence().unwrap_or_default()
}

/// Commands in a line of a script. Lines are counted from 1.
pub(crate) fn in_line(source: &str, line: usize) -> Vec<&str> {
    let line = line.checked_sub(1).and_then(|line| source.lines().nth(line));
    let calls = line.unwrap_or_default().split("call('").skip(1);
    calls.filter_map(|call| call.split('\'').next()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::protocol::calls;

    fn needed() -> BTreeSet<&'static str> {
        let name = |command: &'static str| command.split(' ').next();
        NEEDED.into_iter().filter_map(name).collect()
    }

    fn wanted() -> impl Iterator<Item = &'static str> {
        WANTED[1..].iter().filter_map(|command| command.split(' ').next())
    }

    #[test]
    fn every_command_of_every_script_is_probed_for() {
        let mut used = BTreeSet::new();
        for script in calls::ALL {
            for line in 1..=script.source.lines().count() {
                used.extend(in_line(script.source, line));
            }
        }
        assert!(wanted().all(|command| used.remove(command)));
        assert!(used.remove("lrange") && BESIDE_REDISSON.starts_with("lrange "));
        assert_eq!(used, needed());
    }

    #[test]
    fn nothing_is_written_before_it_is_known_that_it_can_be_deleted() {
        assert_eq!([NEEDED[0], WANTED[0]], ["del $"; 2]);
    }

    /// The commands inside the scripts that an operator is to allow after docs/servers.md.
    #[test]
    fn the_page_of_servers_names_them_all() {
        let page = include_str!("../../docs/servers.md");
        let acl = page.split("ACL SETUSER").nth(1).expect("an ACL");
        let inside = acl
            .lines()
            .find(|line| line.contains("+hset"))
            .expect("those of the scripts");
        let named: BTreeSet<&str> = inside
            .split_whitespace()
            .map(|word| word.trim_start_matches('+'))
            .collect();
        let mut all = needed();
        all.extend(wanted());
        // Clients run `time` outside of the scripts, too.
        all.remove("time");
        assert_eq!(named, all);
    }

    /// The keys and channels that are not under a name.
    #[test]
    fn the_page_of_servers_names_their_patterns() {
        let page = include_str!("../../docs/servers.md");
        let acl = page.split("ACL SETUSER").nth(1).expect("an ACL");
        let acl = acl.split("\n## The environment").next().expect("before");
        for pattern in [
            "~multilock_*",
            "&multilock:*",
            "&redisson_lock__channel:*",
            "&redisson_rwlock:*",
            "~redisson_lock_queue:*",
            "+lrange",
        ] {
            assert!(acl.contains(pattern), "{pattern}");
        }
    }

    #[test]
    fn a_line_tells_its_commands() {
        let source = "local call = redis.call\ncall('hset', 1) redis.pcall('hdel', 2)\n";
        assert_eq!(in_line(source, 2), ["hset", "hdel"]);
        assert_eq!(in_line(source, 0), [""; 0]);
        assert_eq!(in_line(source, 9), [""; 0]);
    }
}
