//! The files of `contrib/redis`, on servers that start from them.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use multilock::{Masters, MastersBuilder, Unlocked};
use multilock_test_support::native::binary;
use multilock_test_support::{PATIENT, WITHIN, patient, spawn};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult, Value};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::doctor::doctor_with;
use crate::stage::{multilock, run, said};

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../contrib")
        .join(name)
}

fn file(name: &str) -> PathBuf {
    contrib("redis").join(name)
}

const ATTEMPTS: u32 = 10;

/// A server with the files of `contrib/redis`. Settings that differ on each host are on its command line.
struct Master {
    child: Child,
    port: u16,
    data: TempDir,
}

impl Drop for Master {
    fn drop(&mut self) {
        self.end();
    }
}

impl Master {
    /// On a free port. Another program may take the port before the server does, or have its twin of IPv6.
    async fn start() -> Self {
        for _ in 0..ATTEMPTS {
            let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
            let port = port.expect("a port").port();
            let data = tempfile::tempdir().expect("a directory");
            let child = launch(port, &data);
            let mut master = Self { child, port, data };
            if master.is_there().await {
                return master;
            }
        }
        panic!("each of {ATTEMPTS} servers has ended at once");
    }

    /// Waits until the server answers, and not another one on its port. Returns false if it has ended.
    async fn is_there(&mut self) -> bool {
        let deadline = Instant::now() + WITHIN;
        let own = format!("process_id:{}", self.child.id());
        while self.child.try_wait().expect("a child").is_none() {
            let told = self.ask(&["INFO"]).await;
            let told = told.and_then(|told| redis::from_redis_value::<String>(told).ok());
            let has = |line: &str| {
                told.as_ref()
                    .is_some_and(|told| told.lines().any(|told| told == line))
            };
            if has("loading:0") && has(&own) {
                return true;
            }
            assert!(Instant::now() < deadline, "no answer within {WITHIN:?}");
            sleep(Duration::from_millis(10)).await;
        }
        false
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    async fn restart(&mut self) {
        for _ in 0..ATTEMPTS {
            self.end();
            self.child = launch(self.port, &self.data);
            if self.is_there().await {
                return;
            }
            // Someone's outgoing connection may sit on the port for a moment.
            sleep(Duration::from_millis(100)).await;
        }
        panic!("each of {ATTEMPTS} servers has ended at once");
    }

    fn url(&self, login: &str) -> String {
        format!("redis://{login}127.0.0.1:{}", self.port)
    }

    /// As the operator.
    async fn ask(&self, args: &[&str]) -> Option<Value> {
        let mut connection = connection(&self.url(OPERATOR)).await.ok()?;
        let mut command = redis::cmd(args[0]);
        command.arg(&args[1..]);
        command.query_async(&mut connection).await.ok()
    }
}

/// Connects with longer bounds than the client library's own: its bound for an answer is half a second.
async fn connection(url: &str) -> RedisResult<MultiplexedConnection> {
    let client = redis::Client::open(url).expect("a URL");
    let bounds = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(WITHIN))
        .set_response_timeout(Some(WITHIN));
    client.get_multiplexed_async_connection_with_config(&bounds).await
}

