//! A server's answer to INFO, and whether the server can be a master.

use std::collections::HashMap;

use crate::error::{NodeError, Unfit};
use crate::masters::config::AcceptedRisks;

/// Oldest version that has HELLO. Scripts replicate by effect since 5.0.
const OLDEST: (u32, u32) = (6, 0);
const OLDEST_NAME: &str = "6.0";

/// Fields of an answer to INFO, by name.
pub(super) struct Info<'a>(HashMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.split_once(':')).collect())
    }

    /// Value of a field, if it is there and not empty.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied().filter(|fact| !fact.is_empty())
    }

    /// Value of a field; empty if it is missing.
    pub(super) fn fact(&self, name: &str) -> &'a str {
        self.get(name).unwrap_or_default()
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Version of Redis that the server reports compatibility with: the first two numbers.
    pub(super) fn version(&self) -> (u32, u32) {
        let mut parts = self.fact("redis_version").split('.');
        let mut next = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
        (next(), next())
    }

    /// Id of the server's build. Redict puts its own name in front.
    pub(super) fn build(&self) -> &'a str {
        let id = self.get("redis_build_id").or_else(|| self.get("redict_build_id"));
        id.unwrap_or_default()
    }

    /// Id of the data that the server had taken over when it was promoted; empty if it knows of no promotion.
    pub(super) fn promoted_from(&self) -> &'a str {
        let id = self.fact("master_replid2");
        if id.bytes().all(|digit| digit == b'0') {
            ""
        } else {
            id
        }
    }

    /// Whether a server's own process answers. A process names its run (40 hexadecimal digits, not all zero),
    /// its process id, its executable and its build. A service that answers in place of a process leaves
    /// these out, or fills them with `-` and zeros; its run may outlive the memory of the process.
    pub(super) fn is_of_a_process(&self) -> bool {
        let is_id = |id: &str| id.bytes().any(|digit| digit != b'0');
        let run = self.fact("run_id");
        run.len() == 40
            && run.bytes().all(|digit| digit.is_ascii_hexdigit())
            && is_id(run)
            && is_id(self.build())
            && self.number("process_id").is_some_and(|process| process > 0)
            && self.fact("executable").starts_with('/')
    }

    /// Whether the server can evict keys; `None` if INFO does not show that.
    pub(super) fn evicts(&self) -> Option<bool> {
        match (self.number("maxmemory"), self.get("maxmemory_policy")) {
            (Some(0), _) | (_, Some("noeviction")) => Some(false),
            (_, Some(_)) => Some(true),
            (_, None) => None,
        }
    }

    /// Refuses a server that cannot be one of the masters. `role` is the role that the server reports.
    pub(super) fn judge(&self, role: Option<&str>, accepted: AcceptedRisks) -> Result<(), NodeError> {
        if let Some(version) = self.get("garnet_version") {
            let server = format!("Garnet {version}");
            return Err(Unfit::ScriptsNotAtomic { server }.into());
        }
        if self.version() < OLDEST {
            return Err(Unfit::TooOld {
                version: self.fact("redis_version").to_owned(),
                needed: OLDEST_NAME,
            }
            .into());
        }
        if self.fact("cluster_enabled") == "1" {
            return Err(Unfit::Cluster.into());
        }
        if self.fact("loading") == "1" {
            return Err(NodeError::NotReady("loading its data set".into()));
        }
        match role {
            Some("master") => {}
            None if accepted.unknown_role => {}
            None => return Err(Unfit::UnknownRole.into()),
            Some("sentinel") => return Err(Unfit::Sentinel.into()),
            Some(_) => return Err(Unfit::Replica.into()),
        }
        match self.evicts() {
            Some(false) => Ok(()),
            _ if accepted.eviction => Ok(()),
            None if accepted.unknown_eviction => Ok(()),
            None => Err(Unfit::UnknownEviction.into()),
            Some(true) => Err(Unfit::Evicts {
                policy: self.fact("maxmemory_policy").to_owned(),
            }
            .into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REDIS: &str = "redis_version:7.0.15\r\nredis_build_id:ae4d7c971a948f0\r\nprocess_id:5179\r\n\
        run_id:e3385d977718fb13c03d431f0a25ace6cf4a35c1\r\nexecutable:/usr/bin/redis-server\r\n";

    #[test]
    fn a_process_is_distinguished_from_what_answers_in_its_place() {
        assert!(Info::parse(REDIS).is_of_a_process());
        let redict = REDIS.replace("redis_build_id:", "redict_build_id:");
        assert!(Info::parse(&redict).is_of_a_process());
        let zeros = "0".repeat(40);
        // Redis Cloud and Enterprise, Amazon ElastiCache, Dragonfly.
        for odd in [
            format!("redis_build_id:{zeros}"),
            "executable:-".to_owned(),
            "executable:".to_owned(),
            "run_id:".to_owned(),
            format!("run_id:{zeros}"),
            "process_id:0".to_owned(),
        ] {
            let text = format!("{REDIS}{odd}\r\n");
            assert!(!Info::parse(&text).is_of_a_process(), "{odd}");
        }
    }

    const NOTHING: AcceptedRisks = AcceptedRisks {
        eviction: false,
        unknown_eviction: false,
        unknown_role: false,
    };

    /// Refusal of a healthy server with these fields besides; the second value of a field counts.
    fn judge(accepted: AcceptedRisks, besides: &str) -> Result<(), String> {
        let text = format!("# Server\r\nredis_version:7.0.15\r\nrole:master\r\nmaxmemory:0\r\n{besides}");
        let info = Info::parse(&text);
        info.judge(info.get("role"), accepted)
            .map_err(|error| error.to_string())
    }

    fn refused(besides: &str) -> String {
        judge(NOTHING, besides).expect_err("refused")
    }

    #[test]
    fn only_an_independent_master_will_do() {
        assert_eq!(judge(NOTHING, ""), Ok(()));
        assert!(refused("role:slave").starts_with("it is a replica, not a master"));
        assert!(refused("role:sentinel").starts_with("it is a Sentinel"));
        assert!(refused("cluster_enabled:1").contains("Redis Cluster"));
        assert!(refused("redis_version:5.0.14").starts_with("its version 5.0.14 is older than 6.0"));
        assert_eq!(refused("loading:1"), "loading its data set");
        assert!(refused("garnet_version:1.0.50").starts_with("it is Garnet 1.0.50, which does not run"));
    }

    #[test]
    fn eviction_is_refused_where_it_is_reported_and_where_it_is_not() {
        let evicting = "maxmemory:100000\r\nmaxmemory_policy:allkeys-lru";
        let eviction = AcceptedRisks {
            eviction: true,
            ..NOTHING
        };
        let unknown = AcceptedRisks {
            unknown_eviction: true,
            ..NOTHING
        };
        assert!(refused(evicting).contains("allkeys-lru"));
        assert!(
            judge(unknown, evicting).is_err(),
            "what is known is another matter"
        );
        assert_eq!(judge(eviction, evicting), Ok(()));
        for silent in ["maxmemory:", "maxmemory:100000"] {
            assert!(refused(silent).starts_with("it does not say whether it evicts"));
            assert_eq!(judge(unknown, silent), Ok(()));
            assert_eq!(judge(eviction, silent), Ok(()));
        }
        for safe in [
            "maxmemory:1\r\nmaxmemory_policy:noeviction",
            "maxmemory:\r\nmaxmemory_policy:noeviction",
            "maxmemory_policy:allkeys-lru",
        ] {
            assert_eq!(judge(NOTHING, safe), Ok(()), "{safe}");
        }
    }

    #[test]
    fn a_role_that_is_not_reported_is_refused_by_that_name() {
        let unknown = AcceptedRisks {
            unknown_role: true,
            ..NOTHING
        };
        assert!(refused("role:").starts_with("it does not say whether it is a master"));
        assert_eq!(judge(unknown, "role:"), Ok(()));
        assert!(judge(unknown, "role:slave").is_err_and(|error| error.starts_with("it is a replica")));
    }
}
