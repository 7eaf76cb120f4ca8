//! The report for people.

use comfy_table::{Table, presets};
use multilock::{Capabilities, Examination, ServerFacts};

use super::master::is_new;
use super::wording::{GREEN, PLAIN, color, worded};
use super::{Diagnosis, lists, together};
use crate::say::{Rough, visible};

const HEADER: [&str; 11] = [
    "master",
    "version",
    "role",
    "run",
    "remembers",
    "vote",
    "clock",
    "round trip",
    "evicts",
    "on disk",
    "lacks",
];

pub(super) fn of(diagnosis: &Diagnosis) -> String {
    let mut text = masters(diagnosis);
    text.push_str(&clients(diagnosis));
    for finding in &diagnosis.findings {
        text.push('\n');
        text.push_str(&worded(finding));
    }
    text + "\n" + &sum(diagnosis)
}

/// Table with a row for each master, in the color of its worst finding.
fn masters(diagnosis: &Diagnosis) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(HEADER);
    for master in &diagnosis.masters {
        table.add_row(row(master).iter().map(|cell| visible(cell)));
    }
    let table = table.trim_fmt();
    let (header, rows) = table.split_once('\n').unwrap_or((&table, ""));
    let rows = rows.lines().zip(&diagnosis.masters).map(|(row, master)| {
        let color = color(
            diagnosis
                .findings
                .iter()
                .filter(|finding| finding.node.as_deref() == Some(&*master.node)),
        );
        format!("{color}{row}{PLAIN}\n")
    });
    format!("{header}\n{}", rows.collect::<String>())
}

fn row(master: &Examination) -> Vec<String> {
    let node = master.node.to_string();
    let Ok(facts) = &master.server else {
        return vec![node, "no answer".to_owned()];
    };
    let or_none = |fact: Option<String>| fact.unwrap_or_else(|| "?".to_owned());
    let vote = match together::usable(master) {
        None => "no".to_owned(),
        Some(facts) if facts.quarantine.is_zero() => "yes".to_owned(),
        Some(facts) if is_new(facts) => "not yet".to_owned(),
        Some(facts) => format!("in {}", Rough(facts.quarantine)),
    };
    vec![
        node,
        facts.version.to_string(),
        or_none(facts.role.clone()),
        or_none(facts.run_id.as_ref().map(|id| id.chars().take(8).collect())),
        facts
            .remembers
            .map_or_else(|| "-".to_owned(), |remembers| Rough(remembers).to_string()),
        vote,
        offset(facts.clock_offset_us),
        format!("{:.1}ms", facts.round_trip.as_secs_f64() * 1e3),
        evicts(facts),
        on_disk(facts),
        lacks(facts),
    ]
}

/// Offset from this host's clock.
fn offset(us: i64) -> String {
    let (sign, us) = (if us < 0 { '-' } else { '+' }, us.unsigned_abs());
    format!("{sign}{}.{}ms", us / 1_000, us % 1_000 / 100)
}

fn evicts(facts: &ServerFacts) -> String {
    match (facts.max_memory, facts.eviction_policy.as_deref()) {
        (Some(0), _) | (_, Some("noeviction")) => "no".to_owned(),
        (_, Some(policy)) => policy.to_owned(),
        (_, None) => "?".to_owned(),
    }
}

fn on_disk(facts: &ServerFacts) -> String {
    match (facts.append_only, &facts.append_fsync) {
        (Some(false), _) => "no".to_owned(),
        (Some(true), Some(fsync)) if fsync == "always" && facts.no_fsync_on_rewrite == Some(true) => {
            "not always".to_owned()
        }
        (Some(true), Some(fsync)) => fsync.clone(),
        (Some(true), None) => "yes".to_owned(),
        (None, _) => "?".to_owned(),
    }
}

/// Missing abilities of the server, and missing permissions of the user.
fn lacks(facts: &ServerFacts) -> String {
    let Capabilities {
        resp3,
        kill_fence,
        run_known,
        identity_known,
        ..
    } = facts.capabilities;
    let abilities = [
        (resp3, "RESP3"),
        (kill_fence, "CLIENT KILL"),
        (run_known, "run"),
        (identity_known, "identity"),
    ];
    let missing = abilities
        .iter()
        .filter(|(there, _)| !there)
        .map(|(_, what)| (*what).to_owned());
    let denied = facts.denied.iter().map(|denied| format!("+{}", denied.name));
    let lacks: Vec<String> = missing.chain(denied).collect();
    if lacks.is_empty() {
        "-".to_owned()
    } else {
        lacks.join(" ")
    }
}

fn clients(diagnosis: &Diagnosis) -> String {
    let pools = diagnosis.watched.pools.iter();
    let each = pools.map(|(id, pool)| {
        let (here, listed) = (pool.seen_on.len(), pool.masters);
        format!(
            "client {} lists {listed} masters, seen on {here} of these\n",
            visible(lists::short(id))
        )
    });
    each.collect()
}

fn sum(diagnosis: &Diagnosis) -> String {
    let masters = diagnosis.masters.len();
    let of = |word: &str| {
        let findings = diagnosis.findings.iter();
        match findings.filter(|finding| finding.severity.word() == word).count() {
            0 => None,
            1 => Some(format!("1 {word}")),
            many => Some(format!("{many} {word}s")),
        }
    };
    let counts: Vec<String> = ["error", "warning", "note"].into_iter().filter_map(of).collect();
    if counts.is_empty() {
        format!("{GREEN}{masters} masters, nothing is wrong{PLAIN}\n")
    } else {
        format!("{masters} masters: {}\n", counts.join(", "))
    }
}
