//! The files of `contrib` that operators copy: that they can be read, name files that are there, and set variables that the
//! crate knows. Tools that judge them better are asked where they are installed.

use std::fs;
use std::process::Command;

use serde_json::Value;
use serde_norway::Value as Yaml;

use crate::tree::{root, text};

const COMPOSE: &str = "contrib/compose/docker-compose.yml";
const CRONJOB: &str = "contrib/kubernetes/cronjob.yaml";

/// The documents of a file.
fn yaml(file: &str) -> Vec<Value> {
    let text = text(file);
    let document = |read: serde_norway::Deserializer<'_>| {
        let mut value: Yaml = serde::Deserialize::deserialize(read)?;
        value.apply_merge()?;
        serde_norway::from_value(value)
    };
    serde_norway::Deserializer::from_str(&text)
        .map(|read| document(read).unwrap_or_else(|error| panic!("{file}: {error}")))
        .collect()
}

/// That the page of servers has each variable of this crate's among these.
fn check_variables<'a>(file: &str, names: impl Iterator<Item = &'a str>) {
    let page = text("docs/servers.md");
    let ours: Vec<&str> = names.filter(|name| name.starts_with("MULTILOCK_")).collect();
    assert!(ours.len() > 2, "{file}: hardly anything was read: {ours:?}");
    for name in ours {
        let is_known = page.contains(&format!("`{name}`")) || page.contains(&format!("`{name}="));
        assert!(is_known, "{file}: docs/servers.md does not know {name}");
    }
}

fn keys(object: &Value) -> impl Iterator<Item = &str> {
    object.as_object().expect("an object").keys().map(String::as_str)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value
        .as_array()
        .unwrap_or_else(|| panic!("no list: {value}"))
        .iter()
}

fn words(value: &Value) -> impl Iterator<Item = &str> {
    list(value).map(|word| word.as_str().expect("a text"))
}

/// Runs a tool, which must find nothing wrong; it may be missing.
fn judge(tool: &str, args: &[&str]) {
    match Command::new(tool).args(args).output() {
        Ok(judged) => {
            let told = [judged.stdout, judged.stderr].concat();
            let told = String::from_utf8_lossy(&told);
            assert!(judged.status.success(), "{tool} {args:?}: {told}");
        }
        Err(error) => eprintln!("{tool} was not asked: {error}"),
    }
}

#[test]
fn the_services_of_compose_mount_files_that_are_there() {
    let compose = yaml(COMPOSE).remove(0);
    let services = &compose["services"];
    assert_eq!(
        keys(services).collect::<Vec<_>>(),
        ["grafana", "prometheus", "redis1", "redis2", "redis3", "service"]
    );
    let folder = root().join("contrib/compose");
    let mounts = keys(services).filter(|name| *name != "service");
    for mount in mounts.flat_map(|name| words(&services[name]["volumes"])) {
        let (from, _) = mount.split_once(':').expect("a mount");
        let is_there = if from.starts_with('.') {
            folder.join(from).is_file()
        } else {
            keys(&compose["volumes"]).any(|volume| volume == from)
        };
        assert!(is_there, "{mount}");
    }
    // Published ports are on loopback, because the passwords are the public ones of the files.
    let ports = keys(services).filter_map(|name| services[name].get("ports"));
    for port in ports.flat_map(words) {
        assert!(port.starts_with("127.0.0.1:"), "{port}");
    }
    let build = &services["service"]["build"];
    let context = folder.join(build["context"].as_str().expect("a folder"));
    assert!(
        context
            .join(build["dockerfile"].as_str().expect("a file"))
            .is_file()
    );
    let variables = &services["service"]["environment"];
    check_variables(COMPOSE, keys(variables));
    let password = |user: &str| {
        let users = text("contrib/redis/users.acl");
        let line = users
            .lines()
            .find_map(|line| line.strip_prefix(&format!("user {user} on >")).map(str::to_owned));
        line.expect("a user")
            .split(' ')
            .next()
            .expect("a password")
            .to_owned()
    };
    assert_eq!(variables["MULTILOCK_PASSWORD"], password("app"));
    assert_eq!(
        services["redis1"]["environment"]["REDISCLI_AUTH"],
        password("operator")
    );
    judge(
        "docker-compose",
        &["-f", &root().join(COMPOSE).display().to_string(), "config"],
    );
}

