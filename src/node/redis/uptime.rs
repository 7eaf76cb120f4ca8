//! For how long a server's process has run, and whether what it tells of that can be relied upon.
//!
//! A server that was started long ago has a vote at once, so an uptime that is not that of the process would let one
//! vote that has just forgotten everything. Services behind a proxy tell such uptimes: the age of the database, or of
//! the endpoint. So an uptime is *vouched for* only where INFO is that of a server's own process, throughout:
//!
//! - it names a run (40 hexadecimal digits, not all of them zero), a process, the file that it runs and its build, which
//!   those who answer in the place of a process leave out, or fill with `-` and zeros;
//! - its uptime in days is its uptime in seconds;
//! - it was not started before its version was released.
//!
//! Otherwise its memory counts from when the client has met it, and from the beginning again wherever a new connection
//! does not show the same run with the same start. What was started before its release tells no start at all. What is
//! mistaken for the worse costs a quarantine at the first sight, and no more.

use std::time::Duration;

use super::info::Info;
use crate::node::Memory;

/// When versions of Redis were released, in seconds since 1970, the oldest one first. Valkey and others tell the
/// version that they are like. One that is newer than the last here was released after that.
const RELEASES: [((u32, u32), u64); 7] = [
    ((6, 0), 1_588_204_800),
    ((6, 2), 1_613_952_000),
    ((7, 0), 1_651_017_600),
    ((7, 2), 1_692_057_600),
    ((7, 4), 1_722_211_200),
    ((8, 0), 1_746_144_000),
    ((8, 2), 1_754_265_600),
];

/// What a server tells of its start.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Uptime {
    /// How long that is ago.
    pub(super) told: Duration,
    /// In seconds of its own clock; `None` for one that tells none, or none that can be true.
    pub(super) started_s: Option<u64>,
    pub(super) vouched: bool,
}

impl Uptime {
    /// By INFO and by what the server's clock showed at the same time, in microseconds since 1970.
    pub(super) fn read(info: &Info<'_>, clock_us: u64) -> Self {
        let uptime_s = info.number("uptime_in_seconds");
        let started_s = uptime_s.and_then(|uptime_s| (clock_us / 1_000_000).checked_sub(uptime_s));
        let started_s = started_s.filter(|started_s| *started_s >= released(info.version()));
        Self {
            told: started_s.and(uptime_s).map_or(Duration::MAX, Duration::from_secs),
            started_s,
            vouched: started_s.is_some() && is_of_a_process(info),
        }
    }

    /// For how long the server has been a master that remembers: not while it was a replica, which its second
    /// replication id shows.
    pub(super) fn memory(&self, info: &Info<'_>) -> Memory {
        let promoted = info.fact("master_replid2").bytes().any(|digit| digit != b'0');
        Memory {
            told: self.told,
            vouched: self.vouched && !promoted,
            newly_marked: false,
        }
    }
}

fn released(version: (u32, u32)) -> u64 {
    let known = RELEASES.iter().rev().find(|(known, _)| *known <= version);
    known.map_or(0, |(_, released)| *released)
}

/// Whether INFO says throughout what a process says of itself.
fn is_of_a_process(info: &Info<'_>) -> bool {
    let is_id = |id: &str| id.bytes().any(|digit| digit != b'0');
    let run = info.fact("run_id");
    let days = info.number("uptime_in_seconds").map(|seconds| seconds / 86_400);
    run.len() == 40
        && run.bytes().all(|digit| digit.is_ascii_hexdigit())
        && is_id(run)
        && is_id(info.build())
        && info.number("process_id").is_some_and(|process| process > 0)
        && info.fact("executable").starts_with('/')
        && days == info.number("uptime_in_days")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_795_000_000;
    const YEAR_S: u64 = 365 * 86_400;

    const REDIS: &str = "redis_version:7.0.15\r\nredis_build_id:ae4d7c971a948f0\r\nprocess_id:5179\r\n\
        run_id:e3385d977718fb13c03d431f0a25ace6cf4a35c1\r\nexecutable:/usr/bin/redis-server\r\n\
        master_replid2:0000000000000000000000000000000000000000\r\n";

    fn uptime(seconds: u64) -> String {
        let days = seconds / 86_400;
        format!("uptime_in_seconds:{seconds}\r\nuptime_in_days:{days}\r\n")
    }

    fn read(text: &str) -> Uptime {
        Uptime::read(&Info::parse(text), NOW_S * 1_000_000 + 999_999)
    }

    #[test]
    fn an_own_process_is_vouched_for() {
        for version in ["6.0.16", "7.0.15", "7.2.4", "8.0.2", "255.255.255"] {
            let text = format!("{REDIS}{}redis_version:{version}\r\n", uptime(YEAR_S));
            let read = read(&text);
            let expected = Uptime {
                told: Duration::from_secs(YEAR_S),
                started_s: Some(NOW_S - YEAR_S),
                vouched: true,
            };
            assert_eq!(read, expected, "{version}");
            assert!(read.memory(&Info::parse(&text)).vouched);
        }
    }

    #[test]
    fn redict_names_its_build_otherwise() {
        let redict = REDIS.replace("redis_build_id:", "redict_build_id:");
        assert!(read(&format!("{redict}{}", uptime(YEAR_S))).vouched);
        let zeros = format!("{redict}{}redict_build_id:{}\r\n", uptime(YEAR_S), "0".repeat(40));
        assert!(!read(&zeros).vouched);
    }

    #[test]
    fn what_answers_in_the_place_of_a_process_is_not() {
        let zeros = "0".repeat(40);
        for odd in [
            // Redis Cloud and Enterprise, Amazon ElastiCache, Dragonfly.
            format!("redis_build_id:{zeros}"),
            "executable:-".to_owned(),
            "executable:".to_owned(),
            "run_id:".to_owned(),
            format!("run_id:{zeros}"),
            "process_id:0".to_owned(),
            "uptime_in_days:2".to_owned(),
        ] {
            let text = format!("{REDIS}{}{odd}\r\n", uptime(YEAR_S));
            let read = read(&text);
            assert!(!read.vouched, "{odd}");
            assert_eq!(read.started_s, Some(NOW_S - YEAR_S), "{odd}");
        }
    }

    #[test]
    fn nothing_has_run_for_longer_than_it_exists() {
        // As Redis Cloud told it, of 7.0.
        let unborn = read(&format!("{REDIS}{}", uptime(2_830 * 86_400)));
        assert_eq!((unborn.started_s, unborn.vouched), (None, false));
        let since_release = NOW_S - 1_651_017_600;
        assert!(read(&format!("{REDIS}{}", uptime(since_release))).vouched);
        assert!(!read(&format!("{REDIS}{}", uptime(since_release + 1))).vouched);
        for silent in ["", "uptime_in_seconds:-1", "uptime_in_seconds:9999999999999"] {
            assert_eq!(read(&format!("{REDIS}{silent}")).started_s, None, "{silent}");
        }
    }

    #[test]
    fn who_was_a_replica_meanwhile_has_not_remembered_since_its_start() {
        let text = format!("{REDIS}{}master_replid2:ab{}", uptime(YEAR_S), "0".repeat(38));
        let info = Info::parse(&text);
        assert!(!Uptime::read(&info, NOW_S * 1_000_000).memory(&info).vouched);
    }
}
