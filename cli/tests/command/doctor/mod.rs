//! Findings of `multilock doctor`, on servers that are set up for them.

mod access;
mod lists;
mod reach;
mod servers;

use multilock_test_support::{Server, connect, held_everywhere, label, three};
use serde_json::Value;
use tokio::process::Command;

use crate::stage::{Said, multilock, said, urls};

/// Result of a diagnosis.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub(crate) code: Option<i32>,
    pub(crate) told: Value,
}

async fn doctor(command: Command) -> Diagnosis {
    doctor_with(command, &[]).await
}

pub(crate) async fn doctor_with(mut command: Command, args: &[&str]) -> Diagnosis {
    let child = command.args(["doctor", "--json"]).args(args).spawn();
    let Said {
        code, stdout, stderr, ..
    } = said(child.expect("the command")).await;
    let told: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
    assert_eq!(
        told["exit_code"],
        code.map_or(Value::Null, Value::from),
        "{stderr}"
    );
    let diagnosis = Diagnosis { code, told };
    let faq = include_str!("../../../../docs/faq.md");
    for entry in diagnosis
        .findings()
        .iter()
        .filter_map(|finding| finding["faq"].as_str())
    {
        assert!(
            faq.contains(&format!("\n### {entry}\n")),
            "no entry in the FAQ: {entry}"
        );
    }
    for finding in diagnosis.findings() {
        let anchor = finding["faq"]
            .as_str()
            .map(|entry| entry.to_lowercase().replace(' ', "-"));
        let page = anchor.map(|anchor| {
            format!("https://docs.rs/multilock/latest/multilock/guide/faq/index.html#{anchor}")
        });
        assert_eq!(finding["page"], Value::from(page), "{finding}");
    }
    diagnosis
}

fn word<'a>(finding: &'a Value, key: &str) -> &'a str {
    finding[key].as_str().expect("a text")
}

impl Diagnosis {
    fn findings(&self) -> &[Value] {
        self.told["findings"].as_array().expect("a list")
    }

    /// Severity and code of each finding.
    pub(crate) fn codes(&self) -> Vec<(&str, &str)> {
        let findings = self.findings().iter();
        findings
            .map(|finding| (word(finding, "severity"), word(finding, "code")))
            .collect()
    }

    /// Checks the only finding beside notes: its severity, code and master, and parts of its text and remedy. Checks the exit
    /// code, too.
    #[track_caller]
    fn only(&self, found: (&str, &str), node: Option<&str>, seen: &str, remedy: &str, code: i32) {
        let mut findings = self
            .findings()
            .iter()
            .filter(|finding| finding["severity"] != "note");
        let (Some(finding), None) = (findings.next(), findings.next()) else {
            panic!("not one finding: {:#}", self.told);
        };
        assert_eq!(
            (word(finding, "severity"), word(finding, "code")),
            found,
            "{finding:#}"
        );
        assert_eq!(finding["node"].as_str(), node, "{finding:#}");
        assert!(word(finding, "seen").contains(seen), "{finding:#}");
        assert!(word(finding, "remedy").contains(remedy), "{finding:#}");
        assert_eq!(self.code, Some(code), "{:#}", self.told);
    }

    #[track_caller]
    fn is_well(&self) {
        assert_eq!(self.codes(), [], "{:#}", self.told);
        assert_eq!(self.code, Some(0));
    }
}

fn all<'a>(urls: impl IntoIterator<Item = &'a String>) -> Command {
    multilock(&urls.into_iter().collect::<Vec<_>>())
}

/// All keys of a server, including kinds that other tests do not count.
async fn keys(server: &Server) -> Vec<String> {
    let told = server.command(&["KEYS", "*"]).await;
    let mut keys: Vec<String> = redis::from_redis_value(told).expect("texts");
    keys.sort();
    keys
}

#[tokio::test]
async fn masters_that_are_well_and_nothing_is_touched() {
    let servers = three(&[]).await;
    let masters = connect(urls(&servers)).await;
    let guard = held_everywhere(&masters.multi_lock("a")).await;
    let mut before = Vec::new();
    for server in &servers {
        before.push(keys(server).await);
    }
    let diagnosis = doctor_with(all(&urls(&servers)), &["--strict"]).await;
    diagnosis.is_well();
    let told = &diagnosis.told["masters"];
    for (node, server) in servers.iter().enumerate() {
        assert_eq!(told[node]["node"], label(server));
        assert_eq!(
            (&told[node]["role"], &told[node]["has_vote"]),
            (&"master".into(), &true.into())
        );
        assert_eq!(told[node]["appendfsync"], "always");
        let offset = told[node]["clock_offset_us"].as_i64().expect("a number");
        assert!(offset.abs() < 1_000_000, "{told:#}");
        assert_eq!(keys(server).await, before[node]);
    }
    let clients = diagnosis.told["clients"].as_array().expect("a list");
    assert_eq!(clients.len(), 1, "{clients:?}");
    assert_eq!(
        (&clients[0]["masters"], &clients[0]["missing_on"]),
        (&3.into(), &Value::Array(vec![]))
    );
    assert_eq!(clients[0]["seen_on"].as_array().map(Vec::len), Some(3));
    let said = said(all(&urls(&servers)).arg("doctor").spawn().expect("the command")).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.ends_with("3 masters, nothing is wrong\n"), "{said:?}");
    // No terminal, no colors.
    assert!(
        !said.stdout.contains('\x1b') && said.stderr.is_empty(),
        "{said:?}"
    );
    guard.unlock().await.expect("the connections were left alone");
}

#[tokio::test]
async fn people_are_told_what_to_do() {
    let servers = three(&["--appendonly", "no"]).await;
    let said = said(all(&urls(&servers)).arg("doctor").spawn().expect("the command")).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let node = label(&servers[1]);
    for line in [
        format!("warning {node}: it writes no append-only file: after a restart it has forgotten who holds"),
        "    CONFIG SET appendonly yes and appendfsync always there".to_owned(),
        "    https://docs.rs/multilock/latest/multilock/guide/faq/index.html#append-only-file\n".to_owned(),
        "3 masters: 3 warnings".to_owned(),
    ] {
        assert!(said.stdout.contains(&line), "{line}\n{}", said.stdout);
    }
}

#[tokio::test]
async fn wrong_usage() {
    let servers = three(&[]).await;
    for args in [&["--for", "soon"][..], &["a"], &["--nodes", "nowhere://a"]] {
        let child = all(&urls(&servers)).arg("doctor").args(args).spawn();
        let said = said(child.expect("the command")).await;
        assert_eq!(said.code, Some(64), "{args:?}: {said:?}");
    }
}

/// The command with two of the servers and this last master.
fn with_last(servers: &[Server], last: String) -> Command {
    all(&[servers[0].url(), servers[1].url(), last])
}