fn launch(port: u16, data: &TempDir) -> Child {
    // The directory of the host may not be there, or not be for this user.
    let text = fs::read_to_string(file("redis.conf")).expect("the file");
    let here = data.path().display();
    let moved = text.replace("\ndir /var/lib/redis\n", &format!("\ndir {here}\n"));
    assert_ne!(text, moved, "it names a directory");
    let config = data.path().join("redis.conf");
    fs::write(&config, moved).expect("a disk");
    let mut command = spawn::command(&binary().expect("a server"));
    command
        .arg(config)
        .args(["--port", &port.to_string()])
        .arg("--aclfile")
        .arg(file("users.acl").canonicalize().expect("the file"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    spawn::start(command).expect("a server that starts")
}

const APP: &str = "app:change-me@";
const OPERATOR: &str = "operator:change-me-too@";

fn as_user(masters: &[Master], login: &str) -> Vec<String> {
    masters.iter().map(|master| master.url(login)).collect()
}

fn with_namespace(mut command: Command) -> Command {
    command.env("MULTILOCK_NAMESPACE", "prod");
    command
}

fn app(masters: &[Master]) -> MastersBuilder {
    patient(as_user(masters, APP)).namespace("prod")
}

async fn three() -> [Master; 3] {
    [
        Master::start().await,
        Master::start().await,
        Master::start().await,
    ]
}

#[tokio::test]
async fn a_service_locks_on_the_masters_of_contrib() {
    let mut servers = three().await;
    let masters: Masters = app(&servers).connect().await.expect("it may");
    let lock = masters.multi_lock(["invoice:1", "invoice:2"]).wait(PATIENT);
    let guard = lock.lock().await.expect("free");
    guard.extend(Duration::from_secs(30)).await.expect("held");
    let first = guard.fencing_token();
    assert!(lock.clone().try_lock().await.is_err(), "it is held");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let guard = lock.lock().await.expect("free");
    assert!(guard.fencing_token() > first, "tokens rise");
    guard.unlock().await.expect("held");

    let catalogue = masters.red_lock("catalogue").wait(PATIENT);
    let readers = [
        catalogue.clone().read().lock().await,
        catalogue.read().lock().await,
    ];
    for reader in readers {
        reader.expect("both read").unlock().await.expect("held");
    }
    let seat = masters.permits("gpu", 2).wait(PATIENT).lock().await;
    seat.expect("a seat").unlock().await.expect("held");

    // Names outside of the namespace are not for this user.
    let elsewhere = patient(as_user(&servers, APP)).connect().await.expect("it may");
    let refused = elsewhere.red_lock("invoice:1").try_lock().await;
    let refused = refused.expect_err("no permission").to_string();
    assert!(refused.contains("NOPERM"), "{refused}");

    // Each write that was answered is on the disk, and is loaded from there.
    let kept = masters.multi_lock("kept").lock().await.expect("free");
    servers[0].restart().await;
    let key = servers[0].ask(&["EXISTS", "prod:kept"]).await;
    assert_eq!(key, Some(Value::Int(1)));
    drop(kept);
}

#[tokio::test]
async fn a_program_runs_on_the_masters_of_contrib_and_the_doctor_finds_nothing() {
    let servers = three().await;
    let command = |login| with_namespace(multilock(&as_user(&servers, login)));
    let ran = run(command(APP), &["nightly-report", "-n", "--", "true"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let shared = run(command(APP), &["catalogue", "--shared", "-n", "--", "true"]).await;
    assert_eq!((shared.code, shared.stderr.as_str()), (Some(0), ""));

    let diagnosis = doctor_with(command(OPERATOR), &["--strict"]).await;
    assert_eq!(
        (diagnosis.code, diagnosis.codes().len()),
        (Some(0), 0),
        "{:#}",
        diagnosis.told
    );
    // The user of the services may not see the settings and the other clients, and that is all.
    let diagnosis = doctor_with(command(APP), &["--strict"]).await;
    let notes = [("note", "append_not_told"), ("note", "clients_not_told")];
    assert_eq!(diagnosis.code, Some(0), "{:#}", diagnosis.told);
    assert_eq!(diagnosis.codes(), [notes, notes, notes].concat());
}

/// The calls of the unit and of the `CronJob`, for another program: one is granted, and the next one finds the name taken.
#[tokio::test]
async fn what_systemd_and_kubernetes_call_is_understood() {
    let servers = three().await;
    let call = async |words: &[&str]| {
        let mut command = with_namespace(multilock(&as_user(&servers, APP)));
        said(command.args(words).spawn().expect("the command")).await
    };
    let unit = fs::read_to_string(contrib("systemd/nightly-report.service")).expect("a unit");
    let of_unit = |key: &str| {
        let start = format!("{key}=/usr/local/bin/multilock ");
        let line = unit.lines().find_map(|line| line.strip_prefix(&start));
        line.expect("a call").split(' ').collect::<Vec<_>>()
    };
    let ready = call(&of_unit("ExecStartPre")).await;
    assert_eq!((ready.code, ready.stderr.as_str()), (Some(0), ""));
    let manifest = fs::read_to_string(contrib("kubernetes/cronjob.yaml")).expect("a manifest");
    let (_, list) = manifest.split_once("command:\n").expect("a call");
    let items = list.lines().map_while(|line| line.trim().strip_prefix("- "));
    let of_manifest: Vec<&str> = items.skip(1).map(|item| item.trim_matches('"')).collect();
    let unit = of_unit("ExecStart");
    for (words, codes) in [(unit, [0, 75]), (of_manifest, [0, 0])] {
        let (program, words) = words.split_last().expect("words");
        assert!(program.starts_with("/usr/local/bin/"), "{program}");
        for code in codes {
            let mut words = words.to_vec();
            words.push("true");
            let ran = call(&words).await;
            assert_eq!(ran.code, Some(code), "{words:?}: {}", ran.stderr);
        }
        for server in &servers {
            server
                .ask(&["DEL", "prod:nightly-report"])
                .await
                .expect("allowed");
        }
    }
}

/// Without a login nothing works, and the user of the services has the permissions of the page.
#[tokio::test]
async fn the_users_of_contrib_are_those_of_the_page() {
    let page = include_str!("../../../docs/servers.md");
    let (_, rules) = page.split_once("ACL SETUSER app ").expect("an ACL");
    let (rules, _) = rules.split_once("```").expect("the end of a block");
    let users = include_str!("../../../contrib/redis/users.acl");
    let user = |name: &str| {
        let line = users
            .lines()
            .find_map(|line| line.strip_prefix(&format!("user {name} ")));
        let words = line
            .unwrap_or_else(|| panic!("no user {name}"))
            .split_whitespace();
        words.filter(|word| !word.starts_with('>')).collect::<Vec<_>>()
    };
    let of_page = rules.split_whitespace().filter(|word| !word.starts_with('>'));
    assert_eq!(user("app"), of_page.chain(["~prod:*"]).collect::<Vec<_>>());
    // Off, and with every permission: the server checks the commands in its append-only file against this user.
    assert_eq!(user("default"), ["off", "~*", "&*", "+@all"]);
    assert_eq!(users.lines().count(), 3, "a user that no test knows");
    let master = Master::start().await;
    let mut connection = connection(&master.url("")).await.expect("a port");
    let refused: RedisResult<Value> = redis::cmd("PING").query_async(&mut connection).await;
    assert!(refused.expect_err("no login").to_string().contains("NOAUTH"));
}