#[test]
fn prometheus_and_grafana_of_compose_have_the_alerts_and_the_dashboard() {
    let prometheus = yaml("contrib/compose/prometheus.yml").remove(0);
    assert_eq!(
        words(&prometheus["rule_files"]).collect::<Vec<_>>(),
        ["/etc/prometheus/alerts.yml"]
    );
    judge(
        "promtool",
        &[
            "check",
            "config",
            "--syntax-only",
            &root()
                .join("contrib/compose/prometheus.yml")
                .display()
                .to_string(),
        ],
    );
    let source = &yaml("contrib/compose/grafana/datasource.yml")[0]["datasources"][0];
    assert_eq!(
        (&source["type"], &source["isDefault"]),
        (&"prometheus".into(), &true.into())
    );
    let provider = &yaml("contrib/compose/grafana/dashboards.yml")[0]["providers"][0];
    let folder = provider["options"]["path"].as_str().expect("a folder");
    let compose = yaml(COMPOSE).remove(0);
    let mut mounts = words(&compose["services"]["grafana"]["volumes"]);
    let dashboard = format!("../grafana/multilock.json:{folder}/multilock.json:ro");
    assert!(mounts.any(|mount| mount == dashboard), "{dashboard}");
}

#[test]
fn the_cron_job_fits_together() {
    let documents = yaml(CRONJOB);
    let [settings, secret, job] = &documents[..] else {
        panic!("{documents:?}");
    };
    let kinds = documents
        .iter()
        .map(|document| document["kind"].as_str().expect("a kind"));
    assert_eq!(kinds.collect::<Vec<_>>(), ["ConfigMap", "Secret", "CronJob"]);
    assert_eq!(job["spec"]["concurrencyPolicy"], "Forbid");
    let pod = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let command: Vec<&str> = words(&container["command"]).collect();
    assert_eq!(command[..2], ["multilock", "run"]);
    let own: Vec<&Value> = list(&container["env"]).collect();
    let names = own
        .iter()
        .map(|variable| variable["name"].as_str().expect("a name"));
    check_variables(CRONJOB, keys(&settings["data"]).chain(names));
    let source = &container["envFrom"][0]["configMapRef"]["name"];
    assert_eq!(source, &settings["metadata"]["name"]);
    let volume = &pod["volumes"][0];
    assert_eq!(volume["secret"]["secretName"], secret["metadata"]["name"]);
    let item = &volume["secret"]["items"][0];
    assert!(
        secret["stringData"]
            .get(item["key"].as_str().expect("a key"))
            .is_some()
    );
    let mount = &container["volumeMounts"][0];
    assert_eq!(mount["name"], volume["name"]);
    let path = format!(
        "{}/{}",
        mount["mountPath"].as_str().expect("a path"),
        item["path"].as_str().expect("a path")
    );
    assert!(own.iter().any(|variable| variable["value"] == path), "{path}");
}

#[test]
fn the_units_of_systemd_are_understood() {
    let variables = text("contrib/systemd/multilock.env");
    let names = variables
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name);
    check_variables("contrib/systemd/multilock.env", names);
    // The tool wants programs that are there.
    let folder = tempfile::tempdir().expect("a directory");
    let copy = |name: &str| {
        let unit = text(&format!("contrib/systemd/{name}"));
        let with_program = |line: &str| match line.split_once("=/usr/local/bin/") {
            Some((key, _)) => format!("{key}=/bin/true\n"),
            None => format!("{line}\n"),
        };
        let path = folder.path().join(name);
        fs::write(&path, unit.lines().map(with_program).collect::<String>()).expect("a disk");
        path.display().to_string()
    };
    let units = ["nightly-report.service", "nightly-report.timer"].map(copy);
    judge("systemd-analyze", &["verify", "--man=no", &units[0], &units[1]]);
}
